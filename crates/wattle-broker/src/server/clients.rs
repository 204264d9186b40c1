//! Who is connected, and the end of everybody.

use std::collections::HashMap;
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// All open connections of a running broker.
#[derive(Debug)]
pub(crate) struct Clients {
    open: Mutex<Open>,
    changed: Condvar,
}

#[derive(Debug)]
struct Open {
    next: u64,
    connections: HashMap<u64, Connection>,
    /// When the last client left, or the broker started.
    idle_since: Instant,
    stopping: bool,
}

#[derive(Debug)]
struct Connection {
    stream: TcpStream,
    /// A connection that never asked anything is a port probe, not a client.
    asked: bool,
}

/// One connection in the list; leaves it when dropped.
#[derive(Debug)]
pub(crate) struct Entry {
    clients: Arc<Clients>,
    number: u64,
}

impl Clients {
    pub(crate) fn new() -> Arc<Self> {
        let open = Open { next: 0, connections: HashMap::new(), idle_since: Instant::now(), stopping: false };
        Arc::new(Self { open: Mutex::new(open), changed: Condvar::new() })
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a connection, unless the broker stops. The clone of its stream is what ends it.
    pub(crate) fn enter(self: &Arc<Self>, stream: TcpStream) -> Option<Entry> {
        let mut open = self.lock();
        if open.stopping {
            return None;
        }
        let number = open.next;
        open.next += 1;
        open.connections.insert(number, Connection { stream, asked: false });
        Some(Entry { clients: self.clone(), number })
    }

    /// Connections that have asked something.
    pub(crate) fn count(&self) -> usize {
        self.lock().asking()
    }

    /// Waits until there has been no client for this long, or the broker stops.
    pub(crate) fn wait_until_idle(&self, quiet: Duration) {
        let mut open = self.lock();
        while !open.stopping {
            open = if open.asking() > 0 {
                self.changed.wait(open).unwrap_or_else(PoisonError::into_inner)
            } else {
                let left = quiet.saturating_sub(open.idle_since.elapsed());
                if left.is_zero() {
                    return;
                }
                self.changed.wait_timeout(open, left).unwrap_or_else(PoisonError::into_inner).0
            };
        }
    }

    /// Sleeps, unless the broker stops. Returns false if it does.
    pub(crate) fn sleep(&self, time: Duration) -> bool {
        let until = Instant::now() + time;
        let mut open = self.lock();
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if open.stopping || left.is_zero() {
                return !open.stopping;
            }
            open = self.changed.wait_timeout(open, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Ends all connections. Threads that handle a request notice when they answer.
    pub(crate) fn disconnect_all(&self) {
        for connection in self.lock().connections.values() {
            // Fails only if the client has left already.
            connection.stream.shutdown(Shutdown::Both).ok();
        }
    }

    /// Lets nobody in any more, ends what waits here, and all connections.
    pub(crate) fn stop(&self) {
        self.lock().stopping = true;
        self.changed.notify_all();
        self.disconnect_all();
    }

    /// Waits until the last connection's thread is done. Returns false if some are not within `at_most`.
    pub(crate) fn wait_until_gone(&self, at_most: Duration) -> bool {
        let until = Instant::now() + at_most;
        let mut open = self.lock();
        while !open.connections.is_empty() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            open = self.changed.wait_timeout(open, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }
}

impl Open {
    fn asking(&self) -> usize {
        self.connections.values().filter(|connection| connection.asked).count()
    }
}

impl Entry {
    /// This connection has asked something.
    pub(crate) fn asks(&self) {
        if let Some(connection) = self.clients.lock().connections.get_mut(&self.number) {
            connection.asked = true;
        }
        self.clients.changed.notify_all();
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        let mut open = self.clients.lock();
        let left = open.connections.remove(&self.number);
        if left.is_some_and(|connection| connection.asked) && open.asking() == 0 {
            open.idle_since = Instant::now();
        }
        drop(open);
        self.clients.changed.notify_all();
    }
}
