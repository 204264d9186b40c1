//! A loopback proxy that can hold a client's requests back, one kind at a time.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// Kafka's number for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i16)]
pub(crate) enum Api {
    Produce = 0,
    EndTxn = 26,
    TxnOffsetCommit = 28,
}

/// Passes everything on, except what a [`Hold`] holds.
pub(crate) struct Proxy {
    address: String,
    holds: Arc<Holds>,
}

#[derive(Default)]
struct Holds {
    rules: Mutex<Vec<Rule>>,
    changed: Condvar,
}

struct Rule {
    id: usize,
    api: Api,
    text: String,
    once: bool,
    held: usize,
    passed: usize,
    released: bool,
}

impl Proxy {
    /// Listens on `front`, connects to `behind`.
    pub(crate) fn start(front: u16, behind: u16) -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", front))?;
        let holds = Arc::new(Holds::default());
        let shared = Arc::clone(&holds);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let holds = Arc::clone(&shared);
                thread::spawn(move || {
                    // A broker that is down closes the client's connection; that is what the client is to see.
                    if let Ok(broker) = TcpStream::connect(("127.0.0.1", behind)) {
                        relay(client, broker, &holds);
                    }
                });
            }
        });
        Ok(Proxy { address: format!("127.0.0.1:{front}"), holds })
    }

    /// Its address.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// From now on holds requests of this kind that contain `text`: a transactional id, a group, a topic.
    pub(crate) fn hold(&self, api: Api, text: &str) -> Hold {
        self.add(api, text, false)
    }

    /// Holds the first such request only.
    pub(crate) fn hold_one(&self, api: Api, text: &str) -> Hold {
        self.add(api, text, true)
    }

    fn add(&self, api: Api, text: &str, once: bool) -> Hold {
        let mut rules = self.holds.lock();
        let id = rules.iter().map(|rule| rule.id).max().map_or(0, |id| id + 1);
        rules.push(Rule { id, api, text: text.to_owned(), once, held: 0, passed: 0, released: false });
        Hold { id, holds: Arc::clone(&self.holds) }
    }
}

/// Requests that do not reach the broker until this is released or dropped.
pub(crate) struct Hold {
    id: usize,
    holds: Arc<Holds>,
}

impl Hold {
    /// Returns when a request is held: the fault has happened.
    pub(crate) fn wait_held(&self, patience: Duration) {
        self.holds.wait(self.id, patience, "a request to hold", |rule| rule.held > 0);
    }

    /// Lets the held requests go, and returns when they are on their way.
    pub(crate) fn release(&self) {
        self.holds.edit(self.id, |rule| rule.released = true);
        self.holds.wait(self.id, Duration::from_secs(10), "held requests to pass", |rule| rule.passed == rule.held);
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.holds.edit(self.id, |rule| rule.released = true);
    }
}

impl Holds {
    fn lock(&self) -> MutexGuard<'_, Vec<Rule>> {
        self.rules.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn edit(&self, id: usize, change: impl FnOnce(&mut Rule)) {
        if let Some(rule) = self.lock().iter_mut().find(|rule| rule.id == id) {
            change(rule);
        }
        self.changed.notify_all();
    }

    fn wait(&self, id: usize, patience: Duration, what: &str, holds: impl Fn(&Rule) -> bool) {
        let (rules, timeout) = self
            .changed
            .wait_timeout_while(self.lock(), patience, |rules| !rules.iter().any(|rule| rule.id == id && holds(rule)))
            .unwrap_or_else(PoisonError::into_inner);
        drop(rules);
        assert!(!timeout.timed_out(), "waited {patience:?} in vain for {what}");
    }

    /// Blocks the connection while a rule holds the request; says which rule it was.
    fn pass(&self, request: &[u8]) -> Option<usize> {
        let mut rules = self.lock();
        let rule = rules.iter_mut().find(|rule| rule.is_armed() && rule.fits(request))?;
        rule.held += 1;
        let id = rule.id;
        self.changed.notify_all();
        drop(
            self.changed
                .wait_while(rules, |rules| rules.iter().any(|rule| rule.id == id && !rule.released))
                .unwrap_or_else(PoisonError::into_inner),
        );
        Some(id)
    }
}

impl Rule {
    fn is_armed(&self) -> bool {
        !self.released && (self.held == 0 || !self.once)
    }

    fn fits(&self, request: &[u8]) -> bool {
        request.starts_with(&(self.api as i16).to_be_bytes())
            && request.windows(self.text.len()).any(|window| window == self.text.as_bytes())
    }
}

/// Client to broker by whole requests, broker to client as it comes. A client that dies does not take back what is held.
fn relay(mut client: TcpStream, mut broker: TcpStream, holds: &Holds) {
    let (Ok(mut answers), Ok(mut back)) = (broker.try_clone(), client.try_clone()) else { return };
    thread::spawn(move || {
        if io::copy(&mut answers, &mut back).is_ok() {
            drop(back.shutdown(Shutdown::Both)); // the client may have gone first
        }
    });
    while let Ok(request) = read_request(&mut client) {
        let rule = holds.pass(&request);
        let length = u32::try_from(request.len()).expect("it came with this length");
        let sent = broker.write_all(&length.to_be_bytes()).and_then(|()| broker.write_all(&request));
        if let Some(id) = rule {
            holds.edit(id, |rule| rule.passed += 1);
        }
        if sent.is_err() {
            break;
        }
    }
    drop(broker.shutdown(Shutdown::Write)); // the broker may have gone first
}

fn read_request(client: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut length = [0; 4];
    client.read_exact(&mut length)?;
    let mut request = vec![0; u32::from_be_bytes(length) as usize];
    client.read_exact(&mut request)?;
    Ok(request)
}
