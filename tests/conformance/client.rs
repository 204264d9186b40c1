//! Clients whose failures are answers.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rdkafka::client::ClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerGroupMetadata};
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode};
use rdkafka::message::Message;
use rdkafka::producer::{BaseProducer, BaseRecord, DeliveryResult, Producer, ProducerContext};
use rdkafka::{Offset, TopicPartitionList};

use crate::harness::cluster::{Cluster, Isolation, client, transactional_client};
use crate::harness::ledger;
use crate::harness::wait::{PATIENCE, wait_until};

/// For one call.
pub(super) const TIMEOUT: Duration = Duration::from_secs(20);

/// Remembers what was not delivered.
#[derive(Default)]
pub(super) struct Undelivered(Mutex<Vec<RDKafkaErrorCode>>);

impl ClientContext for Undelivered {}

impl ProducerContext for Undelivered {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        if let Err((error, _)) = result {
            let code = error.rdkafka_error_code().expect("a failed delivery has a code");
            self.0.lock().unwrap_or_else(PoisonError::into_inner).push(code);
        }
    }
}

/// A producer with a transactional id.
pub(super) struct Writer(BaseProducer<Undelivered>);

impl Writer {
    /// Not initialised yet.
    pub(super) fn new(address: &str, id: &str, more: &[(&str, &str)]) -> Self {
        let mut config = transactional_client(address);
        config.set("transactional.id", id).set("retry.backoff.ms", "5").set("linger.ms", "2");
        for (key, value) in more {
            config.set(*key, *value);
        }
        Writer(config.create_with_context(Undelivered::default()).expect("a producer"))
    }

    /// Initialised.
    pub(super) fn ready(address: &str, id: &str) -> Self {
        let writer = Writer::new(address, id, &[]);
        writer.init().expect("initialised");
        writer
    }

    /// Initialised, and in a transaction.
    pub(super) fn begun(address: &str, id: &str) -> Self {
        let writer = Writer::ready(address, id);
        writer.begin();
        writer
    }

    /// Takes the id away from whoever has it.
    pub(super) fn init(&self) -> KafkaResult<()> {
        self.0.init_transactions(TIMEOUT)
    }

    /// Begins a transaction.
    pub(super) fn begin(&self) {
        self.0.begin_transaction().expect("begun");
    }

    /// Sends one record and waits until its fate is known.
    pub(super) fn send(&self, record: BaseRecord<'_, str, str>) -> Result<(), RDKafkaErrorCode> {
        self.send_all([record])
    }

    /// Sends texts without a key to partition 0.
    pub(super) fn write(&self, topic: &str, texts: &[&str]) -> Result<(), RDKafkaErrorCode> {
        self.send_all(texts.iter().map(|text| BaseRecord::to(topic).partition(0).payload(*text)))
    }

    /// The first refusal, if there is one.
    pub(super) fn send_all<'a>(
        &self,
        records: impl IntoIterator<Item = BaseRecord<'a, str, str>>,
    ) -> Result<(), RDKafkaErrorCode> {
        for record in records {
            if let Err((error, _)) = self.0.send(record) {
                return Err(error.rdkafka_error_code().expect("the client's own refusals have codes"));
            }
        }
        wait_until("every record has its fate", PATIENCE, || {
            self.0.poll(Duration::from_millis(5));
            self.0.in_flight_count() == 0
        });
        let undelivered = std::mem::take(&mut *self.0.context().0.lock().unwrap_or_else(PoisonError::into_inner));
        undelivered.first().map_or(Ok(()), |code| Err(*code))
    }

    /// Makes positions of a member's group part of the transaction.
    pub(super) fn positions(
        &self,
        member: &ConsumerGroupMetadata,
        topic: &str,
        positions: &[(i32, i64)],
    ) -> KafkaResult<()> {
        let mut list = TopicPartitionList::new();
        for (partition, offset) in positions {
            list.add_partition_offset(topic, *partition, Offset::Offset(*offset)).expect("a valid offset");
        }
        self.0.send_offsets_to_transaction(&list, member, TIMEOUT)
    }

    /// Ends the transaction.
    pub(super) fn commit(&self) -> KafkaResult<()> {
        self.0.commit_transaction(TIMEOUT)
    }

    /// Ends the transaction.
    pub(super) fn abort(&self) -> KafkaResult<()> {
        self.0.abort_transaction(TIMEOUT)
    }

    /// A transaction of these texts in partition 0, committed.
    pub(super) fn commit_texts(&self, topic: &str, texts: &[&str]) {
        self.begin();
        assert_eq!(self.write(topic, texts), Ok(()));
        self.commit().expect("committed");
    }

    /// The same, aborted.
    pub(super) fn abort_texts(&self, topic: &str, texts: &[&str]) {
        self.begin();
        assert_eq!(self.write(topic, texts), Ok(()));
        self.abort().expect("aborted");
    }
}

/// The code of an answer that has to be an error.
pub(super) fn code<T>(answer: KafkaResult<T>) -> RDKafkaErrorCode {
    let error = answer.err().expect("it is refused");
    error.rdkafka_error_code().unwrap_or_else(|| panic!("an error of the broker or the client: {error}"))
}

/// Whether the producer is of no use any more.
pub(super) fn is_fatal<T>(answer: &KafkaResult<T>) -> bool {
    matches!(answer, Err(KafkaError::Transaction(error)) if error.is_fatal())
}

/// A member of a group that is to be.
pub(super) fn member(address: &str, group: &str, more: &[(&str, &str)]) -> BaseConsumer {
    let mut config = client(address);
    config.set("group.id", group).set("isolation.level", "read_committed").set("enable.auto.commit", "false");
    config.set("auto.offset.reset", "earliest").set("fetch.wait.max.ms", "20");
    config.set("session.timeout.ms", "10000").set("heartbeat.interval.ms", "500");
    for (key, value) in more {
        config.set(*key, *value);
    }
    config.create().expect("a consumer")
}

/// Polls these members until they have so many partitions each.
pub(super) fn share(members: &[(&BaseConsumer, usize)], mut each: impl FnMut(&str, i32, i64)) {
    let wanted: Vec<usize> = members.iter().map(|(_, wanted)| *wanted).collect();
    wait_until(&format!("the members have {wanted:?} partitions"), PATIENCE, || {
        for (member, _) in members {
            poll(member, &mut each);
        }
        members.iter().all(|(member, wanted)| member.assignment().expect("known here").count() == *wanted)
    });
}

/// One poll; a record is told by topic, partition and offset.
pub(super) fn poll(member: &BaseConsumer, mut each: impl FnMut(&str, i32, i64)) {
    match member.poll(Duration::from_millis(20)) {
        None => {}
        Some(Ok(message)) => each(message.topic(), message.partition(), message.offset()),
        Some(Err(error)) => panic!("a member's poll: {error}"),
    }
}

/// The values that a reader sees, in the order of their offsets.
pub(super) fn texts(cluster: &Cluster, topic: &str, isolation: Isolation) -> Vec<String> {
    let mut texts = Vec::new();
    ledger::read(cluster, topic, isolation, |message| {
        texts.push(String::from_utf8_lossy(message.payload().unwrap_or_default()).into_owned());
    });
    texts
}
