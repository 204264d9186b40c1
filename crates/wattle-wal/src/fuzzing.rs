//! What the fuzz target `segment` calls, and the test over its corpus: a folder of segments that somebody has changed, or made up.
//!
//! The first byte of an input says which:
//! - 0: the rest is a segment, as it is.
//! - 1: the second byte chooses the first number, the rest is pieces behind an intact header: entries, seals and other bytes.
//! - 2 and 3: the rest is changes of a log that a killed process has left; with 2 each entry was synced, with 3 none.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use uuid::Uuid;

use crate::disk::{Disk, DiskFile};
use crate::error::Error;
use crate::frame::{self, Frame};
use crate::segment::{self, HEADER, Head, NUMBERS};
use crate::state::Shared;
use crate::{Log, Options, Position, Reader, SyncMode, recover};

type Entries = Vec<(u64, Vec<u8>)>;

/// Opens the log that an input makes and reads it twice.
///
/// # Panics
/// Where an entry is given that was not written with a good checksum, a number goes back or is used again, an entry that was on the disk for sure is passed over in
/// silence, or a second start finds something else than the first.
pub fn segment(input: &[u8]) {
    let Some((kind, rest)) = input.split_first() else { return };
    match kind % 4 {
        0 => drop(check(&Memory::of([(segment::name(0), rest.to_vec())]))),
        1 => drop(check(&pieces(rest))),
        kind => {
            let left = &LEFT[usize::from(kind == 3)];
            let disk = Memory::of(left.files.clone());
            left.change(&disk, rest);
            let damaged = disk.copy();
            if let Some(found) = check(&disk) {
                left.check(&found, &damaged);
            }
        }
    }
}

/// What a start finds; `None` where it is refused.
fn check(disk: &Memory) -> Option<Entries> {
    let intact = disk.intact();
    let (first, next) = open(disk).ok()?;
    assert!(first.is_sorted_by(|a, b| a.0 < b.0), "numbers go back: {first:?}");
    assert!(first.iter().all(|(number, _)| *number < next), "the number {next} is used again");
    for entry in &first {
        assert!(intact.contains(entry), "was never written: {entry:?}");
    }
    let (second, later) = open(disk).expect("what a start has accepted and completed");
    assert_eq!(first, second, "the second start finds something else");
    assert!(later >= next, "numbers go back from {next} to {later}");
    Some(first)
}

/// All entries that are not done with, and the first number of the new segment.
fn open(disk: &Memory) -> Result<(Entries, u64), Error> {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    let recovered = recover::recover(&*disk)?;
    let next = recovered.segments[recovered.segments.len() - 1].base;
    let shared = Arc::new(Shared::new(disk, Options::default(), recovered.segments, recovered.covered.1));
    let mut reader = Reader::open(shared, None)?;
    let mut entries = Entries::new();
    while let Some(entry) = reader.read()? {
        entries.push((entry.sequence.0, entry.bytes.to_vec()));
    }
    Ok((entries, next))
}

/// A segment whose checksums are right, whatever it says. A piece is its kind, a number, a place of two bytes, a length, and bytes.
fn pieces(input: &[u8]) -> Memory {
    let (choice, mut rest) = input.split_first().map_or((0, input), |(choice, rest)| (*choice, rest));
    let base = [0, NUMBERS, 7, u64::MAX - 9][usize::from(choice % 4)];
    let disk = Memory::default();
    segment::create(&disk, Head { base, follows: base, id: Uuid::nil() }).expect("memory has no errors");
    let file = disk.file(&segment::name(base));
    let mut bytes = file.lock();
    while let [kind, number, low, high, length, tail @ ..] = rest {
        let (body, tail) = tail.split_at(tail.len().min(usize::from(*length)));
        let (number, durable) = (base.wrapping_add(u64::from(*number)), u64::from(u16::from_le_bytes([*low, *high])));
        match kind % 4 {
            0 => bytes.extend_from_slice(body),
            1 => bytes.extend(frame::seal(number, durable)),
            2 => bytes.extend(frame::seal(base.wrapping_add(NUMBERS), durable)),
            _ => frame::put_entry(&mut bytes, number, durable, body),
        }
        rest = tail;
    }
    drop(bytes);
    disk
}

/// Logs that a killed process has left: two complete segments and one that is not.
static LEFT: LazyLock<[Left; 2]> =
    LazyLock::new(|| [SyncMode::PerEntry, SyncMode::Periodic(Duration::from_secs(3600))].map(Left::by));

struct Left {
    files: BTreeMap<String, Vec<u8>>,
    entries: Entries,
    /// Where each entry is.
    places: Vec<(String, Range<usize>)>,
    /// How many of them are done with.
    covered: usize,
    synced: bool,
}

impl Left {
    fn by(sync: SyncMode) -> Self {
        let disk = Memory::default();
        let options = Options { sync, max_bytes: 64 << 10, segment_bytes: 4 << 10 };
        let log = Log::on(Arc::new(disk.clone()), options).expect("memory has no errors");
        let lengths =
            [30, 700, 30, 600, 1200, 0, 30, 900, 500, 1100, 1500, 30, 30, 520, 30, 520, 1, 600, 30, 520, 30, 30, 200];
        let entry = |(number, length): (usize, usize)| match number {
            // Like sectors that were never written.
            19 => vec![0; length],
            _ => (0..length).map(|at| (number * 31 + at) as u8).collect(),
        };
        let entries: Entries =
            (0..).zip(lengths).map(|(number, length)| (number as u64, entry((number, length)))).collect();
        for (_, entry) in &entries {
            log.try_append(entry.clone()).and_then(crate::Accepted::wait).expect("memory takes it");
        }
        let (covered, mut reader) = (2, log.reader(None).expect("memory can be read"));
        for _ in 0..covered {
            assert!(reader.read().is_ok_and(|entry| entry.is_some()));
        }
        log.cover(Position(covered as u64)).expect("it was read");
        let files = disk.files().iter().map(contents).collect();
        let synced = sync == SyncMode::PerEntry;
        let mut left = Left { files, entries, places: Vec::new(), covered, synced };
        for (name, bytes) in left.files.iter().filter(|(name, _)| segment::base(name).is_some()) {
            let mut at = HEADER as usize;
            while let Some(frame) = Frame::parse(&bytes[at..]).filter(|frame| !frame.is_seal()) {
                left.places.push((name.clone(), at..at + frame.size() as usize));
                at += frame.size() as usize;
            }
        }
        assert_eq!((left.places.len(), left.files.len()), (left.entries.len(), 4), "three segments and a mark");
        left
    }

    /// A change is its kind, a file, a place of two bytes, and a byte.
    fn change(&self, disk: &Memory, mut changes: &[u8]) {
        while let [kind, file, low, high, byte, rest @ ..] = changes {
            changes = rest;
            let place = usize::from(u16::from_le_bytes([*low, *high]));
            let name = self.files.keys().nth(usize::from(*file) % self.files.len()).expect("within");
            let file = disk.file(name);
            let mut bytes = file.lock();
            let length = bytes.len();
            match kind % 5 {
                0 if length > 0 => bytes[place % length] ^= byte,
                1 => bytes.truncate(place % (length + 1)),
                2 => {
                    let sector = place % (length + 1) / 512 * 512;
                    bytes[sector..(sector + 512).min(length)].fill(0);
                }
                3 => {
                    let frame = |number: usize| &self.places[number % self.places.len()];
                    let ((from, range), (_, to)) = (frame((*byte).into()), frame(place));
                    let to = to.start..to.start + range.len();
                    bytes.resize(length.max(to.end), 0);
                    bytes[to].copy_from_slice(&self.files[from][range.clone()]);
                }
                4 => {
                    let more = changes.split_at(changes.len().min((*byte).into()));
                    bytes.extend_from_slice(more.0);
                    changes = more.1;
                }
                _ => {}
            }
        }
    }

    /// Found is what was written, in one piece; the rest is gone from the disk itself.
    fn check(&self, found: &Entries, damaged: &Memory) {
        let first = found.first().map_or(self.covered, |(number, _)| *number as usize);
        let end = first + found.len();
        assert!(first <= self.covered, "begins at {first}, and only {} are done with", self.covered);
        assert_eq!(self.entries.get(first..end), Some(&found[..]), "an entry was passed over");
        let behind = if self.synced { self.entries.len() } else { self.entries.len().min(end + 1) };
        for number in end..behind {
            let (name, range) = &self.places[number];
            let now = damaged.file(name);
            let is_whole = now.lock().get(range.clone()) == Some(&self.files[name][range.clone()]);
            assert!(!is_whole, "entry {number} was synced and is intact, and was taken away");
        }
    }
}

/// A disk in memory that does what it is told.
#[derive(Clone, Default)]
struct Memory(Arc<Mutex<BTreeMap<String, File>>>);

#[derive(Clone, Default)]
struct File(Arc<Mutex<Vec<u8>>>);

fn contents((name, file): (&String, &File)) -> (String, Vec<u8>) {
    (name.clone(), file.lock().clone())
}

impl Memory {
    fn of(files: impl IntoIterator<Item = (String, Vec<u8>)>) -> Self {
        let files = files.into_iter().map(|(name, bytes)| (name, File(Arc::new(Mutex::new(bytes)))));
        Memory(Arc::new(Mutex::new(files.collect())))
    }

    fn copy(&self) -> Self {
        Memory::of(self.files().iter().map(contents))
    }

    fn files(&self) -> MutexGuard<'_, BTreeMap<String, File>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn file(&self, name: &str) -> File {
        self.files().get(name).cloned().unwrap_or_default()
    }

    /// The entries of all frames that are anywhere, with both checksums right.
    fn intact(&self) -> BTreeSet<(u64, Vec<u8>)> {
        let mut entries = BTreeSet::new();
        for file in self.files().values() {
            let bytes = file.lock();
            for at in 0..bytes.len() {
                let Some(frame) = Frame::parse(&bytes[at..]).filter(|frame| !frame.is_seal()) else { continue };
                let body = bytes.get(at + frame::HEADER..at + frame.size() as usize);
                entries.extend(body.filter(|body| frame.holds(body)).map(|body| (frame.sequence, body.to_vec())));
            }
        }
        entries
    }
}

impl File {
    fn lock(&self) -> MutexGuard<'_, Vec<u8>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Disk for Memory {
    fn path(&self) -> &Path {
        Path::new("/memory")
    }

    fn names(&self) -> io::Result<Vec<String>> {
        Ok(self.files().keys().cloned().collect())
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(self.files().get(name).cloned().ok_or(ErrorKind::NotFound)?))
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        let file = File::default();
        self.files().insert(name.to_owned(), file.clone());
        Ok(Box::new(file))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut files = self.files();
        let file = files.remove(from).ok_or(ErrorKind::NotFound)?;
        files.insert(to.to_owned(), file);
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.files().remove(name).map(drop).ok_or(ErrorKind::NotFound.into())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}

impl DiskFile for File {
    fn length(&self) -> io::Result<u64> {
        Ok(self.lock().len() as u64)
    }

    fn read_at(&self, bytes: &mut [u8], at: u64) -> io::Result<()> {
        let at = at as usize;
        bytes.copy_from_slice(self.lock().get(at..at + bytes.len()).ok_or(ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        let (mut file, at) = (self.lock(), at as usize);
        let length = file.len().max(at + bytes.len());
        file.resize(length, 0);
        file[at..at + bytes.len()].copy_from_slice(bytes);
        Ok(())
    }

    fn set_length(&self, length: u64) -> io::Result<()> {
        self.lock().resize(length as usize, 0);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn no_input_that_fuzzing_has_kept_breaks_a_promise() {
        let corpus = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/segment");
        let mut count = 0;
        for file in std::fs::read_dir(corpus).expect("the corpus is there") {
            let path = file.expect("a file").path();
            eprintln!("{}", path.display());
            super::segment(&std::fs::read(path).expect("readable"));
            count += 1;
        }
        assert!(count > 0, "{corpus} is empty");
    }
}
