//! The oracle: every record that went in comes out once, in order.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;
use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::message::{BorrowedMessage, Headers, Message};
use rdkafka::{Offset, TopicPartitionList};

use super::cluster::{Cluster, Isolation, client};

/// Reads a topic from its beginning to its end.
///
/// # Panics
/// If the end is not reached while records keep failing to come for 60 s.
pub(crate) fn read(cluster: &Cluster, topic: &str, isolation: Isolation, mut each: impl FnMut(&BorrowedMessage)) {
    let consumer: BaseConsumer = client(cluster.address())
        .set("group.id", "ledger")
        .set("enable.auto.commit", "false")
        .set("isolation.level", isolation.name())
        .set("enable.partition.eof", "true")
        .set("fetch.wait.max.ms", "20")
        .create()
        .expect("a consumer");
    let count = cluster.count(topic);
    let mut list = TopicPartitionList::new();
    for partition in 0..count {
        list.add_partition_offset(topic, partition, Offset::Beginning).expect("a valid offset");
    }
    consumer.assign(&list).expect("assigned");
    let mut open: Vec<i32> = (0..count).collect();
    let mut last = Instant::now();
    while !open.is_empty() {
        assert!(last.elapsed() < Duration::from_secs(60), "{topic}: no end of partitions {open:?}");
        match consumer.poll(Duration::from_millis(100)) {
            None => continue,
            Some(Ok(message)) => each(&message),
            Some(Err(KafkaError::PartitionEOF(partition))) => open.retain(|p| *p != partition),
            Some(Err(error)) => panic!("{topic}: {error}"),
        }
        last = Instant::now();
    }
}

/// A record, whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) partition: i32,
    pub(crate) key: Option<Vec<u8>>,
    pub(crate) value: Option<Vec<u8>>,
    pub(crate) headers: Vec<(String, Option<Vec<u8>>)>,
    pub(crate) timestamp: Option<i64>,
}

impl Seen {
    /// The value as text.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(self.value.as_deref().unwrap_or_default()).into_owned()
    }

    /// The text of the first header of this name.
    pub(crate) fn header(&self, name: &str) -> Option<String> {
        let (_, value) = self.headers.iter().find(|(n, _)| n == name)?;
        Some(String::from_utf8_lossy(value.as_deref().unwrap_or_default()).into_owned())
    }
}

/// All records of a topic that a `read_committed` reader sees when what is open now has ended: for topics with few of them.
pub(crate) fn records(cluster: &Cluster, topic: &str) -> Vec<Seen> {
    cluster.wait_settled(&[topic]);
    let mut seen = Vec::new();
    read(cluster, topic, Isolation::ReadCommitted, |message| {
        let headers = message.headers().map_or_else(Vec::new, |headers| {
            headers.iter().map(|h| (h.key.to_owned(), h.value.map(<[u8]>::to_vec))).collect()
        });
        seen.push(Seen {
            partition: message.partition(),
            key: message.key().map(<[u8]>::to_vec),
            value: message.payload().map(<[u8]>::to_vec),
            headers,
            timestamp: message.timestamp().to_millis(),
        });
    });
    seen
}

/// How many records a reader sees.
pub(crate) fn count(cluster: &Cluster, topic: &str, isolation: Isolation) -> u64 {
    let mut count = 0;
    read(cluster, topic, isolation, |_| count += 1);
    count
}

/// What a topic holds of the records of a [`Load`](super::load::Load).
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    times: BTreeMap<u64, u32>,
    /// Records that overtook one that was before them in their input partition.
    disorder: Vec<String>,
}

impl Ledger {
    /// What a `read_committed` reader sees when what is open now has ended: the marker of a commit may come behind its answer.
    pub(crate) fn of(cluster: &Cluster, topic: &str) -> Self {
        let mut ledger = Ledger::default();
        ledger.add(cluster, topic);
        ledger
    }

    /// The same of another topic beside it; each is in order for itself.
    pub(crate) fn add(&mut self, cluster: &Cluster, topic: &str) {
        let mut latest: HashMap<(i32, String), u64> = HashMap::new();
        cluster.wait_settled(&[topic]);
        read(cluster, topic, Isolation::ReadCommitted, |message| {
            let (id, from) = parse(message.payload().unwrap_or_default());
            *self.times.entry(id).or_default() += 1;
            let latest = latest.entry((message.partition(), from)).or_insert(id);
            if id < *latest && self.disorder.len() < 10 {
                self.disorder.push(format!("{id} after {latest} in {topic}/{}", message.partition()));
            }
            *latest = id.max(*latest);
        });
    }

    /// W8, of what a reader sees; that no transaction is left open is [`Cluster::wait_settled`].
    ///
    /// # Panics
    /// Unless every id is there exactly once, no other is, and those of an input partition are in order.
    pub(crate) fn assert_exact(&self, ids: Range<u64>) {
        self.exact(ids).unwrap_or_else(|wrong| panic!("{wrong}"));
    }

    /// The same as a verdict, with what is wrong.
    pub(crate) fn exact(&self, ids: Range<u64>) -> Result<(), String> {
        self.complete(ids)?;
        let twice: Vec<_> = self.times.iter().filter(|(_, times)| **times > 1).collect();
        if !twice.is_empty() {
            let (count, first) = (twice.len(), &twice[..twice.len().min(10)]);
            return Err(format!("{count} records are there more than once: {first:?} .."));
        }
        match self.disorder.is_empty() {
            true => Ok(()),
            false => Err(format!("records are out of order: {:?}", self.disorder)),
        }
    }

    /// # Panics
    /// Unless each of `sure` is there once, each of `perhaps` at most once, no other is, and those of one origin are in order.
    pub(crate) fn assert_once(&self, sure: &BTreeSet<u64>, perhaps: &BTreeSet<u64>) {
        let missing: Vec<_> = sure.iter().filter(|id| !self.times.contains_key(id)).collect();
        assert!(
            missing.is_empty(),
            "{} of {} are missing: {:?} ..",
            missing.len(),
            sure.len(),
            &missing[..missing.len().min(10)]
        );
        let twice: Vec<_> = self.times.iter().filter(|(_, times)| **times > 1).take(10).collect();
        assert!(twice.is_empty(), "records are there more than once: {twice:?} ..");
        let strange: Vec<_> =
            self.times.keys().filter(|id| !sure.contains(id) && !perhaps.contains(id)).take(10).collect();
        assert!(strange.is_empty(), "nobody was told that these are accepted, or not told otherwise: {strange:?} ..");
        assert!(self.disorder.is_empty(), "records are out of order: {:?}", self.disorder);
    }

    /// How many ids are there.
    pub(crate) fn len(&self) -> u64 {
        self.times.len() as u64
    }

    /// Whether each of these is there.
    pub(crate) fn has(&self, ids: &BTreeSet<u64>) -> bool {
        ids.iter().all(|id| self.times.contains_key(id))
    }

    /// # Panics
    /// Unless every id is there, and no other.
    pub(crate) fn assert_complete(&self, ids: Range<u64>) {
        self.complete(ids).unwrap_or_else(|wrong| panic!("{wrong}"));
    }

    fn complete(&self, ids: Range<u64>) -> Result<(), String> {
        let missing: Vec<u64> = ids.clone().filter(|id| !self.times.contains_key(id)).collect();
        if !missing.is_empty() {
            let (count, first) = (missing.len(), &missing[..missing.len().min(10)]);
            return Err(format!("{count} of {ids:?} are missing: {first:?} .."));
        }
        let strange: Vec<_> = self.times.keys().filter(|id| !ids.contains(id)).take(10).collect();
        if strange.is_empty() { Ok(()) } else { Err(format!("not of this load: {strange:?}")) }
    }
}

/// Judges the outputs of the example `count` over a [`Load`](super::load::Load) of one topic with so many partitions.
///
/// # Panics
/// Unless the counts of each key are 1, 2, 3, … for each input partition that has it, and each record is counted once.
pub(crate) fn assert_counts_of(cluster: &Cluster, output: &str, partitions: i32, total: u64) {
    let mut counts: BTreeMap<(String, u64), u64> = BTreeMap::new();
    let mut seen = vec![false; usize::try_from(total).expect("fits")];
    cluster.wait_settled(&[output]);
    read(cluster, output, Isolation::ReadCommitted, |message| {
        let value: serde_json::Value = serde_json::from_slice(message.payload().expect("a value")).expect("JSON");
        let (key, i) = (value["k"].as_str().expect("a key"), value["i"].as_u64().expect("a number"));
        // The load's records go around the partitions.
        let count = counts.entry((key.to_owned(), i % u64::from(partitions.unsigned_abs()))).or_default();
        *count += 1;
        assert_eq!(value["n"].as_u64(), Some(*count), "the next count of {key}, at record {i}");
        let seen = &mut seen[usize::try_from(i).expect("fits")];
        assert!(!std::mem::replace(seen, true), "record {i} is counted twice");
    });
    let missing = seen.iter().filter(|seen| !**seen).count();
    assert_eq!(missing, 0, "records of {total} that are not counted");
}

/// The id and the input partition that a record's value tells.
fn parse(value: &[u8]) -> (u64, String) {
    let value: serde_json::Value = serde_json::from_slice(value).expect("values are JSON");
    let id = value["i"].as_u64().expect("an id");
    (id, value["from"].as_str().expect("an input partition").to_owned())
}
