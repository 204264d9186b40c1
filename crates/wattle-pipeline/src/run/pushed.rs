//! Opens an input that is pushed to: its write-ahead log where it has one, then who pushes.

use std::sync::Arc;
use std::time::Duration;

use wattle::{Error, Stop};
use wattle_wal::Log;

use super::push::{Ended, Intake, LogSource, Queue, QueueSource, open};
use super::{http, stdin};
use crate::http::Server;
use crate::spec::{Durability, Input};

/// Time for requests in hand to be answered at the end.
const GRACE: Duration = Duration::from_secs(5);

/// A source with who pushes to it.
pub(super) struct Pushed {
    /// Goes first: who waits is told then.
    pub(super) source: PushedSource,
    server: Option<Server>,
}

pub(super) enum PushedSource {
    /// What it has read is nowhere else.
    Once(QueueSource),
    /// What it has read is in a log.
    Logged(LogSource, Arc<Log>),
}

impl Pushed {
    /// Opens it, and takes records from then on.
    pub(super) fn open(id: &str, input: &Input, durability: Option<&Durability>, stop: &Stop) -> Result<Self, Error> {
        let (name, most) = match input {
            Input::Http(input) => (input.path.clone(), input.max_waiting),
            _ => (input.type_name().to_owned(), 1),
        };
        let ended = Ended::default();
        let (source, intake) = match durability {
            Some(durability) => {
                let log = open(id, durability)?;
                let source = LogSource::new(log.clone(), name, ended.clone())?;
                let intake = Intake::Log(Arc::downgrade(&log));
                (PushedSource::Logged(source, log), intake)
            }
            None => {
                let queue = Queue::new(most);
                let source = QueueSource::new(queue.clone(), name, ended.clone(), stop.clone());
                (PushedSource::Once(source), Intake::Queue(queue))
            }
        };
        let server = match input {
            Input::Http(input) => Some(http::listen(id, (**input).clone(), intake)?),
            Input::Stdin(input) => {
                stdin::start(id, input.format, intake, ended, stop.clone())?;
                None
            }
            _ => unreachable!("other inputs are read"),
        };
        Ok(Pushed { source, server })
    }

    /// Takes nothing more, and answers who waits.
    pub(super) fn close(self) {
        let Pushed { source, server } = self;
        drop(source);
        if let Some(server) = server {
            server.stop(GRACE);
        }
    }
}
