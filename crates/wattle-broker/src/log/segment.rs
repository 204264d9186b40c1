//! A piece of a partition's log: batches one after the other in a file named by its first offset, or in memory. Knows where batches are (a
//! sparse index, built again at open), not what they mean.

use std::cell::{Cell, OnceCell};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use bytes::{Bytes, BytesMut};

use super::batch::{self, HEADER, Header};
use crate::error::Error;
use crate::folder::sync_folder;
use crate::types::Millis;

/// Bytes between two entries of the index; a lookup reads at most about as many.
const INDEX_INTERVAL: u64 = 16 << 10;
/// What a walk reads at a time, at least.
const WINDOW: usize = 32 << 10;
/// Where a batch's header says which format it has; never 0 in one that was written.
const MAGIC: u64 = 16;

#[derive(Debug)]
pub(crate) struct Segment {
    /// The first offset that it may hold.
    pub(crate) base: i64,
    /// The offset after its last batch.
    pub(crate) next: i64,
    pub(crate) size: u64,
    /// The highest timestamp, and where the first batch that has it is.
    pub(crate) largest: Option<(Millis, u64)>,
    /// When its first batch came; `None` while it is empty.
    pub(crate) born: Option<Millis>,
    index: Vec<(i64, u64)>,
    store: Store,
}

#[derive(Debug)]
enum Store {
    Memory(Vec<u8>),
    /// Opened when used, closed by [`Segment::rest`], so that idle partitions hold no descriptor.
    File {
        path: PathBuf,
        file: OnceCell<File>,
        used: Cell<bool>,
    },
}

impl Segment {
    /// An empty one, in `folder` or in memory.
    pub(crate) fn create(folder: Option<&Path>, base: i64) -> Result<Self, Error> {
        match folder {
            None => Ok(Self::new(base, Store::Memory(vec![]))),
            Some(folder) => Self::create_at(path(folder, base), base),
        }
    }

    fn create_at(path: PathBuf, base: i64) -> Result<Self, Error> {
        let file = File::options().read(true).write(true).create_new(true).open(&path);
        let file = OnceCell::from(file.map_err(Error::io(&path, "create it"))?);
        Ok(Self::new(base, Store::File { path, file, used: Cell::new(true) }))
    }

    /// Reads the headers of an existing one; `each` sees them in order, with the whole batch where it is a control batch. A torn tail is cut (and logged) if it
    /// `may_be_torn`; everything else that does not fit is refused.
    pub(crate) fn open(
        path: PathBuf,
        base: i64,
        may_be_torn: bool,
        now: Millis,
        mut each: impl FnMut(&Header, Option<&[u8]>),
    ) -> Result<Self, Error> {
        let size = fs::metadata(&path).map_err(Error::io(&path, "read its size"))?.len();
        let corrupt = |at, reason: &str| Error::Corrupt { path: path.clone(), at, reason: reason.to_owned() };
        let store = Store::File { path: path.clone(), file: OnceCell::new(), used: Cell::new(false) };
        let mut this = Self::new(base, Store::Memory(vec![]));
        let mut window = Window::new(&store, size);
        let torn = loop {
            let at = this.size;
            let header = match window.batch(at, this.next)? {
                Found::Batch(header) => header,
                Found::End => break false,
                Found::Torn if may_be_torn => break true,
                Found::Torn => return Err(corrupt(at, "it ends within a batch")),
                Found::Bad(reason) => return Err(corrupt(at, reason)),
            };
            let is_last = may_be_torn && at + header.size as u64 == size;
            if is_last && !batch::is_intact(window.bytes(at, header.size)?) {
                break true;
            }
            let control = if header.is_control() { Some(window.bytes(at, header.size)?) } else { None };
            each(&header, control);
            this.note(&header, at, header.max_timestamp.clamp(0, now));
        };
        this.store = store;
        if torn {
            this.cut(size)?;
        }
        this.rest();
        Ok(this)
    }

    fn new(base: i64, store: Store) -> Self {
        Self { base, next: base, size: 0, largest: None, born: None, index: vec![], store }
    }

    /// Writes a batch whose place is set, in one piece.
    pub(crate) fn append(&mut self, header: &Header, batch: &[u8], now: Millis) -> Result<(), Error> {
        match &mut self.store {
            Store::Memory(bytes) => bytes.extend_from_slice(batch),
            Store::File { path, file, used } => {
                used.set(true);
                let file = opened(path, file)?;
                file.write_all_at(batch, self.size).map_err(Error::io(path, "write to it"))?;
            }
        }
        self.note(header, self.size, now);
        Ok(())
    }

    /// Takes account of a batch that is there.
    fn note(&mut self, header: &Header, at: u64, now: Millis) {
        if self.index.last().is_none_or(|(_, indexed)| at >= indexed + INDEX_INTERVAL) {
            self.index.push((header.base, at));
        }
        if self.largest.is_none_or(|(timestamp, _)| header.max_timestamp > timestamp) {
            self.largest = Some((header.max_timestamp, at));
        }
        self.born.get_or_insert(now);
        self.next = header.last() + 1;
        self.size = at + header.size as u64;
    }

    /// The batches from the first whose last offset is at or past `offset` on.
    pub(crate) fn walk(&self, offset: i64) -> Result<Walk<'_>, Error> {
        let entry = self.index.partition_point(|(base, _)| *base <= offset);
        let at = entry.checked_sub(1).map_or(0, |entry| self.index[entry].1);
        let mut walk = self.walk_at(at);
        while let Some((header, at)) = walk.next()? {
            if header.last() >= offset {
                walk.at = at;
                break;
            }
        }
        Ok(walk)
    }

    /// The batches from this place on.
    pub(crate) fn walk_at(&self, at: u64) -> Walk<'_> {
        Walk { segment: self, window: Window::new(&self.store, self.size), at }
    }

    /// Whole batches from `at` on that begin before `limit`: at most `max_bytes`, or one if `at_least_one`. Also the offset after them.
    pub(crate) fn slice(
        &self,
        at: u64,
        limit: i64,
        max_bytes: usize,
        at_least_one: bool,
    ) -> Result<Option<(Bytes, i64)>, Error> {
        let left = usize::try_from(self.size - at).unwrap_or(usize::MAX);
        let mut bytes = self.store.read(at, left.min(max_bytes.max(if at_least_one { HEADER } else { 0 })))?;
        let (mut end, mut next) = (0, None);
        while let Ok(header) = Header::parse(&bytes[end..]) {
            if header.base >= limit {
                break;
            }
            if end + header.size > max_bytes {
                if next.is_none() && at_least_one {
                    return Ok(Some((self.store.read(at, header.size)?.freeze(), header.last() + 1)));
                }
                break;
            }
            if end + header.size > bytes.len() {
                break;
            }
            end += header.size;
            next = Some(header.last() + 1);
        }
        bytes.truncate(end);
        Ok(next.map(|next| (bytes.freeze(), next)))
    }

    /// Closes its file if it was not used since the last call.
    pub(crate) fn rest(&mut self) {
        if let Store::File { file, used, .. } = &mut self.store
            && !used.replace(false)
        {
            file.take();
        }
    }

    /// Deletes its file.
    pub(crate) fn remove(self) -> Result<(), Error> {
        match self.store {
            Store::Memory(_) => Ok(()),
            Store::File { path, .. } => fs::remove_file(&path).map_err(Error::io(&path, "remove it")),
        }
    }

    pub(crate) fn corrupt(&self, at: u64, reason: impl Into<String>) -> Error {
        let path = match &self.store {
            Store::Memory(_) => PathBuf::from("(memory)"),
            Store::File { path, .. } => path.clone(),
        };
        Error::Corrupt { path, at, reason: reason.into() }
    }

    /// Everything behind the last whole batch goes: the process died while it wrote it, so nobody was told that it is there.
    fn cut(&mut self, size: u64) -> Result<(), Error> {
        let Store::File { path, file, .. } = &self.store else { return Ok(()) };
        tracing::warn!(path = %path.display(), at = self.size, bytes = size - self.size, "cut a torn tail");
        opened(path, file)?.set_len(self.size).map_err(Error::io(path, "cut its torn tail"))
    }
}

/// The file of a segment.
pub(crate) fn path(folder: &Path, base: i64) -> PathBuf {
    folder.join(file_name(base))
}

fn file_name(base: i64) -> String {
    format!("{base:020}.log")
}

/// The first offsets of the segments in `folder`, in order, after a replacement that was cut short is finished or forgotten.
pub(crate) fn recover(folder: &Path) -> Result<Vec<i64>, Error> {
    let (mut bases, mut swaps) = (vec![], vec![]);
    for entry in fs::read_dir(folder).map_err(Error::io(folder, "list it"))? {
        let path = entry.map_err(Error::io(folder, "list it"))?.path();
        let name = path.file_stem().and_then(|name| name.to_str()).unwrap_or_default();
        let offsets = name.split('-').map(str::parse).collect::<Result<Vec<i64>, _>>().unwrap_or_default();
        match (path.extension().and_then(|extension| extension.to_str()), &offsets[..]) {
            (Some("log"), [base]) => bases.push(*base),
            (Some("swap"), [base, end]) => swaps.push((path, *base, *end)),
            (Some("new"), [_, _]) => fs::remove_file(&path).map_err(Error::io(&path, "remove it"))?,
            _ => return Err(Error::Foreign { path, reason: "a partition's folder holds segments only".into() }),
        }
    }
    for (swap, base, end) in swaps {
        for old in bases.extract_if(.., |old| (base..end).contains(old)) {
            let old = path(folder, old);
            fs::remove_file(&old).map_err(Error::io(&old, "remove it"))?;
        }
        fs::rename(&swap, path(folder, base)).map_err(Error::io(&swap, "rename it"))?;
        bases.push(base);
    }
    bases.sort_unstable();
    Ok(bases)
}

/// A segment that takes the place of others, all at once.
#[derive(Debug)]
pub(crate) struct Replacement {
    segment: Segment,
    /// Where it is, without extension, until it is in place; `None` in memory.
    name: Option<PathBuf>,
}

impl Replacement {
    /// For the segments whose offsets are from `base` to before `end`.
    pub(crate) fn begin(folder: Option<&Path>, base: i64, end: i64) -> Result<Self, Error> {
        let name = folder.map(|folder| folder.join(format!("{base:020}-{end:020}")));
        let segment = match &name {
            None => Segment::create(None, base)?,
            Some(name) => Segment::create_at(name.with_extension("new"), base)?,
        };
        Ok(Self { segment, name })
    }

    /// Appends a whole batch, of a segment that was begun at `born`.
    pub(crate) fn append(&mut self, batch: &[u8], born: Option<Millis>) -> Result<(), Error> {
        let header = Header::parse(batch).map_err(|reason| self.segment.corrupt(self.segment.size, reason))?;
        self.segment.append(&header, batch, born.unwrap_or_default())
    }

    /// Takes the place of `old`.
    pub(crate) fn finish(mut self, old: Vec<Segment>) -> Result<Segment, Error> {
        let (Some(name), Store::File { path, file, .. }) = (self.name, &mut self.segment.store) else {
            return Ok(self.segment);
        };
        opened(path, file)?.sync_all().map_err(Error::io(path, "sync it"))?;
        let swap = name.with_extension("swap");
        fs::rename(&path, &swap).map_err(Error::io(path, "rename it"))?;
        sync_folder(&swap)?;
        old.into_iter().try_for_each(Segment::remove)?;
        *path = swap.with_file_name(file_name(self.segment.base));
        fs::rename(&swap, &path).map_err(Error::io(&swap, "rename it"))?;
        Ok(self.segment)
    }

    /// Everything stays as it is.
    pub(crate) fn give_up(self) -> Result<(), Error> {
        self.segment.remove()
    }
}

fn opened<'a>(path: &Path, file: &'a OnceCell<File>) -> Result<&'a File, Error> {
    if file.get().is_none() {
        let opened = File::options().read(true).write(true).open(path).map_err(Error::io(path, "open it"))?;
        return Ok(file.get_or_init(|| opened));
    }
    Ok(file.get().expect("checked above"))
}

impl Store {
    fn read(&self, at: u64, length: usize) -> Result<BytesMut, Error> {
        let mut bytes = BytesMut::zeroed(length);
        self.read_into(at, &mut bytes)?;
        Ok(bytes)
    }

    fn read_into(&self, at: u64, bytes: &mut [u8]) -> Result<(), Error> {
        match self {
            Store::Memory(all) => bytes.copy_from_slice(&all[at as usize..at as usize + bytes.len()]),
            Store::File { path, file, used } => {
                used.set(true);
                opened(path, file)?.read_exact_at(bytes, at).map_err(Error::io(path, "read it"))?;
            }
        }
        Ok(())
    }
}

/// Batches one by one.
#[derive(Debug)]
pub(crate) struct Walk<'a> {
    segment: &'a Segment,
    window: Window<'a>,
    /// Of the batch that comes next.
    pub(crate) at: u64,
}

impl Walk<'_> {
    /// The next batch's header, and where it is.
    pub(crate) fn next(&mut self) -> Result<Option<(Header, u64)>, Error> {
        if self.at >= self.segment.size {
            return Ok(None);
        }
        let at = self.at;
        let header =
            Header::parse(self.window.bytes(at, HEADER)?).map_err(|reason| self.segment.corrupt(at, reason))?;
        self.at += header.size as u64;
        Ok(Some((header, at)))
    }

    /// The whole batch that `next` returned.
    pub(crate) fn batch(&mut self, header: &Header, at: u64) -> Result<&[u8], Error> {
        self.window.bytes(at, header.size)
    }
}

/// A moving piece of a store, so that many small batches do not mean many reads.
#[derive(Debug)]
struct Window<'a> {
    store: &'a Store,
    size: u64,
    from: u64,
    bytes: Vec<u8>,
}

/// What is at a place of a file that nobody vouches for.
enum Found {
    Batch(Header),
    End,
    Torn,
    Bad(&'static str),
}

impl<'a> Window<'a> {
    fn new(store: &'a Store, size: u64) -> Self {
        Self { store, size, from: 0, bytes: vec![] }
    }

    fn bytes(&mut self, at: u64, length: usize) -> Result<&[u8], Error> {
        if let Store::Memory(all) = self.store {
            return Ok(&all[at as usize..at as usize + length]);
        }
        if at < self.from || at + length as u64 > self.from + self.bytes.len() as u64 {
            let take = (length.max(WINDOW) as u64).min(self.size - at).max(length as u64);
            self.bytes.resize(take as usize, 0);
            self.store.read_into(at, &mut self.bytes)?;
            self.from = at;
        }
        let start = (at - self.from) as usize;
        Ok(&self.bytes[start..start + length])
    }

    /// What is at `at`, where offsets from `next` on may come.
    fn batch(&mut self, at: u64, next: i64) -> Result<Found, Error> {
        let left = self.size - at;
        if left == 0 {
            return Ok(Found::End);
        }
        if left < HEADER as u64 {
            return Ok(Found::Torn);
        }
        let header = match Header::parse(self.bytes(at, HEADER)?) {
            Ok(header) if header.base < next => return Ok(Found::Bad("offsets go back")),
            Ok(header) => header,
            Err(reason) => return Ok(if self.is_zero(at + MAGIC)? { Found::Torn } else { Found::Bad(reason) }),
        };
        if header.size as u64 <= left {
            return Ok(Found::Batch(header));
        }
        // a write that was cut short has nothing behind it; a damaged length has
        Ok(if self.holds_batch(at + 1, next)? { Found::Bad("a length past the end of the file") } else { Found::Torn })
    }

    /// Whether only zeros follow: a file that grew, but whose data a dying machine did not write.
    fn is_zero(&mut self, mut at: u64) -> Result<bool, Error> {
        while at < self.size {
            let length = (self.size - at).min(WINDOW as u64);
            if self.bytes(at, length as usize)?.iter().any(|byte| *byte != 0) {
                return Ok(false);
            }
            at += length;
        }
        Ok(true)
    }

    /// Whether an intact batch begins at `from` or later.
    fn holds_batch(&mut self, from: u64, next: i64) -> Result<bool, Error> {
        for at in from..(self.size + 1).saturating_sub(HEADER as u64).max(from) {
            if let Ok(header) = Header::parse(self.bytes(at, HEADER)?)
                && header.base >= next
                && at + header.size as u64 <= self.size
                && batch::is_intact(self.bytes(at, header.size)?)
            {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
