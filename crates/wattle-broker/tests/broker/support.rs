//! Clients, and waiting with a bound.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use rdkafka::client::ClientContext;
use rdkafka::config::{ClientConfig, FromClientConfigAndContext};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{DeliveryResult, Message};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer, ProducerContext};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use wattle_broker::Broker;

/// Nothing here takes longer, even on a busy machine.
pub(crate) const LONG: Duration = Duration::from_secs(20);

/// What became of each record: its offset, or why not.
#[derive(Default)]
pub(crate) struct Reports(Mutex<Vec<Result<i64, RDKafkaErrorCode>>>);

impl ClientContext for Reports {}

impl ProducerContext for Reports {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        let report = match result {
            Ok(message) => Ok(message.offset()),
            Err((error, _)) => Err(error.rdkafka_error_code().expect("a broker's or librdkafka's code")),
        };
        self.0.lock().expect("not poisoned").push(report);
    }
}

pub(crate) type Sender = BaseProducer<Reports>;

pub(crate) fn config(broker: &Broker) -> ClientConfig {
    let mut config = ClientConfig::new();
    config
        .set("bootstrap.servers", broker.address())
        .set("retry.backoff.ms", "1")
        .set("reconnect.backoff.ms", "10")
        .set("reconnect.backoff.max.ms", "50")
        .set("metadata.recovery.strategy", "none");
    config
}

/// Starts a memory broker with one topic `t`.
pub(crate) fn with_topic(partitions: i32) -> Broker {
    Broker::builder().topic("t", partitions).start().expect("a broker")
}

pub(crate) fn sender_with(broker: &Broker, settings: &[(&str, &str)]) -> Sender {
    let mut config = config(broker);
    config.set("linger.ms", "0");
    for (name, value) in settings {
        config.set(*name, *value);
    }
    Sender::from_config_and_context(&config, Reports::default()).expect("a producer")
}

pub(crate) fn sender(broker: &Broker) -> Sender {
    sender_with(broker, &[])
}

/// A transactional producer that has fenced its predecessors.
pub(crate) fn transactional(broker: &Broker, id: &str) -> Sender {
    let sender = sender_with(broker, &[("transactional.id", id)]);
    sender.init_transactions(LONG).expect("transactions are initialised");
    sender
}

/// Sends one record and waits for what becomes of it.
pub(crate) fn send(sender: &Sender, topic: &str, partition: i32, value: &str) -> Result<i64, RDKafkaErrorCode> {
    deliver(sender, BaseRecord::to(topic).partition(partition).key("k").payload(value))
}

/// The same, with any record.
pub(crate) fn deliver(sender: &Sender, record: BaseRecord<'_, str, str>) -> Result<i64, RDKafkaErrorCode> {
    sender.send(record).map_err(|(error, _)| error).expect("there is room in the queue");
    reports(sender, 1).remove(0)
}

/// Sends records and waits for what becomes of them, in the order of the reports.
pub(crate) fn send_all<'a>(
    sender: &Sender,
    topic: &str,
    partition: i32,
    values: impl IntoIterator<Item = &'a str>,
) -> Vec<Result<i64, RDKafkaErrorCode>> {
    let mut sent = 0;
    for value in values {
        let record = BaseRecord::<str, str>::to(topic).partition(partition).key("k").payload(value);
        sender.send(record).map_err(|(error, _)| error).expect("there is room in the queue");
        sent += 1;
    }
    reports(sender, sent)
}

/// Waits for so many delivery reports.
fn reports(sender: &Sender, count: usize) -> Vec<Result<i64, RDKafkaErrorCode>> {
    let reports = &sender.context().0;
    let until = Instant::now() + LONG;
    while reports.lock().expect("not poisoned").len() < count {
        assert!(Instant::now() < until, "no delivery report");
        sender.poll(Duration::from_millis(100));
    }
    std::mem::take(&mut *reports.lock().expect("not poisoned"))
}

/// Sends one record and commits it with the transaction.
pub(crate) fn commit_one(sender: &Sender, topic: &str, value: &str) {
    sender.begin_transaction().expect("no transaction is open");
    send(sender, topic, 0, value).expect("delivered");
    sender.commit_transaction(LONG).expect("committed");
}

pub(crate) fn consumer_with(broker: &Broker, group: &str, settings: &[(&str, &str)]) -> BaseConsumer {
    let mut config = config(broker);
    config
        .set("group.id", group)
        .set("enable.auto.commit", "false")
        .set("auto.offset.reset", "earliest")
        .set("enable.partition.eof", "true")
        .set("heartbeat.interval.ms", "100")
        .set("fetch.wait.max.ms", "50");
    for (name, value) in settings {
        config.set(*name, *value);
    }
    config.create().expect("a consumer")
}

/// A member of a group that reads `t`.
pub(crate) fn member(broker: &Broker, group: &str, client: &str) -> BaseConsumer {
    let consumer = consumer_with(broker, group, &[("client.id", client)]);
    consumer.subscribe(&["t"]).expect("subscribed");
    consumer
}

/// Polls the members until `over`. A broker that is away for a moment is no failure.
pub(crate) fn poll_until(members: &[&BaseConsumer], mut over: impl FnMut() -> bool) {
    let until = Instant::now() + LONG;
    while !over() {
        assert!(Instant::now() < until, "it did not happen in time");
        for member in members {
            if let Some(Err(error)) = member.poll(Duration::from_millis(20)) {
                let away = [Some(RDKafkaErrorCode::AllBrokersDown), Some(RDKafkaErrorCode::BrokerTransportFailure)];
                let expected =
                    matches!(error, KafkaError::PartitionEOF(_)) || away.contains(&error.rdkafka_error_code());
                assert!(expected, "{error}");
            }
        }
    }
}

/// Number of assigned partitions.
pub(crate) fn assigned(member: &BaseConsumer) -> usize {
    member.assignment().expect("an assignment").count()
}

/// The values of all visible records of a topic's partitions, partition by partition.
pub(crate) fn read(broker: &Broker, topic: &str, partitions: i32, isolation: &str) -> Vec<String> {
    let consumer = consumer_with(broker, "reader", &[("isolation.level", isolation)]);
    let mut list = TopicPartitionList::new();
    for partition in 0..partitions {
        list.add_partition_offset(topic, partition, Offset::Beginning).expect("an offset");
    }
    consumer.assign(&list).expect("assigned");
    let mut values = vec![Vec::new(); usize::try_from(partitions).expect("positive")];
    let mut ended = BTreeSet::new();
    let until = Instant::now() + LONG;
    while ended.len() < values.len() {
        assert!(Instant::now() < until, "the end of {topic} was not reached");
        match consumer.poll(Duration::from_millis(100)) {
            None => {}
            Some(Ok(message)) => {
                let value = message.payload_view::<str>().expect("a value").expect("text").to_owned();
                values[usize::try_from(message.partition()).expect("positive")].push(value);
            }
            Some(Err(KafkaError::PartitionEOF(partition))) => drop(ended.insert(partition)),
            Some(Err(error)) => panic!("{error}"),
        }
    }
    values.concat()
}

pub(crate) fn committed_values(broker: &Broker) -> Vec<String> {
    read(broker, "t", 1, "read_committed")
}

pub(crate) fn all_values(broker: &Broker) -> Vec<String> {
    read(broker, "t", 1, "read_uncommitted")
}

/// The group's committed position in partition 0 of `t`.
pub(crate) fn position(broker: &Broker, group: &str) -> Offset {
    let consumer = consumer_with(broker, group, &[]);
    let mut list = TopicPartitionList::new();
    list.add_partition("t", 0);
    let committed = consumer.committed_offsets(list, LONG).expect("positions");
    committed.find_partition("t", 0).expect("the partition").offset()
}

/// One position in partition 0 of `t`.
pub(crate) fn at(offset: i64) -> TopicPartitionList {
    let mut list = TopicPartitionList::new();
    list.add_partition_offset("t", 0, Offset::Offset(offset)).expect("an offset");
    list
}
