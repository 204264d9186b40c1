//! Sources that records are pushed to: whoever pushes waits until a record is safe. With a write-ahead log that is when the log has it, and the stream reads from there
//! (`log`); without one when the output has confirmed it (`queue`).

mod envelope;
mod log;
mod queue;
mod watch;

use std::io;
use std::pin::Pin;
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
pub(crate) type Ended = Arc<OnceLock<Result<(), Failure>>>;

/// Why nothing more will be pushed.
#[derive(Debug)]
pub(crate) enum Failure {
    Io(io::Error),
    /// Who pushes and the stream do not agree, until somebody changes something.
    Refused(String),
    /// Another process has taken over who pushes.
    Taken(String),
}

/// Ends when records are safe, or with why they are not.
pub(crate) type Safe = Pin<Box<dyn Future<Output = Result<(), Refusal>> + Send>>;

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
        self.hand_in(envelope.into_bytes())?.await
    }

    /// Takes records in, in the order of these calls, where there is room for them; they are safe later. Dropped before, they may be left out.
    pub(crate) fn hand_in(&self, entry: Vec<u8>) -> Result<Safe, Refusal> {
        Ok(match self {
            Intake::Log(log) => {
                let accepted = log.upgrade().ok_or(Refusal::Stopped)?.try_append(entry)?;
                Box::pin(async move { Ok(accepted.durable().await.map(drop)?) })
            }
            Intake::Queue(queue) => {
                let told = queue.offer(entry)?;
                Box::pin(async move { told.await.map_err(|_| Refusal::Stopped) })
            }
        })
    }

    /// Returns when the records are safe; waits for room.
    pub(crate) async fn put(&self, entry: Vec<u8>) -> Result<(), Refusal> {
        match self {
            Intake::Log(log) => {
                let log = log.upgrade().ok_or(Refusal::Stopped)?;
                log.append(entry).await?;
                Ok(())
            }
            Intake::Queue(_) => self.hand_in(entry)?.await,
        }
    }
}

/// What a source says when everything before its end is read.
fn end(ended: &Result<(), Failure>, name: &str) -> Result<Fill, Error> {
    Err(match ended {
        Ok(()) => return Ok(Fill::End),
        Err(Failure::Io(error)) => {
            let source = io::Error::new(error.kind(), error.to_string());
            Error::Io { what: format!("read {name}"), source }
        }
        Err(Failure::Refused(text)) => Error::SourceRefused { text: text.clone() },
        Err(Failure::Taken(text)) => Error::SourceTaken { text: text.clone() },
    })
}

impl From<wattle_wal::Error> for Refusal {
    fn from(error: wattle_wal::Error) -> Self {
        match error {
            wattle_wal::Error::Closed => Refusal::Stopped,
            error => Refusal::Log(error),
        }
    }
}
