//! Looks at a broker from outside, with clients of its own: topics, ends, groups, open transactions.

use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::time::Duration;

use rdkafka::admin::{AdminClient, AdminOptions, NewPartitions, NewTopic, ResourceSpecifier, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaResult;
use rdkafka::{Offset, TopicPartitionList};

use super::members;
use super::wait::{wait_for, wait_until};

pub(super) const TIMEOUT: Duration = Duration::from_secs(20);
/// For a broker's answer to a test, which is no promise: a broker that has just started is slow on a busy machine.
pub(crate) const ANSWER: Duration = Duration::from_secs(180);
/// Longer than the 10 s that a transaction lasts by default, and less than the minute that tests give one that somebody has to end.
const SETTLED: Duration = Duration::from_secs(40);

/// What a reader sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Isolation {
    ReadCommitted,
    ReadUncommitted,
}

impl Isolation {
    /// Kafka's name for it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Isolation::ReadCommitted => "read_committed",
            Isolation::ReadUncommitted => "read_uncommitted",
        }
    }
}

/// Client properties that every client here has. Back-offs are short, since brokers come and go. A single broker that was away for its
/// controller answers for a moment that there are none, over which a client forgets them all and has to begin again with the first address.
pub(crate) fn client(address: &str) -> ClientConfig {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", address).set("reconnect.backoff.max.ms", "200");
    config.set("metadata.recovery.strategy", "rebootstrap").set("log_level", "2");
    config
}

/// The same for transactions, in whose calls beginning again can hang.
pub(crate) fn transactional_client(address: &str) -> ClientConfig {
    let mut config = client(address);
    config.set("metadata.recovery.strategy", "none");
    config
}

/// The view of one broker.
pub(crate) struct Cluster {
    address: String,
    committed: OnceLock<BaseConsumer>,
    uncommitted: OnceLock<BaseConsumer>,
}

impl Cluster {
    /// Nothing connects before the first question.
    pub(crate) fn new(address: String) -> Self {
        Cluster { address, committed: OnceLock::new(), uncommitted: OnceLock::new() }
    }

    /// The broker's address.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// Creates a topic and waits until the broker leads its partitions.
    pub(crate) fn create_topic(&self, name: &str, partitions: i32, configs: &[(&str, &str)]) {
        let topic = NewTopic {
            name,
            num_partitions: partitions,
            replication: TopicReplication::Fixed(1),
            config: configs.to_vec(),
        };
        let results = answer(self.admin().create_topics([&topic], &options()));
        assert!(results[0].is_ok(), "{results:?}");
        wait_until(&format!("{name} is there"), ANSWER, || self.partitions(name) == Some(partitions));
    }

    /// Gives a topic more partitions.
    pub(crate) fn add_partitions(&self, name: &str, total: usize) {
        let results = answer(self.admin().create_partitions(&[NewPartitions::new(name, total)], &options()));
        assert!(results[0].is_ok(), "{results:?}");
        wait_until("the partitions are there", ANSWER, || self.count(name) == i32::try_from(total).expect("few"));
    }

    /// Deletes a topic and waits until it is gone.
    pub(crate) fn delete_topic(&self, name: &str) {
        let results = answer(self.admin().delete_topics(&[name], &options()));
        assert!(results[0].is_ok(), "{results:?}");
        wait_until(&format!("{name} is gone"), ANSWER, || self.partitions(name).is_none());
    }

    /// Deletes the records before `offset`.
    pub(crate) fn delete_records(&self, topic: &str, partition: i32, offset: i64) {
        let mut list = TopicPartitionList::new();
        list.add_partition_offset(topic, partition, Offset::Offset(offset)).expect("a valid offset");
        answer(self.admin().delete_records(&list, &options()));
        wait_until("the records are deleted", ANSWER, || {
            self.range(topic, partition, Isolation::ReadUncommitted).0 == offset
        });
    }

    /// How many partitions a topic has, if it is there.
    pub(crate) fn partitions(&self, topic: &str) -> Option<i32> {
        let reader = self.reader(Isolation::ReadUncommitted);
        let metadata = wait_for("metadata", ANSWER, || reader.fetch_metadata(None, TIMEOUT).ok());
        let found = metadata.topics().iter().find(|t| t.name() == topic && t.error().is_none())?;
        let led = found.partitions().iter().filter(|p| p.leader() >= 0).count();
        (led > 0).then(|| i32::try_from(led).expect("few"))
    }

    /// How many partitions a topic has. A broker that has just come back leads none for a moment.
    pub(crate) fn count(&self, topic: &str) -> i32 {
        wait_for(&format!("topic {topic}"), ANSWER, || self.partitions(topic))
    }

    /// First offset and end of a partition: its high watermark, or its last stable offset.
    pub(crate) fn range(&self, topic: &str, partition: i32, isolation: Isolation) -> (i64, i64) {
        let reader = self.reader(isolation);
        wait_for("watermarks", ANSWER, || reader.fetch_watermarks(topic, partition, TIMEOUT).ok())
    }

    /// Ends of all partitions of a topic.
    pub(crate) fn ends(&self, topic: &str, isolation: Isolation) -> Vec<i64> {
        (0..self.count(topic)).map(|p| self.range(topic, p, isolation).1).collect()
    }

    /// Partitions of these topics that have a transaction without an end: their last stable offset is not their end.
    pub(crate) fn open_transactions(&self, topics: &[&str]) -> Vec<String> {
        let mut open = Vec::new();
        for topic in topics {
            // In this order: a transaction that begins in between must not look open for ever.
            let ends = self.ends(topic, Isolation::ReadUncommitted);
            let stable = self.ends(topic, Isolation::ReadCommitted);
            for (partition, (end, stable)) in ends.iter().zip(&stable).enumerate() {
                if stable < end {
                    open.push(format!("{topic}/{partition}: stable to {stable} of {end}"));
                }
            }
        }
        open
    }

    /// W8, of transactions: returns when no transaction is open that is so now on these topics. Markers are written soon after a transaction's
    /// end, which for that of a dead worker is after the 10 s of its timeout at the latest.
    pub(crate) fn wait_settled(&self, topics: &[&str]) {
        self.wait_settled_within(SETTLED, topics);
    }

    /// The same where what is left open may last longer.
    pub(crate) fn wait_settled_within(&self, patience: Duration, topics: &[&str]) {
        let ends: Vec<_> = topics.iter().map(|topic| self.ends(topic, Isolation::ReadUncommitted)).collect();
        wait_until(&format!("no transaction is open on {topics:?}"), patience, || {
            topics.iter().zip(&ends).all(|(topic, ends)| {
                self.ends(topic, Isolation::ReadCommitted).iter().zip(ends).all(|(stable, end)| stable >= end)
            })
        });
    }

    /// What a topic's setting is.
    pub(crate) fn setting(&self, topic: &str, key: &str) -> Option<String> {
        let described = answer(self.admin().describe_configs(&[ResourceSpecifier::Topic(topic)], &options()));
        described[0].as_ref().expect("it is there").get(key)?.value.clone()
    }

    /// A consumer group's view.
    pub(crate) fn group(&self, name: &str) -> Group<'_> {
        let consumer = client(&self.address).set("group.id", name).set("isolation.level", "read_uncommitted").create();
        Group { cluster: self, name: name.to_owned(), consumer: consumer.expect("a consumer") }
    }

    fn reader(&self, isolation: Isolation) -> &BaseConsumer {
        let cell = match isolation {
            Isolation::ReadCommitted => &self.committed,
            Isolation::ReadUncommitted => &self.uncommitted,
        };
        cell.get_or_init(|| {
            client(&self.address).set("isolation.level", isolation.name()).create().expect("a consumer")
        })
    }

    /// For what else is to be asked.
    pub(crate) fn admin(&self) -> AdminClient<DefaultClientContext> {
        client(&self.address).create().expect("an admin client")
    }
}

/// Of admin requests.
pub(crate) fn options() -> AdminOptions {
    AdminOptions::new().operation_timeout(Some(TIMEOUT))
}

/// Blocks until the admin client has its answer.
pub(crate) fn answer<T>(asked: impl Future<Output = KafkaResult<T>>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    runtime.block_on(asked).expect("the broker answers")
}

/// A consumer group, seen without joining it.
pub(crate) struct Group<'a> {
    cluster: &'a Cluster,
    name: String,
    consumer: BaseConsumer,
}

impl Group<'_> {
    /// Committed positions of a topic, a partition after the other; pending transactions do not count.
    pub(crate) fn committed(&self, topic: &str) -> Vec<Option<i64>> {
        let found = self.positions(topic);
        let by_partition: BTreeMap<i32, Option<i64>> =
            found.elements().iter().map(|e| (e.partition(), e.offset().to_raw().filter(|&o| o >= 0))).collect();
        by_partition.into_values().collect()
    }

    /// What was committed beside the positions of a topic: who did it.
    pub(crate) fn holders(&self, topic: &str) -> Vec<String> {
        self.positions(topic).elements().iter().map(|element| element.metadata().to_owned()).collect()
    }

    fn positions(&self, topic: &str) -> TopicPartitionList {
        let mut list = TopicPartitionList::new();
        list.add_partition_range(topic, 0, self.cluster.count(topic) - 1);
        wait_for(&format!("positions of group {}", self.name), ANSWER, || {
            self.consumer.committed_offsets(list.clone(), TIMEOUT).ok() // a coordinator that is loading answers with an error
        })
    }

    /// Returns when the coordinator answers: a broker that has just started for the first time makes the topic for it now.
    pub(crate) fn wait_coordinator(&self) {
        wait_until("the group coordinator answers", ANSWER, || {
            self.consumer.committed_offsets(TopicPartitionList::new(), TIMEOUT).is_ok()
                && self.consumer.fetch_group_list(Some(&self.name), TIMEOUT).is_ok()
        });
    }

    /// The sum of the committed positions of these topics.
    pub(crate) fn progress(&self, topics: &[&str]) -> i64 {
        topics.iter().flat_map(|topic| self.committed(topic)).flatten().sum()
    }

    /// What is between the committed positions and the ends, as a `read_committed` reader counts.
    pub(crate) fn lag(&self, topics: &[&str]) -> i64 {
        let of_topic = |topic: &&str| {
            let ends = self.cluster.ends(topic, Isolation::ReadCommitted);
            let committed = self.committed(topic);
            ends.iter().zip(committed).map(|(end, at)| end - at.unwrap_or(0)).sum::<i64>()
        };
        topics.iter().map(of_topic).sum()
    }

    /// Returns when the group has committed everything.
    pub(crate) fn wait_drained(&self, topics: &[&str], patience: Duration) {
        wait_until(&format!("group {} has lag 0", self.name), patience, || self.lag(topics) == 0);
    }

    /// Members and how many partitions each has; `None` while the group rebalances or is not there.
    pub(crate) fn members(&self) -> Option<Vec<usize>> {
        members::of(&self.cluster.address, &self.name, &self.consumer)
    }

    /// Returns when the group is stable with members that have so many partitions each, in any order.
    pub(crate) fn wait_members(&self, wanted: &[usize], patience: Duration) {
        wait_until(&format!("group {} has members with {wanted:?} partitions", self.name), patience, || {
            self.members().is_some_and(|mut found| {
                found.sort_unstable();
                found == wanted
            })
        });
    }
}
