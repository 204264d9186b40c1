//! What can go wrong, in words that an operator can act on.

use std::any::Any;
use std::fmt;
use std::time::Duration;

use crate::kafka::{self, Offset, Position};

/// Why a worker could not run, or stopped. [`Error::exit`] groups them by what a caller does next.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The configuration cannot work.
    #[error("the configuration is refused: {}", list(problems))]
    Config {
        /// Each says what and what to do.
        problems: Vec<String>,
    },
    /// No broker answered at start.
    #[error("no broker answers at {brokers} within {} s: check the address and that the broker is up", within.as_secs())]
    Unreachable {
        /// The addresses that were tried.
        brokers: String,
        /// How long.
        within: Duration,
        /// What the client said last.
        #[source]
        source: kafka::Error,
    },
    /// Topics are not there, or do not fit together.
    #[error("{text}")]
    Topics {
        /// Names the topics, and what to do.
        text: String,
    },
    /// A setting of ours and a setting of the broker's contradict each other.
    #[error("{text}")]
    BrokerSetting {
        /// Both settings with their values, and what to do.
        text: String,
    },
    /// A limit of the operating system is below what a run needs.
    #[error("{text}")]
    Limit {
        /// The limit, what is needed, and how to raise it.
        text: String,
    },
    /// The stage could not process a record, and no dead-letter topic is set.
    #[error(
        "task {task} stopped at {topic}/{partition} offset {offset}{}: {reason}; nothing of its batch was committed. \
         Fix the record or the program, or set a dead-letter topic (error_output in a file, dead_letter_topic in an App) to move such records aside",
        key.as_deref().map(|k| format!(" (key {k})")).unwrap_or_default()
    )]
    Record {
        /// The task: the partition's number.
        task: i32,
        /// Where the record is.
        topic: String,
        /// Where the record is.
        partition: i32,
        /// Where the record is.
        offset: Offset,
        /// The record's key, quoted, where it is short and printable.
        key: Option<String>,
        /// What the stage said.
        reason: String,
    },
    /// The same for a record that is not from Kafka.
    #[error(
        "{place}: {reason}; fix the record or the program, or set a dead-letter topic (error_output) to move such records aside"
    )]
    SourceRecord {
        /// Where the record is, for example `path:line`.
        place: String,
        /// What the stage said.
        reason: String,
    },
    /// The stage could not process a timer.
    #[error(
        "task {task} stopped at the timer {name:?} of {at}{}: {reason}; nothing of its batch was committed. Fix the program",
        key.as_deref().map(|k| format!(" (key {k})")).unwrap_or_default()
    )]
    Timer {
        /// The partition's number.
        task: i32,
        /// The timer's name.
        name: String,
        /// The time that it was set to, in milliseconds since 1970.
        at: i64,
        /// The state key, quoted, where it is short and printable.
        key: Option<String>,
        /// What the stage said.
        reason: String,
    },
    /// The state of a record's key is not what the stage reads. No dead-letter topic takes the record, which is not at fault.
    #[error(
        "task {task} stopped at {topic}/{partition} offset {offset}{}: {reason}; nothing of its batch was committed. The state is of another type than \
         the program reads: read the former one too, or begin anew (wattle reset)",
        key.as_deref().map(|k| format!(" (state key {k})")).unwrap_or_default()
    )]
    UnreadableState {
        /// The task: the partition's number.
        task: i32,
        /// Where the record is.
        topic: String,
        /// Where the record is.
        partition: i32,
        /// Where the record is.
        offset: Offset,
        /// The state key, quoted, where it is short and printable.
        key: Option<String>,
        /// What is wrong with the state.
        reason: String,
    },
    /// The stage itself could not begin or end.
    #[error("{name}: the stage failed to {step}: {reason}")]
    Stage {
        /// The application's or the stream's name.
        name: String,
        /// `open` or `close`.
        step: &'static str,
        /// What the stage said.
        reason: String,
    },
    /// A broker refused an output for good.
    #[error("{text}")]
    Refused {
        /// Names topic, partition, size, the input record, and what to do.
        text: String,
        /// Outputs that are larger than their topic takes, by their index, each with the reason: with a dead-letter topic what they were made from is put aside.
        oversized: Vec<(usize, String)>,
        /// Where a broker has refused it: it judges outputs of more bytes each by themselves, and may refuse others of those.
        alone_above: Option<usize>,
    },
    /// An output that is no Kafka topic did not take a record.
    #[error("{text}")]
    Undelivered {
        /// Names the output, what it said, the input record, and what to do.
        text: String,
    },
    /// A position that the topic does not have any more, or not yet.
    #[error(
        "the committed position {position} of {topic}/{partition} is outside of the topic's records ({low} to {high}): {cause}. \
         To go on, stop all members of group {group} and set the position {remedy}"
    )]
    OutOfRange {
        /// The input topic.
        topic: String,
        /// Its partition.
        partition: i32,
        /// What the group has committed.
        position: Position,
        /// First record that the topic still has.
        low: i64,
        /// End of the topic.
        high: i64,
        /// The group.
        group: String,
        /// The likely cause, with the number of records lost.
        cause: String,
        /// Where a position is set.
        remedy: &'static str,
    },
    /// The group has no positions of a task whose state is there.
    #[error(
        "task {task}: the group {group} has no committed positions of its partitions, while {changelog}/{task} holds the state of {keys} keys{}. \
         Starting from the beginning would process records again on top of it. Stop all processes, then either set the positions with \
         kafka-consumer-groups --group {group} --reset-offsets, or begin anew with  wattle reset {group}  (it shows what it would delete, and deletes with --execute)",
        if *timers > 0 { format!(" and {timers} timers") } else { String::new() }
    )]
    StateWithoutPositions {
        /// The partition's number.
        task: i32,
        /// The consumer group.
        group: String,
        /// The changelog topic.
        changelog: String,
        /// How many keys have a state.
        keys: usize,
        /// How many timers are set, the time of the stream included.
        timers: usize,
    },
    /// The group has positions, and the topic with the state that belongs to them is not there.
    #[error(
        "the changelog topic {changelog} is missing, while the group {group} has committed positions ({topic}/{partition} at {position}): a state that \
         begins empty at them would be wrong. Bring the topic back; or begin anew with  wattle reset {group}  (it shows what it would delete, and deletes \
         with --execute); or, if the application has kept no state so far, create the topic:  wattle create {changelog} --partitions {partitions} --config \
         cleanup.policy=compact"
    )]
    PositionsWithoutState {
        /// The consumer group.
        group: String,
        /// The changelog topic.
        changelog: String,
        /// How many partitions it needs.
        partitions: i32,
        /// Where the group has a position, for example.
        topic: String,
        /// Its partition.
        partition: i32,
        /// The position.
        position: Position,
    },
    /// Another process uses the folder of states.
    #[error(
        "the state folder {} is in use by {}: give every process a folder of its own, or stop the other one",
        path.display(),
        if owner.is_empty() { "a process that has not told yet which" } else { owner.as_str() }
    )]
    StateFolder {
        /// The folder.
        path: std::path::PathBuf,
        /// Process id, host and application id, as it has written them.
        owner: String,
    },
    /// A question about a state has no answer.
    #[error("the state of {of} cannot be asked for: {why}")]
    Query {
        /// The task.
        of: String,
        /// Why not.
        #[source]
        why: Unanswered,
    },
    /// The state on disk does not work, and cannot be built anew.
    #[error(
        "task {task}: its state on disk could not be {what}: {reason}. Nothing is lost: the changelog has it. Make the disk writable, and free if it \
         is full, and start again"
    )]
    State {
        /// The partition's number.
        task: i32,
        /// What was done to it.
        what: &'static str,
        /// The disk's or the database's reason.
        reason: String,
    },
    /// Another producer took the transactional id again and again.
    #[error(
        "transactional id {transactional_id} was fenced {times} times within {} s while its partition stayed ours: another process \
         uses the same transactional_id (give every pipeline its own, or stop the other one), or this process pauses for longer than its \
         transaction_timeout",
        within.as_secs()
    )]
    Fenced {
        /// The task's transactional id.
        transactional_id: String,
        /// How often.
        times: usize,
        /// In how long.
        within: Duration,
    },
    /// Another process took a source over: it has fenced this one, and committed since.
    #[error(
        "transactional id {transactional_id} was fenced, and another process has committed with it since: this one was paused for long, or \
         two were started with one transactional_id. It has written nothing after that; the other one goes on"
    )]
    TakenOver {
        /// The lane's transactional id.
        transactional_id: String,
    },
    /// A source and its cursor do not fit together.
    #[error("{text}")]
    Cursor {
        /// Names the source and what was found, and what to do.
        text: String,
    },
    /// Another process has taken the positions over that a sink keeps.
    #[error("{text}")]
    PositionsTaken {
        /// Whose positions, how often, and what to do.
        text: String,
    },
    /// What a sink writes to is not there, or does not fit what is to be written.
    #[error("{text}")]
    Unfit {
        /// Names it, and says what to do.
        text: String,
    },
    /// A sink with transactions did not do what it was told, for as long as it was tried.
    #[error(
        "{what}: {reason} (tried for {} s). Nothing of the batch is committed, and a restart goes on behind the last committed position", within.as_secs()
    )]
    Sink {
        /// What was being done, with ids.
        what: String,
        /// What the database or the client said.
        reason: String,
        /// For how long.
        within: Duration,
    },
    /// Something did not end in its time.
    #[error("{what} did not end within {} s", within.as_secs())]
    Stuck {
        /// What, with ids.
        what: String,
        /// The bound.
        within: Duration,
    },
    /// The Kafka client failed in a way that has no remedy but a restart.
    #[error("{what}: {source}")]
    Kafka {
        /// What was being done, with ids.
        what: String,
        /// What the client said.
        #[source]
        source: kafka::Error,
    },
    /// A sink or a source outside Kafka failed.
    #[error("{what}: {source}")]
    Io {
        /// What was being done, with the path.
        what: String,
        /// The operating system's reason.
        #[source]
        source: std::io::Error,
    },
    /// The write-ahead log of a source cannot be used.
    #[error("{text}")]
    Log {
        /// What kind of trouble.
        trouble: LogTrouble,
        /// Names the folder or the file and the place in it, and what to do.
        text: String,
    },
    /// A source cannot be reached by its clients.
    #[error("cannot listen at {address}: {source}; choose another address, or end who has it")]
    Listen {
        /// As it is configured.
        address: String,
        /// The operating system's reason.
        #[source]
        source: std::io::Error,
    },
    /// A source's broker and the stream do not agree, until somebody changes something.
    #[error("{text}")]
    SourceRefused {
        /// Names the broker, what it said or sent, and what to do.
        text: String,
    },
    /// Another client has taken the session of a source over.
    #[error("{text}")]
    SourceTaken {
        /// Names the broker and the session, and what to do.
        text: String,
    },
    /// A bug, ours or the stage's: a thread panicked.
    #[error("{what} panicked: {message}. Nothing of its batch was committed; a restart repeats it")]
    Panic {
        /// Which thread.
        what: String,
        /// The panic's text.
        message: String,
    },
}

/// As [`fmt::Display`], behind the code: it is what a `main` prints that returns the error.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}{self}", self.code().unwrap_or_default(), if self.code().is_some() { ": " } else { "" })
    }
}

/// What is wrong with a write-ahead log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogTrouble {
    /// Another process has its folder.
    InUse,
    /// What is in the folder is not what was written, or not of this log.
    Damaged,
    /// The disk fails.
    Broken,
}

/// Why a question about a state ([`States`](crate::States)) has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unanswered {
    /// The task is not in this process.
    #[error("this process does not have it: another one has, or the application does not run here")]
    NotOurs,
    /// It is, and does not run yet.
    #[error("it is starting, and reads what is committed; ask again")]
    Starting,
    /// Its lane has not come to answer.
    #[error("it has not answered within {} s: it is starting, or busy with a batch; ask again", within.as_secs())]
    Late {
        /// How long was waited.
        within: Duration,
    },
    /// The state is there, and is not what the type says, or the disk fails.
    #[error("it cannot be read: {reason}")]
    Unreadable {
        /// What is wrong.
        reason: String,
    },
}

/// One problem in the line, several below it.
fn list(problems: &[String]) -> String {
    match problems {
        [problem] => problem.clone(),
        _ => problems.iter().map(|problem| format!("\n- {problem}")).collect(),
    }
}

/// What a panic says.
pub(crate) fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".to_owned())
}

/// What a caller does about an error: the CLI's exit codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// The run failed; a restart goes on from the last commit.
    Failed = 1,
    /// The configuration is refused; a restart does not help.
    Config = 2,
    /// No broker at start; try again later.
    Unreachable = 3,
}

impl Error {
    /// The exit code that fits.
    #[must_use]
    pub fn exit(&self) -> Exit {
        match self {
            Error::Config { .. } => Exit::Config,
            Error::Unreachable { .. } => Exit::Unreachable,
            _ => Exit::Failed,
        }
    }

    /// The code under which `docs/errors` says what to do; `None` for a bug.
    #[must_use]
    pub fn code(&self) -> Option<&'static str> {
        Some(match self {
            Error::Config { .. } => "W0001",
            Error::Unreachable { .. } => "W0002",
            Error::Topics { .. } => "W0003",
            Error::BrokerSetting { .. } => "W0004",
            Error::Record { .. } | Error::SourceRecord { .. } | Error::Timer { .. } => "W0005",
            Error::Refused { .. } => "W0006",
            Error::OutOfRange { .. } => "W0007",
            Error::Fenced { .. } | Error::TakenOver { .. } => "W0008",
            Error::Stuck { .. } => "W0009",
            Error::Kafka { .. } => "W0010",
            Error::Io { .. } => "W0011",
            Error::Cursor { .. } => "W0012",
            Error::Limit { .. } => "W0013",
            Error::StateWithoutPositions { .. } | Error::PositionsWithoutState { .. } => "W0014",
            Error::StateFolder { .. } => "W0015",
            Error::State { .. } => "W0016",
            Error::Stage { .. } => "W0017",
            Error::Query { .. } => "W0018",
            Error::UnreadableState { .. } => "W0019",
            Error::Log { trouble: LogTrouble::InUse, .. } => "W0020",
            Error::Log { trouble: LogTrouble::Damaged, .. } => "W0021",
            Error::Log { trouble: LogTrouble::Broken, .. } => "W0022",
            Error::Listen { .. } => "W0023",
            Error::SourceRefused { .. } => "W0024",
            Error::SourceTaken { .. } => "W0025",
            Error::PositionsTaken { .. } => "W0030",
            Error::Unfit { .. } => "W0031",
            Error::Sink { .. } => "W0032",
            Error::Undelivered { .. } => "W0040",
            Error::Panic { .. } => return None,
        })
    }
}
