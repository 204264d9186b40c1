//! Reads a topic as somebody who looks at it does: committed records only, outside of any group, changing nothing.

use std::time::{Duration, Instant};

use rdkafka::client::ClientContext;
use rdkafka::config::{ClientConfig, RDKafkaLogLevel};
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext};
use rdkafka::error::{KafkaError, RDKafkaErrorCode as Code};
use rdkafka::message::{BorrowedMessage, Message};
use rdkafka::{Offset as At, TopicPartitionList};

use super::consumer::headers;
use super::{Error as ClientError, Header, Offset};
use crate::config::{ClientProperties, ClientRole, owned_property};
use crate::error::Error;

/// Longest wait for a broker when the tail is opened.
const CONNECT: Duration = Duration::from_secs(8);

/// A record that owns its bytes. `None` is null, which is not the same as empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnedRecord {
    /// The topic it was read from.
    pub topic: String,
    /// Its partition.
    pub partition: i32,
    /// Its offset there.
    pub offset: Offset,
    /// Milliseconds since 1970-01-01T00:00:00Z.
    pub timestamp: Option<i64>,
    /// The key's bytes.
    pub key: Option<Vec<u8>>,
    /// The value's bytes; `None` is a tombstone.
    pub value: Option<Vec<u8>>,
    /// The headers in their order.
    pub headers: Vec<Header>,
}

/// All partitions of one topic, read without a consumer group: nothing is committed, and no topic is created.
pub struct Tail {
    topic: String,
    consumer: BaseConsumer<Quiet>,
    /// Whether a lost connection was logged and has not come back.
    down: bool,
}

impl Tail {
    /// Connects, and stands before the topic's oldest record, or behind its newest.
    ///
    /// # Errors
    /// [`Error::Unreachable`]; [`Error::Topics`] where the topic does not exist; [`Error::Config`] for a property that cannot
    /// be set.
    pub fn open(
        brokers: &str,
        topic: &str,
        from_beginning: bool,
        properties: &ClientProperties,
    ) -> Result<Self, Error> {
        let consumer = consumer(brokers, properties)?;
        let partitions = partitions(&consumer, brokers, topic)?;
        let mut assignment = TopicPartitionList::new();
        for partition in partitions {
            let at = if from_beginning { At::Beginning } else { end(&consumer, topic, partition)? };
            assignment
                .add_partition_offset(topic, partition, at)
                .map_err(|e| failed(format!("assign {topic}/{partition}"), e))?;
        }
        consumer.assign(&assignment).map_err(|e| failed(format!("assign the partitions of {topic}"), e))?;
        Ok(Tail { topic: topic.to_owned(), consumer, down: false })
    }

    /// The next record of any partition, or `None` where none comes within `timeout`. A broker that goes away is waited for.
    ///
    /// # Errors
    /// [`Error::Topics`] where the topic was deleted, [`Error::Kafka`] where it cannot be read for another reason.
    pub fn next(&mut self, timeout: Duration) -> Result<Option<OwnedRecord>, Error> {
        let deadline = Instant::now() + timeout;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.consumer.poll(left) {
                None => return Ok(None),
                Some(Ok(message)) => {
                    self.down = false;
                    return Ok(Some(owned(&message)));
                }
                Some(Err(error)) => self.judge(error)?,
            }
        }
    }

    /// Goes on where librdkafka does.
    fn judge(&mut self, error: KafkaError) -> Result<(), Error> {
        match error.rdkafka_error_code() {
            Some(Code::BrokerTransportFailure | Code::AllBrokersDown | Code::Resolve | Code::OperationTimedOut) => {
                if !self.down {
                    tracing::warn!("{}: waits for a broker: {error}", self.topic);
                }
                self.down = true;
                Ok(())
            }
            // librdkafka looks for the coordinator of the group that it was named, and nothing here needs one.
            Some(Code::GroupAuthorizationFailed) => Ok(()),
            Some(Code::UnknownPartition | Code::UnknownTopic | Code::UnknownTopicOrPartition) => {
                Err(Error::Topics { text: format!("topic {} is gone: it was deleted while it was read", self.topic) })
            }
            _ => Err(failed(format!("read {}", self.topic), error)),
        }
    }
}

fn consumer(brokers: &str, properties: &ClientProperties) -> Result<BaseConsumer<Quiet>, Error> {
    let problems: Vec<String> = properties
        .keys()
        .filter_map(|name| Some((name, owned_property(ClientRole::Consumer, name)?)))
        .map(|(name, reason)| format!("client property {name} cannot be set: {reason}"))
        .collect();
    if !problems.is_empty() {
        return Err(Error::Config { problems });
    }
    let mut config = ClientConfig::new();
    config.extend(properties.iter().map(|(key, value)| (key.clone(), value.clone())));
    config
        .set("bootstrap.servers", brokers)
        // librdkafka wants a name here even where no group is joined.
        .set("group.id", "wattle-tail")
        .set("enable.auto.commit", "false")
        .set("enable.auto.offset.store", "false")
        .set("isolation.level", "read_committed")
        .set("allow.auto.create.topics", "false")
        .set("auto.offset.reset", "earliest")
        .set_log_level(RDKafkaLogLevel::Warning);
    config.create_with_context(Quiet).map_err(|error| match error {
        // The value is not shown: it may be a password.
        KafkaError::ClientConfig(_, reason, key, _) => {
            Error::Config { problems: vec![format!("client property {key} is refused: {reason}")] }
        }
        other => failed("create a Kafka client".to_owned(), other),
    })
}

fn partitions(consumer: &BaseConsumer<Quiet>, brokers: &str, topic: &str) -> Result<Vec<i32>, Error> {
    let metadata = consumer.fetch_metadata(Some(topic), CONNECT).map_err(|error| Error::Unreachable {
        brokers: brokers.to_owned(),
        within: CONNECT,
        source: ClientError::from(error),
    })?;
    let found = metadata.topics().iter().find(|found| found.name() == topic);
    let partitions = match found.map(|found| (found.error().map(Code::from), found.partitions())) {
        Some((None, partitions)) => partitions.iter().map(|partition| partition.id()).collect(),
        Some((Some(code), _)) if code != Code::UnknownTopicOrPartition && code != Code::UnknownTopic => {
            return Err(Error::Topics { text: format!("topic {topic} cannot be read: {code}") });
        }
        _ => Vec::new(),
    };
    if partitions.is_empty() {
        let text = format!("topic {topic} does not exist at {brokers}: check the name, or create it (wattle create)");
        return Err(Error::Topics { text });
    }
    Ok(partitions)
}

/// Where a `read_committed` reader finds the next new record. Resolved here rather than by the client when it first fetches,
/// so that a record that comes in between is not missed.
fn end(consumer: &BaseConsumer<Quiet>, topic: &str, partition: i32) -> Result<At, Error> {
    let (_, end) = consumer
        .fetch_watermarks(topic, partition, CONNECT)
        .map_err(|e| failed(format!("find the end of {topic}/{partition}"), e))?;
    Ok(At::Offset(end))
}

fn failed(what: String, source: KafkaError) -> Error {
    Error::Kafka { what, source: ClientError::from(source) }
}

fn owned(message: &BorrowedMessage<'_>) -> OwnedRecord {
    OwnedRecord {
        topic: message.topic().to_owned(),
        partition: message.partition(),
        offset: Offset(message.offset()),
        timestamp: message.timestamp().to_millis(),
        key: message.key().map(<[u8]>::to_vec),
        value: message.payload().map(<[u8]>::to_vec),
        headers: headers(message).0,
    }
}

/// Sends what librdkafka says to the log; what matters also comes back as an error.
struct Quiet;

impl ClientContext for Quiet {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, text: &str) {
        tracing::debug!(?level, facility, "librdkafka: {text}");
    }

    fn error(&self, error: KafkaError, reason: &str) {
        tracing::debug!(%error, "librdkafka: {reason}");
    }
}

impl ConsumerContext for Quiet {}
