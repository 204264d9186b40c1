//! A plan that runs: one thread a stream, one that passes on requests to stop, and, while draining, one that watches.

mod drain;
mod file;
mod generate;
mod health;
mod http;
mod memory;
mod mqtt;
mod outside;
mod part;
mod post;
mod prometheus;
mod push;
mod pushed;
mod reach;
mod retry;
mod segments;
mod sink;
#[cfg_attr(
    not(all(feature = "postgres", feature = "sqlite")),
    allow(dead_code, unused_imports, reason = "what no database needs")
)]
pub(crate) mod sql;
mod stdin;
mod stream;
mod supervise;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

pub(crate) use drain::Link;
#[cfg(any(test, fuzzing))]
pub(crate) use file::FileSource;
use health::Health;
use part::Part;
#[cfg(any(test, fuzzing))]
pub(crate) use push::{Envelope, unpack};
pub(crate) use reach::Clusters;
use retry::Condition;
use wattle::{Error, Lag, Metrics, Monitor, Snapshot, Stop};

use crate::plan::Plan;

/// How to run.
pub struct RunOptions {
    /// Kafka streams end when the finite inputs have ended and everything is processed and committed.
    pub drain: bool,
    /// Asks all streams for a clean stop.
    pub stop: Stop,
}

/// Streams that run.
pub struct Running {
    streams: Vec<StreamHandle>,
    threads: Vec<JoinHandle<StreamEnd>>,
    supervisor: JoinHandle<()>,
    health: Option<Health>,
}

/// Watches one stream; stays valid when the stream has ended.
#[derive(Clone)]
pub struct StreamHandle(Arc<Shared>);

/// What a stream's thread shares with those who watch it.
struct Shared {
    id: String,
    watch: Watch,
    started: Instant,
    /// Asks this stream alone to stop.
    stop: Stop,
    drained: AtomicBool,
    failed: AtomicBool,
    done: AtomicBool,
    /// Whether each batch is a Kafka transaction.
    transactional: bool,
    condition: Arc<Condition>,
    /// What else can be in trouble.
    parts: Mutex<Vec<Arc<dyn Part>>>,
    /// What the broker said last, while the stream runs; afterwards what is known for sure.
    last_lag: Mutex<Option<i64>>,
}

enum Watch {
    Kafka(Monitor),
    Source(Arc<Metrics>),
}

/// What is left of a stream.
pub struct StreamEnd {
    /// The stream's id.
    pub id: String,
    /// How it ended.
    pub outcome: Outcome,
    /// Its counters at the end.
    pub snapshot: Snapshot,
    /// Time since its start.
    pub elapsed: Duration,
    /// The group's lag at the end, for streams that were drained.
    pub lag: Option<i64>,
}

/// How a stream ended.
pub enum Outcome {
    /// Its finite input ended, and everything is written.
    Done,
    /// It reached the end of its topics, and everything is committed.
    Drained,
    /// It was asked to stop, by the user or because another stream failed.
    Stopped,
    /// It failed.
    Failed(Error),
}

/// Starts a thread for each stream. A stream that fails stops the others cleanly.
///
/// # Errors
/// Where a configuration is refused by the library, or the system gives no thread; streams that had started are stopped.
pub fn start(plan: Plan, options: RunOptions) -> Result<Running, Error> {
    let check = plan.health;
    let links = plan.streams.iter().map(crate::plan::StreamPlan::link).collect();
    let clusters: Vec<_> = plan.streams.iter().map(crate::plan::StreamPlan::clusters).collect();
    let jobs =
        plan.streams.into_iter().map(|plan| stream::prepare(plan, options.drain)).collect::<Result<Vec<_>, _>>()?;
    let streams: Vec<_> = jobs.iter().map(stream::Job::handle).collect();
    if let Some(check) = &check {
        reach::watch(&streams, &clusters, check.stuck_after)?;
    }
    let health = check.map(|check| Health::start(check, &streams)).transpose()?;
    let mut threads = Vec::new();
    for job in jobs {
        match spawn(format!("wattle-{}", job.handle().id()), move || job.run()) {
            Ok(thread) => threads.push(thread),
            Err(error) => {
                streams.iter().for_each(|stream| stream.0.stop.stop());
                return Err(error);
            }
        }
    }
    let supervisor = supervise::start(&streams, links, options)?;
    Ok(Running { streams, threads, supervisor, health })
}

/// As much as a main thread has: what was compiled there, by recursion, runs here by recursion. Memory is taken as it is needed.
const STACK: usize = 8 << 20;

fn spawn<T: Send + 'static>(name: String, body: impl FnOnce() -> T + Send + 'static) -> Result<JoinHandle<T>, Error> {
    let what = format!("start the thread {name}");
    std::thread::Builder::new().name(name).stack_size(STACK).spawn(body).map_err(|source| Error::Io { what, source })
}

impl Running {
    /// One handle a stream, in the order of the file.
    #[must_use]
    pub fn streams(&self) -> &[StreamHandle] {
        &self.streams
    }

    /// Returns when all streams have ended, in the order of the file.
    #[must_use]
    pub fn wait(self) -> Vec<StreamEnd> {
        let ends = self.threads.into_iter().map(|thread| thread.join().expect("a stream's thread catches panics"));
        let ends = ends.collect();
        self.supervisor.join().expect("the supervisor does nothing that panics");
        if let Some(health) = self.health {
            health.stop();
        }
        ends
    }
}

impl StreamHandle {
    fn new(id: String, watch: Watch, condition: Arc<Condition>, transactional: bool) -> Self {
        StreamHandle(Arc::new(Shared {
            id,
            watch,
            started: Instant::now(),
            stop: Stop::new(),
            drained: AtomicBool::new(false),
            failed: AtomicBool::new(false),
            done: AtomicBool::new(false),
            transactional,
            condition,
            parts: Mutex::default(),
            last_lag: Mutex::new(None),
        }))
    }

    /// The stream's id.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.0.id
    }

    /// Its counters.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        let mut snapshot = match &self.0.watch {
            Watch::Kafka(monitor) => monitor.metrics().snapshot(),
            Watch::Source(metrics) => metrics.snapshot(),
        };
        // The stage had written them; the output has not taken them.
        let refused = self.0.condition.refused_records();
        snapshot.messages = snapshot.messages.saturating_sub(refused);
        snapshot.dead_letters += refused;
        snapshot
    }

    /// How far the group's committed positions are behind the ends of the topics. `None` for inputs that are not Kafka, and
    /// while the broker does not tell. Takes up to a few seconds, since it asks the broker.
    #[must_use]
    pub fn lag(&self) -> Option<i64> {
        if self.is_done() {
            return *self.0.last_lag.lock().unwrap_or_else(PoisonError::into_inner);
        }
        self.look().as_ref().map(Lag::total)
    }

    /// Whether the stream has ended.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.0.done.load(Ordering::Acquire)
    }

    fn has_failed(&self) -> bool {
        self.0.failed.load(Ordering::Acquire)
    }

    fn watch(&self) -> &Watch {
        &self.0.watch
    }

    fn is_transactional(&self) -> bool {
        self.0.transactional
    }

    /// Something more of it can be in trouble from now on.
    fn watch_part(&self, part: Arc<dyn Part>) {
        self.0.parts.lock().unwrap_or_else(PoisonError::into_inner).push(part);
    }

    /// What of it can be in trouble.
    fn parts(&self) -> impl Iterator<Item = Arc<dyn Part>> + use<> {
        let parts = self.0.parts.lock().unwrap_or_else(PoisonError::into_inner).clone();
        std::iter::once(self.0.condition.clone() as Arc<dyn Part>).chain(parts)
    }

    /// A broker that does not answer is the worker's business, which reports it; here it means that the lag is unknown.
    fn look(&self) -> Option<Lag> {
        let Watch::Kafka(monitor) = &self.0.watch else { return None };
        let lag = monitor.lag().unwrap_or_else(|error| {
            tracing::debug!(stream = self.id(), %error, "the lag is unknown");
            None
        })?;
        *self.0.last_lag.lock().unwrap_or_else(PoisonError::into_inner) = Some(lag.total());
        Some(lag)
    }
}

/// A cursor that another version of Wattle has written.
fn unreadable(of: &str, version: u32) -> Error {
    let text = format!(
        "the cursor of {of} cannot be read: it is none of version {version}. Use the version of wattle that wrote it, or a newer one"
    );
    Error::Cursor { text }
}
