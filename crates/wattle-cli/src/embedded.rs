//! The embedded broker: opened in this process, or shared where another process has opened it.

use std::collections::BTreeSet;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant};

use wattle::Exit;
use wattle::kafka::NewTopics;
use wattle_broker::{Broker, Error};

use crate::failure::{Failure, chain};
use crate::status::Status;

/// Its data, in the folder where the command is given.
pub(crate) const FOLDER: &str = ".wattle/broker";

/// Enough to see work shared, few enough to start at once.
const PARTITIONS: i32 = 3;
/// How long a broker that is just being opened or closed by another process is waited for.
const PATIENCE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(20);
/// How often the broker is looked at.
const GLANCE: Duration = Duration::from_millis(200);
/// Our own clients' connections end a moment after them.
const AFTERGLOW: Duration = Duration::from_secs(1);

/// A broker that answers.
pub(crate) struct Embedded {
    address: String,
    role: Role,
}

enum Role {
    /// It lives in this process.
    Host(Arc<Broker>),
    /// It lives in another one, which stays as long as somebody is connected to it.
    Guest { pid: u32 },
}

impl Embedded {
    /// Opens the folder, or joins the process that has it open; tells `status` when that one ends too early.
    pub(crate) fn open(status: Status) -> Result<Self, Failure> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            // At its former address, where others may still wait for it.
            match Broker::builder().folder(FOLDER).return_to_address().start() {
                Ok(broker) => {
                    let (address, broker) = (broker.address(), Arc::new(broker));
                    watch(Arc::downgrade(&broker), status)?;
                    return Ok(Embedded { address, role: Role::Host(broker) });
                }
                // It may be ending: then there is nobody who answers, and the folder is free soon.
                Err(Error::InUse { address, pid, .. }) => match take_seat(&address) {
                    Ok(seat) => {
                        keep(seat, pid, address.clone(), status)?;
                        return Ok(Embedded { address, role: Role::Guest { pid } });
                    }
                    Err(error) if Instant::now() > deadline => return Err(no_answer(&address, pid, &error)),
                    Err(_) => thread::sleep(PAUSE),
                },
                Err(error) => return Err(refused(&error)),
            }
        }
    }

    /// Where clients connect.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// What a run says of it.
    pub(crate) fn notice(&self) -> String {
        let owner = match self.role {
            Role::Host(_) => String::new(),
            Role::Guest { pid, .. } => format!(" of process {pid}"),
        };
        format!("embedded broker{owner} on {}, data in {FOLDER} (development only)", self.address)
    }

    /// Creates those of the topics that are not there, and says so.
    pub(crate) fn create_missing(&self, topics: &BTreeSet<String>, status: &Status) -> Result<(), Failure> {
        // Records are kept until the folder is removed: example data is older than Kafka's default retention of a week.
        let new = NewTopics::of(PARTITIONS).setting("retention.ms", "-1");
        let created = new.create(&self.address, topics)?;
        if !created.is_empty() {
            status.note(&format!("created {} with {PARTITIONS} partitions", created.join(", ")));
        }
        Ok(())
    }

    /// Returns when nobody else uses it; a signal ends the wait, and the process.
    pub(crate) fn leave(self, status: &Status) {
        let Role::Host(broker) = self.role else { return };
        let since = Instant::now();
        while broker.clients() > 0 && since.elapsed() < AFTERGLOW {
            thread::sleep(PAUSE);
        }
        if broker.clients() > 0 {
            status.note("the embedded broker stays for other processes that use it (Ctrl-C ends it)");
            broker.wait_until_idle(PAUSE);
        }
        broker.stop();
    }
}

/// Connects and asks something, since a connection that has asked nothing does not count as a client.
fn take_seat(address: &str) -> io::Result<TcpStream> {
    // ApiVersions, version 0, correlation id 0, client id "seat".
    const ASK: [u8; 18] = *b"\0\0\0\x0e\0\x12\0\0\0\0\0\0\0\x04seat";
    let mut seat = TcpStream::connect(address)?;
    seat.set_read_timeout(Some(PATIENCE))?;
    seat.write_all(&ASK)?;
    seat.read_exact(&mut [0; 4])?;
    seat.set_read_timeout(None)?;
    Ok(seat)
}

/// Ends the process when its broker answers nothing any more: everything that waits for it would wait for ever.
fn watch(broker: Weak<Broker>, status: Status) -> Result<(), Failure> {
    beside("broker-watch", move || {
        while let Some(broker) = broker.upgrade() {
            if let Some(failure) = broken(&broker) {
                status.failure(&failure);
                std::process::exit(failure.exit as i32);
            }
            drop(broker);
            thread::sleep(GLANCE);
        }
    })
}

/// Why a broker stopped answering, if it did.
pub(crate) fn broken(broker: &Broker) -> Option<Failure> {
    let text = format!(
        "the broker cannot go on: {}; what it has answered is kept, and the next start goes on behind it",
        broker.failure()?
    );
    Some(Failure::new(Exit::Failed, text))
}

/// Holds the seat until this process ends. Nothing more is said there: a read returns when the broker has gone.
fn keep(mut seat: TcpStream, pid: u32, address: String, status: Status) -> Result<(), Failure> {
    beside("seat", move || {
        let answer = io::copy(&mut seat, &mut io::sink());
        tracing::debug!(?answer, "the embedded broker closed the connection");
        status.note(&format!("the embedded broker of process {pid} has ended; nothing goes on unless it comes back on {address} (Ctrl-C ends)"));
    })
}

/// Watches the broker on a thread of its own.
fn beside(name: &str, watch: impl FnOnce() + Send + 'static) -> Result<(), Failure> {
    let started = thread::Builder::new().name(name.into()).spawn(watch);
    started.map(drop).map_err(|error| Failure::new(Exit::Failed, format!("cannot watch the embedded broker: {error}")))
}

fn no_answer(address: &str, pid: u32, error: &io::Error) -> Failure {
    let text = format!(
        "the embedded broker of process {pid}, which uses {FOLDER}, does not answer on {address}: {error}; end that process, or work in \
         another folder"
    );
    Failure::new(Exit::Unreachable, text)
}

/// Why a broker did not start, as an end of the command.
pub(crate) fn refused(error: &Error) -> Failure {
    let exit = match error {
        Error::InUse { .. } | Error::Foreign { .. } | Error::Listen { .. } | Error::Setting { .. } => Exit::Config,
        _ => Exit::Failed,
    };
    Failure::new(exit, chain(error))
}
