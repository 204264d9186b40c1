//! The broker as its user sees it: built, started, killed, started again.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use kafka_protocol::messages::ApiKey;

use crate::api;
use crate::clock::Clock;
use crate::control::{Controls, On};
use crate::core::{Core, Settings};
use crate::error::Error;
use crate::folder::Folder;
use crate::housekeeping;
use crate::journal::Entry;
use crate::recovery::{Recovered, recover};
use crate::server::{Accepting, Address, Clients, Listen, Listener};
use crate::topic::TopicConfig;
use crate::types::Millis;

/// Connections have so long to finish what they are doing.
const STOP_WITHIN: Duration = Duration::from_secs(5);

/// How a [`Broker`] is to be.
#[derive(Clone, Debug)]
#[must_use = "it does nothing until it is started"]
pub struct Builder {
    listen: Vec<(String, Option<String>)>,
    folder: Option<PathBuf>,
    topics: BTreeMap<String, (i32, BTreeMap<String, String>)>,
    auto_create: Option<i32>,
    transaction_max_timeout: Duration,
    return_to_address: bool,
}

/// A running broker. Dropping it stops it.
#[derive(Debug)]
pub struct Broker {
    builder: Builder,
    controls: Arc<Controls>,
    clock: Arc<Clock>,
    running: Mutex<Option<Running>>,
    /// Of the last start; they stay over kill and restart.
    listening: Mutex<Vec<Listen>>,
}

#[derive(Debug)]
struct Running {
    core: Arc<Core>,
    clients: Arc<Clients>,
    accepting: Vec<Accepting>,
    house: thread::JoinHandle<()>,
    addresses: Vec<Address>,
    /// Held until everything else is over: it locks the folder.
    folder: Option<Arc<Folder>>,
}

impl Builder {
    /// Listens on `address`, `host:port`; port 0 is any free one. May be repeated; without it, `127.0.0.1:0`.
    pub fn listen(mut self, address: impl Into<String>) -> Self {
        self.listen.push((address.into(), None));
        self
    }

    /// Listens on `address` and tells the clients that come there to connect to `advertised`, `host:port`: for a listener behind a proxy or a port mapping.
    pub fn listen_advertised(mut self, address: impl Into<String>, advertised: impl Into<String>) -> Self {
        self.listen.push((address.into(), Some(advertised.into())));
        self
    }

    /// Keeps everything in this folder, which is created if it is missing; otherwise all is in memory. Accepted changes survive the end of the process, not that
    /// of the machine.
    pub fn folder(mut self, path: impl Into<PathBuf>) -> Self {
        self.folder = Some(path.into());
        self
    }

    /// A topic that is created at the start if it is missing.
    pub fn topic(self, name: impl Into<String>, partitions: i32) -> Self {
        self.topic_with(name, partitions, [("", ""); 0])
    }

    /// The same, with settings by Kafka's names.
    pub fn topic_with<K: Into<String>, V: Into<String>>(
        mut self,
        name: impl Into<String>,
        partitions: i32,
        settings: impl IntoIterator<Item = (K, V)>,
    ) -> Self {
        let settings = settings.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
        self.topics.insert(name.into(), (partitions, settings));
        self
    }

    /// Creates topics, with so many partitions, when a client asks for their metadata or produces to them; off by default.
    pub fn auto_create_topics(mut self, partitions: i32) -> Self {
        self.auto_create = Some(partitions);
        self
    }

    /// Listens where the folder's broker answered last, if that is still free; otherwise as it was told. Members of its groups are forgotten: those that
    /// are still there notice and join again, and nobody waits for the sessions of those that died with the broker.
    pub fn return_to_address(mut self) -> Self {
        self.return_to_address = true;
        self
    }

    /// The longest `transaction.timeout.ms` that a producer may ask for; 15 minutes by default.
    pub fn transaction_max_timeout(mut self, timeout: Duration) -> Self {
        self.transaction_max_timeout = timeout;
        self
    }

    /// Starts it: recovers the folder, creates the missing topics, listens.
    ///
    /// # Errors
    /// [`Error::Listen`], where an address is taken or no address; [`Error::InUse`], [`Error::Foreign`], [`Error::Corrupt`] and [`Error::Io`] about the folder;
    /// [`Error::Topic`] and [`Error::Setting`] about topics that cannot be.
    pub fn start(self) -> Result<Broker, Error> {
        let broker = Broker {
            listening: Mutex::new(self.listeners()?),
            builder: self,
            controls: Arc::default(),
            clock: Arc::default(),
            running: Mutex::new(None),
        };
        broker.restart()?;
        Ok(broker)
    }

    fn listeners(&self) -> Result<Vec<Listen>, Error> {
        let default = [("127.0.0.1:0".to_owned(), None)];
        let listen = if self.listen.is_empty() { &default[..] } else { &self.listen[..] };
        let parsed = listen.iter().map(|(address, advertised)| {
            let advertised = advertised.as_ref().map(|text| {
                Address::parse(text).ok_or_else(|| {
                    let source = std::io::Error::new(std::io::ErrorKind::InvalidInput, "not host:port");
                    Error::Listen { address: text.clone(), source }
                })
            });
            Ok(Listen { address: address.clone(), advertised: advertised.transpose()? })
        });
        parsed.collect()
    }

    /// Problems with topics are found before anything is opened.
    fn check_topics(&self) -> Result<(), Error> {
        for (name, (partitions, settings)) in &self.topics {
            let others = self.topics.keys().map(String::as_str);
            let checked = api::check_name(name, others).and_then(|()| api::check_partitions(*partitions));
            checked.map_err(|reason| Error::Topic { name: name.clone(), reason })?;
            TopicConfig::parse(settings)?;
        }
        let auto = self.auto_create.map_or(Ok(()), api::check_partitions);
        auto.map_err(|reason| Error::Topic { name: "(created when asked for)".into(), reason })
    }
}

impl Broker {
    /// Begins to say how the broker is to be.
    pub fn builder() -> Builder {
        Builder {
            listen: Vec::new(),
            folder: None,
            topics: BTreeMap::new(),
            auto_create: None,
            transaction_max_timeout: Duration::from_secs(15 * 60),
            return_to_address: false,
        }
    }

    /// Where the first listener answers: the clients' `bootstrap.servers`. Empty if the broker does not run.
    pub fn address(&self) -> String {
        self.addresses().into_iter().next().unwrap_or_default()
    }

    /// Where the listeners answer, in the order in which they were given; the advertised address where there is one.
    pub fn addresses(&self) -> Vec<String> {
        let running = self.running();
        running.iter().flat_map(|running| running.addresses.iter().map(ToString::to_string)).collect()
    }

    /// The cluster's id, which a folder keeps. Empty if the broker does not run.
    pub fn cluster_id(&self) -> String {
        self.core().map(|core| core.lock().cluster_name()).unwrap_or_default()
    }

    /// Open connections that have asked something. A client of librdkafka or Java has one to three of them; a port probe has none.
    pub fn clients(&self) -> usize {
        self.running().as_ref().map_or(0, |running| running.clients.count())
    }

    /// Waits until no client has been connected for `quiet`, or the broker ends: so a process can live until its last client leaves.
    pub fn wait_until_idle(&self, quiet: Duration) {
        let clients = self.running().as_ref().map(|running| running.clients.clone());
        if let Some(clients) = clients {
            clients.wait_until_idle(quiet);
        }
    }

    /// Why it answers nothing any more, though it was not stopped: a write to its folder failed. It has to be started again.
    pub fn failure(&self) -> Option<String> {
        self.core().and_then(|core| core.lock().broken.clone())
    }

    /// Moves the broker's clock forward. When this returns, sessions, transactions and retention that are over by then have ended.
    pub fn advance(&self, by: Duration) {
        self.clock.advance(by);
        if let Some(core) = self.core() {
            housekeeping::keep_house(&core, true);
            core.wake_all();
        }
    }

    /// Begins to set a hook for requests of a kind. Hooks stay over kill and restart.
    ///
    /// # Panics
    /// If the broker does not offer this kind.
    pub fn on(&self, key: ApiKey) -> On {
        On::new(self.controls.clone(), key)
    }

    /// Ends it as `kill -9` does: connections break, and what is not in the folder is gone. Without a folder, that is everything.
    pub fn kill(&self) {
        if let Some(running) = self.running().take() {
            tracing::debug!("killed");
            running.end(&self.controls);
        }
    }

    /// Ends it. Requests that are being handled are finished; those that wait are not answered.
    pub fn stop(&self) {
        if let Some(running) = self.running().take() {
            running.end(&self.controls);
            tracing::info!("the development broker has stopped");
        }
    }

    /// Starts it again, on the same addresses and folder; kills it first if it runs.
    ///
    /// # Errors
    /// As [`Builder::start`].
    pub fn restart(&self) -> Result<(), Error> {
        self.kill();
        let begun = Instant::now();
        self.builder.check_topics()?;
        let folder = self.builder.folder.as_deref().map(|path| Folder::open(path, "").map(Arc::new)).transpose()?;
        let mut listening = self.listening.lock().unwrap_or_else(PoisonError::into_inner);
        let former = folder.as_ref().map_or("", |folder| folder.former_address());
        let mut listeners = Vec::new();
        for (number, listen) in listening.iter().enumerate() {
            let wanted = number == 0 && self.builder.return_to_address && !former.is_empty();
            let again = Listen { address: former.to_owned(), advertised: None };
            let returned = wanted.then(|| Listener::bind(&again).ok()).flatten();
            listeners.push(returned.map_or_else(|| Listener::bind(listen), Ok)?);
        }
        for (listen, listener) in listening.iter_mut().zip(&listeners) {
            listen.address = listener.local().to_string();
        }
        drop(listening);
        let addresses: Vec<Address> = listeners.iter().map(Listener::address).collect();
        if let (Some(folder), Some(first)) = (&folder, addresses.first()) {
            folder.set_address(&first.to_string())?;
        }
        let (mut state, recovered) = recover(folder.clone(), self.clock.now())?;
        state.transactions.set_max_timeout(self.builder.transaction_max_timeout.as_millis() as Millis);
        for (name, (partitions, settings)) in &self.builder.topics {
            if !state.topics.contains_key(name) {
                state.create_topic(name, *partitions, settings.clone(), self.clock.now())?;
            }
        }
        // Clients that were connected to another address cannot come back: nobody has to wait for their sessions to end.
        let moved = !former.is_empty() && addresses.first().is_some_and(|first| first.to_string() != former);
        if moved || self.builder.return_to_address {
            for image in state.groups.forget_members(self.clock.now()) {
                state.journal(&Entry::Group(image))?;
            }
        }
        let settings = Settings { auto_create: self.builder.auto_create, waits: true };
        let core = Arc::new(Core::new(state, self.clock.clone(), settings));
        let clients = Clients::new();
        let accepting = listeners.into_iter().map(|one| one.accept(&core, &clients, &self.controls)).collect();
        let house = housekeeping::start(core.clone(), clients.clone());
        self.tell(&addresses, recovered, begun);
        *self.running() = Some(Running { core, clients, accepting, house, addresses, folder });
        Ok(())
    }

    fn tell(&self, addresses: &[Address], recovered: Recovered, begun: Instant) {
        let addresses = addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        let folder = self.builder.folder.as_ref().map_or("none (memory)".to_owned(), |path| path.display().to_string());
        let Recovered { topics, bytes, entries } = recovered;
        let millis = begun.elapsed().as_millis();
        tracing::info!(
            addresses,
            folder,
            topics,
            bytes,
            journal_entries = entries,
            millis,
            "the broker listens; for development only: one node, no replication, encryption or authentication"
        );
    }

    fn running(&self) -> MutexGuard<'_, Option<Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn core(&self) -> Option<Arc<Core>> {
        self.running().as_ref().map(|running| running.core.clone())
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Running {
    fn end(self, controls: &Controls) {
        self.core.stop();
        self.clients.stop();
        controls.wake_all();
        for accepting in self.accepting {
            accepting.join();
        }
        if !self.clients.wait_until_gone(STOP_WITHIN) {
            tracing::warn!("connections are still busy after {STOP_WITHIN:?}; they get no answer");
        }
        drop(self.house.join());
        drop(self.folder);
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpStream;

    use super::*;

    #[test]
    fn a_broken_broker_answers_nothing_more_and_closes_its_connections() {
        let broker = Broker::builder().start().expect("a broker");
        let mut stream = TcpStream::connect(broker.address()).expect("connected");
        stream.set_read_timeout(Some(STOP_WITHIN)).expect("a timeout");
        // ApiVersions 0.
        let request = [0, 0, 0, 10, 0, 18, 0, 0, 0, 0, 0, 7, 0xff, 0xff];
        stream.write_all(&request).expect("written");
        let mut size = [0; 4];
        stream.read_exact(&mut size).expect("answered");
        let mut answer = vec![0; u32::from_be_bytes(size) as usize];
        stream.read_exact(&mut answer).expect("answered");
        let core = broker.core().expect("it runs");
        let source = std::io::Error::other("no space");
        core.lock().break_down(&Error::Io { path: "journal".into(), what: "write it", source });
        assert_eq!(stream.read(&mut answer).expect("closed, not silent"), 0);
        let mut again = TcpStream::connect(broker.address()).expect("connected");
        again.set_read_timeout(Some(STOP_WITHIN)).expect("a timeout");
        again.write_all(&request).expect("written");
        assert_eq!(again.read(&mut answer).unwrap_or(0), 0);
    }
}
