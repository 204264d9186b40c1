//! What a start finds in the folder, and makes of it: complete segments, and a new one behind them.
//!
//! A start never appends to a segment that it finds. It seals the last one and goes on behind all numbers that this one can have used, also for entries that were
//! read and processed and that a loss of power has taken: their numbers are covered, and an entry that got one of them again would never be processed.

use std::collections::VecDeque;

use uuid::Uuid;

use crate::covered::{self, Covered};
use crate::disk::{Disk, DiskFile};
use crate::error::Error;
use crate::frame;
use crate::scan::{Found, Scan};
use crate::segment::{self, Head, NEW, NUMBERS};
use crate::state::Segment;

/// A log that can be appended to.
pub(crate) struct Recovered {
    pub(crate) id: Uuid,
    /// In order; all but the last, which is new, are complete.
    pub(crate) segments: VecDeque<Segment>,
    /// Up to where entries are done with.
    pub(crate) covered: (Covered, u64),
    /// The new segment.
    pub(crate) file: Box<dyn DiskFile>,
}

/// What is in a folder.
#[derive(Default)]
struct Contents {
    bases: Vec<u64>,
    has_covered: bool,
}

pub(crate) fn recover(disk: &dyn Disk) -> Result<Recovered, Error> {
    let Contents { bases, has_covered } = contents(disk)?;
    if bases.is_empty() {
        if has_covered {
            return Err(Error::damaged(disk.path(), 0, "there was a log, and its segments are gone"));
        }
        let id = Uuid::new_v4();
        let head = Head { base: 0, follows: 0, id };
        let file = segment::create(disk, head)?;
        return Ok(Recovered {
            id,
            segments: [Segment::new(head)].into(),
            covered: Covered::open(disk, false, id)?,
            file,
        });
    }
    let heads = heads(disk, &bases)?;
    let id = heads[0].id;
    let covered = Covered::open(disk, has_covered, id)?;
    let mut segments = complete(disk, remove_covered(disk, &heads, covered.1)?)?;
    let last = segments[segments.len() - 1];
    let base = last.following.expect("it is complete");
    // One without entries and without numbers is made anew in its place.
    segments.retain(|segment| segment.base < base);
    let head = Head { base, follows: last.last, id };
    let file = segment::create(disk, head)?;
    segments.push_back(Segment::new(head));
    while segments[0].is_needless(covered.1) {
        remove(disk, segments[0].base)?;
        segments.pop_front();
    }
    Ok(Recovered { id, segments, covered, file })
}

/// Looks at the names, and removes files that were never completed.
fn contents(disk: &dyn Disk) -> Result<Contents, Error> {
    let mut contents = Contents::default();
    let mut incomplete = Vec::new();
    for name in disk.names().map_err(Error::io("list", disk.path()))? {
        if let Some(base) = segment::base(&name) {
            contents.bases.push(base);
        } else if name == covered::NAME {
            contents.has_covered = true;
        } else if name.strip_suffix(NEW).is_some_and(|name| segment::base(name).is_some()) {
            incomplete.push(name);
        } else if name != wattle_folder::LOCK && !wattle_folder::OWNER.contains(&&*name) {
            return Err(Error::Foreign { path: disk.path().to_owned(), name });
        }
    }
    for name in incomplete {
        disk.remove(&name).map_err(Error::io("remove", &disk.path().join(name)))?;
    }
    contents.bases.sort_unstable();
    Ok(contents)
}

/// What the segments say about themselves; all are of one log.
fn heads(disk: &dyn Disk, bases: &[u64]) -> Result<Vec<Head>, Error> {
    let mut heads = Vec::<Head>::new();
    for base in bases {
        let path = disk.path().join(segment::name(*base));
        let file = disk.open(&segment::name(*base)).map_err(Error::io("open", &path))?;
        let head = segment::head(&*file, &path, *base)?;
        if heads.first().is_some_and(|first| first.id != head.id) {
            return Err(Error::damaged(&path, 24, "it belongs to another log than the segments before it"));
        }
        heads.push(head);
    }
    Ok(heads)
}

/// What nobody needs any more is not read. Returns what is left.
fn remove_covered<'a>(disk: &dyn Disk, heads: &'a [Head], covered: u64) -> Result<&'a [Head], Error> {
    let needless = heads[1..].iter().take_while(|following| following.follows <= covered).count();
    for head in &heads[..needless] {
        remove(disk, head.base)?;
    }
    Ok(&heads[needless..])
}

/// Deletes a segment for good, before the next one is: those that are left are always the last ones.
pub(crate) fn remove(disk: &dyn Disk, base: u64) -> Result<(), Error> {
    let name = segment::name(base);
    disk.remove(&name).map_err(Error::io("remove", &disk.path().join(&name)))?;
    disk.sync().map_err(segment::not_synced(disk.path(), "its folder"))
}

/// Reads every segment to its end; the last one is sealed if it is not.
fn complete(disk: &dyn Disk, heads: &[Head]) -> Result<VecDeque<Segment>, Error> {
    let mut segments = VecDeque::new();
    for (i, head) in heads.iter().enumerate() {
        let name = segment::name(head.base);
        let path = disk.path().join(&name);
        let file = disk.open(&name).map_err(Error::io("open", &path))?;
        let size = file.length().map_err(Error::io("read", &path))?;
        let mut scan = Scan::new(path.clone(), file, head.base);
        let mut segment = Segment::new(*head);
        let found = last_frame(&mut scan, size, &mut segment)?;
        let (end, following) = (segment.end, heads.get(i + 1));
        segment.following = Some(match found {
            Found::Seal { .. } if end + frame::HEADER as u64 != size => {
                return Err(Error::damaged(&path, end + frame::HEADER as u64, "there is something behind its seal"));
            }
            Found::Seal { next } if following.is_some_and(|following| following.base != next) => {
                let gone = disk.path().join(segment::name(next));
                return Err(Error::damaged(&gone, 0, format!("it is gone, and came behind {name}")));
            }
            Found::Seal { next } => {
                // A process that was killed right behind its seal may not have synced it, and soon it is not the last one any more.
                if following.is_none() {
                    scan.into_file().sync().map_err(segment::not_synced(disk.path(), &name))?;
                }
                next
            }
            Found::End if following.is_some() => return Err(Error::damaged(&path, end, "it ends without its seal")),
            Found::Bad(reason) if following.is_some() || !scan.is_torn(end, size)? => {
                return Err(Error::damaged(&path, end, reason));
            }
            _ => seal(disk, &name, scan, (head.base, end, size))?,
        });
        segments.push_back(segment);
    }
    Ok(segments)
}

/// Finds what is behind the last entry, and where.
fn last_frame(scan: &mut Scan, size: u64, segment: &mut Segment) -> Result<Found, Error> {
    loop {
        match scan.frame(segment.end, size)? {
            Found::Entry { sequence, size } => (segment.end, segment.last) = (segment.end + size, sequence + 1),
            found => return Ok(found),
        }
    }
}

/// Completes the last segment of a process that could not, and returns the first number of the next.
fn seal(disk: &dyn Disk, name: &str, scan: Scan, (base, end, size): (u64, u64, u64)) -> Result<u64, Error> {
    let file = scan.into_file();
    if end < size {
        tracing::warn!(file = %disk.path().join(name).display(), at = end, bytes = size - end, "cut a torn tail: nobody was told that it is there");
        segment::cut(disk.path(), name, &*file, end)?;
    } else {
        file.sync().map_err(segment::not_synced(disk.path(), name))?;
    }
    let next = base + NUMBERS;
    file.write_at(&frame::seal(next, end), end).map_err(segment::not_written(disk.path(), name))?;
    file.sync().map_err(segment::not_synced(disk.path(), name))?;
    Ok(next)
}
