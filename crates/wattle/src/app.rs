//! The library's front door: an application, from a few settings.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use crate::config::{Compression, Delivery, GroupProtocol, StartFrom, TransactionScope, WorkerConfig};
use crate::error::Error;
use crate::stage::{Stateful, StatefulTransformer, Transformer};
use crate::worker::{Monitor, States, Stop, Worker};

/// An application: one stage over some topics, exactly once. Start the same program several times and the processes share the partitions.
///
/// ```no_run
/// use wattle::{App, Message, Stop, TransactionScope, transformer};
///
/// # fn main() -> Result<(), wattle::Error> {
/// let copy = transformer(|record, out| {
///     out.send(Message::copy(record, "orders-copy"));
///     Ok(())
/// });
/// let app = App::builder()
///     .application_id("copy")
///     .brokers("127.0.0.1:9092")
///     .input_topics(["orders"])
///     .output_topics(["orders-copy"])
///     .transaction_scope(TransactionScope::Worker)
///     .build(copy)?;
/// app.run(&Stop::new())
/// # }
/// ```
pub struct App<S>(Worker<S>);

impl App<()> {
    /// An application with nothing set yet.
    pub fn builder() -> AppBuilder {
        let delivery = Delivery::ExactlyOnce { transactional_id: String::new() };
        AppBuilder { config: WorkerConfig::new("", "", "", Vec::<String>::new(), delivery) }
    }
}

impl<S: Transformer> App<S> {
    /// A view of the application that stays valid while it runs and after.
    #[must_use]
    pub fn monitor(&self) -> Monitor {
        self.0.monitor()
    }

    /// Runs until `stop`, or until an error. Blocks the calling thread, which must not be one of an async runtime.
    ///
    /// # Errors
    /// See [`Error`]. Whatever was not committed is processed again by the next run.
    pub fn run(self, stop: &Stop) -> Result<(), Error> {
        self.0.run(stop)
    }
}

impl<T: StatefulTransformer> App<Stateful<T>> {
    /// The committed states of this process's tasks, to be asked for from other threads.
    #[must_use]
    pub fn states(&self) -> States<T::State> {
        States::new(self.0.monitor().desk)
    }
}

/// The settings of an [`App`]. What is not set has the default of [`WorkerConfig`].
#[derive(Debug)]
#[must_use = "it does nothing until it is built"]
pub struct AppBuilder {
    config: WorkerConfig,
}

impl AppBuilder {
    /// The application's name: its consumer group, and the first part of its transactional ids. It stays the same over restarts, and is no
    /// other application's.
    pub fn application_id(mut self, id: impl Into<String>) -> Self {
        let id = id.into();
        self.config.name.clone_from(&id);
        self.config.group.clone_from(&id);
        self.config.delivery = Delivery::ExactlyOnce { transactional_id: id };
        self
    }

    /// Addresses of some brokers of the cluster, `host:port`, separated by commas.
    pub fn brokers(mut self, brokers: impl Into<String>) -> Self {
        self.config.brokers = brokers.into();
        self
    }

    /// The topics to read, in the order in which a batch processes them. They need equal partition counts.
    pub fn input_topics(mut self, topics: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.config.topics = topics.into_iter().map(Into::into).collect();
        self
    }

    /// The topics that the stage writes to. Those that are not there are named at start, and a record for another topic stops the application.
    /// Where none is given, the stage may write to any.
    pub fn output_topics(mut self, topics: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.config.output_topics = topics.into_iter().map(Into::into).collect();
        self
    }

    /// Where records go that the stage cannot process, in the same transaction. Without it they stop the application.
    pub fn dead_letter_topic(mut self, topic: impl Into<String>) -> Self {
        self.config.dead_letter_topic = Some(topic.into());
        self
    }

    /// Which tasks share a transaction.
    pub fn transaction_scope(mut self, scope: TransactionScope) -> Self {
        self.config.transaction_scope = scope;
        self
    }

    /// When the broker aborts a transaction; by default [`TransactionScope::default_timeout`].
    pub fn transaction_timeout(mut self, timeout: Duration) -> Self {
        self.config.transaction_timeout = Some(timeout);
        self
    }

    /// Static membership: a restart within the session timeout keeps the partitions. Unique for each process.
    pub fn group_instance_id(mut self, id: impl Into<String>) -> Self {
        self.config.group_instance_id = Some(id.into());
        self
    }

    /// How the group decides who has which partitions.
    pub fn group_protocol(mut self, protocol: GroupProtocol) -> Self {
        self.config.group_protocol = protocol;
        self
    }

    /// Where a new application begins.
    pub fn start_from(mut self, start: StartFrom) -> Self {
        self.config.start_from = start;
        self
    }

    /// Most records of one transaction.
    pub fn max_poll_records(mut self, records: usize) -> Self {
        self.config.batch.max_poll_records = Some(records);
        self
    }

    /// Most bytes of keys and values that are read, and most that are written, in one transaction.
    pub fn max_bytes(mut self, bytes: usize) -> Self {
        self.config.batch.max_bytes = Some(bytes);
        self
    }

    /// Most keys whose records are processed at once, where the stage waits; 64 unless set. 1: one record after the other.
    pub fn max_concurrent_keys(mut self, keys: usize) -> Self {
        self.config.batch.max_concurrent_keys = keys;
        self
    }

    /// Longest time that records are processed before what is done is committed.
    pub fn max_processing_time(mut self, time: Duration) -> Self {
        self.config.batch.max_processing_time = time;
        self
    }

    /// How long a transaction gathers records. By default whatever is there is committed at once.
    pub fn commit_interval(mut self, interval: Duration) -> Self {
        self.config.batch.commit_interval = interval;
        self
    }

    /// Compression of what is written.
    pub fn compression(mut self, compression: Compression) -> Self {
        self.config.compression = compression;
        self
    }

    /// A folder for the state of this process's tasks, of a stage that keeps some: a start reads only what the folder does not have yet. It is this
    /// process's alone, and may be deleted while the process is stopped. Without it state is in memory.
    pub fn state_dir(mut self, folder: impl Into<PathBuf>) -> Self {
        self.config.state_dir = Some(folder.into());
        self
    }

    /// Time for a clean stop.
    pub fn grace_period(mut self, period: Duration) -> Self {
        self.config.grace_period = period;
        self
    }

    /// How long the group waits for a process that is silent before others get its partitions: 45 s unless set. A broker allows 6 s and more.
    /// Not with [`GroupProtocol::Consumer`], where the broker decides.
    pub fn session_timeout(self, timeout: Duration) -> Self {
        self.consumer_property("session.timeout.ms", timeout.as_millis().to_string())
    }

    /// Replicas of the changelog topic where it is created; by default the cluster decides.
    pub fn changelog_replication(mut self, replicas: i32) -> Self {
        self.config.changelog_replication = Some(replicas);
        self
    }

    /// A setting of the changelog topic where it is created, `min.insync.replicas` for example.
    pub fn changelog_property(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.config.changelog_properties.insert(name.into(), value.into());
        self
    }

    /// A librdkafka property of the consumer and of the producers, `security.protocol` for example.
    pub fn client_property(self, name: impl Into<String>, value: impl Into<String>) -> Self {
        let (name, value) = (name.into(), value.into());
        self.consumer_property(name.clone(), value.clone()).producer_property(name, value)
    }

    /// A librdkafka property of the consumer, `session.timeout.ms` for example.
    pub fn consumer_property(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.config.consumer_properties.insert(name.into(), value.into());
        self
    }

    /// A librdkafka property of the producers, `linger.ms` for example.
    pub fn producer_property(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.config.producer_properties.insert(name.into(), value.into());
        self
    }

    /// The application that runs a stage which keeps state, in the changelog topic `{application_id}-changelog`. Nothing connects yet.
    ///
    /// # Errors
    /// [`Error::Config`] with every problem of the settings.
    pub fn build_stateful<T: StatefulTransformer>(mut self, stage: T) -> Result<App<Stateful<T>>, Error> {
        self.config.changelog_topic = Some(format!("{}-changelog", self.config.name));
        let at_once = stage.time_to_live().is_some_and(|time| time.after.is_zero());
        let problem = at_once.then(|| "time_to_live must be longer than 0, or no state would be kept".to_owned());
        self.finish(Stateful(stage), problem)
    }

    /// The application that runs `stage`. Nothing connects yet.
    ///
    /// # Errors
    /// [`Error::Config`] with every problem of the settings.
    pub fn build<S: Transformer>(self, stage: S) -> Result<App<S>, Error> {
        self.finish(stage, None)
    }

    fn finish<S: Transformer>(self, stage: S, of_stage: Option<String>) -> Result<App<S>, Error> {
        self.check(of_stage)?;
        Worker::new(self.config, stage).map(App)
    }

    /// The same problems as the worker's, in the words of this builder, with what is wrong with the stage.
    fn check(&self, of_stage: Option<String>) -> Result<(), Error> {
        let mut problems = match self.config.validate() {
            Err(Error::Config { problems }) => problems,
            _ => Vec::new(),
        };
        problems.extend(of_stage);
        if problems.is_empty() {
            return Ok(());
        }
        if self.config.name.trim().is_empty() {
            problems
                .retain(|problem| !["name ", "group ", "transactional_id "].iter().any(|of| problem.starts_with(of)));
            problems
                .insert(0, "application_id must not be blank; choose one that stays the same over restarts".to_owned());
        }
        for problem in &mut problems {
            for (written, here) in WORDS {
                *problem = problem.replacen(written, here, 1);
            }
        }
        let mut seen = BTreeSet::new(); // a property of both clients is refused twice
        problems.retain(|problem| seen.insert(problem.clone()));
        Err(Error::Config { problems })
    }
}

/// Words of pipeline files and of [`WorkerConfig`], and what stands for them in [`AppBuilder`].
const WORDS: [(&str, &str); 7] = [
    ("topics must", "input_topics must"),
    ("changelog_topic:", "application_id: the changelog topic"),
    ("topics names", "input_topics names"),
    ("transactional_id and transaction_scope", "application_id and transaction_scope"),
    ("a key of the input sets it", "application_id and group_instance_id set it"),
    ("the group_protocol key of the input sets it", "group_protocol sets it"),
    ("start_from_latest decides", "start_from decides"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kafka::Record;
    use crate::stage::{Clock, Next, Output, StageError, TimeToLive, transformer};

    #[test]
    fn every_problem_of_an_application_is_reported_at_once() {
        let build = |builder: AppBuilder| builder.build(transformer(|_, _| Ok(()))).err();
        let Some(Error::Config { problems }) = build(App::builder().client_property("acks", "1")) else {
            panic!("nothing is set");
        };
        let all = problems.join("\n");
        assert_eq!(problems.len(), 4, "{all}");
        for word in ["application_id", "brokers", "input_topics must name", "acks"] {
            assert!(all.contains(word), "{word}: {all}");
        }
        let wrong = App::builder()
            .application_id("a/b")
            .brokers("b:1")
            .input_topics(["t", "t"])
            .dead_letter_topic("t")
            .producer_property("transactional.id", "mine")
            .max_poll_records(0)
            .max_bytes(0)
            .max_concurrent_keys(0)
            .grace_period(Duration::ZERO)
            .commit_interval(Duration::from_secs(60))
            .group_protocol(GroupProtocol::Consumer)
            .session_timeout(Duration::from_secs(6))
            .transaction_scope(TransactionScope::Worker)
            .group_instance_id("start")
            .changelog_replication(3)
            .client_property("isolation.level", "read_uncommitted");
        let Some(Error::Config { problems }) = build(wrong) else { panic!("much is wrong") };
        let all = problems.join("\n");
        for word in [
            "input_topics names t twice",
            "dead_letter_topic t is an input",
            "transactional.id: cannot be set: it follows from application_id",
            "max_poll_records",
            "max_bytes",
            "max_concurrent_keys",
            "grace_period",
            "transaction_timeout",
            "session.timeout.ms",
            "group_instance_id",
            "changelog_replication",
            "isolation.level",
        ] {
            assert!(all.contains(word), "{word}: {all}");
        }
        assert_eq!(problems.len(), 12, "{all}");
        let good = App::builder().application_id("a").brokers("b:1").input_topics(["t"]);
        assert!(build(good).is_none());
    }

    #[test]
    fn a_state_that_cannot_be_kept_is_refused() {
        struct Gone;
        impl StatefulTransformer for Gone {
            type State = u64;

            async fn transform(&self, _: &Record<'_>, _: Option<u64>, _: &mut Output) -> Result<Next<u64>, StageError> {
                Ok(Next::Keep)
            }

            fn time_to_live(&self) -> Option<TimeToLive> {
                Some(TimeToLive { after: Duration::ZERO, clock: Clock::Wall })
            }
        }
        let app = App::builder().application_id("a/b").brokers("b:1").input_topics(["t"]);
        let Err(Error::Config { problems }) = app.build_stateful(Gone) else { panic!("two things are wrong") };
        let all = problems.join("\n");
        assert!(problems.len() == 2 && all.contains("application_id: the changelog topic \"a/b-changelog\""), "{all}");
        assert!(all.contains("time_to_live"), "{all}");
    }
}
