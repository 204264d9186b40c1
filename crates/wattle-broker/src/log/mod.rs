//! The records of one partition: batches as the client sent them, in segments (files or memory), with the producers' sequences, the open
//! and aborted transactions, and retention.

use std::path::PathBuf;

use bytes::Bytes;

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
#[derive(Debug)]
pub(crate) struct Read {
    /// Whole batches from the one that holds the wanted offset on; may begin before it, as in Kafka.
    pub(crate) records: Bytes,
    /// Producer and first offset of aborted transactions that touch `records`; empty for `ReadUncommitted`.
    pub(crate) aborted: Vec<(i64, i64)>,
}

/// One partition.
#[derive(Debug)]
pub(crate) struct PartitionLog {}

impl PartitionLog {
    /// Opens or creates it. Reads what is there: a torn tail is cut (and logged), anything else that does not fit is refused with the place.
    pub(crate) fn open(_place: &Place, _now: Millis) -> Result<Self, Error> {
        todo!()
    }

    /// The first offset that can be read.
    pub(crate) fn start(&self) -> i64 {
        todo!()
    }

    /// The next offset to be written: the high watermark of a single node.
    pub(crate) fn end(&self) -> i64 {
        todo!()
    }

    /// The first offset of the oldest open transaction, or the end.
    pub(crate) fn last_stable(&self) -> i64 {
        todo!()
    }

    /// Appends what a client produced: one batch or several. Checks format, checksum, size, keys on compacted topics, sequence and epoch. A batch that is
    /// there already (same producer and sequence) is answered with its place again. Whether a transactional batch may be written here is the caller's check.
    pub(crate) fn append(&mut self, _batches: Bytes, _config: &TopicConfig, _now: Millis) -> Result<Appended, Refused> {
        todo!()
    }

    /// Appends the end of a producer's transaction, and returns its offset.
    pub(crate) fn append_marker(&mut self, _producer: Producer, _commit: bool, _now: Millis) -> Result<i64, Error> {
        todo!()
    }

    /// Batches from `from` on, at most `max_bytes` (but one whole batch if `at_least_one`), up to what `isolation` sees. `OffsetOutOfRange` below the start and beyond the end.
    pub(crate) fn read(
        &self,
        _from: i64,
        _max_bytes: usize,
        _at_least_one: bool,
        _isolation: Isolation,
    ) -> Result<Read, Refused> {
        todo!()
    }

    /// Offset and timestamp of the first record at or after `timestamp`.
    pub(crate) fn offset_for_time(&self, _timestamp: Millis) -> Result<Option<(i64, Millis)>, Error> {
        todo!()
    }

    /// Offset and timestamp of the record with the highest timestamp.
    pub(crate) fn max_timestamp(&self) -> Option<(i64, Millis)> {
        todo!()
    }

    /// Raises the start; whole segments before it are removed. The caller has journaled it. Also used at the start of the broker.
    pub(crate) fn delete_before(&mut self, _offset: i64) -> Result<(), Error> {
        todo!()
    }

    /// Retention by time and size, compaction, and forgetting of idle producers. Returns true if something changed. Called every few seconds; must be cheap when there is
    /// nothing to do, and bounded in memory. Never removes anything at or past the last stable offset.
    pub(crate) fn clean(&mut self, _config: &TopicConfig, _now: Millis) -> Result<bool, Error> {
        todo!()
    }

    /// Bytes in segments.
    pub(crate) fn bytes(&self) -> u64 {
        todo!()
    }

    /// Producers with an open transaction here.
    pub(crate) fn open_transactions(&self) -> impl Iterator<Item = i64> + '_ {
        std::iter::empty()
    }

    /// Removes all files: the topic was deleted.
    pub(crate) fn remove(self) -> Result<(), Error> {
        todo!()
    }
}
