//! Messages that go on together: those of an input partition are held until so many are there. What is held is not processed: no position passes
//! it, and where its task goes, it goes, and is read again.
//!
//! A group ends by number or bytes, counted in the order of the offsets from the end of the group before it, and positions are committed at such ends
//! alone: so groups do not depend on how batches were cut. One that ends by its age does.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::{Duration, Instant};

use super::aside::Aside;
use super::dead_letter;
use crate::error::Error;
use crate::kafka::{Batch, Header, Offset, Position, Record, header_bytes};
use crate::stage::{Message, Output, Sent, StageError};

/// When a group of messages ends, and what is written of it. See [`BatchLimits::gather`](crate::BatchLimits::gather).
#[derive(Clone, Debug)]
pub struct Gather {
    /// It ends with so many messages, dead letters not counted. All messages of a record are in one group.
    pub count: usize,
    /// It ends with so many bytes of keys, values and headers, of its messages or of the records that they were made from.
    pub bytes: usize,
    /// It ends when its first record was taken so long ago.
    pub time: Duration,
    /// What is written of it.
    pub format: GroupFormat,
}

/// What is written of a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GroupFormat {
    /// Its messages as they are, together.
    #[default]
    Records,
    /// One message to each topic: a JSON array of the values, which have to be JSON, with null for a null value. It has the largest timestamp, the key
    /// where all have the same, and no headers.
    Array,
}

/// Headers of a record that stands for those of an array: the offset of the first, and how many messages it has.
const FIRST_OFFSET: &str = "wattle.group.first_offset";
const MESSAGES: &str = "wattle.group.messages";

/// Partition and index of the topic.
type Place = (i32, usize);

/// Messages, with the records that they were made from.
#[derive(Debug, Default)]
pub(crate) struct Bundle {
    pub(crate) batch: Batch,
    pub(crate) output: Output,
}

/// What is held of each input partition, and what is to be written.
#[derive(Debug)]
pub(crate) struct Held {
    gather: Gather,
    /// The topic of records that failed: each of those goes with the group that it is in, as it is.
    dead: Option<String>,
    topics: Vec<String>,
    /// Whether all records are of one place, whatever they say.
    of_source: bool,
    groups: BTreeMap<Place, Group>,
    /// What is to be written next, and the positions behind it.
    pub(crate) ready: Bundle,
    passed: BTreeMap<Place, Passed>,
    /// Records that were put aside, not noted yet.
    pub(crate) aside: Aside,
    /// Why a topic has refused what was made from a record, until it is committed: where the record is read again, it is put aside at once.
    refused: BTreeMap<(Place, Offset, String), String>,
}

/// Without records it is none.
#[derive(Debug)]
struct Group {
    begun: Instant,
    first: Offset,
    last: Offset,
    /// Also those that nothing was made from.
    records: usize,
    messages: usize,
    /// Bytes of the records, and of what was made from them.
    read: usize,
    written: usize,
    held: Bundle,
}

/// Records that are not held, and not committed either.
#[derive(Debug)]
struct Passed {
    position: Position,
    records: usize,
}

impl Held {
    /// Of the tasks of a lane.
    pub(crate) fn new(gather: &Gather, dead: Option<&str>, topics: &[String]) -> Self {
        Held {
            gather: gather.clone(),
            dead: dead.map(str::to_owned),
            topics: topics.to_vec(),
            of_source: false,
            groups: BTreeMap::new(),
            ready: Bundle::new(topics),
            passed: BTreeMap::new(),
            aside: Aside::default(),
            refused: BTreeMap::new(),
        }
    }

    /// Of a source without partitions.
    pub(crate) fn of_source(gather: &Gather, dead: Option<&str>, topics: &[String]) -> Self {
        Held { of_source: true, ..Self::new(gather, dead, topics) }
    }

    /// Takes what was made of these records of a batch, in their order, and ends groups that are full. Returns the index of the first record that is held, as
    /// far as there is one place.
    pub(crate) fn take(&mut self, batch: &Batch, records: Range<usize>, output: &Output, aside: Aside) -> usize {
        let mut messages = output.iter().peekable();
        let mut free = records.start;
        for index in records {
            let own: Vec<_> = std::iter::from_fn(|| messages.next_if(|message| message.source == index)).collect();
            if !self.take_one(batch, index, &own) {
                free = index + 1;
            }
        }
        self.aside.append(aside);
        free
    }

    /// Returns whether something is held of the place.
    fn take_one(&mut self, batch: &Batch, index: usize, messages: &[Sent<'_>]) -> bool {
        let (record, topic) = (batch.get(index), batch.topic_index(index));
        let place = self.place(batch, index);
        let good = messages.iter().filter(|message| Some(message.topic) != self.dead.as_deref()).count();
        let group = self.groups.entry(place).or_insert_with(|| Group::new(&self.topics));
        if group.records == 0 && good == 0 {
            let first = self.ready.batch.len();
            self.ready.add(topic, &record, messages.iter().copied());
            self.turn_known(first);
            self.pass(place, record.offset.next(), 1);
            return false;
        }
        if group.records == 0 {
            (group.begun, group.first) = (Instant::now(), record.offset);
        }
        group.last = record.offset;
        group.records += 1;
        group.messages += good;
        group.held.add(topic, &record, messages.iter().copied());
        group.read += bytes(record.key, record.value, record.headers);
        group.written +=
            messages.iter().map(|message| bytes(message.key, message.value, message.headers)).sum::<usize>();
        let full = group.messages >= self.gather.count || group.read.max(group.written) >= self.gather.bytes;
        if full {
            self.end(place);
        }
        !full
    }

    /// Ends the groups that are old enough, until so many bytes are to be written.
    pub(crate) fn end_old(&mut self, most: usize) {
        let due = |group: &Group| group.records > 0 && group.begun.elapsed() >= self.gather.time;
        let old: Vec<Place> = self.groups.iter().filter(|(_, group)| due(group)).map(|(place, _)| *place).collect();
        for place in old {
            if self.ready.bytes() >= most {
                return;
            }
            self.end(place);
        }
    }

    /// Ends all groups: nothing more will come.
    pub(crate) fn end_all(&mut self) {
        for place in Vec::from_iter(self.groups.keys().copied()) {
            self.end(place);
        }
    }

    fn end(&mut self, place: Place) {
        let Some(mut group) = self.groups.remove(&place).filter(|group| group.records > 0) else { return };
        let first = self.ready.batch.len();
        match self.gather.format {
            GroupFormat::Records => self.ready.append(&group.held),
            GroupFormat::Array => self.ready.join(&group.held, self.dead.as_deref()),
        }
        self.turn_known(first);
        self.pass(place, group.last.next(), group.records);
        group.clear();
        self.groups.insert(place, group);
    }

    fn place(&self, batch: &Batch, index: usize) -> Place {
        if self.of_source { (0, 0) } else { (batch.get(index).partition, batch.topic_index(index)) }
    }

    fn pass(&mut self, place: Place, position: Position, records: usize) {
        let passed = self.passed.entry(place).or_insert(Passed { position, records: 0 });
        passed.position = position;
        passed.records += records;
    }

    /// Positions that are to be committed, behind what is to be written and what nothing was made from.
    pub(crate) fn positions(&self) -> impl Iterator<Item = (Place, Position)> {
        self.passed.iter().map(|(place, passed)| (*place, passed.position))
    }

    /// Whether something of this place is held, so that only [`Held::positions`] tells how far it may commit.
    pub(crate) fn is_held(&self, place: Place) -> bool {
        self.groups.get(&place).is_some_and(|group| group.records > 0)
    }

    /// Records whose positions are to be committed.
    pub(crate) fn records(&self) -> usize {
        self.passed.values().map(|passed| passed.records).sum()
    }

    /// Dead letters that are to be written.
    pub(crate) fn dead_letters(&self) -> usize {
        self.ready.output.iter().filter(|message| Some(message.topic) == self.dead.as_deref()).count()
    }

    /// What was to be written is committed. Returns which records were put aside since the last time.
    pub(crate) fn committed(&mut self) -> Aside {
        let (of_source, passed) = (self.of_source, &self.passed);
        // The numbers of a source may begin anew; at worst a record is refused once more.
        self.refused.retain(|(place, offset, _), _| {
            !of_source && passed.get(place).is_none_or(|passed| passed.position < offset.next())
        });
        self.passed.clear();
        self.ready.clear();
        std::mem::take(&mut self.aside)
    }

    /// When the first group ends by its age.
    pub(crate) fn due_in(&self) -> Option<Duration> {
        self.since().map(|begun| self.gather.time.saturating_sub(begun.elapsed()))
    }

    /// When the oldest record that is held was taken.
    pub(crate) fn since(&self) -> Option<Instant> {
        self.groups.values().filter(|group| group.records > 0).map(|group| group.begun).min()
    }

    /// Turns what is larger than its topic takes into dead letters, and shortens dead letters that are. False where that helps nothing.
    pub(crate) fn put_aside(&mut self, error: &Error) -> bool {
        let Error::Refused { oversized, .. } = error else { return false };
        for (index, reason) in oversized {
            let key = self.key_of(&self.ready.output.get(*index));
            self.refused.insert(key, reason.clone());
        }
        self.turn(oversized)
    }

    /// Names a message that is to be written, also where its record is read again.
    fn key_of(&self, message: &Sent<'_>) -> (Place, Offset, String) {
        let batch = &self.ready.batch;
        (self.place(batch, message.source), batch.get(message.source).offset, message.topic.to_owned())
    }

    /// The same for what was refused before, of messages from records from `first` on. A dead letter that was too large is one again.
    fn turn_known(&mut self, first: usize) {
        if self.refused.is_empty() {
            return;
        }
        for is_letter in [false, true] {
            let new = self.ready.output.iter().enumerate().filter(|(_, message)| {
                message.source >= first && (Some(message.topic) == self.dead.as_deref()) == is_letter
            });
            let reason = |(index, message)| Some((index, self.refused.get(&self.key_of(&message))?.clone()));
            let known: Vec<_> = new.filter_map(reason).collect();
            self.turn(&known);
        }
    }

    fn turn(&mut self, oversized: &[(usize, String)]) -> bool {
        let Some(dead) = self.dead.as_ref().filter(|_| !oversized.is_empty()) else { return false };
        let Bundle { batch, output } = &mut self.ready;
        let mut reasons = BTreeMap::new();
        for (index, reason) in oversized {
            if output.get(*index).topic != *dead {
                reasons.insert(output.get(*index).source, reason);
            } else if !output.shorten(*index) {
                return false;
            }
        }
        let mut made = Output::default();
        for message in output.iter().filter(|message| message.topic == *dead || !reasons.contains_key(&message.source))
        {
            made.made_from(message.source);
            made.send(message.into());
        }
        for (source, reason) in reasons {
            let (record, reason) = (batch.get(source), StageError::new(reason.clone()).in_stage("output"));
            made.made_from(source);
            made.send(dead_letter(&record, dead, &reason));
            self.aside.dead_letters.add(&record, &reason);
        }
        *output = made;
        true
    }

    /// Forgets everything of the other tasks.
    pub(crate) fn keep(&mut self, tasks: impl Fn(i32) -> bool) {
        self.groups.retain(|(task, _), _| tasks(*task));
        self.passed.retain(|(task, _), _| tasks(*task));
        if self.passed.is_empty() && self.groups.values().all(|group| group.records == 0) {
            self.aside = Aside::default();
        }
        let batch = &self.ready.batch;
        if (0..batch.len()).any(|index| !tasks(batch.get(index).partition)) {
            let mut kept = Bundle::new(&self.topics);
            for index in (0..batch.len()).filter(|index| tasks(batch.get(*index).partition)) {
                let own = self.ready.output.iter().filter(|message| message.source == index);
                kept.add(batch.topic_index(index), &batch.get(index), own);
            }
            self.ready = kept;
        }
    }
}

impl Group {
    fn new(topics: &[String]) -> Self {
        let (begun, held) = (Instant::now(), Bundle::new(topics));
        Group { begun, first: Offset(0), last: Offset(0), records: 0, messages: 0, read: 0, written: 0, held }
    }

    /// The memory stays.
    fn clear(&mut self) {
        (self.records, self.messages, self.read, self.written) = (0, 0, 0, 0);
        self.held.clear();
    }
}

impl Bundle {
    fn new(topics: &[String]) -> Self {
        Bundle { batch: Batch::new(topics.to_vec()), output: Output::default() }
    }

    /// Adds a record with the messages that were made from it, if there are any.
    fn add<'a>(&mut self, topic: usize, record: &Record<'_>, messages: impl Iterator<Item = Sent<'a>>) {
        let source = self.batch.len();
        let mut messages = messages.peekable();
        if messages.peek().is_some() {
            self.batch.push(topic, record);
        }
        self.output.made_from(source);
        messages.for_each(|message| self.output.send(message.into()));
    }

    fn append(&mut self, other: &Bundle) {
        let first = self.batch.len();
        for index in 0..other.batch.len() {
            self.batch.push(other.batch.topic_index(index), &other.batch.get(index));
        }
        for message in other.output.iter() {
            self.output.made_from(first + message.source);
            self.output.send(message.into());
        }
    }

    /// Adds one message for each topic, and the dead letters. An array is made from the last of its records, which stands for all of them and has the
    /// array's value: what refuses it has all of it to put aside, and headers that say what it was made from.
    fn join(&mut self, other: &Bundle, dead: Option<&str>) {
        let is_letter = |message: &Sent<'_>| Some(message.topic) == dead;
        let mut topics: Vec<&str> = Vec::new();
        for message in other.output.iter().filter(|message| !is_letter(message)) {
            if !topics.contains(&message.topic) {
                topics.push(message.topic);
            }
        }
        for topic in topics {
            let items: Vec<_> = other.output.iter().filter(|message| message.topic == topic).collect();
            let last = items.last().expect("a topic of theirs").source;
            let key = items[0].key.filter(|key| items.iter().all(|item| item.key == Some(key)));
            let value = array(items.iter().map(|item| item.value.unwrap_or(b"null")));
            let timestamp = items.iter().filter_map(|item| item.timestamp).max();
            let first = other.batch.get(items[0].source).offset;
            let header = |name: &str, value: String| Header { name: name.to_owned(), value: Some(value.into_bytes()) };
            let headers = [header(FIRST_OFFSET, first.to_string()), header(MESSAGES, items.len().to_string())];
            let record = Record { key, value: Some(&value), timestamp, headers: &headers, ..other.batch.get(last) };
            let source = self.batch.len();
            self.batch.push(other.batch.topic_index(last), &record);
            self.output.made_from(source);
            self.output.send(Message::copy(&Record { headers: &[], ..record }, topic));
        }
        for letter in other.output.iter().filter(is_letter) {
            let record = other.batch.get(letter.source);
            self.add(other.batch.topic_index(letter.source), &record, std::iter::once(letter));
        }
    }

    fn bytes(&self) -> usize {
        self.batch.byte_len().max(self.output.byte_len())
    }

    fn clear(&mut self) {
        self.batch.clear();
        self.output.clear();
    }
}

fn bytes(key: Option<&[u8]>, value: Option<&[u8]>, headers: &[Header]) -> usize {
    key.map_or(0, <[u8]>::len) + value.map_or(0, <[u8]>::len) + header_bytes(headers)
}

fn array<'a>(values: impl Iterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut text = vec![b'['];
    for value in values {
        if text.len() > 1 {
            text.push(b',');
        }
        text.extend_from_slice(value);
    }
    text.push(b']');
    text
}

#[cfg(test)]
mod tests;
