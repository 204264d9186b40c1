//! Pipelines described in YAML: text → [`plan`] (pure, offline, every problem at once) → [`start`] (threads) → [`Running`].

use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fmt, io};

/// Where the text came from and what surrounds it. `env` is a function so that tests need no process environment.
pub struct Context<'a> {
    /// The pipeline file: named in problems; paths in it are relative to its folder.
    pub file: &'a Path,
    /// Brokers for Kafka components that name none.
    pub brokers: Option<String>,
    /// Looks up `${VAR}`.
    pub env: &'a dyn Fn(&str) -> Option<String>,
}

/// Checks a pipeline file's text and plans its streams.
///
/// # Errors
/// Every problem of the file at once.
pub fn plan(text: &str, context: &Context) -> Result<Plan, Problems> {
    let _ = (text, (context.env)(""), &context.brokers);
    Err(Problems { file: context.file.to_path_buf(), list: Vec::new() })
}

/// All that is wrong with a pipeline file.
#[derive(Clone, Debug)]
pub struct Problems {
    /// The file.
    pub file: PathBuf,
    /// In the order of their places.
    pub list: Vec<Problem>,
}

/// One thing that is wrong, and what to do about it.
#[derive(Clone, Debug)]
pub struct Problem {
    /// Line, from 1.
    pub line: usize,
    /// Column, from 1.
    pub column: usize,
    /// The key, for example `streams[0].output.topic`.
    pub path: String,
    /// What is wrong and what to do.
    pub text: String,
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} has {} problems", self.file.display(), self.list.len())
    }
}

/// The checked streams of a file. `Display` is one line a stream.
pub struct Plan {
    /// In the order of the file.
    pub streams: Vec<StreamPlan>,
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.streams.iter().try_for_each(|stream| writeln!(f, "{}", stream.id()))
    }
}

/// One checked stream.
pub struct StreamPlan {
    id: String,
}

impl StreamPlan {
    /// Its id, unique in the file.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Source → processors → sink.
    #[must_use]
    pub fn route(&self) -> String {
        String::new()
    }

    /// The guarantee's level, and why.
    #[must_use]
    pub fn guarantee(&self) -> String {
        String::new()
    }

    /// Whether the input ends by itself.
    #[must_use]
    pub fn is_finite(&self) -> bool {
        false
    }
}

/// How to run.
pub struct RunOptions {
    /// Kafka streams end when the finite inputs have ended and everything is processed.
    pub drain: bool,
    /// Asks for a clean stop.
    pub stop: wattle::Stop,
}

/// Starts a thread for each stream.
///
/// # Errors
/// Where a thread cannot be started.
pub fn start(plan: Plan, options: RunOptions) -> Result<Running, wattle::Error> {
    let _ = (plan, options.drain, options.stop);
    Err(wattle::Error::Io { what: "start".into(), source: io::Error::other("not there yet") })
}

/// Streams that run.
pub struct Running {
    streams: Vec<StreamHandle>,
}

impl Running {
    /// One handle a stream, in the order of the file.
    #[must_use]
    pub fn streams(&self) -> &[StreamHandle] {
        &self.streams
    }

    /// Returns when all streams have ended.
    #[must_use]
    pub fn wait(self) -> Vec<StreamEnd> {
        Vec::new()
    }
}

/// Watches one stream.
#[derive(Clone)]
pub struct StreamHandle {
    id: String,
}

impl StreamHandle {
    /// The stream's id.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Its counters.
    #[must_use]
    pub fn snapshot(&self) -> wattle::Snapshot {
        wattle::Snapshot::default()
    }

    /// Records that the group has not committed yet; `None` for inputs that are not Kafka, and while nobody knows.
    #[must_use]
    pub fn lag(&self) -> Option<i64> {
        None
    }

    /// Whether the stream has ended.
    #[must_use]
    pub fn is_done(&self) -> bool {
        false
    }
}

/// How a stream ended.
pub struct StreamEnd {
    /// The stream's id.
    pub id: String,
    /// How.
    pub outcome: Outcome,
    /// Its counters at the end.
    pub snapshot: wattle::Snapshot,
    /// Time since its start.
    pub elapsed: Duration,
    /// The group's lag at the end, for Kafka inputs.
    pub lag: Option<i64>,
}

/// How a stream ended.
pub enum Outcome {
    /// A finite input ended.
    Done,
    /// A Kafka input reached its end and everything is committed.
    Drained,
    /// It was asked to stop.
    Stopped,
    /// It failed.
    Failed(wattle::Error),
}
