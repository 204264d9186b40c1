//! A piece of the log: a file named by its first number, with a header, frames, and a seal behind the last of them once it is complete.
//!
//! ```text
//!  0  8 bytes   magic and version
//!  8  u64       the first number
//! 16  u64       the number behind the last entry of all segments before
//! 24  16 bytes  the log's id
//! 40  u32       checksum of the 40 bytes before it
//! 44  4 bytes   zero
//! 48            frames
//! ```

use std::path::Path;

use crc32c::crc32c;
use uuid::Uuid;

use crate::disk::{Disk, DiskFile};
use crate::error::{Error, is_disk_full};
use crate::frame;

const MAGIC: &[u8; 8] = b"WATTLEL\x01";
/// Where the frames begin.
pub(crate) const HEADER: u64 = 48;
/// Bytes of a segment that has no entries.
pub(crate) const EMPTY: u64 = HEADER + frame::HEADER as u64;
/// Bytes of a segment that are no entry, if it has one entry.
pub(crate) const OVERHEAD: u64 = EMPTY + frame::HEADER as u64;
/// Numbers that are a segment's alone: it has at most so many entries. What a loss of power has taken from it had such numbers, so a start
/// that goes on behind them uses none again.
pub(crate) const NUMBERS: u64 = 1 << 20;

/// No segment begins behind it: there are numbers for all of its own, and for the one behind it.
const LAST: u64 = u64::MAX - 2 * NUMBERS;

const EXTENSION: &str = ".wal";
/// How a file is called before it is complete.
pub(crate) const NEW: &str = ".new";

/// The file of the segment that begins with this number.
pub(crate) fn name(base: u64) -> String {
    format!("{base:020}{EXTENSION}")
}

/// The first number of the segment with this name; `None` where it is no segment.
pub(crate) fn base(name: &str) -> Option<u64> {
    let number = name.strip_suffix(EXTENSION)?;
    (number.len() == 20).then(|| number.parse().ok())?.filter(|base| *base <= LAST)
}

/// What a segment says about itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    /// Its first number.
    pub(crate) base: u64,
    /// The number behind the last entry before it: from there on nothing is missing in front of it.
    pub(crate) follows: u64,
    /// The log that it belongs to.
    pub(crate) id: Uuid,
}

/// Creates an empty one, for good: what is accepted into it will be found.
pub(crate) fn create(disk: &dyn Disk, Head { base, follows, id }: Head) -> Result<Box<dyn DiskFile>, Error> {
    let mut header = Vec::with_capacity(HEADER as usize);
    header.extend_from_slice(MAGIC);
    header.extend_from_slice(&base.to_le_bytes());
    header.extend_from_slice(&follows.to_le_bytes());
    header.extend_from_slice(id.as_bytes());
    header.extend_from_slice(&crc32c(&header).to_le_bytes());
    header.resize(HEADER as usize, 0);
    let (name, new) = (name(base), format!("{}{NEW}", name(base)));
    let file = disk.create(&new).map_err(not_written(disk.path(), &new))?;
    file.write_at(&header, 0).map_err(not_written(disk.path(), &new))?;
    file.sync().map_err(not_synced(disk.path(), &new))?;
    disk.rename(&new, &name).map_err(not_written(disk.path(), &name))?;
    disk.sync().map_err(not_synced(disk.path(), "its folder"))?;
    Ok(file)
}

/// Reads the header of the segment that has this first number in its name, or says what is wrong with it.
pub(crate) fn head(file: &dyn DiskFile, path: &Path, base: u64) -> Result<Head, Error> {
    let mut header = [0; HEADER as usize];
    if file.length().map_err(Error::io("read", path))? < HEADER {
        return Err(Error::damaged(path, 0, "it ends within its header"));
    }
    file.read_at(&mut header, 0).map_err(Error::io("read", path))?;
    let (checked, sum) = header.split_at(40);
    if !checked.starts_with(&MAGIC[..7]) {
        return Err(Error::damaged(path, 0, "it does not begin as a segment does"));
    }
    if checked[7] != MAGIC[7] {
        let reason = format!("it has version {}, this program knows {}", checked[7], MAGIC[7]);
        return Err(Error::damaged(path, 7, reason));
    }
    if crc32c(checked).to_le_bytes() != sum[..4] || sum[4..] != [0; 4] {
        return Err(Error::damaged(path, 0, "its header is not what was written"));
    }
    if checked[8..16] != base.to_le_bytes() {
        return Err(Error::damaged(path, 8, "its name is that of another segment"));
    }
    let (mut follows, mut id) = ([0; 8], [0; 16]);
    follows.copy_from_slice(&checked[16..24]);
    id.copy_from_slice(&checked[24..]);
    Ok(Head { base, follows: u64::from_le_bytes(follows), id: Uuid::from_bytes(id) })
}

/// What is behind `end` goes for good: nobody was told that it is there.
pub(crate) fn cut(folder: &Path, name: &str, file: &dyn DiskFile, end: u64) -> Result<(), Error> {
    let cut = file.set_length(end).and_then(|()| file.sync());
    cut.map_err(not_synced(folder, name))
}

/// The error of a write. A full disk has taken nothing and is no damage.
pub(crate) fn not_written<'a>(folder: &'a Path, name: &'a str) -> impl FnOnce(std::io::Error) -> Error + use<'a> {
    move |error| {
        let reason = format!("write {name}: {error}").into();
        let path = folder.to_owned();
        if is_disk_full(&error) { Error::DiskFull { path, reason } } else { Error::Broken { path, reason } }
    }
}

/// The error of a sync, also of a full disk: what is on the disk is not known any more.
pub(crate) fn not_synced<'a>(folder: &'a Path, name: &'a str) -> impl FnOnce(std::io::Error) -> Error + use<'a> {
    move |error| Error::Broken { path: folder.to_owned(), reason: format!("sync {name}: {error}").into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_a_number() {
        assert_eq!(name(42), "00000000000000000042.wal");
        for number in [0, 42, LAST] {
            assert_eq!(base(&name(number)), Some(number));
        }
        for other in ["42.wal", "00000000000000000042.new", "0000000000000000004x.wal", "lock", "", &name(u64::MAX)] {
            assert_eq!(base(other), None, "{other}");
        }
    }
}
