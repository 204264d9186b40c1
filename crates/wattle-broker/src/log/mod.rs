//! The records of one partition: batches as the client sent them, in segments (files or memory), with the producers' sequences, the open
//! and aborted transactions, retention and compaction. Everything but the batches is found again from their headers when the log is opened.

mod accept;
mod batch;
mod clean;
mod compression;
mod producers;
mod record;
mod segment;
mod transactions;

use std::path::{Path, PathBuf};

use bytes::{Bytes, BytesMut};

pub(crate) use self::batch::Header;
use self::clean::Cleaner;
use self::producers::Producers;
use self::record::Records;
use self::segment::Segment;
use self::transactions::Transactions;
use crate::error::Error;
use crate::topic::TopicConfig;
use crate::types::{Code, Isolation, Millis, Producer};

/// Where a partition's segments are.
#[derive(Clone, Debug)]
pub(crate) enum Place {
    /// Gone with the process.
    Memory,
    /// A folder of this partition's own.
    Folder(PathBuf),
}

/// What a batch became.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Appended {
    pub(crate) base_offset: i64,
    /// The time that the log gave it, or −1 where the client's counts.
    pub(crate) log_append_time: Millis,
}

/// Why a batch was refused; nothing of it was written.
#[derive(Debug)]
pub(crate) enum Refused {
    /// The client is told.
    Code(Code, Option<String>),
    /// The disk: the broker must stop.
    Broken(Error),
}

/// What a reader gets.
#[derive(Debug, Default)]
pub(crate) struct Read {
    /// Whole batches from the one that holds the wanted offset on; may begin before it, as in Kafka.
    pub(crate) records: Bytes,
    /// Producer and first offset of aborted transactions that touch `records`; empty for `ReadUncommitted`.
    pub(crate) aborted: Vec<(i64, i64)>,
}

/// One partition.
#[derive(Debug)]
pub(crate) struct PartitionLog {
    folder: Option<PathBuf>,
    /// In order, never empty; the last one is written to.
    segments: Vec<Segment>,
    start: i64,
    producers: Producers,
    transactions: Transactions,
    cleaner: Cleaner,
}

impl PartitionLog {
    /// Opens or creates it. Reads the headers of what is there and the checksum of the last batch: a torn tail is cut (and logged), anything else
    /// that does not fit is refused with the place.
    pub(crate) fn open(place: &Place, now: Millis) -> Result<Self, Error> {
        let folder = match place {
            Place::Memory => None,
            Place::Folder(path) => Some(path.clone()),
        };
        let mut this = Self {
            folder,
            segments: vec![],
            start: 0,
            producers: Producers::default(),
            transactions: Transactions::default(),
            cleaner: Cleaner::default(),
        };
        if let Some(folder) = this.folder.clone() {
            std::fs::create_dir_all(&folder).map_err(Error::io(&folder, "create it"))?;
            this.recover(&folder, now)?;
        }
        if this.segments.is_empty() {
            this.segments.push(Segment::create(this.folder.as_deref(), 0)?);
        }
        this.start = this.segments[0].base;
        Ok(this)
    }

    /// The first offset that can be read.
    pub(crate) fn start(&self) -> i64 {
        self.start
    }

    /// The next offset to be written: the high watermark of a single node.
    pub(crate) fn end(&self) -> i64 {
        self.active().next
    }

    /// The first offset of the oldest open transaction, or the end.
    pub(crate) fn last_stable(&self) -> i64 {
        self.transactions.first_open().map_or(self.end(), |first| first.max(self.start))
    }

    /// Appends what a client produced: exactly one batch, as Kafka demands since batches exist. Checks format, checksum, size, keys on compacted topics,
    /// sequence and epoch. A batch that is there already (same producer and sequence) is answered with its place again. Whether a transactional
    /// batch may be written here is the caller's check.
    pub(crate) fn append(&mut self, batch: Bytes, config: &TopicConfig, now: Millis) -> Result<Appended, Refused> {
        let header = accept::check(&batch, config, now)?;
        if header.producer.id >= 0 {
            let open = self.transactions.is_open(header.producer.id);
            if let Some(sent) = self.producers.check(&header)? {
                let log_append_time = if config.log_append_time { sent.max_timestamp } else { -1 };
                return Ok(Appended { base_offset: sent.base, log_append_time });
            }
            if open && !header.is_transactional() {
                let text =
                    format!("producer {} has an open transaction here, this batch is not of it", header.producer.id);
                return Err(Refused::Code(Code::InvalidTxnState, Some(text)));
            }
        }
        let mut batch = batch.try_into_mut().unwrap_or_else(|shared| BytesMut::from(&shared[..]));
        let base_offset = self.end();
        batch::set_place(&mut batch, base_offset);
        if config.log_append_time {
            batch::set_log_append_time(&mut batch, now);
        }
        let header = Header::parse(&batch).expect("checked above");
        self.roll_if_full(header.size as u64, config, now)?;
        self.active_mut().append(&header, &batch, now)?;
        self.note(&header, None, now);
        Ok(Appended { base_offset, log_append_time: if config.log_append_time { now } else { -1 } })
    }

    /// Appends the end of a producer's transaction, and returns its offset.
    pub(crate) fn append_marker(&mut self, producer: Producer, commit: bool, now: Millis) -> Result<i64, Error> {
        let base = self.end();
        let batch = batch::marker(base, producer, commit, now);
        let header = Header::parse(&batch).expect("just made");
        self.active_mut().append(&header, &batch, now)?;
        self.note(&header, Some(commit), now);
        Ok(base)
    }

    /// Batches from `from` on, at most `max_bytes` (but one whole batch if `at_least_one`), up to what `isolation` sees. `OffsetOutOfRange` below the start
    /// and beyond the end.
    pub(crate) fn read(
        &self,
        from: i64,
        max_bytes: usize,
        at_least_one: bool,
        isolation: Isolation,
    ) -> Result<Read, Refused> {
        if from < self.start || from > self.end() {
            return Err(Refused::Code(Code::OffsetOutOfRange, None));
        }
        let limit = match isolation {
            Isolation::ReadUncommitted => self.end(),
            Isolation::ReadCommitted => self.last_stable(),
        };
        if from >= limit {
            // the log may begin within a batch that is not stable
            return Ok(Read::default());
        }
        let first = self.segments.partition_point(|segment| segment.next <= from);
        for segment in &self.segments[first..] {
            let at = segment.walk(from)?.at;
            if segment.base >= limit {
                break;
            }
            if at < segment.size {
                let Some((records, end)) = segment.slice(at, limit, max_bytes, at_least_one)? else { break };
                let aborted = match isolation {
                    Isolation::ReadUncommitted => vec![],
                    Isolation::ReadCommitted => self.transactions.aborted_within(from, end),
                };
                return Ok(Read { records, aborted });
            }
        }
        Ok(Read::default())
    }

    /// Offset and timestamp of the first record at or after `timestamp`.
    pub(crate) fn offset_for_time(&self, timestamp: Millis) -> Result<Option<(i64, Millis)>, Error> {
        for segment in &self.segments {
            if segment.next <= self.start || segment.largest.is_none_or(|(largest, _)| largest < timestamp) {
                continue;
            }
            let mut walk = segment.walk(self.start)?;
            while let Some((header, at)) = walk.next()? {
                if header.max_timestamp < timestamp {
                    continue;
                }
                let found =
                    find(&header, walk.batch(&header, at)?, |offset, time| offset >= self.start && time >= timestamp);
                if found.is_some() {
                    return Ok(found);
                }
            }
        }
        Ok(None)
    }

    /// Offset and timestamp of the record with the highest timestamp.
    pub(crate) fn max_timestamp(&self) -> Result<Option<(i64, Millis)>, Error> {
        let with = self.segments.iter().filter_map(|segment| segment.largest.map(|(time, at)| (segment, time, at)));
        // the first of equals
        let Some((segment, largest, at)) = with.reduce(|best, other| if other.1 > best.1 { other } else { best })
        else {
            return Ok(None);
        };
        let mut walk = segment.walk_at(at);
        let Some((header, at)) = walk.next()? else { return Ok(None) };
        let found = find(&header, walk.batch(&header, at)?, |_, time| time >= largest);
        Ok(found.or(Some((header.last(), largest))))
    }

    /// Raises the start; whole segments before it are removed. The caller has journaled it. Also used at the start of the broker.
    pub(crate) fn delete_before(&mut self, offset: i64) -> Result<(), Error> {
        self.start = self.start.max(offset.min(self.end()));
        if self.end() == self.start && self.active().size > 0 {
            self.roll()?;
        }
        while self.segments.len() > 1 && self.segments[1].base <= self.start {
            self.segments.remove(0).remove()?;
        }
        self.transactions.trim(self.start);
        Ok(())
    }

    /// Bytes in segments.
    pub(crate) fn bytes(&self) -> u64 {
        self.segments.iter().map(|segment| segment.size).sum()
    }

    /// Producers with an open transaction here.
    pub(crate) fn open_transactions(&self) -> impl Iterator<Item = i64> + '_ {
        self.transactions.open()
    }

    /// Removes all files: the topic was deleted.
    pub(crate) fn remove(self) -> Result<(), Error> {
        match &self.folder {
            Some(folder) => std::fs::remove_dir_all(folder).map_err(Error::io(folder, "remove it")),
            None => Ok(()),
        }
    }

    fn active(&self) -> &Segment {
        self.segments.last().expect("never empty")
    }

    fn active_mut(&mut self) -> &mut Segment {
        self.segments.last_mut().expect("never empty")
    }

    /// Opens the segments that are there.
    fn recover(&mut self, folder: &Path, now: Millis) -> Result<(), Error> {
        let bases = segment::recover(folder)?;
        for (number, base) in bases.iter().enumerate() {
            let (producers, transactions) = (&mut self.producers, &mut self.transactions);
            let is_last = number + 1 == bases.len();
            let segment = Segment::open(segment::path(folder, *base), *base, is_last, now, |header, control| {
                let commits = control.and_then(|batch| record::marker_commits(header, batch));
                note(producers, transactions, header, commits, now);
            })?;
            if let Some(before) = self.segments.last()
                && before.next > segment.base
            {
                return Err(segment.corrupt(0, format!("the segment before it goes on to offset {}", before.next)));
            }
            self.segments.push(segment);
        }
        Ok(())
    }

    fn note(&mut self, header: &Header, commits: Option<bool>, now: Millis) {
        note(&mut self.producers, &mut self.transactions, header, commits, now);
    }

    fn roll_if_full(&mut self, more: u64, config: &TopicConfig, now: Millis) -> Result<(), Error> {
        let active = self.active();
        let is_old = active.born.is_some_and(|born| now.saturating_sub(born) >= config.segment_ms);
        if active.size > 0 && (is_old || active.size + more > config.segment_bytes) { self.roll() } else { Ok(()) }
    }

    /// A new segment is written to from here on.
    fn roll(&mut self) -> Result<(), Error> {
        let segment = Segment::create(self.folder.as_deref(), self.end())?;
        self.segments.push(segment);
        Ok(())
    }
}

impl From<Error> for Refused {
    fn from(error: Error) -> Self {
        Refused::Broken(error)
    }
}

impl From<(Code, String)> for Refused {
    fn from((code, text): (Code, String)) -> Self {
        Refused::Code(code, Some(text))
    }
}

/// Takes account of a batch in the log; `commits` where it is a marker.
fn note(
    producers: &mut Producers,
    transactions: &mut Transactions,
    header: &Header,
    commits: Option<bool>,
    now: Millis,
) {
    producers.note(header, now);
    match commits {
        Some(commit) => transactions.end(header.producer.id, commit, header.base),
        None if header.is_transactional() && !header.is_control() => {
            transactions.begin(header.producer.id, header.base)
        }
        None => {}
    }
}

/// Offset and timestamp of the first record that is `wanted`. Where the records cannot be read, the batch stands for them.
fn find(header: &Header, batch: &[u8], wanted: impl Fn(i64, Millis) -> bool) -> Option<(i64, Millis)> {
    let Ok(records) = Records::open(header, batch) else { return Some((header.base, header.max_timestamp)) };
    let records = records.iter().map_while(Result::ok);
    let mut places = records.map(|record| (header.base + i64::from(record.offset_delta), record.timestamp(header)));
    places.find(|(offset, time)| wanted(*offset, *time))
}

#[cfg(test)]
mod tests;
