//! What appenders, the writer and readers share, under one lock that nobody holds while the disk works.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, oneshot};

use crate::disk::Disk;
use crate::error::Error;
use crate::frame;
use crate::number::{Position, Sequence};
use crate::options::Options;
use crate::segment::{EMPTY, HEADER, Head};

/// Bytes that may wait for the writer.
const QUEUE: u64 = 8 << 20;

pub(crate) struct Shared {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) options: Options,
    state: Mutex<State>,
    /// The writer waits for entries.
    pub(crate) work: Condvar,
    /// Readers wait for entries.
    pub(crate) readable: Condvar,
    /// Appenders wait for room.
    pub(crate) room: Notify,
}

pub(crate) struct State {
    pub(crate) queue: VecDeque<Pending>,
    /// How many of them wake the writer.
    pub(crate) wanted: usize,
    /// Entries and bytes that the writer has or that wait for it.
    pub(crate) pending: (u64, u64),
    /// Bytes on disk and pending.
    pub(crate) used: u64,
    /// In order; the last one is written to.
    pub(crate) segments: VecDeque<Segment>,
    /// Up to where entries are done with.
    pub(crate) covered: u64,
    /// Up to where entries were given to a reader, of this process or of one before.
    pub(crate) served: u64,
    /// Why the disk takes nothing at the moment.
    pub(crate) disk_full: Option<Error>,
    /// Why the log accepts nothing any more.
    pub(crate) broken: Option<Error>,
    pub(crate) closing: bool,
}

/// An entry that waits.
pub(crate) struct Pending {
    pub(crate) entry: Vec<u8>,
    pub(crate) tell: oneshot::Sender<Result<Sequence, Error>>,
}

/// A segment, as far as readers may read it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segment {
    pub(crate) base: u64,
    /// The number behind the last entry of all segments before.
    pub(crate) follows: u64,
    /// Where its readable frames end.
    pub(crate) end: u64,
    /// The number behind its last readable entry, or the one that it follows.
    pub(crate) last: u64,
    /// Where it is complete, the first number of the next one.
    pub(crate) following: Option<u64>,
}

impl Segment {
    /// One without entries.
    pub(crate) fn new(Head { base, follows, .. }: Head) -> Self {
        Segment { base, follows, end: HEADER, last: follows, following: None }
    }

    /// Whether it can be deleted.
    pub(crate) fn is_needless(&self, covered: u64) -> bool {
        self.following.is_some() && self.last <= covered
    }

    /// Its bytes on disk, with its seal.
    pub(crate) fn bytes(&self) -> u64 {
        self.end - HEADER + EMPTY
    }
}

impl Shared {
    pub(crate) fn new(disk: Arc<dyn Disk>, options: Options, segments: VecDeque<Segment>, covered: u64) -> Self {
        let (first, next) = (segments[0].follows, segments[segments.len() - 1].base);
        let state = State {
            queue: VecDeque::new(),
            wanted: 1,
            pending: (0, 0),
            used: segments.iter().map(Segment::bytes).sum(),
            segments,
            covered: covered.max(first),
            served: next,
            disk_full: None,
            broken: None,
            closing: false,
        };
        let (work, readable, room) = (Condvar::new(), Condvar::new(), Notify::new());
        Shared { disk, options, state: Mutex::new(state), work, readable, room }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Nothing more is accepted, for good. What waits is refused.
    pub(crate) fn break_off(&self, error: &Error) {
        let mut state = self.lock();
        let first = state.broken.is_none();
        let error = state.broken.get_or_insert_with(|| error.clone()).clone();
        let queue = std::mem::take(&mut state.queue);
        drop(state);
        if first {
            tracing::error!("{error}");
        }
        self.refuse(queue, &error);
        self.work.notify_all();
        self.readable.notify_all();
    }

    /// Tells the appenders of these entries that they are not accepted.
    pub(crate) fn refuse(&self, entries: impl IntoIterator<Item = Pending>, error: &Error) {
        for Pending { entry, tell } in entries {
            self.lock().forget(frame::size(entry.len()));
            // Who does not wait any more need not know.
            tell.send(Err(error.clone())).ok();
        }
        self.room.notify_waiters();
    }
}

impl State {
    /// Takes an entry into the queue, or says why not and leaves it.
    pub(crate) fn admit(
        &mut self,
        entry: &mut Vec<u8>,
        shared: &Shared,
    ) -> Result<oneshot::Receiver<Result<Sequence, Error>>, Error> {
        if let Some(error) = &self.broken {
            return Err(error.clone());
        }
        if self.closing {
            return Err(Error::Closed);
        }
        let size = frame::size(entry.len());
        let (entries, bytes) = self.pending;
        if entries > 0 && bytes + size > QUEUE {
            return Err(Error::Busy);
        }
        // Each pending entry may begin a segment. With nothing pending and everything covered there is always room: one segment is left, and the limit is two.
        if self.used + size + (entries + 1) * EMPTY > shared.options.max_bytes {
            return Err(Error::Full { path: shared.disk.path().to_owned(), max_bytes: shared.options.max_bytes });
        }
        self.used += size;
        self.pending = (entries + 1, bytes + size);
        let (tell, told) = oneshot::channel();
        self.queue.push_back(Pending { entry: std::mem::take(entry), tell });
        if self.queue.len() >= self.wanted {
            shared.work.notify_one();
        }
        Ok(told)
    }

    /// A pending entry of this size is not going to be on disk.
    fn forget(&mut self, size: u64) {
        self.used -= size;
        self.settle(1, size);
    }

    /// Entries are not pending any more.
    pub(crate) fn settle(&mut self, entries: u64, bytes: u64) {
        self.pending.0 -= entries;
        self.pending.1 -= bytes;
    }

    /// The place behind the last readable entry.
    pub(crate) fn end(&self) -> Position {
        Position(self.segments[self.segments.len() - 1].last)
    }

    /// The first position that can be read.
    pub(crate) fn first(&self) -> Position {
        Position(self.segments[0].follows)
    }

    /// Entries of this segment behind `at`, or the segment behind it.
    pub(crate) fn has_more(&self, base: u64, at: u64) -> bool {
        let segment = self.segments.iter().find(|segment| segment.base == base);
        segment.is_none_or(|segment| segment.end > at || segment.following.is_some())
    }
}
