//! Clients of the benchmark itself: topics, load, and the `read_committed` reader that everything is measured by.

use std::fmt::Write;
use std::thread;
use std::time::{Duration, Instant};

use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::BorrowedMessage;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use rdkafka::{Message, Offset, TopicPartitionList};

use crate::Result;

/// Distinct keys of the load, where nothing else is said.
pub(crate) const KEYS: u64 = 10_000;
const TIMEOUT: Duration = Duration::from_secs(20);

/// What every client here has.
pub(crate) fn client(brokers: &str) -> ClientConfig {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", brokers).set("log_level", "3");
    config
}

/// Creates a topic.
pub(crate) fn create_topic(brokers: &str, name: &str, partitions: i32) -> Result<()> {
    let topic = NewTopic::new(name, partitions, TopicReplication::Fixed(1));
    admin(brokers, async |admin, options| admin.create_topics([&topic], options).await)?;
    // A broker that has said "created" may not know the topic for a moment yet.
    let consumer: BaseConsumer = client(brokers).create()?;
    let began = Instant::now();
    while began.elapsed() < TIMEOUT {
        let there = consumer.fetch_metadata(Some(name), TIMEOUT)?;
        if there.topics().first().is_some_and(|topic| i32::try_from(topic.partitions().len()) == Ok(partitions)) {
            return Ok(());
        }
        thread::sleep(Duration::from_millis(10));
    }
    Err(format!("the topic {name} does not appear").into())
}

/// Deletes a topic, so that its pages make room for others.
pub(crate) fn delete_topic(brokers: &str, name: &str) -> Result<()> {
    admin(brokers, async |admin, options| admin.delete_topics(&[name], options).await)
}

fn admin<E: std::fmt::Debug>(
    brokers: &str,
    ask: impl AsyncFnOnce(
        &AdminClient<DefaultClientContext>,
        &AdminOptions,
    ) -> rdkafka::error::KafkaResult<Vec<std::result::Result<String, E>>>,
) -> Result<()> {
    let admin: AdminClient<DefaultClientContext> = client(brokers).create()?;
    let options = AdminOptions::new().operation_timeout(Some(TIMEOUT));
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    for answer in runtime.block_on(ask(&admin, &options))? {
        answer.map_err(|error| format!("topic {error:?}"))?;
    }
    Ok(())
}

/// A record of the load: its number first, so that a reader finds it without parsing JSON.
pub(crate) struct Record {
    pub(crate) key: String,
    pub(crate) value: String,
}

impl Record {
    /// Record `i` of a load over so many keys, with a value of at least `size` bytes.
    pub(crate) fn new(i: u64, size: usize, keys: u64) -> Self {
        let key = format!("k{}", key(i, keys));
        let mut value = format!(r#"{{"i":{i},"k":"{key}","pad":""#);
        let missing = size.saturating_sub(value.len() + 2);
        // Writing to a String does not fail.
        write!(value, r#"{:x<missing$}"}}"#, "").unwrap_or_default();
        Record { key, value }
    }
}

/// The key of record `i`, a number below `keys`. They come in no order, and all of them equally often.
pub(crate) fn key(i: u64, keys: u64) -> u64 {
    i.wrapping_mul(2_654_435_761) % keys
}

/// The number of a record of the load; `None` for any other.
pub(crate) fn number(value: Option<&[u8]>) -> Option<u64> {
    let digits = value?.strip_prefix(br#"{"i":"#)?;
    let end = digits.iter().position(|byte| !byte.is_ascii_digit())?;
    std::str::from_utf8(&digits[..end]).ok()?.parse().ok()
}

/// A producer that sends at once.
pub(crate) fn producer(brokers: &str) -> Result<BaseProducer> {
    let mut config = client(brokers);
    config.set("enable.idempotence", "true").set("partitioner", "murmur2_random").set("linger.ms", "0");
    Ok(config.create()?)
}

/// Sends, and waits only while the client's queue is full.
pub(crate) fn send<'a>(producer: &BaseProducer, mut record: BaseRecord<'a, [u8], [u8]>) -> Result<()> {
    loop {
        match producer.send(record) {
            Ok(()) => return Ok(()),
            Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), back)) => {
                record = back;
                producer.poll(Duration::from_millis(5));
            }
            Err((error, _)) => return Err(error.into()),
        }
    }
}

/// The key of a record that is not of the load.
pub(crate) const PROBE: &str = "probe";

/// Sends a record that is not of the load to every partition. It has an `i` for those who need one.
pub(crate) fn send_to_each(brokers: &str, topic: &str, partitions: i32) -> Result<()> {
    let producer = producer(brokers)?;
    for partition in 0..partitions {
        let record = BaseRecord::to(topic).partition(partition).key(PROBE.as_bytes());
        let record = record.payload(&br#"{"probe":true,"i":0}"#[..]);
        send(&producer, record)?;
    }
    wait_delivered(&producer);
    Ok(())
}

/// Waits until everything that was sent is delivered. `flush` would do it in steps of 100 ms; `poll` waits for whole milliseconds,
/// and turns shorter times into a loop that burns a core.
pub(crate) fn wait_delivered(producer: &BaseProducer) {
    loop {
        producer.poll(Duration::ZERO);
        if producer.in_flight_count() == 0 {
            return;
        }
        thread::sleep(Duration::from_micros(100));
    }
}

/// Writes the load.
pub(crate) fn load(brokers: &str, topic: &str, records: u64, size: usize, keys: u64) -> Result<()> {
    let producer = producer(brokers)?;
    for i in 0..records {
        let record = Record::new(i, size, keys);
        send(&producer, BaseRecord::to(topic).key(record.key.as_bytes()).payload(record.value.as_bytes()))?;
        if i % 500 == 0 {
            producer.poll(Duration::ZERO);
        }
    }
    wait_delivered(&producer);
    let ledger = Ledger::of(brokers, topic, records)?;
    if ledger.is_exact() { Ok(()) } else { Err(format!("the load is not complete: {ledger}").into()) }
}

/// Reads all partitions of a topic from its beginning, as a `read_committed` consumer sees it.
pub(crate) struct Reader {
    consumer: BaseConsumer,
    partitions: i32,
}

impl Reader {
    pub(crate) fn new(brokers: &str, topic: &str) -> Result<Self> {
        let consumer: BaseConsumer = client(brokers)
            .set("group.id", "wattle-bench-reader")
            .set("enable.auto.commit", "false")
            .set("isolation.level", "read_committed")
            .set("enable.partition.eof", "true")
            .set("fetch.wait.max.ms", "20")
            .set("queued.min.messages", "200000")
            .create()?;
        let metadata = consumer.fetch_metadata(Some(topic), TIMEOUT)?;
        let partitions = metadata.topics().first().map_or(0, |topic| topic.partitions().len());
        let partitions = i32::try_from(partitions)?;
        let mut list = TopicPartitionList::new();
        for partition in 0..partitions {
            list.add_partition_offset(topic, partition, Offset::Offset(0))?;
        }
        consumer.assign(&list)?;
        Ok(Reader { consumer, partitions })
    }

    /// The next record; `None` where none comes within `wait`, or at the end of a partition.
    pub(crate) fn next(&self, wait: Duration) -> Result<Option<BorrowedMessage<'_>>> {
        match self.consumer.poll(wait) {
            Some(Ok(message)) => Ok(Some(message)),
            Some(Err(KafkaError::PartitionEOF(_))) | None => Ok(None),
            Some(Err(error)) => Err(error.into()),
        }
    }

    /// Returns once the reader has been at the end of every partition, which means that it is fetching, with the records that it
    /// has met on its way.
    pub(crate) fn read_to_end(&self, mut each: impl FnMut(&BorrowedMessage)) -> Result<()> {
        let mut open: Vec<i32> = (0..self.partitions).collect();
        let mut last = Instant::now();
        while !open.is_empty() {
            match self.consumer.poll(Duration::from_millis(100)) {
                None if last.elapsed() > TIMEOUT => return Err(format!("no end of partitions {open:?}").into()),
                None => continue,
                Some(Ok(message)) => each(&message),
                Some(Err(KafkaError::PartitionEOF(partition))) => open.retain(|p| *p != partition),
                Some(Err(error)) => return Err(error.into()),
            }
            last = Instant::now();
        }
        Ok(())
    }
}

/// Whether every record of a load is in a topic once.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    missing: u64,
    doubled: u64,
}

impl Ledger {
    /// What a `read_committed` reader sees.
    pub(crate) fn of(brokers: &str, topic: &str, records: u64) -> Result<Self> {
        let mut seen = vec![false; usize::try_from(records)?];
        let mut ledger = Ledger { missing: records, doubled: 0 };
        Reader::new(brokers, topic)?.read_to_end(|message| {
            let Some(number) = number(message.payload()) else { return };
            match usize::try_from(number).ok().and_then(|number| seen.get_mut(number)) {
                Some(seen) if !*seen => {
                    *seen = true;
                    ledger.missing -= 1;
                }
                // Seen before, or not of this load.
                _ => ledger.doubled += 1,
            }
        })?;
        Ok(ledger)
    }

    pub(crate) fn is_exact(&self) -> bool {
        self.missing == 0 && self.doubled == 0
    }
}

impl std::fmt::Display for Ledger {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} records are missing, {} are there more than once", self.missing, self.doubled)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_has_its_size_and_tells_its_number() {
        let record = Record::new(999_999, 100, KEYS);
        assert_eq!(record.value.len(), 100);
        assert!(serde_json::from_str::<serde_json::Value>(&record.value).is_ok(), "{}", record.value);
        assert_eq!(number(Some(record.value.as_bytes())), Some(999_999));
        assert_eq!(number(Some(br#"{"probe":true,"i":0}"#)), None);
        assert_eq!(number(None), None);
    }
}
