//! Records as they are read: a [`Batch`] holds the bytes of many in one allocation, a [`Record`] is a view of one.

use std::borrow::Cow;
use std::ops::Range;

use super::position::Offset;

/// One header. Kafka keeps their order, allows a name more than once, and tells a null value from an empty one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The name.
    pub name: String,
    /// The value; `None` is null.
    pub value: Option<Vec<u8>>,
}

/// A record that a stage is given. `None` is null, which is not the same as empty.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// The topic it was read from; for a file, the file's path.
    pub topic: &'a str,
    /// The partition it was read from.
    pub partition: i32,
    /// Its offset there; for a file, the line number, from 1; for `generate`, the sequence number, from 0.
    pub offset: Offset,
    /// Milliseconds since 1970-01-01T00:00:00Z, by its producer or, where the topic says so, by the broker.
    pub timestamp: Option<i64>,
    /// The key's bytes.
    pub key: Option<&'a [u8]>,
    /// The value's bytes; `None` is a tombstone.
    pub value: Option<&'a [u8]>,
    /// The headers in their order.
    pub headers: &'a [Header],
}

/// Records in the order in which they will be processed. Their bytes share one buffer, which is kept when the batch is cleared.
#[derive(Debug, Default)]
pub struct Batch {
    topics: Vec<String>,
    entries: Vec<Entry>,
    bytes: Vec<u8>,
    header_bytes: usize,
}

#[derive(Debug)]
struct Entry {
    topic: u32,
    partition: i32,
    offset: Offset,
    timestamp: Option<i64>,
    key: Option<Range<usize>>,
    value: Option<Range<usize>>,
    headers: Vec<Header>,
    mark: Mark,
}

/// What is to become of a record in place of being processed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Mark {
    /// Why no stage may have it.
    pub(crate) refused: Option<Refused>,
    /// Whether its dead letter goes without what is long.
    pub(crate) is_cut: bool,
}

/// Why a record is not processed.
#[derive(Clone, Debug)]
pub(crate) struct Refused {
    pub(crate) reason: Cow<'static, str>,
    /// What has refused it, where it was not the source.
    pub(crate) stage: Option<&'static str>,
}

/// Bytes that a record takes at least beside its key, value and headers, alone in a batch.
pub(crate) const ALONE: usize = 68;

/// Bytes of names and values.
pub(crate) fn header_bytes(headers: &[Header]) -> usize {
    headers.iter().map(|header| header.name.len() + header.value.as_ref().map_or(0, Vec::len)).sum()
}

impl Batch {
    /// An empty batch of records from these topics; records are ordered as their topics are here.
    #[must_use]
    pub fn new(topics: Vec<String>) -> Self {
        Batch { topics, ..Batch::default() }
    }

    /// Copies a record in. `topic` is an index into the topics given to [`Batch::new`]; `record.topic` is not looked at.
    pub fn push(&mut self, topic: usize, record: &Record<'_>) {
        let key = record.key.map(|bytes| self.store(bytes));
        let value = record.value.map(|bytes| self.store(bytes));
        self.entries.push(Entry {
            topic: u32::try_from(topic).expect("fewer than 2^32 topics"),
            partition: record.partition,
            offset: record.offset,
            timestamp: record.timestamp,
            key,
            value,
            headers: record.headers.to_vec(),
            mark: Mark::default(),
        });
        self.header_bytes += header_bytes(record.headers);
    }

    /// Says of the record that was added last that no stage may have it, and why: it is one that cannot be processed.
    pub fn refuse_last(&mut self, reason: impl Into<Cow<'static, str>>) {
        if let Some(entry) = self.entries.last_mut() {
            entry.mark.refused = Some(Refused { reason: reason.into(), stage: None });
        }
    }

    pub(crate) fn mark(&self, index: usize) -> &Mark {
        &self.entries[index].mark
    }

    pub(crate) fn mark_mut(&mut self, index: usize) -> &mut Mark {
        &mut self.entries[index].mark
    }

    fn store(&mut self, bytes: &[u8]) -> Range<usize> {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        start..self.bytes.len()
    }

    /// Puts the records in processing order: by partition, then in the order of the topics, then by offset.
    pub(crate) fn order(&mut self) {
        self.entries.sort_by_key(|e| (e.partition, e.topic, e.offset));
    }

    /// The record at `index` in processing order.
    ///
    /// # Panics
    /// Where `index` is not below [`Batch::len`].
    #[must_use]
    pub fn get(&self, index: usize) -> Record<'_> {
        let entry = &self.entries[index];
        Record {
            topic: &self.topics[entry.topic as usize],
            partition: entry.partition,
            offset: entry.offset,
            timestamp: entry.timestamp,
            key: entry.key.clone().map(|range| &self.bytes[range]),
            value: entry.value.clone().map(|range| &self.bytes[range]),
            headers: &entry.headers,
        }
    }

    pub(crate) fn topics(&self) -> &[String] {
        &self.topics
    }

    /// The index of the record's topic among the batch's topics.
    pub(crate) fn topic_index(&self, index: usize) -> usize {
        self.entries[index].topic as usize
    }

    /// How many records it holds.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether it holds none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Bytes of all keys, values and headers.
    #[must_use]
    pub fn byte_len(&self) -> usize {
        self.bytes.len() + self.header_bytes
    }

    /// Removes the first `done` records in processing order, and of the others those of partitions that are not kept. Their bytes stay
    /// until [`Batch::clear`].
    pub(crate) fn retain(&mut self, done: usize, keep: impl Fn(i32) -> bool) {
        self.entries.drain(..done);
        self.entries.retain(|entry| keep(entry.partition));
    }

    /// Removes the records; the memory stays.
    pub fn clear(&mut self) {
        self.entries.clear();
        self.bytes.clear();
        self.header_bytes = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(partition: i32, offset: i64, value: Option<&[u8]>) -> Record<'_> {
        Record { topic: "", partition, offset: Offset(offset), timestamp: None, key: None, value, headers: &[] }
    }

    #[test]
    fn records_are_ordered_by_topic_then_offset() {
        let mut batch = Batch::new(vec!["a".into(), "b".into()]);
        batch.push(1, &record(0, 1, Some(b"b1")));
        batch.push(0, &record(0, 7, Some(b"a7")));
        batch.push(0, &record(0, 5, Some(b"a5")));
        batch.order();
        let values: Vec<_> = (0..batch.len()).map(|i| batch.get(i).value.expect("a value")).collect();
        assert_eq!(values, [b"a5", b"a7", b"b1"]);
    }

    #[test]
    fn what_is_kept_stays_in_its_order() {
        let mut batch = Batch::new(vec!["a".into()]);
        for (partition, offset) in [(0, 1), (2, 1), (1, 1), (0, 2), (2, 2)] {
            batch.push(0, &record(partition, offset, Some(b"value")));
        }
        batch.order();
        batch.retain(1, |partition| partition != 1);
        let places: Vec<_> = (0..batch.len()).map(|i| (batch.get(i).partition, batch.get(i).offset.0)).collect();
        assert_eq!(places, [(0, 2), (2, 1), (2, 2)]);
        assert_eq!(batch.get(2).value, Some(b"value".as_slice()));
    }

    #[test]
    fn null_and_empty_stay_apart() {
        let mut batch = Batch::new(vec!["a".into()]);
        batch.push(0, &record(0, 0, None));
        batch.push(0, &record(0, 1, Some(b"")));
        assert_eq!((batch.get(0).value, batch.get(1).value), (None, Some(b"".as_slice())));
    }
}
