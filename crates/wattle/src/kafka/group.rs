//! Looking at a group from outside: what it has committed, whatever transactions are under way.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use rdkafka::config::FromClientConfigAndContext;
use rdkafka::consumer::{BaseConsumer, Consumer as _, ConsumerContext};
use rdkafka::error::RDKafkaErrorCode as Code;

use super::client::{self, LogGate};
use super::consumer::{TopicPartition, offset_in, unassigned, watermarks};
use super::error::Error;
use super::ffi::{self, Committed, Group};
use super::holder::Holder;
use super::position::Position;
use crate::config::{ClientProperties, WorkerConfig};
use crate::error::Error as WattleError;

/// A client that names the group without joining it. It reads uncommitted, so that a position that a transaction holds open
/// answers with the last committed value at once; a member has to wait instead.
pub(crate) struct GroupView {
    client: BaseConsumer<LogGate>,
    group: String,
    /// Some partition of the group's.
    some: TopicPartition,
}

/// One question to the coordinator.
const QUESTION: Duration = Duration::from_secs(2);
const AGAIN: Duration = Duration::from_millis(100);

impl ConsumerContext for LogGate {}

impl GroupView {
    pub(crate) fn new(config: &WorkerConfig) -> Result<Self, WattleError> {
        let properties = &config.consumer_properties;
        Self::of(&config.name, &config.brokers, &config.group, &config.topics[0], properties, "read_uncommitted")
    }

    /// With another isolation level a position that a transaction holds open makes the question wait. `topic`: some topic of the group's.
    pub(crate) fn of(
        name: &str,
        brokers: &str,
        group: &str,
        topic: &str,
        properties: &ClientProperties,
        isolation: &str,
    ) -> Result<Self, WattleError> {
        let mut client_config = client::with_user(client::base(name, brokers), properties);
        client_config
            .set("group.id", group)
            .set("enable.auto.commit", "false")
            .set("allow.auto.create.topics", "false")
            .set("isolation.level", isolation);
        BaseConsumer::from_config_and_context(&client_config, LogGate::new(name))
            .map(|client| GroupView { client, group: group.to_owned(), some: (topic.into(), 0) })
            .map_err(client::refused)
    }

    /// The group as its coordinator knows it; asks again for `patience` while the coordinator is not ready.
    ///
    /// librdkafka 2.12 aborts the process where the coordinator is found after a question for it was given up on. So it is asked for
    /// something else first, and the question itself is not given up on, only not listened to any more.
    pub(crate) fn group(&self, patience: Duration) -> Result<Group, Error> {
        let deadline = Instant::now() + patience;
        loop {
            let ready = match self.committed(std::slice::from_ref(&self.some), QUESTION) {
                // It answers.
                Err(error) if error.code() == Some(Code::UnstableOffsetCommit) => Ok(Vec::new()),
                answer => answer,
            };
            match ready.and_then(|_| ffi::group(self.client.client().native_ptr(), &self.group, QUESTION)) {
                Err(error) if error.is_not_now() && Instant::now() < deadline => std::thread::sleep(AGAIN),
                answer => return answer,
            }
        }
    }

    /// All positions that the group has committed.
    pub(crate) fn all_committed(&self, patience: Duration) -> Result<Vec<Committed>, Error> {
        let deadline = Instant::now() + patience;
        loop {
            // Behind the same probe as above.
            let ready = self.group(deadline.saturating_duration_since(Instant::now()));
            let client = self.client.client().native_ptr();
            match ready.and_then(|_| ffi::all_committed(client, &self.group, QUESTION)) {
                Err(error) if error.is_not_now() && Instant::now() < deadline => std::thread::sleep(AGAIN),
                answer => return answer,
            }
        }
    }

    /// First offset that a partition still has, and its high watermark.
    pub(crate) fn watermarks(&self, topic: &str, partition: i32, timeout: Duration) -> Result<(i64, i64), Error> {
        watermarks(&self.client, topic, partition, timeout)
    }

    /// Who committed the last positions of these partitions, as far as they say.
    pub(crate) fn holders(&self, partitions: &[TopicPartition], timeout: Duration) -> Result<BTreeSet<Holder>, Error> {
        let list = self.client.committed_offsets(unassigned(partitions), timeout)?;
        Ok(list.elements().iter().filter_map(|element| Holder::read(element.metadata())).collect())
    }

    /// The group's last committed positions.
    pub(crate) fn committed(
        &self,
        partitions: &[TopicPartition],
        timeout: Duration,
    ) -> Result<Vec<Option<Position>>, Error> {
        let list = self.client.committed_offsets(unassigned(partitions), timeout)?;
        partitions.iter().map(|(topic, partition)| offset_in(&list, topic, *partition)).collect()
    }
}
