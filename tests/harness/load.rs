//! Writes input: records with an id that says which they are and where they began.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rdkafka::client::ClientContext;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::ToBytes;
use rdkafka::producer::{BaseProducer, BaseRecord, DeliveryResult, Producer, ProducerContext};

use super::cluster::client;

/// A running load writes what is due this often.
const TICK: Duration = Duration::from_millis(5);

/// Where records go, in turn.
#[derive(Clone, Debug)]
pub(crate) struct Load {
    pub(crate) address: String,
    pub(crate) topics: Vec<String>,
    pub(crate) partitions: i32,
}

/// Record `id`'s place and text: ids go around the topics and partitions, so they rise within each of them.
fn place(load: &Load, id: u64) -> (&str, i32) {
    let topics = load.topics.len() as u64;
    let topic = &load.topics[usize::try_from(id % topics).expect("few topics")];
    (topic, i32::try_from(id / topics % u64::from(load.partitions.unsigned_abs())).expect("few partitions"))
}

/// So many keys a load has.
pub(crate) const LOAD_KEYS: u64 = 97;

/// The value of record `id`.
pub(crate) fn value(topic: &str, partition: i32, id: u64) -> String {
    format!(r#"{{"i":{id},"from":"{topic}/{partition}"}}"#)
}

impl Load {
    /// Writes these records and returns when the broker has confirmed them.
    pub(crate) fn send(&self, ids: Range<u64>) {
        let producer = confirmed_producer(&self.address);
        for id in ids {
            self.send_one(&producer, id);
        }
        finish(&producer);
    }

    /// Writes records from `from` on at a rate until [`Running::finish`].
    pub(crate) fn start(&self, from: u64, per_second: u64) -> Running {
        let load = self.clone();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            let producer = confirmed_producer(&load.address);
            let begin = Instant::now();
            let mut next = from;
            while !stopped.load(Ordering::Relaxed) {
                let due = begin.elapsed().as_millis() as u64 * per_second / 1000;
                while next - from < due {
                    load.send_one(&producer, next);
                    next += 1;
                }
                producer.poll(Duration::ZERO);
                thread::sleep(TICK);
            }
            finish(&producer);
            next
        });
        Running { stop, thread }
    }

    fn send_one(&self, producer: &BaseProducer<Deliveries>, id: u64) {
        let (topic, partition) = place(self, id);
        let (key, value) = (format!("k{}", id % LOAD_KEYS), value(topic, partition, id));
        send(producer, BaseRecord::to(topic).partition(partition).key(&key).payload(&value));
    }
}

/// A load that is being written.
pub(crate) struct Running {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<u64>,
}

impl Running {
    /// Ends it; returns the first id that was not written. Everything before is confirmed.
    pub(crate) fn finish(self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("the load was written")
    }
}

/// Counts deliveries that failed.
#[derive(Default)]
pub(crate) struct Deliveries {
    failed: AtomicU64,
}

impl ClientContext for Deliveries {}

impl ProducerContext for Deliveries {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        if result.is_err() {
            self.failed.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// A producer that neither loses nor repeats nor reorders, over any number of broker deaths.
pub(crate) fn confirmed_producer(address: &str) -> BaseProducer<Deliveries> {
    let mut config = client(address);
    config.set("enable.idempotence", "true").set("linger.ms", "2").set("retry.backoff.ms", "20");
    // Several under way: after a broker's death a later one may arrive before the retry of an earlier one, is refused as out of order, and
    // librdkafka goes on with a new epoch. What was written before without an answer is then written again.
    config.set("max.in.flight.requests.per.connection", "1");
    config.create_with_context(Deliveries::default()).expect("a producer")
}

/// Sends, waiting while the queue is full.
pub(crate) fn send<K: ToBytes + ?Sized, V: ToBytes + ?Sized>(
    producer: &BaseProducer<Deliveries>,
    mut record: BaseRecord<'_, K, V>,
) {
    while let Err((error, back)) = producer.send(record) {
        assert!(matches!(error, KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull)), "{error}");
        producer.poll(Duration::from_millis(5));
        record = back;
    }
}

/// Returns when everything that was sent is confirmed.
pub(crate) fn finish(producer: &BaseProducer<Deliveries>) {
    while producer.in_flight_count() > 0 {
        producer.poll(Duration::from_millis(5));
    }
    let failed = producer.context().failed.load(Ordering::Relaxed);
    assert_eq!(failed, 0, "records that the broker did not take");
}
