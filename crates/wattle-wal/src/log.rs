//! The log, as sources and streams see it.

use std::path::Path;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use tokio::sync::oneshot;
use uuid::Uuid;
use wattle_folder::Folder;

use crate::covered::Covered;
use crate::disk::Disk;
use crate::error::Error;
use crate::number::{Position, Sequence};
use crate::options::Options;
use crate::reader::Reader;
use crate::recover::{self, Recovered};
use crate::state::{Segment, Shared};
use crate::writer::Writer;

/// A log in a folder that is this process's until it is dropped.
pub struct Log {
    pub(crate) shared: Arc<Shared>,
    id: Uuid,
    covered: Mutex<Covered>,
    writer: Option<JoinHandle<()>>,
}

/// An entry on its way to the disk.
#[must_use = "it is not accepted yet"]
pub struct Accepted(pub(crate) oneshot::Receiver<Result<Sequence, Error>>);

/// What a log has at a moment.
#[derive(Clone, Debug)]
pub struct Status {
    /// Bytes on disk, and those that wait for it.
    pub bytes: u64,
    /// The most that it may have.
    pub max_bytes: u64,
    /// Up to where entries are done with.
    pub covered: Position,
    /// Behind the last entry.
    pub end: Position,
    /// Why nothing is accepted: for now where the disk is full, else for good.
    pub refuses: Option<Error>,
}

impl Log {
    /// Opens or creates it, and reads what is there to its end: damage is found now and not on the way. `user` is who to name to another process that
    /// wants the folder: `stream orders`.
    ///
    /// # Errors
    /// [`Error::Options`], [`Error::InUse`], [`Error::Foreign`], [`Error::Damaged`]; those of the disk.
    pub fn open(path: &Path, user: &str, options: Options) -> Result<Log, Error> {
        options.check()?;
        Log::on(Arc::new(Folder::take(path, user)?), options)
    }

    pub(crate) fn on(disk: Arc<dyn Disk>, options: Options) -> Result<Log, Error> {
        options.check()?;
        let Recovered { id, segments, covered: (covered, position), file } = recover::recover(&*disk)?;
        let next = segments[segments.len() - 1].base;
        let path = disk.path().display().to_string();
        tracing::info!(path, %id, segments = segments.len(), covered = position, next, "opened the write-ahead log");
        let shared = Arc::new(Shared::new(disk, options, segments, position));
        let writer = Writer::new(shared.clone(), id, file, next);
        let thread = thread::Builder::new().name("wattle-wal".to_owned()).spawn(move || writer.run());
        let writer = Some(thread.map_err(Error::io("start the writer of", shared.disk.path()))?);
        Ok(Log { shared, id, covered: Mutex::new(covered), writer })
    }

    /// Tells logs apart. It belongs into the transactional id and into the name of the cursor: a position of another log never applies.
    #[must_use]
    pub fn id(&self) -> Uuid {
        self.id
    }

    /// Hands an entry to the log without waiting: for who answers "try again later" himself. Entries get numbers in the order of these calls.
    ///
    /// # Errors
    /// [`Error::Full`] and [`Error::Busy`], which pass; [`Error::TooLong`], [`Error::Broken`], [`Error::Closed`].
    pub fn try_append(&self, mut entry: Vec<u8>) -> Result<Accepted, Error> {
        self.admit(&mut entry)
    }

    /// Appends an entry: waits for room, then until it is accepted as the sync mode says. Dropped on the way, the entry may be in the log all the same.
    ///
    /// # Errors
    /// [`Error::DiskFull`], which passes; [`Error::TooLong`], [`Error::Broken`], [`Error::Closed`].
    pub async fn append(&self, mut entry: Vec<u8>) -> Result<Sequence, Error> {
        let accepted = loop {
            let mut room = pin!(self.shared.room.notified());
            // Before the look: room that comes right after it is not missed.
            room.as_mut().enable();
            match self.admit(&mut entry) {
                Err(Error::Full { .. } | Error::Busy) => room.await,
                other => break other?,
            }
        };
        accepted.durable().await
    }

    fn admit(&self, entry: &mut Vec<u8>) -> Result<Accepted, Error> {
        let limit = self.shared.options.longest();
        if entry.len() as u64 > limit {
            return Err(Error::TooLong { length: entry.len(), limit });
        }
        self.shared.lock().admit(entry, &self.shared).map(Accepted)
    }

    /// Reads from `position` on; without one, from where entries are not done with. A position that was committed with the results wins, since it is exact.
    ///
    /// # Errors
    /// [`Error::OutOfRange`]; those of the disk.
    pub fn reader(&self, position: Option<Position>) -> Result<Reader, Error> {
        Reader::open(self.shared.clone(), position)
    }

    /// Everything before `position` is done with: committed, or confirmed by the sink. Segments that are, are deleted. A position that is not past
    /// the last one does nothing.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] where no reader has come so far; those of the disk.
    pub fn cover(&self, position: Position) -> Result<(), Error> {
        let disk = &*self.shared.disk;
        let mut covered = self.covered.lock().unwrap_or_else(PoisonError::into_inner);
        let state = self.shared.lock();
        let (first, end) = (state.first(), Position(state.served));
        if position > end {
            return Err(Error::OutOfRange { path: disk.path().to_owned(), asked: position, first, end });
        }
        if position.0 <= state.covered {
            return Ok(());
        }
        drop(state);
        covered.write(disk, position.0)?;
        self.shared.lock().covered = position.0;
        while let Some(segment) = self.next_needless() {
            recover::remove(disk, segment.base).inspect_err(|error| {
                if matches!(error, Error::Broken { .. }) {
                    self.shared.break_off(error);
                }
            })?;
            let mut state = self.shared.lock();
            state.segments.pop_front();
            state.used -= segment.bytes();
            drop(state);
            self.shared.room.notify_waiters();
        }
        Ok(())
    }

    fn next_needless(&self) -> Option<Segment> {
        let state = self.shared.lock();
        let first = state.segments[0];
        first.is_needless(state.covered).then_some(first)
    }

    /// What it has now.
    #[must_use]
    pub fn status(&self) -> Status {
        let state = self.shared.lock();
        Status {
            bytes: state.used,
            max_bytes: self.shared.options.max_bytes,
            covered: Position(state.covered),
            end: state.end(),
            refuses: state.broken.clone().or_else(|| state.disk_full.clone()),
        }
    }

    /// Accepts nothing more, and returns when what was handed in is on the disk; it waits for that without a runtime. Dropping the log does the same, and only
    /// logs what goes wrong.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn close(mut self) -> Result<(), Error> {
        self.finish()
    }

    fn finish(&mut self) -> Result<(), Error> {
        let Some(writer) = self.writer.take() else { return Ok(()) };
        self.shared.lock().closing = true;
        self.shared.work.notify_all();
        self.shared.readable.notify_all();
        self.shared.room.notify_waiters();
        // A panic of it has broken the log.
        writer.join().ok();
        if let Some(error) = self.shared.lock().broken.clone() {
            return Err(error);
        }
        self.covered.lock().unwrap_or_else(PoisonError::into_inner).sync(&*self.shared.disk)
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        if let Err(error) = self.finish() {
            tracing::error!("the write-ahead log was not closed cleanly: {error}");
        }
    }
}

impl Accepted {
    /// Waits until it is accepted.
    ///
    /// # Errors
    /// [`Error::DiskFull`], [`Error::Broken`].
    pub async fn durable(self) -> Result<Sequence, Error> {
        self.0.await.unwrap_or(Err(Error::Closed))
    }

    /// The same for a thread. Must not be called from within an asynchronous runtime, where it panics.
    ///
    /// # Errors
    /// [`Error::DiskFull`], [`Error::Broken`].
    pub fn wait(self) -> Result<Sequence, Error> {
        self.0.blocking_recv().unwrap_or(Err(Error::Closed))
    }
}
