//! An independent transactional producer: the application next door, or an intruder.

use std::time::Duration;

use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use rdkafka::{Offset, TopicPartitionList};

use super::cluster::{client, transactional_client};
use super::load::{Deliveries, finish, send};

const TIMEOUT: Duration = Duration::from_secs(30);
/// Longer than any test.
const LONG: Duration = Duration::from_secs(600);

/// A transaction that is open until it is committed or aborted. Dropped, it stays open until its timeout.
pub(crate) struct Transaction {
    address: String,
    producer: BaseProducer<Deliveries>,
}

fn producer(address: &str, id: &str, lasts: Duration) -> BaseProducer<Deliveries> {
    let mut config: ClientConfig = transactional_client(address);
    config.set("transactional.id", id).set("retry.backoff.ms", "5");
    config.set("transaction.timeout.ms", lasts.as_millis().to_string());
    let producer = config.create_with_context(Deliveries::default()).expect("a producer");
    Producer::init_transactions(&producer, TIMEOUT).expect("initialised");
    producer
}

/// Takes a transactional id away from whoever has it.
pub(crate) fn fence(address: &str, id: &str) {
    drop(producer(address, id, LONG));
}

impl Transaction {
    /// Begins one that the broker does not end for ten minutes.
    pub(crate) fn open(address: &str, id: &str) -> Self {
        Transaction::open_for(address, id, LONG)
    }

    /// Begins one that the broker ends when it has lasted so long.
    pub(crate) fn open_for(address: &str, id: &str, lasts: Duration) -> Self {
        let producer = producer(address, id, lasts);
        producer.begin_transaction().expect("begun");
        Transaction { address: address.to_owned(), producer }
    }

    /// Writes records and waits until the broker has them.
    pub(crate) fn write<'a>(&self, topic: &str, partition: i32, records: impl IntoIterator<Item = (&'a str, String)>) {
        for (key, value) in records {
            send(&self.producer, BaseRecord::to(topic).partition(partition).key(key).payload(&value));
        }
        finish(&self.producer);
    }

    /// Makes a position of a group part of the transaction: pending until it ends.
    pub(crate) fn position(&self, group: &str, topic: &str, partition: i32, offset: i64) {
        let consumer: BaseConsumer = client(&self.address).set("group.id", group).create().expect("a consumer");
        let token = consumer.group_metadata().expect("a consumer with a group has it");
        let mut list = TopicPartitionList::new();
        list.add_partition_offset(topic, partition, Offset::Offset(offset)).expect("a valid offset");
        self.producer.send_offsets_to_transaction(&list, &token, TIMEOUT).expect("pending");
    }

    /// Ends it.
    pub(crate) fn commit(self) {
        self.producer.commit_transaction(TIMEOUT).expect("committed");
    }

    /// Ends it.
    pub(crate) fn abort(self) {
        self.producer.abort_transaction(TIMEOUT).expect("aborted");
    }
}
