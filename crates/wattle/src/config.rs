//! What a worker is told: plain data, checked by [`WorkerConfig::validate`] before anything connects.

mod changelog;
mod properties;
mod protocol;
mod topic;

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

pub use properties::ClientProperties;
pub use protocol::{GroupProtocol, protocol_problem};
pub use topic::topic_problem;

use crate::error::Error;
use crate::extract::OtherCluster;
use crate::kafka;
use crate::lane::{Sink, TransactionalSinkFactory};
use crate::task::gather::Gather;

/// Where a consumer group begins on a topic for which it has no committed position.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StartFrom {
    /// At the first record that the topic still has.
    #[default]
    Earliest,
    /// Behind the last record at the group's first start. That position is committed before anything is processed, so
    /// what arrives later is processed even if the first run dies at once.
    Latest,
}

/// Which tasks share a lane, and with it a transaction; and so what keeps an older owner of a task from committing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TransactionScope {
    /// Every task has a lane of its own. Its transactional id is `{transactional_id}-{partition}`, whoever has the task: a new owner's
    /// fence ends the transaction of the one before at once.
    #[default]
    Task,
    /// Tasks of a worker share a lane with the id `{transactional_id}-{instance}`; where there are more than 16, each 16 numbers in a row
    /// share one, with an id that ends in `#1`, `#2`, `#3`; there are four at most. The consumer group's generation is the fence: a
    /// broker refuses the positions of a member from before a rebalance. A dead owner's transaction ends by its timeout, and a new owner
    /// waits for that.
    Worker,
}

impl TransactionScope {
    /// The transaction timeout where none is given: 60 s, as the broker's own default; in scope `worker` 10 s, since it is what the next
    /// owner of a dead worker's partitions waits for.
    #[must_use]
    pub const fn default_timeout(self) -> Duration {
        Duration::from_secs(match self {
            TransactionScope::Task => 60,
            TransactionScope::Worker => 10,
        })
    }
}

/// The transactional id of the transaction that sets a new group's first positions ends in this.
pub(crate) const START: &str = "start";

/// Why a `group_instance_id` does not go with the scope `worker`; `None` if it does.
#[must_use]
pub fn instance_problem(group_instance_id: &str) -> Option<&'static str> {
    (group_instance_id == START)
        .then_some("with transaction_scope worker the transactional id would end in -start, which sets first positions")
}

/// How outputs and positions are made durable.
pub enum Delivery {
    /// Outputs and positions of a batch in one Kafka transaction.
    ExactlyOnce {
        /// The first part of the transactional ids, see [`TransactionScope`]: stable over restarts, and of this application alone.
        transactional_id: String,
    },
    /// Outputs to a sink, for example a [`KafkaSink`](crate::KafkaSink), one for each task; positions after it has
    /// confirmed them. A crash between the two repeats outputs.
    AtLeastOnce(SinkFactory),
    /// Outputs and positions of a batch in one transaction of a sink, one for each task: a database. The positions that it has are the ones that count;
    /// the group's follow, for those who look at its lag.
    TransactionalSink(TransactionalSinkFactory),
    /// Exactly once into topics at other addresses than the inputs'. Where they lead to another cluster, the positions are cursors there, in the transaction
    /// of the outputs; the group's follow. Where they lead to the same one it is [`Delivery::ExactlyOnce`].
    OtherCluster(Box<OtherCluster>),
}

/// Makes the sink of a task.
pub type SinkFactory = Box<dyn Fn() -> Result<Box<dyn Sink>, Error> + Send + Sync>;

impl fmt::Debug for Delivery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Delivery::ExactlyOnce { transactional_id } => write!(f, "ExactlyOnce({transactional_id:?})"),
            Delivery::AtLeastOnce(_) => f.write_str("AtLeastOnce"),
            Delivery::TransactionalSink(_) => f.write_str("TransactionalSink"),
            Delivery::OtherCluster(to) => write!(f, "OtherCluster({:?})", to.transactional_id),
        }
    }
}

/// How large a batch (one transaction of a lane) may become. A quiet stream commits every record at once; these limits
/// decide about a busy one.
#[derive(Clone, Debug)]
pub struct BatchLimits {
    /// Most records; `None`: 10 000, or 1 500 for each partition of the transaction where that is more, up to 100 000.
    pub max_poll_records: Option<usize>,
    /// Most bytes of keys and values that are read, and most that are written, for one batch. A single record may
    /// exceed it alone. `None`: 2 MiB, or 256 KiB for each partition of the transaction where that is more, up to 16 MiB.
    pub max_bytes: Option<usize>,
    /// Longest time that records are processed before what is done is committed.
    pub max_processing_time: Duration,
    /// Most keys whose records are processed at once, where the stage waits. 1: one record after the other.
    pub max_concurrent_keys: usize,
    /// Wait this long for more records before a batch that is not full is committed.
    pub commit_interval: Duration,
    /// Hold the outputs of each input partition until so many are there, and write them together. For stages without state.
    pub gather: Option<Gather>,
}

impl Default for BatchLimits {
    fn default() -> Self {
        BatchLimits {
            max_poll_records: None,
            max_bytes: None,
            max_processing_time: Duration::from_secs(1),
            max_concurrent_keys: 64,
            commit_interval: Duration::ZERO,
            gather: None,
        }
    }
}

impl BatchLimits {
    /// Most records of a batch of one partition.
    #[must_use]
    pub fn records(&self) -> usize {
        self.max_poll_records.unwrap_or(10_000)
    }

    /// Most bytes of a batch of one partition.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.max_bytes.unwrap_or(2 << 20)
    }

    /// Those of a transaction over so many partitions. Each of them costs it about half a millisecond, as much as some hundred records: in
    /// small batches most of the time would be spent on that.
    pub(crate) fn over(&self, partitions: usize) -> Self {
        let records = (1_500 * partitions).clamp(self.records(), 100_000.max(self.records()));
        let bytes = (partitions << 18).clamp(self.bytes(), (16 << 20).max(self.bytes()));
        BatchLimits {
            max_poll_records: self.max_poll_records.or(Some(records)),
            max_bytes: self.max_bytes.or(Some(bytes)),
            ..self.clone()
        }
    }
}

/// Compression of the records that are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Compression {
    #[default]
    None,
    Gzip,
    Snappy,
    Lz4,
    Zstd,
}

impl Compression {
    /// librdkafka's name for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Compression::None => "none",
            Compression::Gzip => "gzip",
            Compression::Snappy => "snappy",
            Compression::Lz4 => "lz4",
            Compression::Zstd => "zstd",
        }
    }
}

/// Everything that a [`Worker`](crate::Worker) needs to know.
#[derive(Debug)]
pub struct WorkerConfig {
    /// A short name for logs: the stream's or the application's.
    pub name: String,
    /// Addresses of some brokers of the cluster, `host:port`, separated by commas.
    pub brokers: String,
    /// The consumer group.
    pub group: String,
    /// Static membership: a restart within the session timeout keeps the partitions. Unique for each process.
    pub group_instance_id: Option<String>,
    /// How the group decides who has which partitions; the same for all its members.
    pub group_protocol: GroupProtocol,
    /// Input topics, in the order in which a batch processes them. They need equal partition counts.
    pub topics: Vec<String>,
    /// Where a new group begins.
    pub start_from: StartFrom,
    /// How outputs and positions are made durable.
    pub delivery: Delivery,
    /// Topics that outputs go to, as far as they are known: checked at start.
    pub output_topics: Vec<String>,
    /// Records that the stage cannot process go here, in the same transaction. Without it they stop the worker.
    pub dead_letter_topic: Option<String>,
    /// Where a stage that keeps state writes its changes: compacted, as many partitions as an input topic, created where it is missing.
    pub changelog_topic: Option<String>,
    /// A folder for the states of this process's tasks; `None` keeps them in memory.
    pub state_dir: Option<PathBuf>,
    /// Replicas of a changelog topic that is created; `None`: the cluster's default.
    pub changelog_replication: Option<i32>,
    /// Settings of a changelog topic that is created, by name; `cleanup.policy` is compact.
    pub changelog_properties: ClientProperties,
    /// Limits of a batch.
    pub batch: BatchLimits,
    /// Compression of what is written.
    pub compression: Compression,
    /// Which tasks share a transaction.
    pub transaction_scope: TransactionScope,
    /// A transaction that takes longer is aborted by the broker; `None`: [`TransactionScope::default_timeout`].
    pub transaction_timeout: Option<Duration>,
    /// Time for a clean stop.
    pub grace_period: Duration,
    /// Further properties of the consumer.
    pub consumer_properties: ClientProperties,
    /// Further properties of the producers.
    pub producer_properties: ClientProperties,
}

impl WorkerConfig {
    /// A configuration with the defaults: start at the earliest record, a transaction for each task, 30 s grace period.
    pub fn new(
        name: impl Into<String>,
        brokers: impl Into<String>,
        group: impl Into<String>,
        topics: impl IntoIterator<Item = impl Into<String>>,
        delivery: Delivery,
    ) -> Self {
        WorkerConfig {
            name: name.into(),
            brokers: brokers.into(),
            group: group.into(),
            group_instance_id: None,
            group_protocol: GroupProtocol::default(),
            topics: topics.into_iter().map(Into::into).collect(),
            start_from: StartFrom::default(),
            delivery,
            output_topics: Vec::new(),
            dead_letter_topic: None,
            changelog_topic: None,
            state_dir: None,
            changelog_replication: None,
            changelog_properties: ClientProperties::new(),
            batch: BatchLimits::default(),
            compression: Compression::default(),
            transaction_scope: TransactionScope::default(),
            transaction_timeout: None,
            grace_period: Duration::from_secs(30),
            consumer_properties: ClientProperties::new(),
            producer_properties: ClientProperties::new(),
        }
    }

    /// The transaction timeout, given or by the scope.
    #[must_use]
    pub fn transaction_timeout(&self) -> Duration {
        self.transaction_timeout.unwrap_or(self.transaction_scope.default_timeout())
    }

    /// How long a lane waits for its broker, and repeats what failed, before it gives up. The timeout of scope `worker` is short for the
    /// sake of those who wait for a dead worker; a living one has as much time as in scope `task`.
    pub(crate) fn patience(&self) -> Duration {
        match self.transaction_scope {
            TransactionScope::Task => self.transaction_timeout(),
            TransactionScope::Worker => self.transaction_timeout().max(TransactionScope::Task.default_timeout()),
        }
    }

    /// Checks what can be checked without a broker.
    ///
    /// # Errors
    /// [`Error::Config`] with every problem.
    pub fn validate(&self) -> Result<(), Error> {
        let mut problems = Vec::new();
        for (what, value) in [("name", &self.name), ("brokers", &self.brokers), ("group", &self.group)] {
            if value.trim().is_empty() {
                problems.push(format!("{what} must not be blank"));
            }
        }
        if self.topics.is_empty() {
            problems.push("topics must name at least one topic".to_owned());
        }
        for (i, topic) in self.topics.iter().enumerate() {
            if self.topics[..i].contains(topic) {
                problems.push(format!("topics names {topic} twice"));
            }
        }
        if let Delivery::ExactlyOnce { transactional_id } = &self.delivery
            && transactional_id.trim().is_empty()
        {
            problems
                .push("transactional_id must not be blank; choose one that stays the same over restarts".to_owned());
        }
        if self.transaction_scope == TransactionScope::Worker {
            if !matches!(self.delivery, Delivery::ExactlyOnce { .. }) {
                problems.push("transaction_scope worker has no effect without transactions in Kafka".to_owned());
            }
            if let Some(problem) = self.group_instance_id.as_deref().and_then(instance_problem) {
                problems.push(format!("group_instance_id: {problem}"));
            }
        }
        let written = self.output_topics.iter().map(|topic| ("output", topic));
        let written = written.chain(self.dead_letter_topic.iter().map(|topic| ("dead-letter", topic)));
        for (which, topic) in self.topics.iter().map(|topic| ("input", topic)).chain(written) {
            if let Some(problem) = topic_problem(topic) {
                problems.push(format!("the {which} topic {topic:?} cannot be called so: {problem}"));
            }
        }
        if let Some(topic) = self.dead_letter_topic.as_ref().filter(|topic| self.topics.contains(topic)) {
            problems.push(format!("dead_letter_topic {topic} is an input topic too: its records would come back for ever; choose another one"));
        }
        problems.extend(self.changelog_problems());
        problems.extend(self.state_dir_problems());
        if self.batch.max_poll_records == Some(0) {
            problems.push("max_poll_records must be at least 1".to_owned());
        }
        if self.batch.max_concurrent_keys == 0 {
            problems.push("max_concurrent_keys must be at least 1".to_owned());
        }
        if self.batch.gather.is_some() && self.changelog_topic.is_some() {
            problems.push(
                "gather is for stages without state: a state that is committed must have its outputs with it"
                    .to_owned(),
            );
        }
        if self.batch.max_bytes == Some(0) {
            problems.push("max_bytes must be at least 1".to_owned());
        }
        if self.grace_period.is_zero() {
            problems.push("grace_period must be longer than nothing: a clean stop needs time".to_owned());
        }
        if matches!(self.delivery, Delivery::ExactlyOnce { .. })
            && self.batch.commit_interval + self.batch.max_processing_time >= self.transaction_timeout()
        {
            problems.push(format!(
                "transaction_timeout ({:?}) must be longer than commit_interval and max_processing_time together",
                self.transaction_timeout()
            ));
        }
        for (role, properties) in
            [(ClientRole::Consumer, &self.consumer_properties), (ClientRole::Producer, &self.producer_properties)]
        {
            for (name, value) in properties {
                let refused = match role {
                    ClientRole::Consumer => protocol_problem(self.group_protocol, &self.group, name),
                    ClientRole::Producer => None,
                };
                if let Some(problem) = refused.or_else(|| property_problem(role, name, value)) {
                    problems.push(format!("client property {name}: {problem}"));
                }
            }
        }
        if problems.is_empty() { Ok(()) } else { Err(Error::Config { problems }) }
    }
}

/// Which client a property is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientRole {
    /// The consumer of a worker.
    Consumer,
    /// The producer of a lane.
    Producer,
}

/// Why a librdkafka property cannot be set by a user; `None` if it can.
#[must_use]
pub fn owned_property(role: ClientRole, name: &str) -> Option<&'static str> {
    let reason = match name {
        "bootstrap.servers" | "metadata.broker.list" => "the brokers key sets it",
        "metadata.recovery.strategy" => "re-bootstrapping can leave a transaction call hanging",
        "group.id" | "group.instance.id" if role == ClientRole::Consumer => "a key of the input sets it",
        "enable.auto.commit"
        | "enable.auto.offset.store"
        | "auto.commit.interval.ms"
        | "auto.commit.enable"
        | "offset.store.method" => "positions are committed with the results only",
        "auto.offset.reset" => "start_from_latest decides for a new group; later, a position out of range must be loud",
        "isolation.level" => "records of aborted transactions must never be read",
        "partition.assignment.strategy" | "group.remote.assignor" => {
            "equal partition numbers of all topics must meet in one task"
        }
        "group.protocol" => "the group_protocol key of the input sets it",
        "transactional.id" => "it follows from transactional_id and transaction_scope",
        "transaction.timeout.ms" => "transaction_timeout sets it",
        "enable.idempotence"
        | "enable.gapless.guarantee"
        | "max.in.flight"
        | "max.in.flight.requests.per.connection" => "without idempotence retries reorder and double records",
        "retries" | "message.send.max.retries" => "idempotence needs them",
        "acks" | "request.required.acks" => "the acks key of the output sets it",
        "compression.type" | "compression.codec" => "the compression key of the output sets it",
        "partitioner" => "keyed records must land where Java producers put them",
        "delivery.report.only.error" | "dr_cb" | "dr_msg_cb" => "every delivery is checked",
        "statistics.interval.ms" => "nobody would read them, and they would pile up: /metrics has what is counted",
        // Names that librdkafka takes for others: which of two spellings wins would be left to chance.
        "queue.buffering.max.ms" => "set linger.ms",
        _ => return None,
    };
    Some(reason)
}

/// What is wrong with a librdkafka property; `None` if nothing is. The value is never in the text.
#[must_use]
pub fn property_problem(role: ClientRole, name: &str, value: &str) -> Option<String> {
    match owned_property(role, name) {
        Some(reason) => Some(format!("cannot be set: {reason}")),
        None => kafka::property_problem(name, value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_limits_of_a_batch_grow_with_its_partitions_and_those_that_were_set_do_not() {
        let default = |partitions| BatchLimits::default().over(partitions);
        assert_eq!((default(4).records(), default(64).records(), default(500).records()), (10_000, 96_000, 100_000));
        assert_eq!((default(4).bytes(), default(32).bytes(), default(500).bytes()), (2 << 20, 8 << 20, 16 << 20));
        let set = BatchLimits { max_poll_records: Some(5), max_bytes: Some(32 << 20), ..BatchLimits::default() };
        assert_eq!((set.over(64).records(), set.over(500).bytes()), (5, 32 << 20));
    }

    #[test]
    fn all_problems_are_reported_at_once() {
        let mut config =
            WorkerConfig::new("", " ", "g", ["a", "a"], Delivery::ExactlyOnce { transactional_id: String::new() });
        config.consumer_properties.insert("isolation.level".into(), "read_uncommitted".into());
        let Err(Error::Config { problems }) = config.validate() else { panic!("must be refused") };
        assert_eq!(problems.len(), 5, "{problems:?}");
    }

    #[test]
    fn properties_that_the_group_protocol_refuses_are_named_together() {
        let mut config =
            WorkerConfig::new("n", "b", "g", ["a"], Delivery::ExactlyOnce { transactional_id: "t".to_owned() });
        for (name, value) in
            [("session.timeout.ms", "3000"), ("heartbeat.interval.ms", "500"), ("fetch.min.bytes", "2")]
        {
            config.consumer_properties.insert(name.into(), value.into());
        }
        config.validate().expect("the classic protocol knows them");
        config.group_protocol = GroupProtocol::Consumer;
        let Err(Error::Config { problems }) = config.validate() else { panic!("must be refused") };
        assert_eq!(problems.len(), 2, "{problems:?}");
        assert!(problems[1].contains("session.timeout.ms") && problems[1].contains("kafka-configs"), "{problems:?}");
    }

    #[test]
    fn the_scope_decides_the_timeout_where_none_is_given() {
        let mut config =
            WorkerConfig::new("n", "b", "g", ["a"], Delivery::ExactlyOnce { transactional_id: "t".to_owned() });
        config.batch.commit_interval = Duration::from_secs(20);
        config.validate().expect("20 s fit into 60 s");
        config.transaction_scope = TransactionScope::Worker;
        config.group_instance_id = Some("start".to_owned());
        let Err(Error::Config { problems }) = config.validate() else { panic!("must be refused") };
        assert!(problems.len() == 2 && problems[0].contains("-start") && problems[1].contains("(10s)"), "{problems:?}");
    }
}
