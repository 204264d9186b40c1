//! Opens an input that is pushed to: its write-ahead log where it has one, then who pushes.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use wattle::{Error, Stop};
use wattle_wal::Log;

use super::mqtt::{self, BrokerPart, Subscriber};
use super::part::Part;
use super::push::{Ended, Intake, LogSource, Queue, QueueSource, open};
use super::{http, stdin};
use crate::http::Server;
use crate::spec::{Durability, Input};

/// Time for who waits to be answered at the end.
const GRACE: Duration = Duration::from_secs(5);

/// A source with who pushes to it.
pub(super) struct Pushed {
    /// Goes first: who waits is told then.
    pub(super) source: PushedSource,
    entrance: Entrance,
    part: Option<Arc<dyn Part>>,
}

/// Where records come in, from when they are taken on.
type Entrance = Arc<Mutex<Option<Entered>>>;

enum Entered {
    Http(Server),
    Mqtt(Subscriber),
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
            Input::Mqtt(input) => ("mqtt".to_owned(), input.receive_maximum.into()),
            _ => (input.type_name().to_owned(), 1),
        };
        let (ended, entrance) = (Ended::default(), Entrance::default());
        let broker = match input {
            Input::Mqtt(input) => Some(Arc::new(BrokerPart::new(input.broker()))),
            _ => None,
        };
        let part = broker.clone().map(|part| part as Arc<dyn Part>);
        let doors = |intake| doors(id, input, intake, ended.clone(), stop, &entrance, broker);
        let source = match durability {
            Some(durability) => {
                let log = open(id, durability)?;
                let mut source = LogSource::new(log.clone(), name, ended.clone())?;
                source.when_ready(doors(Intake::Log(Arc::downgrade(&log))));
                PushedSource::Logged(source, log)
            }
            None => {
                let queue = Queue::new(most);
                let source = QueueSource::new(queue.clone(), name, ended.clone(), stop.clone());
                doors(Intake::Queue(queue))()?;
                PushedSource::Once(source)
            }
        };
        Ok(Pushed { source, entrance, part })
    }

    /// What of it can be in trouble.
    pub(super) fn part(&self) -> Option<Arc<dyn Part>> {
        self.part.clone()
    }

    /// Takes nothing more, and answers who waits.
    pub(super) fn close(self) {
        let Pushed { source, entrance, part: _ } = self;
        drop(source);
        match entrance.lock().unwrap_or_else(PoisonError::into_inner).take() {
            Some(Entered::Http(server)) => server.stop(GRACE),
            Some(Entered::Mqtt(subscriber)) => subscriber.stop(GRACE),
            None => {}
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
    entrance: &Entrance,
    broker: Option<Arc<BrokerPart>>,
) -> Doors {
    let (id, stop, entrance) = (id.to_owned(), stop.clone(), entrance.clone());
    let enter = move |entered| *entrance.lock().unwrap_or_else(PoisonError::into_inner) = Some(entered);
    match (input, broker) {
        (Input::Http(input), _) => {
            let input = (**input).clone();
            Box::new(move || http::listen(&id, input, intake).map(|server| enter(Entered::Http(server))))
        }
        (Input::Mqtt(input), Some(broker)) => {
            let input = (**input).clone();
            let subscribe = move || mqtt::subscribe(&id, input, intake, ended, stop, broker);
            Box::new(move || subscribe().map(|subscriber| enter(Entered::Mqtt(subscriber))))
        }
        (Input::Stdin(input), _) => {
            let format = input.format;
            Box::new(move || stdin::start(&id, format, intake, ended, stop))
        }
        _ => unreachable!("other inputs are read"),
    }
}
