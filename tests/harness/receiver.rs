//! An HTTP server that keeps what it gets, and can be away, busy or dead when it should be; and a client's question.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::wait::{PATIENCE, wait_until};

/// Listens while it is up; what it got stays.
pub(crate) struct Receiver {
    port: u16,
    shared: Arc<Shared>,
    listening: Option<(Arc<AtomicBool>, JoinHandle<()>)>,
}

/// A request that was answered, or held.
#[derive(Clone, Debug)]
pub(crate) struct Got {
    pub(crate) key: String,
    pub(crate) body: String,
}

type Answer = dyn Fn(&Got) -> u16 + Send + Sync;

struct Shared {
    answer: Box<Answer>,
    got: Mutex<Vec<Got>>,
    connections: Mutex<Vec<TcpStream>>,
    /// From this many requests on none is answered.
    hold_from: AtomicU64,
}

impl Receiver {
    /// Listens on a free port and answers each request with this status.
    pub(crate) fn start(answer: impl Fn(&Got) -> u16 + Send + Sync + 'static) -> Self {
        let [port] = super::ports::free_ports().expect("a free port");
        let shared = Shared {
            answer: Box::new(answer),
            got: Mutex::default(),
            connections: Mutex::default(),
            hold_from: AtomicU64::new(u64::MAX),
        };
        let mut receiver = Receiver { port, shared: Arc::new(shared), listening: None };
        receiver.up();
        receiver
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}/in", self.port)
    }

    /// Listens again.
    pub(crate) fn up(&mut self) {
        let listener = TcpListener::bind(("127.0.0.1", self.port)).expect("the port is free");
        let (shared, down) = (self.shared.clone(), Arc::new(AtomicBool::new(false)));
        let stopped = down.clone();
        let thread = thread::spawn(move || {
            for stream in listener.incoming() {
                if stopped.load(Ordering::Acquire) {
                    return;
                }
                let Ok(stream) = stream else { continue };
                lock(&shared.connections).push(stream.try_clone().expect("a descriptor"));
                let shared = shared.clone();
                thread::spawn(move || shared.serve(stream));
            }
        });
        self.listening = Some((down, thread));
    }

    /// Ends all connections; nobody listens any more.
    pub(crate) fn down(&mut self) {
        let Some((down, thread)) = self.listening.take() else { return };
        down.store(true, Ordering::Release);
        drop(TcpStream::connect(("127.0.0.1", self.port)));
        thread.join().expect("it accepts until it is told");
        self.cut();
    }

    /// Requests behind the next `more` are kept, and not answered, until [`Receiver::cut`].
    pub(crate) fn wait_held(&self, more: usize) {
        let from = self.got().len() + more;
        self.shared.hold_from.store(from as u64, Ordering::Release);
        wait_until("a request is held", PATIENCE, || self.got().len() > from);
    }

    /// Ends all connections, with the requests that are held.
    pub(crate) fn cut(&self) {
        self.shared.hold_from.store(u64::MAX, Ordering::Release);
        for stream in lock(&self.shared.connections).drain(..) {
            drop(stream.shutdown(std::net::Shutdown::Both));
        }
    }

    /// Everything so far, in the order of arrival.
    pub(crate) fn got(&self) -> MutexGuard<'_, Vec<Got>> {
        lock(&self.shared.got)
    }

    /// The keys with which each body came, one for each time.
    pub(crate) fn keys(&self) -> BTreeMap<String, Vec<String>> {
        let mut keys: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for Got { key, body } in self.got().iter() {
            keys.entry(body.clone()).or_default().push(key.clone());
        }
        keys
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.down();
    }
}

impl Shared {
    fn serve(&self, stream: TcpStream) {
        let mut reader = BufReader::new(stream.try_clone().expect("a descriptor"));
        let mut writer = stream;
        while let Some(got) = request(&mut reader) {
            let status = (self.answer)(&got);
            let count = {
                let mut all = lock(&self.got);
                all.push(got);
                all.len() as u64
            };
            if count > self.hold_from.load(Ordering::Acquire) {
                // Nothing comes before the end of the connection.
                drop(reader.read(&mut [0]));
                return;
            }
            // In one write: a part that waits for the confirmation of another costs 40 ms.
            let answer = format!("HTTP/1.1 {status} it\r\nContent-Length: 2\r\n\r\nok");
            if writer.write_all(answer.as_bytes()).is_err() {
                return;
            }
        }
    }
}

fn request(reader: &mut impl BufRead) -> Option<Got> {
    let (mut key, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let Some((name, value)) = line.trim_end().split_once(": ") else {
            if line.trim_end().is_empty() {
                break;
            }
            continue;
        };
        match name.to_ascii_lowercase().as_str() {
            "idempotency-key" => key = value.to_owned(),
            "content-length" => length = value.parse().expect("a length"),
            _ => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some(Got { key, body: String::from_utf8(body).expect("JSON is text") })
}

/// Asks `GET path` of a port here; the status and the body. Status 0 where nobody answers.
pub(crate) fn get(port: u16, path: &str) -> (u16, String) {
    let ask = || -> std::io::Result<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_read_timeout(Some(Duration::from_secs(10)))?;
        write!(stream, "GET {path} HTTP/1.1\r\nHost: it\r\nConnection: close\r\n\r\n")?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        Ok(text)
    };
    let Ok(text) = ask() else { return (0, String::new()) };
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or_default();
    (status, body.to_owned())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
