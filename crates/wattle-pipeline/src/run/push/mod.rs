//! Sources that records are pushed to: whoever pushes waits until a record is safe. With a write-ahead log that is when the log has it, and the stream reads from there
//! (`log`); without one when the output has confirmed it (`queue`).

mod envelope;
mod log;
mod queue;
mod watch;

use std::io;
use std::sync::{Arc, OnceLock, Weak};

pub(crate) use envelope::Envelope;
#[cfg(any(test, fuzzing))]
pub(crate) use envelope::unpack;
pub(crate) use log::{LogSource, open};
pub(crate) use queue::{Queue, QueueSource};
pub(crate) use watch::LogPart;
use wattle::{Error, Fill};
use wattle_wal::Log;

/// Set when nothing more will be pushed, with the reason where that is a failure.
pub(crate) type Ended = Arc<OnceLock<io::Result<()>>>;

/// Where pushed records go. It does not keep a log open: that is the stream's.
#[derive(Clone)]
pub(crate) enum Intake {
    Log(Weak<Log>),
    Queue(Queue),
}

/// Why records are not accepted.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// The log says why.
    Log(wattle_wal::Error),
    /// Too many wait already.
    Busy,
    /// The stream has ended, or ends.
    Stopped,
}

impl Intake {
    /// Returns when the records are safe, or at once where there is no room for them.
    pub(crate) async fn offer(&self, envelope: Envelope) -> Result<(), Refusal> {
        match self {
            Intake::Log(log) => {
                let accepted = {
                    let log = log.upgrade().ok_or(Refusal::Stopped)?;
                    log.try_append(envelope.into_bytes())?
                };
                accepted.durable().await?;
                Ok(())
            }
            Intake::Queue(queue) => queue.offer(envelope.into_bytes())?.await.map_err(|_| Refusal::Stopped),
        }
    }

    /// Returns when the records are safe; waits for room.
    pub(crate) async fn put(&self, entry: Vec<u8>) -> Result<(), Refusal> {
        match self {
            Intake::Log(log) => {
                let log = log.upgrade().ok_or(Refusal::Stopped)?;
                log.append(entry).await?;
                Ok(())
            }
            Intake::Queue(queue) => queue.offer(entry)?.await.map_err(|_| Refusal::Stopped),
        }
    }
}

/// What a source says when everything before its end is read.
fn end(ended: &io::Result<()>, name: &str) -> Result<Fill, Error> {
    match ended {
        Ok(()) => Ok(Fill::End),
        Err(error) => {
            let source = io::Error::new(error.kind(), error.to_string());
            Err(Error::Io { what: format!("read {name}"), source })
        }
    }
}

impl From<wattle_wal::Error> for Refusal {
    fn from(error: wattle_wal::Error) -> Self {
        match error {
            wattle_wal::Error::Closed => Refusal::Stopped,
            error => Refusal::Log(error),
        }
    }
}
