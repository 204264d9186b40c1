//! Opens an input that is pushed to: its write-ahead log where it has one, then who pushes.

use std::sync::{Arc, Mutex, PoisonError};
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
    /// From when it takes records on.
    server: Arc<Mutex<Option<Server>>>,
}

pub(super) enum PushedSource {
    /// What it has read is nowhere else.
    Once(QueueSource),
    /// What it has read is in a log.
    Logged(LogSource, Arc<Log>),
}

impl Pushed {
    /// Opens it. One without a log takes records from then on; one with a log when its source has come to its position: a log that does not go
    /// with the position must not grow past it.
    pub(super) fn open(id: &str, input: &Input, durability: Option<&Durability>, stop: &Stop) -> Result<Self, Error> {
        let (name, most) = match input {
            Input::Http(input) => (input.path.clone(), input.max_waiting),
            _ => (input.type_name().to_owned(), 1),
        };
        let (ended, server) = (Ended::default(), Arc::default());
        let source = match durability {
            Some(durability) => {
                let log = open(id, durability)?;
                let mut source = LogSource::new(log.clone(), name, ended.clone())?;
                source.when_ready(doors(id, input, Intake::Log(Arc::downgrade(&log)), ended, stop, &server));
                PushedSource::Logged(source, log)
            }
            None => {
                let queue = Queue::new(most);
                let source = QueueSource::new(queue.clone(), name, ended.clone(), stop.clone());
                doors(id, input, Intake::Queue(queue), ended, stop, &server)()?;
                PushedSource::Once(source)
            }
        };
        Ok(Pushed { source, server })
    }

    /// Takes nothing more, and answers who waits.
    pub(super) fn close(self) {
        let Pushed { source, server } = self;
        drop(source);
        if let Some(server) = server.lock().unwrap_or_else(PoisonError::into_inner).take() {
            server.stop(GRACE);
        }
    }
}

/// Lets records in.
pub(super) type Doors = Box<dyn FnOnce() -> Result<(), Error> + Send>;

fn doors(
    id: &str,
    input: &Input,
    intake: Intake,
    ended: Ended,
    stop: &Stop,
    server: &Arc<Mutex<Option<Server>>>,
) -> Doors {
    let id = id.to_owned();
    match input {
        Input::Http(input) => {
            let (input, server) = ((**input).clone(), server.clone());
            Box::new(move || {
                *server.lock().unwrap_or_else(PoisonError::into_inner) = Some(http::listen(&id, input, intake)?);
                Ok(())
            })
        }
        Input::Stdin(input) => {
            let (format, stop) = (input.format, stop.clone());
            Box::new(move || stdin::start(&id, format, intake, ended, stop))
        }
        _ => unreachable!("other inputs are read"),
    }
}
