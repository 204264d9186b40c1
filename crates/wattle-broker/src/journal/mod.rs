//! Everything but the records, durable over `kill -9`: one checksummed entry a change, replaced by a snapshot before it grows too long.
//!
//! The file is a header (magic, version byte), then frames: length, CRC32C of the length, CRC32C of the entry (each 4 bytes, big endian), and the
//! entry in postcard's format. A process that dies while it writes leaves the beginning of a frame at the end; the length's own checksum
//! tells this from damage, which is refused.

mod entry;

pub(crate) use entry::Entry;

use std::fs::{self, File};
use std::io::{BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::folder::sync_folder;

const HEADER: &[u8; 8] = b"WATTLEJ\x01";
/// Bytes before an entry.
const FRAME: usize = 12;
/// A shorter journal is not worth a snapshot.
const SHORT: u64 = 4 << 20;
/// How many times longer than the last snapshot it may become.
const GROWTH: u64 = 4;

/// The open journal; `memory()` keeps nothing.
#[derive(Debug)]
pub(crate) struct Journal {
    on_disk: Option<OnDisk>,
}

#[derive(Debug)]
struct OnDisk {
    path: PathBuf,
    file: File,
    length: u64,
    /// Length of the last snapshot.
    snapshot: u64,
    frame: Vec<u8>,
}

impl Journal {
    /// For a broker without a folder.
    pub(crate) fn memory() -> Self {
        Self { on_disk: None }
    }

    /// Opens or creates `folder/journal` and hands every entry to `each`, in order. A torn tail is cut (and logged), a corrupt middle, a foreign
    /// file or an unknown version is refused with the place.
    pub(crate) fn open(folder: &Path, each: impl FnMut(Entry)) -> Result<Self, Error> {
        let path = folder.join("journal");
        let leftover = new_path(&path);
        if leftover.exists() {
            fs::remove_file(&leftover).map_err(Error::io(&leftover, "remove it"))?;
        }
        if !path.exists() {
            return Ok(Self { on_disk: Some(OnDisk::write(path, std::iter::empty())?) });
        }
        let mut file = File::options().read(true).write(true).open(&path).map_err(Error::io(&path, "open it"))?;
        let size = file.metadata().map_err(Error::io(&path, "read its size"))?.len();
        let length = replay(&path, &file, size, each)?;
        if length < size {
            tracing::warn!(path = %path.display(), at = length, bytes = size - length, "cut a torn tail");
            file.set_len(length).map_err(Error::io(&path, "cut its torn tail"))?;
        }
        file.seek(SeekFrom::Start(length)).map_err(Error::io(&path, "write to it"))?;
        Ok(Self { on_disk: Some(OnDisk { path, file, length, snapshot: 0, frame: vec![] }) })
    }

    /// Writes one entry, whole or not at all as far as [`Journal::open`] can see. On an error the broker must stop.
    pub(crate) fn append(&mut self, entry: &Entry) -> Result<(), Error> {
        let Some(disk) = &mut self.on_disk else { return Ok(()) };
        disk.frame.clear();
        put(&mut disk.frame, entry);
        disk.file.write_all(&disk.frame).map_err(Error::io(&disk.path, "write to it"))?;
        disk.length += disk.frame.len() as u64;
        Ok(())
    }

    /// Whether it has grown enough (several times the last snapshot, and some MB) for [`Journal::replace`].
    pub(crate) fn is_long(&self) -> bool {
        self.on_disk.as_ref().is_some_and(|disk| disk.length > SHORT.max(disk.snapshot.saturating_mul(GROWTH)))
    }

    /// Replaces everything by these entries, atomically (a new file, synced and renamed).
    pub(crate) fn replace(&mut self, entries: impl Iterator<Item = Entry>) -> Result<(), Error> {
        if let Some(disk) = &mut self.on_disk {
            *disk = OnDisk::write(disk.path.clone(), entries)?;
        }
        Ok(())
    }
}

impl OnDisk {
    /// A new journal of these entries, in the place of what is there.
    fn write(path: PathBuf, entries: impl Iterator<Item = Entry>) -> Result<Self, Error> {
        let new = new_path(&path);
        let mut file = File::create(&new).map_err(Error::io(&new, "create it"))?;
        let mut length = 0;
        let mut frames = HEADER.to_vec();
        for entry in entries {
            put(&mut frames, &entry);
            if frames.len() > 64 << 10 {
                file.write_all(&frames).map_err(Error::io(&new, "write to it"))?;
                length += frames.len() as u64;
                frames.clear();
            }
        }
        file.write_all(&frames).and_then(|()| file.sync_all()).map_err(Error::io(&new, "write to it"))?;
        length += frames.len() as u64;
        fs::rename(&new, &path).map_err(Error::io(&new, "rename it"))?;
        sync_folder(&path)?;
        Ok(Self { path, file, length, snapshot: length, frame: vec![] })
    }
}

fn new_path(path: &Path) -> PathBuf {
    path.with_extension("new")
}

/// Appends an entry's frame.
fn put(out: &mut Vec<u8>, entry: &Entry) {
    let start = out.len();
    out.extend([0; FRAME]);
    *out = postcard::to_extend(entry, std::mem::take(out)).expect("entries are plain data, and a Vec takes them all");
    let length = u32::try_from(out.len() - start - FRAME).expect("an entry is far smaller than 4 GiB").to_be_bytes();
    let checksum = crc32c::crc32c(&out[start + FRAME..]).to_be_bytes();
    out[start..start + 4].copy_from_slice(&length);
    out[start + 4..start + 8].copy_from_slice(&crc32c::crc32c(&length).to_be_bytes());
    out[start + 8..start + FRAME].copy_from_slice(&checksum);
}

/// Reads all entries; returns where the last whole one ends.
fn replay(path: &Path, file: &File, size: u64, mut each: impl FnMut(Entry)) -> Result<u64, Error> {
    let mut reader = BufReader::with_capacity(64 << 10, file);
    let mut read = |bytes: &mut [u8]| reader.read_exact(bytes).map_err(Error::io(path, "read it"));
    let corrupt = |at, reason: &str| Error::Corrupt { path: path.to_owned(), at, reason: reason.to_owned() };
    let foreign = |reason: String| Error::Foreign { path: path.to_owned(), reason };

    let mut header = [0; HEADER.len()];
    if size < header.len() as u64 {
        return Err(foreign("its journal is shorter than a header".into()));
    }
    read(&mut header)?;
    match header.split_last() {
        Some((_, magic)) if magic != &HEADER[..7] => return Err(foreign("its journal begins differently".into())),
        Some((version, _)) if *version != HEADER[7] => {
            return Err(foreign(format!("its journal has version {version}, this broker writes {}", HEADER[7])));
        }
        _ => {}
    }
    let mut at = header.len() as u64;
    let mut bytes = vec![];
    while size - at >= FRAME as u64 {
        let mut frame = [0; FRAME];
        read(&mut frame)?;
        let word = |from: usize| u32::from_be_bytes([frame[from], frame[from + 1], frame[from + 2], frame[from + 3]]);
        if crc32c::crc32c(&frame[..4]) != word(4) {
            return Err(corrupt(at, "a length does not fit its checksum"));
        }
        let after = at + FRAME as u64 + u64::from(word(0));
        if after > size {
            break;
        }
        bytes.resize(word(0) as usize, 0);
        read(&mut bytes)?;
        if crc32c::crc32c(&bytes) != word(8) {
            return Err(corrupt(at, "an entry does not fit its checksum"));
        }
        match postcard::take_from_bytes(&bytes) {
            Ok((entry, [])) => each(entry),
            _ => return Err(corrupt(at, "an entry that this version does not know")),
        }
        at = after;
    }
    Ok(at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folder::testing::Temporary;

    fn entry(next: i64) -> Entry {
        Entry::ProducerIds { next }
    }

    fn opened(folder: &Temporary) -> Result<(Journal, Vec<Entry>), Error> {
        let mut entries = vec![];
        let journal = Journal::open(folder.path(), |entry| entries.push(entry))?;
        Ok((journal, entries))
    }

    #[test]
    fn entries_are_there_again_and_a_snapshot_replaces_them() {
        let folder = Temporary::new();
        let (mut journal, _) = opened(&folder).unwrap();
        let name = "name".repeat(500);
        let long = || Entry::TopicDeleted { name: name.clone() };
        while !journal.is_long() {
            journal.append(&long()).unwrap();
        }
        let (mut journal, entries) = opened(&folder).unwrap();
        assert!(entries.len() > 2000 && entries.iter().all(|one| *one == long()));
        journal.replace([entry(1), entry(2)].into_iter()).unwrap();
        assert!(!journal.is_long());
        journal.append(&entry(3)).unwrap();
        fs::write(folder.path().join("journal.new"), "cut short").unwrap();
        let (_, entries) = opened(&folder).unwrap();
        assert_eq!(entries, [entry(1), entry(2), entry(3)]);
        assert!(!folder.path().join("journal.new").exists());
    }

    #[test]
    fn a_torn_tail_is_cut_and_damage_refused_at_every_byte() {
        let folder = Temporary::new();
        let path = folder.path().join("journal");
        let (mut journal, _) = opened(&folder).unwrap();
        journal.append(&entry(1)).unwrap();
        let size = fs::metadata(&path).unwrap().len() as usize;
        journal.append(&entry(2)).unwrap();
        let whole = fs::read(&path).unwrap();
        for cut in size..whole.len() {
            fs::write(&path, &whole[..cut]).unwrap();
            let (mut journal, entries) = opened(&folder).unwrap();
            assert_eq!(entries, [entry(1)], "{cut}");
            journal.append(&entry(3)).unwrap();
            assert_eq!(opened(&folder).unwrap().1, [entry(1), entry(3)]);
        }
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 1;
            fs::write(&path, &damaged).unwrap();
            match opened(&folder) {
                Err(Error::Foreign { .. }) => assert!(at < HEADER.len()),
                Err(Error::Corrupt { at: place, .. }) => {
                    let frame = if at < size { HEADER.len() } else { size };
                    assert_eq!(place as usize, frame, "{at}");
                }
                other => panic!("{at}: {other:?}"),
            }
            assert_eq!(fs::read(&path).unwrap(), damaged);
        }
        for shorter in 0..HEADER.len() {
            fs::write(&path, &whole[..shorter]).unwrap();
            assert!(matches!(opened(&folder), Err(Error::Foreign { .. })));
        }
    }

    #[test]
    fn in_memory_nothing_is_kept() {
        let mut journal = Journal::memory();
        journal.append(&entry(1)).unwrap();
        journal.replace([entry(1)].into_iter()).unwrap();
        assert!(!journal.is_long());
    }
}
