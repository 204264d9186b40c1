//! What a stage emits: a [`Message`] is one record to be; an [`Output`] gathers those of a batch, in order, in memory.

use std::borrow::Cow;
use std::ops::Range;

use serde::Serialize;

use super::timer::SetTimer;
use super::{Clock, Next, StageError};
use crate::kafka::{Header, Record, header_bytes};
use crate::state::{Change, MAX_NAME, TaskStates};

/// A record to be written. `None` as key or value is null; a null value is a tombstone.
#[derive(Clone, Debug)]
pub struct Message<'a> {
    topic: Cow<'a, str>,
    partition: Option<i32>,
    timestamp: Option<i64>,
    key: Option<Cow<'a, [u8]>>,
    value: Option<Cow<'a, [u8]>>,
    headers: Cow<'a, [Header]>,
}

impl<'a> Message<'a> {
    /// A message to a topic, with null key and value, no headers, and the input record's timestamp.
    pub fn to(topic: impl Into<Cow<'a, str>>) -> Self {
        Message {
            topic: topic.into(),
            partition: None,
            timestamp: None,
            key: None,
            value: None,
            headers: Cow::Borrowed(&[]),
        }
    }

    /// The same key, value, headers and timestamp, to another topic; the partition follows from the key.
    pub fn copy(record: &Record<'a>, topic: impl Into<Cow<'a, str>>) -> Self {
        Message {
            topic: topic.into(),
            partition: None,
            timestamp: record.timestamp,
            key: record.key.map(Cow::Borrowed),
            value: record.value.map(Cow::Borrowed),
            headers: Cow::Borrowed(record.headers),
        }
    }

    /// Sets the key.
    #[must_use]
    pub fn key(mut self, key: impl Into<Option<&'a [u8]>>) -> Self {
        self.key = key.into().map(Cow::Borrowed);
        self
    }

    /// Sets the value's bytes; `None` makes a tombstone.
    #[must_use]
    pub fn value(mut self, value: impl Into<Option<&'a [u8]>>) -> Self {
        self.value = value.into().map(Cow::Borrowed);
        self
    }

    /// Sets the value to the JSON text of `value`.
    ///
    /// # Errors
    /// Where `value` has no JSON form, for example a map with keys that are not strings.
    pub fn json(mut self, value: &impl Serialize) -> Result<Self, StageError> {
        self.value = Some(Cow::Owned(serde_json::to_vec(value)?));
        Ok(self)
    }

    /// Sets the headers.
    #[must_use]
    pub fn headers(mut self, headers: impl Into<Cow<'a, [Header]>>) -> Self {
        self.headers = headers.into();
        self
    }

    /// Adds a header behind those that are there; `None` is a null value.
    #[must_use]
    pub fn header<'h>(mut self, name: impl Into<String>, value: impl Into<Option<&'h [u8]>>) -> Self {
        self.headers.to_mut().push(Header { name: name.into(), value: value.into().map(<[u8]>::to_vec) });
        self
    }

    /// Sets the timestamp, in milliseconds since 1970-01-01T00:00:00Z.
    #[must_use]
    pub fn timestamp(mut self, millis: i64) -> Self {
        self.timestamp = Some(millis);
        self
    }

    /// Sets the partition. Without it, the key's murmur2 hash decides, as with Java producers; a null key goes anywhere.
    #[must_use]
    pub fn partition(mut self, partition: i32) -> Self {
        self.partition = Some(partition);
        self
    }
}

/// Headers of a dead letter that begin so say what has become of the record.
const NOTE: &str = "wattle.";
/// What was left out of one that was too large.
const CUT: &str = "wattle.cut";
/// Bytes that a short one may have in its key, in all headers of the record, and in one that says something.
const LONG_KEY: usize = 256;
const LONG_HEADERS: usize = 1024;
const LONG_NOTE: usize = 512;

/// The messages of a batch in the order in which they were sent. The bytes share one buffer.
#[derive(Debug, Default)]
pub struct Output {
    entries: Vec<Entry>,
    bytes: Vec<u8>,
    header_bytes: usize,
    /// Timestamp of the record that is being processed, for messages that set none.
    inherited: Option<i64>,
    /// Index in its batch of the record that is being processed.
    source: usize,
    /// Index of the first record of the changelog, which are the last ones.
    logged: Option<usize>,
    /// State, for stages that keep some; elsewhere while a batch is processed.
    pub(crate) states: TaskStates,
    slot: Slot,
}

/// The state of the key whose record is being processed. A copy, so that records of other keys can be processed meanwhile.
#[derive(Debug, Default)]
struct Slot {
    /// Whether the stage keeps state.
    is_used: bool,
    is_there: bool,
    bytes: Vec<u8>,
    next: Next<Vec<u8>>,
    timers: Vec<SetTimer>,
    /// The time of the stream and that of the wall clock.
    now: (Option<i64>, i64),
}

#[derive(Debug)]
struct Entry {
    topic: Range<usize>,
    partition: Option<i32>,
    timestamp: Option<i64>,
    key: Option<Range<usize>>,
    value: Option<Range<usize>>,
    headers: Vec<Header>,
    source: usize,
}

/// A gathered message, as a sink reads it.
#[derive(Clone, Copy, Debug)]
pub struct Sent<'a> {
    /// The topic it goes to.
    pub topic: &'a str,
    /// The partition, where the stage chose one.
    pub partition: Option<i32>,
    /// Milliseconds since 1970-01-01T00:00:00Z; `None` lets the producer set it.
    pub timestamp: Option<i64>,
    /// The key's bytes.
    pub key: Option<&'a [u8]>,
    /// The value's bytes.
    pub value: Option<&'a [u8]>,
    /// The headers in their order.
    pub headers: &'a [Header],
    /// Index in the batch of the record that it was made from; beyond the batch, a timer has made it.
    pub source: usize,
}

impl<'a> From<Sent<'a>> for Message<'a> {
    fn from(sent: Sent<'a>) -> Self {
        Message {
            topic: sent.topic.into(),
            partition: sent.partition,
            timestamp: sent.timestamp,
            key: sent.key.map(Cow::Borrowed),
            value: sent.value.map(Cow::Borrowed),
            headers: Cow::Borrowed(sent.headers),
        }
    }
}

/// How much an [`Output`] held at some moment.
#[derive(Clone, Copy)]
pub(crate) struct Mark {
    entries: usize,
    bytes: usize,
    header_bytes: usize,
}

impl Output {
    /// Adds a message. It is copied, so what it borrows may change afterwards.
    // By value: a message is built for this call.
    #[allow(clippy::needless_pass_by_value)]
    pub fn send(&mut self, message: Message<'_>) {
        let topic = self.store(message.topic.as_bytes());
        let key = message.key.as_deref().map(|bytes| self.store(bytes));
        let value = message.value.as_deref().map(|bytes| self.store(bytes));
        self.header_bytes += header_bytes(&message.headers);
        self.entries.push(Entry {
            topic,
            partition: message.partition,
            timestamp: message.timestamp.or(self.inherited),
            key,
            value,
            headers: message.headers.into_owned(),
            source: self.source,
        });
    }

    /// Says from which record of the batch the following messages are made.
    pub fn made_from(&mut self, source: usize) {
        self.source = source;
    }

    fn store(&mut self, bytes: &[u8]) -> Range<usize> {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        start..self.bytes.len()
    }

    /// Sets a timer of the record's state key, or moves the one of this clock and name. It fires once, at `at` or later
    /// ([`StatefulTransformer::on_timer`](super::StatefulTransformer::on_timer)), in a transaction, and is kept like the state.
    ///
    /// # Errors
    /// Where the name is empty, has more than 255 bytes or a zero byte, and where the stage keeps no state.
    pub fn set_timer(&mut self, clock: Clock, name: &str, at: i64) -> Result<(), StageError> {
        self.timer(clock, name, Some(at))
    }

    /// Clears a timer of the record's state key, if it is set.
    ///
    /// # Errors
    /// As those of [`Output::set_timer`].
    pub fn clear_timer(&mut self, clock: Clock, name: &str) -> Result<(), StageError> {
        self.timer(clock, name, None)
    }

    fn timer(&mut self, clock: Clock, name: &str, at: Option<i64>) -> Result<(), StageError> {
        if !self.slot.is_used {
            return Err(StageError::new("timers need a stage that keeps state"));
        }
        if name.is_empty() || name.len() > MAX_NAME || name.contains('\0') {
            let text = format!("the name of a timer has 1 to {MAX_NAME} bytes, and no zero byte among them");
            return Err(StageError::new(text));
        }
        self.slot.timers.push(SetTimer { clock, name: name.to_owned(), at });
        Ok(())
    }

    /// The time of a clock; `None` where no record of the task had a timestamp yet.
    #[must_use]
    pub fn now(&self, clock: Clock) -> Option<i64> {
        match clock {
            Clock::Stream => self.slot.now.0,
            Clock::Wall => Some(self.slot.now.1),
        }
    }

    /// The timer that ends the state's time to live; it has no name.
    pub(crate) fn expire(&mut self, clock: Clock, at: Option<i64>) {
        self.slot.timers.push(SetTimer { clock, name: String::new(), at });
    }

    pub(crate) fn take_timers(&mut self) -> Vec<SetTimer> {
        std::mem::take(&mut self.slot.timers)
    }

    /// How many messages it holds.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether it holds none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The messages in the order in which they were sent.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Sent<'_>> {
        (0..self.entries.len()).map(|index| self.get(index))
    }

    /// The message at `index`.
    ///
    /// # Panics
    /// Where `index` is not below [`Output::len`].
    #[must_use]
    pub fn get(&self, index: usize) -> Sent<'_> {
        let entry = &self.entries[index];
        Sent {
            topic: std::str::from_utf8(&self.bytes[entry.topic.clone()]).expect("stored from a str"),
            partition: entry.partition,
            timestamp: entry.timestamp,
            key: entry.key.clone().map(|range| &self.bytes[range]),
            value: entry.value.clone().map(|range| &self.bytes[range]),
            headers: &entry.headers,
            source: entry.source,
        }
    }

    /// Removes the messages; the memory stays.
    pub fn clear(&mut self) {
        self.entries.clear();
        self.bytes.clear();
        self.header_bytes = 0;
        self.logged = None;
        self.states.clear();
    }

    /// Tells which record the following messages are made from.
    pub(crate) fn begin_record(&mut self, source: usize, record: &Record<'_>) {
        self.source = source;
        self.inherited = record.timestamp;
    }

    /// Gives the following messages their key's state, and forgets what the last one's was to become.
    pub(crate) fn load_state(&mut self, state: Option<&[u8]>, now: (Option<i64>, i64)) {
        self.slot.is_there = state.is_some();
        self.slot.bytes.clear();
        self.slot.bytes.extend_from_slice(state.unwrap_or_default());
        self.slot.next = Next::Keep;
        self.slot.timers.clear();
        self.slot.now = now;
        self.slot.is_used = true;
    }

    pub(crate) fn state(&self) -> Option<&[u8]> {
        self.slot.is_there.then_some(&self.slot.bytes)
    }

    pub(crate) fn set_state(&mut self, next: Next<Vec<u8>>) {
        self.slot.next = next;
    }

    /// What the state of the key is to become.
    pub(crate) fn take_state(&mut self) -> Next<Vec<u8>> {
        std::mem::take(&mut self.slot.next)
    }

    /// Adds the messages of another one behind its own.
    pub(crate) fn append(&mut self, mut other: Output) {
        let shift = self.bytes.len();
        self.bytes.append(&mut other.bytes);
        self.header_bytes += other.header_bytes;
        let moved = |range: Range<usize>| range.start + shift..range.end + shift;
        self.entries.extend(other.entries.into_iter().map(|entry| Entry {
            topic: moved(entry.topic),
            key: entry.key.map(moved),
            value: entry.value.map(moved),
            ..entry
        }));
    }

    /// Adds what the batch has changed of its states, as records of the changelog: one a key, in the partition of its task.
    pub(crate) fn log_states(&mut self, changelog: &str) {
        let mut states = std::mem::take(&mut self.states);
        states.settle();
        self.logged = Some(self.entries.len());
        for (task, Change { key, value, source }) in states.changes() {
            let topic = self.store(changelog.as_bytes());
            let key = Some(self.store(key));
            let value = value.as_deref().map(|bytes| self.store(bytes));
            let (partition, source) = (Some(task), *source);
            self.entries.push(Entry { topic, partition, timestamp: None, key, value, headers: Vec::new(), source });
        }
        self.states = states;
    }

    /// Index of the first message that is a change of a state; no message's where there is none.
    pub(crate) fn logged_from(&self) -> usize {
        self.logged.unwrap_or(usize::MAX)
    }

    /// Bytes of key, value and headers of the message at `index`.
    pub(crate) fn size(&self, index: usize) -> usize {
        let Entry { key, value, headers, .. } = &self.entries[index];
        let length = |range: &Option<Range<usize>>| range.as_ref().map_or(0, ExactSizeIterator::len);
        length(key) + length(value) + header_bytes(headers)
    }

    /// Indices of the messages of more than so many bytes, with their bytes.
    pub(crate) fn larger_than(&self, bytes: usize) -> impl Iterator<Item = (usize, usize)> {
        (0..self.len()).map(|index| (index, self.size(index))).filter(move |(_, size)| *size > bytes)
    }

    /// Makes a dead letter short: without its value, and of the rest without what is long. Headers say what was left out. False where it is short already.
    pub(crate) fn shorten(&mut self, index: usize) -> bool {
        let entry = &mut self.entries[index];
        if entry.headers.iter().any(|header| header.name == CUT) {
            return false;
        }
        let mut cut = Vec::new();
        let notes: Vec<Header> = entry.headers.iter().filter(|header| header.name.starts_with(NOTE)).cloned().collect();
        let value_bytes = entry.value.as_ref().map(|value| value.len());
        if let Some(value) = &mut entry.value {
            *value = value.start..value.start;
            cut.push("value");
        }
        if entry.key.as_ref().is_some_and(|key| key.len() > LONG_KEY) {
            entry.key = None;
            cut.push("key");
        }
        self.header_bytes -= header_bytes(&entry.headers);
        if header_bytes(&entry.headers) - header_bytes(&notes) > LONG_HEADERS {
            entry.headers = notes;
            cut.push("headers");
        }
        for header in entry.headers.iter_mut().filter(|header| header.name.starts_with(NOTE)) {
            header.value.iter_mut().for_each(|value| value.truncate(LONG_NOTE));
        }
        let mut note = |name: &str, value: String| {
            entry.headers.push(Header { name: name.to_owned(), value: Some(value.into_bytes()) });
        };
        note(CUT, cut.join(", "));
        value_bytes.into_iter().for_each(|bytes| note("wattle.value_bytes", bytes.to_string()));
        self.header_bytes += header_bytes(&entry.headers);
        true
    }

    pub(crate) fn byte_len(&self) -> usize {
        self.bytes.len() + self.header_bytes
    }

    pub(crate) fn mark(&self) -> Mark {
        Mark { entries: self.entries.len(), bytes: self.bytes.len(), header_bytes: self.header_bytes }
    }

    /// Takes back what was sent since `mark`.
    pub(crate) fn rewind(&mut self, mark: Mark) {
        self.entries.truncate(mark.entries);
        self.bytes.truncate(mark.bytes);
        self.header_bytes = mark.header_bytes;
    }
}
