//! A loopback proxy that can hold a client's requests back, delay them, or cut their connections, one kind at a time.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use super::wait::PATIENCE;

/// Kafka's number for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i16)]
pub(crate) enum Api {
    Produce = 0,
    Fetch = 1,
    EndTxn = 26,
    TxnOffsetCommit = 28,
}

/// What becomes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// It waits for the release.
    Held,
    /// It waits so long.
    Delayed(Duration),
    /// Its connection ends before it has reached the broker.
    Lost,
    /// It reaches the broker, and its connection ends before the answer.
    Unanswered,
}

/// Passes everything on, except what a [`Hold`] is for.
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
    fate: Fate,
    /// So many requests at most.
    limit: usize,
    held: usize,
    passed: usize,
    released: bool,
    discarded: bool,
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
        self.add(api, text, Fate::Held, usize::MAX)
    }

    /// Holds the first such request only.
    pub(crate) fn hold_one(&self, api: Api, text: &str) -> Hold {
        self.add(api, text, Fate::Held, 1)
    }

    /// Delays each of them so long.
    pub(crate) fn delay(&self, api: Api, text: &str, delay: Duration) -> Hold {
        self.add(api, text, Fate::Delayed(delay), usize::MAX)
    }

    /// Cuts the connections of the first `limit` of them: before the broker has them, or after it, before it has answered.
    pub(crate) fn cut(&self, api: Api, text: &str, arrives: bool, limit: usize) -> Hold {
        self.add(api, text, if arrives { Fate::Unanswered } else { Fate::Lost }, limit)
    }

    fn add(&self, api: Api, text: &str, fate: Fate, limit: usize) -> Hold {
        let mut rules = self.holds.lock();
        let id = rules.iter().map(|rule| rule.id).max().map_or(0, |id| id + 1);
        let text = text.to_owned();
        rules.push(Rule { id, api, text, fate, limit, held: 0, passed: 0, released: false, discarded: false });
        Hold { id, holds: Arc::clone(&self.holds) }
    }
}

/// What happens to requests until this is released or dropped; those that are held do not reach the broker before.
pub(crate) struct Hold {
    id: usize,
    holds: Arc<Holds>,
}

impl Hold {
    /// How many requests it has met.
    pub(crate) fn met(&self) -> usize {
        self.holds.lock().iter().find(|rule| rule.id == self.id).map_or(0, |rule| rule.held)
    }

    /// Returns when a request is held: the fault has happened.
    pub(crate) fn wait_held(&self, patience: Duration) {
        self.holds.wait(self.id, patience, "a request to hold", |rule| rule.held > 0);
    }

    /// Lets the held requests go, and returns when they are on their way.
    pub(crate) fn release(&self) {
        self.holds.edit(self.id, |rule| rule.released = true);
        self.holds.wait(self.id, PATIENCE, "held requests to pass", |rule| rule.passed == rule.held);
    }

    /// Their client is dead, and the held requests have died with it: they do not reach the broker.
    pub(crate) fn discard(&self) {
        self.holds.edit(self.id, |rule| rule.discarded = true);
        self.release();
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

    /// Blocks the connection while a rule holds the request; says which rule it was, and what is to become of the request now.
    fn pass(&self, request: &[u8]) -> Option<(usize, Fate)> {
        let mut rules = self.lock();
        let rule = rules.iter_mut().find(|rule| rule.is_armed() && rule.fits(request))?;
        rule.held += 1;
        let (id, fate) = (rule.id, rule.fate);
        self.changed.notify_all();
        let waits = |rules: &mut Vec<Rule>| rules.iter().any(|rule| rule.id == id && !rule.released);
        match fate {
            Fate::Held => {
                let rules = self.changed.wait_while(rules, waits).unwrap_or_else(PoisonError::into_inner);
                if rules.iter().any(|rule| rule.id == id && rule.discarded) {
                    return Some((id, Fate::Lost));
                }
            }
            Fate::Delayed(delay) => {
                drop(rules);
                thread::sleep(delay); // the fault is the time itself
            }
            Fate::Lost | Fate::Unanswered => {}
        }
        Some((id, fate))
    }
}

impl Rule {
    fn is_armed(&self) -> bool {
        !self.released && self.held < self.limit
    }

    fn fits(&self, request: &[u8]) -> bool {
        request.starts_with(&(self.api as i16).to_be_bytes())
            && (self.text.is_empty() || request.windows(self.text.len()).any(|window| window == self.text.as_bytes()))
    }
}

/// Client to broker by whole requests, broker to client as it comes. A client that dies does not take back what is held.
fn relay(mut client: TcpStream, mut broker: TcpStream, holds: &Holds) {
    let (Ok(mut answers), Ok(mut back)) = (broker.try_clone(), client.try_clone()) else { return };
    // Otherwise what is written in two parts waits for the other side's delayed acknowledgement, 40 ms.
    if broker.set_nodelay(true).and_then(|()| client.set_nodelay(true)).is_err() {
        return;
    }
    thread::spawn(move || {
        // However one side has ended, the other one is to see it; it may have gone first.
        drop(io::copy(&mut answers, &mut back));
        drop(back.shutdown(Shutdown::Both));
    });
    while let Ok(request) = read_request(&mut client) {
        let met = holds.pass(&request);
        let fate = met.map(|(_, fate)| fate);
        if matches!(fate, Some(Fate::Lost | Fate::Unanswered)) {
            drop(client.shutdown(Shutdown::Both)); // the client may have gone first
        }
        let length = u32::try_from(request.len()).expect("it came with this length");
        let sent = match fate {
            Some(Fate::Lost) => Ok(()),
            _ => broker.write_all(&length.to_be_bytes()).and_then(|()| broker.write_all(&request)),
        };
        if let Some((id, _)) = met {
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
