//! A broker of our own, of any kind: started, killed, looked at.
//!
//! A kind is a module here and an entry of [`KINDS`]. What only one kind can do stays in its module; a promise that needs it says so
//! in its list.

mod embedded;
mod kafka;

use std::path::Path;
use std::sync::Arc;
use std::{fmt, io};

use super::cluster::Cluster;
use super::mode::Protocol;
use super::proxy::Proxy;
use super::watchdog::Watchdog;
pub(crate) use kafka::Kafka;

/// Every test runs on each of these, unless its list names one.
pub(crate) const KINDS: &[Kind] = &[kafka::KIND, embedded::KIND];

/// One kind of broker.
#[derive(Clone, Copy)]
pub(crate) struct Kind {
    pub(crate) name: &'static str,
    /// How many times as many transactions a second as on a Kafka.
    pub(crate) pace: usize,
    /// The group protocols that it speaks.
    pub(crate) protocols: &'static [Protocol],
    /// What it needs and this machine lacks.
    pub(crate) missing: fn() -> Option<&'static str>,
    /// Makes one in a folder of its own, not started yet; what it starts does not outlive the watchdog.
    new: fn(&Path, Arc<Watchdog>) -> io::Result<New>,
}

type New = Box<dyn Server>;

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// What every kind can do.
pub(crate) trait Server: Send + Sync {
    /// Where clients connect, the same for its whole life.
    fn address(&self) -> String;

    /// Ends it without a word; what it has confirmed is kept.
    fn kill(&self);

    /// Starts it, also after [`Server::kill`]; a running one is left as it is.
    fn start_again(&self);

    /// Where clients connect whose requests are to be held.
    fn proxy(&self) -> &Proxy;

    /// For what only a Kafka can do.
    fn as_kafka(&self) -> Option<&Kafka> {
        None
    }

    /// For what only the project's own broker can do.
    fn as_embedded(&self) -> Option<&wattle_broker::Broker> {
        None
    }
}

/// A broker, and the view of what it holds.
pub(crate) struct Broker {
    server: Box<dyn Server>,
    cluster: Cluster,
}

impl Broker {
    /// Starts one in `folder`.
    pub(crate) fn start(kind: Kind, folder: &Path, watchdog: Arc<Watchdog>) -> io::Result<Self> {
        let server = (kind.new)(folder, watchdog)?;
        let cluster = Cluster::new(server.address());
        let broker = Broker { server, cluster };
        broker.start_again();
        Ok(broker)
    }

    /// Its address.
    pub(crate) fn address(&self) -> String {
        self.cluster.address().to_owned()
    }

    /// What it holds.
    pub(crate) fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// `kill -9`, or what comes next to it.
    pub(crate) fn kill(&self) {
        self.server.kill();
    }

    /// Starts it after [`Broker::kill`], and returns when it works; does nothing while it runs.
    pub(crate) fn start_again(&self) {
        self.server.start_again();
        self.cluster.group("warm-up").wait_coordinator();
    }

    /// Where clients connect whose requests are to be held.
    pub(crate) fn proxy(&self) -> &Proxy {
        self.server.proxy()
    }

    /// What only a Kafka can do, if it is one.
    pub(crate) fn as_kafka(&self) -> Option<&Kafka> {
        self.server.as_kafka()
    }

    /// For promises whose list says that they are Kafka's.
    pub(crate) fn kafka(&self) -> &Kafka {
        self.as_kafka().expect("its promise is listed for Kafka only")
    }

    /// For promises whose list says that they are the embedded broker's: its hooks and its clock.
    pub(crate) fn embedded(&self) -> &wattle_broker::Broker {
        self.server.as_embedded().expect("its promise is listed for the embedded broker only")
    }
}
