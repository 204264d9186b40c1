//! Reads the log from a position on: what a process before has left first, then what comes.

use std::sync::Arc;
use std::time::Duration;

use crate::error::Error;
use crate::number::{Position, Sequence};
use crate::scan::{Found, Scan};
use crate::segment::{self, HEADER};
use crate::state::Shared;

/// Gives entries in order, a window of the files at a time. It sees an entry from the moment when its appender may be told.
pub struct Reader {
    shared: Arc<Shared>,
    position: u64,
    base: u64,
    scan: Scan,
    at: u64,
    /// Up to where the segment can be read for sure.
    end: u64,
}

/// An entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// Its number.
    pub sequence: Sequence,
    /// What was appended.
    pub bytes: &'a [u8],
}

impl Reader {
    pub(crate) fn open(shared: Arc<Shared>, position: Option<Position>) -> Result<Self, Error> {
        let state = shared.lock();
        let position = position.unwrap_or(Position(state.covered));
        let (first, end) = (state.first(), Position(state.served));
        if position < first || position > end {
            return Err(Error::OutOfRange { path: shared.disk.path().to_owned(), asked: position, first, end });
        }
        let behind = state.segments.partition_point(|segment| segment.base <= position.0);
        let base = state.segments[behind.saturating_sub(1)].base;
        drop(state);
        let scan = open(&shared, base)?;
        Ok(Reader { shared, position: position.0, base, scan, at: HEADER, end: HEADER })
    }

    /// The next entry; `None` where there is none right now.
    ///
    /// # Errors
    /// [`Error::Damaged`]; the error of a log that is broken, once everything before is read: no stream waits for it in vain.
    pub fn read(&mut self) -> Result<Option<Entry<'_>>, Error> {
        let sequence = loop {
            if self.at == self.end && !self.go_on()? {
                return Ok(None);
            }
            match self.scan.frame(self.at, self.end)? {
                Found::Entry { sequence, size } => {
                    self.at += size;
                    if sequence >= self.position {
                        break sequence;
                    }
                }
                Found::Bad(reason) => return Err(Error::damaged(&self.scan.path, self.at, reason)),
                Found::Seal { .. } | Found::End => {
                    return Err(Error::damaged(&self.scan.path, self.at, "an entry that was there is gone"));
                }
            }
        };
        self.position = sequence + 1;
        Ok(Some(Entry { sequence: Sequence(sequence), bytes: self.scan.entry() }))
    }

    /// Behind the entry that was read last.
    #[must_use]
    pub fn position(&self) -> Position {
        Position(self.position)
    }

    /// Returns when there may be an entry to read, or after this time.
    pub fn wait(&self, time: Duration) {
        let state = self.shared.lock();
        let nothing_new = |state: &mut crate::state::State| {
            !state.has_more(self.base, self.at) && state.broken.is_none() && !state.closing
        };
        // A panic under the lock changes nothing here: the next read tells.
        drop(self.shared.readable.wait_timeout_while(state, time, nothing_new));
    }

    /// Sees what has come since, here or in the next segment; false where there is nothing.
    fn go_on(&mut self) -> Result<bool, Error> {
        loop {
            let mut state = self.shared.lock();
            let Some(segment) = state.segments.iter().find(|segment| segment.base == self.base).copied() else {
                // It was covered and deleted, which is all right if everything in it was read.
                let (asked, first, end) = (self.position(), state.first(), Position(state.served));
                if asked < first {
                    return Err(Error::OutOfRange { path: self.shared.disk.path().to_owned(), asked, first, end });
                }
                let following = state.segments[0].base;
                drop(state);
                self.go_to(following)?;
                continue;
            };
            if segment.end > self.at {
                state.served = state.served.max(segment.last);
                self.end = segment.end;
                return Ok(true);
            }
            let Some(following) = segment.following else {
                return state.broken.clone().map_or(Ok(false), Err);
            };
            drop(state);
            self.go_to(following)?;
        }
    }

    fn go_to(&mut self, base: u64) -> Result<(), Error> {
        self.scan = open(&self.shared, base)?;
        (self.base, self.at, self.end) = (base, HEADER, HEADER);
        Ok(())
    }
}

fn open(shared: &Shared, base: u64) -> Result<Scan, Error> {
    let name = segment::name(base);
    let path = shared.disk.path().join(&name);
    let file = shared.disk.open(&name).map_err(Error::io("open", &path))?;
    Ok(Scan::new(path, file, base))
}
