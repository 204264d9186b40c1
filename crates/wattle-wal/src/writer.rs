//! The thread that writes: it takes what waits, writes it in one piece, syncs it as the mode says, and tells the appenders.

use std::collections::VecDeque;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use uuid::Uuid;

use crate::disk::DiskFile;
use crate::error::Error;
use crate::frame;
use crate::number::Sequence;
use crate::options::SyncMode;
use crate::segment::{self, EMPTY, HEADER, Head, NUMBERS};
use crate::state::{Pending, Segment, Shared};

/// What an appender is told where the thread ended without a word.
const PANICKED: &str = "its writer has panicked";
/// The most that a sync waits for company.
const LONGEST_PATIENCE: Duration = Duration::from_millis(1);

pub(crate) struct Writer {
    shared: Arc<Shared>,
    id: Uuid,
    /// The segment that is written to.
    file: Box<dyn DiskFile>,
    base: u64,
    /// Where its frames end, and up to where they are on the disk.
    end: u64,
    durable: u64,
    /// The next entry's number.
    next: u64,
    /// Whether it has its seal already, because its successor could not be created.
    is_sealed: bool,
    /// Since when something is not synced.
    unsynced: Option<Instant>,
    /// With group commit: entries of the last sync, and how long the next one waits for as many. The appenders that were told come back in a moment; those that
    /// come a little late would have a sync of their own, and all would share half as much.
    company: usize,
    patience: Instant,
    buffer: Vec<u8>,
}

/// What the writer does next.
enum Work {
    Accept(VecDeque<Pending>),
    Sync,
    Close,
}

/// Appenders would wait for ever for a writer that is gone.
struct Watch(Arc<Shared>);

impl Drop for Watch {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let path = self.0.disk.path().to_owned();
            self.0.break_off(&Error::Broken { path, reason: PANICKED.into() });
        }
    }
}

impl Writer {
    /// Writes to a new segment that begins with `base`.
    pub(crate) fn new(shared: Arc<Shared>, id: Uuid, file: Box<dyn DiskFile>, base: u64) -> Self {
        let (end, durable, next) = (HEADER, HEADER, base);
        let (unsynced, company, patience) = (None, 0, Instant::now());
        let (is_sealed, buffer) = (false, Vec::new());
        Writer { shared, id, file, base, end, durable, next, is_sealed, unsynced, company, patience, buffer }
    }

    /// Until the log is closed or broken.
    pub(crate) fn run(mut self) {
        let shared = self.shared.clone();
        let _watch = Watch(shared.clone());
        while shared.lock().broken.is_none() {
            match self.take() {
                Work::Accept(entries) => self.accept(entries),
                Work::Sync => self.sync().unwrap_or_else(|error| shared.break_off(&error)),
                Work::Close => {
                    let closed = if self.is_sealed { Ok(()) } else { self.seal() };
                    return closed.unwrap_or_else(|error| shared.break_off(&error));
                }
            }
        }
    }

    fn take(&self) -> Work {
        let mut state = self.shared.lock();
        loop {
            let now = Instant::now();
            let sync_due = match (self.shared.options.sync, self.unsynced) {
                (SyncMode::Periodic(interval), Some(since)) => Some(since + interval),
                _ => None,
            };
            if sync_due.is_some_and(|due| due <= now) {
                return Work::Sync;
            }
            let lingers = state.queue.len() < self.company && now < self.patience && !state.closing;
            if !state.queue.is_empty() && !lingers {
                let take = if self.shared.options.sync == SyncMode::PerEntry { 1 } else { state.queue.len() };
                return Work::Accept(state.queue.drain(..take).collect());
            }
            if state.closing {
                return Work::Close;
            }
            state.wanted = if lingers { self.company } else { 1 };
            let work = &self.shared.work;
            state = match if lingers { Some(self.patience) } else { sync_due } {
                Some(due) => {
                    let waited = work.wait_timeout(state, due.saturating_duration_since(now));
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
                None => work.wait(state).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }

    /// Writes entries and tells their appenders. A full disk refuses them, and the log goes on; after any other failure it does not.
    fn accept(&mut self, mut entries: VecDeque<Pending>) {
        while let Some(first) = entries.front() {
            let written = self.make_room(first.entry.len()).and_then(|()| self.write(&entries));
            match written {
                Ok(count) => self.tell(entries.drain(..count)),
                Err(error) => {
                    let is_full = matches!(error, Error::DiskFull { .. });
                    if is_full && self.shared.lock().disk_full.replace(error.clone()).is_none() {
                        tracing::warn!("{error}");
                    }
                    if !is_full {
                        // First of all: who is told must find it so.
                        self.shared.break_off(&error);
                    }
                    self.shared.refuse(entries, &error);
                    return;
                }
            }
        }
    }

    /// As many as fit into the segment, and at least one; returns how many.
    fn write(&mut self, entries: &VecDeque<Pending>) -> Result<usize, Error> {
        self.buffer.clear();
        let mut count = 0;
        for Pending { entry, .. } in entries {
            if !self.fits(self.buffer.len() as u64, count, entry.len()) {
                break;
            }
            frame::put_entry(&mut self.buffer, self.next + count, self.durable, entry);
            count += 1;
        }
        if let Err(error) = self.file.write_at(&self.buffer, self.end) {
            return Err(self.not_written(error));
        }
        self.end += self.buffer.len() as u64;
        self.next += count;
        match self.shared.options.sync {
            SyncMode::PerEntry => self.sync()?,
            SyncMode::GroupCommit => {
                let began = Instant::now();
                self.sync()?;
                self.company = count as usize;
                self.patience = Instant::now() + (began.elapsed() / 8).min(LONGEST_PATIENCE);
            }
            SyncMode::Periodic(_) => {
                self.unsynced.get_or_insert_with(Instant::now);
            }
        }
        Ok(count as usize)
    }

    /// Part of it may be there, and is taken away for good: the numbers are used again, so nobody may ever find it.
    fn not_written(&self, error: std::io::Error) -> Error {
        let (folder, name) = (self.shared.disk.path(), segment::name(self.base));
        let error = segment::not_written(folder, &name)(error);
        match segment::cut(folder, &name, &*self.file, self.end) {
            Ok(()) => error,
            Err(broken) => broken,
        }
    }

    /// The entries are where a start finds them: readers see them, and their appenders are told.
    fn tell(&self, entries: impl ExactSizeIterator<Item = Pending>) {
        let count = entries.len() as u64;
        let mut state = self.shared.lock();
        let last = state.segments.len() - 1;
        let segment = &mut state.segments[last];
        let bytes = self.end - segment.end;
        (segment.end, segment.last) = (self.end, self.next);
        state.settle(count, bytes);
        if state.disk_full.take().is_some() {
            tracing::info!("the disk of the write-ahead log {} takes entries again", self.shared.disk.path().display());
        }
        drop(state);
        self.shared.readable.notify_all();
        self.shared.room.notify_waiters();
        for (number, Pending { tell, .. }) in (self.next - count..).zip(entries) {
            // Who does not wait any more need not know.
            tell.send(Ok(Sequence(number))).ok();
        }
    }

    fn sync(&mut self) -> Result<(), Error> {
        let name = segment::name(self.base);
        self.file.sync().map_err(segment::not_synced(self.shared.disk.path(), &name))?;
        (self.durable, self.unsynced) = (self.end, None);
        Ok(())
    }

    fn fits(&self, buffered: u64, count: u64, entry: usize) -> bool {
        let size = self.end + buffered + frame::size(entry) + frame::HEADER as u64;
        size <= self.shared.options.segment_bytes && self.next - self.base + count < NUMBERS
    }

    /// Goes on in a new segment where this one is full.
    fn make_room(&mut self, entry: usize) -> Result<(), Error> {
        if !self.is_sealed {
            if self.fits(0, 0, entry) {
                return Ok(());
            }
            self.seal()?;
            self.is_sealed = true;
        }
        let head = Head { base: self.next, follows: self.next, id: self.id };
        self.file = segment::create(&*self.shared.disk, head)?;
        (self.base, self.end, self.durable, self.is_sealed) = (self.next, HEADER, HEADER, false);
        let mut state = self.shared.lock();
        let last = state.segments.len() - 1;
        state.segments[last].following = Some(self.base);
        state.segments.push_back(Segment::new(head));
        state.used += EMPTY;
        drop(state);
        self.shared.readable.notify_all();
        Ok(())
    }

    /// Completes the segment, for good: only the last segment of a log can be torn.
    fn seal(&mut self) -> Result<(), Error> {
        let seal = frame::seal(self.next, self.durable);
        if let Err(error) = self.file.write_at(&seal, self.end) {
            return Err(self.not_written(error));
        }
        self.sync()
    }
}
