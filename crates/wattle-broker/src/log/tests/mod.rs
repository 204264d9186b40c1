//! The promises of a partition's log, in memory and in a folder alike.

mod accepted;
mod compacted;
mod model;
mod recovered;
mod retained;

use std::collections::{BTreeMap, BTreeSet};

use super::record::testing::{ANYONE, Plain, Writer, batch};
use super::*;
use crate::folder::testing::Temporary;

const NOW: Millis = 1_700_000_000_000;

fn config(set: &[(&str, &str)]) -> TopicConfig {
    let set: BTreeMap<_, _> = set.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
    TopicConfig::parse(&set).unwrap()
}

fn memory() -> PartitionLog {
    PartitionLog::open(&Place::Memory, NOW).unwrap()
}

fn idempotent(id: i64, epoch: i16, sequence: i32) -> Writer {
    Writer { producer: Producer { id, epoch }, sequence, transactional: false, codec: 0 }
}

fn transactional(id: i64, epoch: i16, sequence: i32) -> Writer {
    Writer { transactional: true, ..idempotent(id, epoch, sequence) }
}

fn plain(count: usize) -> Vec<Plain<'static>> {
    vec![(Some("key"), Some("value"), NOW); count]
}

/// Appends with default settings.
fn put(log: &mut PartitionLog, writer: Writer, count: usize) -> Result<i64, Code> {
    append(log, batch(writer, &plain(count)), &config(&[]))
}

fn append(log: &mut PartitionLog, batch: Bytes, config: &TopicConfig) -> Result<i64, Code> {
    match log.append(batch, config, NOW) {
        Ok(appended) => Ok(appended.base_offset),
        Err(Refused::Code(code, text)) => {
            assert!(text.is_some());
            Err(code)
        }
        Err(Refused::Broken(error)) => panic!("{error}"),
    }
}

/// A record as a reader sees it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Seen {
    offset: i64,
    key: Option<String>,
    value: Option<String>,
}

/// What a client gets that reads all of the log, `max_bytes` at a time, and drops what was aborted as clients do.
fn consume(log: &PartitionLog, isolation: Isolation, max_bytes: usize) -> Vec<Seen> {
    let mut seen = vec![];
    let mut from = log.start();
    loop {
        let read = log.read(from, max_bytes, true, isolation).unwrap();
        if read.records.is_empty() {
            return seen;
        }
        let (mut aborted, mut to_come) = (BTreeSet::new(), read.aborted.clone());
        let mut rest = &read.records[..];
        while !rest.is_empty() {
            let header = Header::parse(rest).unwrap();
            let (batch, after) = rest.split_at(header.size);
            assert!(batch::is_intact(batch));
            aborted.extend(to_come.extract_if(.., |one| one.1 <= header.last()).map(|one| one.0));
            if header.is_control() {
                if record::marker_commits(&header, batch) == Some(false) {
                    aborted.remove(&header.producer.id);
                }
            } else if !(header.is_transactional() && aborted.contains(&header.producer.id)) {
                seen.extend(records(&header, batch).into_iter().filter(|one| one.offset >= from));
            }
            from = from.max(header.last() + 1);
            rest = after;
        }
    }
}

fn records(header: &Header, batch: &[u8]) -> Vec<Seen> {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let records = Records::open(header, batch).unwrap();
    let seen = records.iter().map(Result::unwrap).map(|record| Seen {
        offset: header.base + i64::from(record.offset_delta),
        key: record.key.map(text),
        value: record.value.map(text),
    });
    seen.collect()
}

/// The newest value of every key; what a changelog's reader ends up with.
fn fold(seen: &[Seen]) -> BTreeMap<String, String> {
    let mut fold = BTreeMap::new();
    for Seen { key, value, .. } in seen {
        let key = key.clone().unwrap();
        match value {
            Some(value) => fold.insert(key, value.clone()),
            None => fold.remove(&key),
        };
    }
    fold
}

fn offsets(log: &PartitionLog, isolation: Isolation) -> Vec<i64> {
    consume(log, isolation, usize::MAX).iter().map(|seen| seen.offset).collect()
}

#[test]
fn what_was_appended_is_read_from_the_batch_that_holds_the_offset() {
    let mut log = memory();
    for base in [0, 3, 6, 9] {
        assert_eq!(put(&mut log, ANYONE, 3), Ok(base));
    }
    assert_eq!((log.start(), log.end(), log.last_stable()), (0, 12, 12));
    let size = log.bytes() as usize / 4;
    for (from, max_bytes, at_least_one, base, batches) in
        [(0, usize::MAX, false, 0, 4), (4, 2 * size, false, 3, 2), (5, size - 1, true, 3, 1), (11, size, false, 9, 1)]
    {
        let read = log.read(from, max_bytes, at_least_one, Isolation::ReadUncommitted).unwrap();
        assert_eq!(read.records.len(), batches * size);
        assert_eq!(Header::parse(&read.records).unwrap().base, base);
    }
    assert!(log.read(0, size - 1, false, Isolation::ReadCommitted).unwrap().records.is_empty());
    assert!(log.read(12, size, true, Isolation::ReadCommitted).unwrap().records.is_empty());
    for outside in [-1, 13] {
        let refused = log.read(outside, size, true, Isolation::ReadCommitted);
        assert!(matches!(refused, Err(Refused::Code(Code::OffsetOutOfRange, _))));
    }
}

#[test]
fn sequences_and_epochs_are_kept_as_in_kafka() {
    let mut log = memory();
    for (writer, count, expected) in [
        (idempotent(1, 0, 0), 3, Ok(0)),
        (idempotent(1, 0, 0), 3, Ok(0)),
        (idempotent(1, 0, 0), 2, Err(Code::OutOfOrderSequenceNumber)),
        (idempotent(1, 0, 4), 1, Err(Code::OutOfOrderSequenceNumber)),
        (idempotent(1, 0, 3), 1, Ok(3)),
        (idempotent(1, 0, 4), 1, Ok(4)),
        (idempotent(1, 0, 5), 1, Ok(5)),
        (idempotent(1, 0, 6), 1, Ok(6)),
        (idempotent(1, 0, 0), 3, Ok(0)),
        (idempotent(1, 0, 7), 1, Ok(7)),
        (idempotent(1, 0, 0), 3, Err(Code::OutOfOrderSequenceNumber)),
        (idempotent(1, 0, 3), 1, Ok(3)),
        (idempotent(1, 1, 8), 1, Err(Code::OutOfOrderSequenceNumber)),
        (idempotent(1, 1, 0), 1, Ok(8)),
        (idempotent(1, 0, 8), 1, Err(Code::InvalidProducerEpoch)),
        (idempotent(1, 0, 7), 1, Err(Code::InvalidProducerEpoch)),
        (idempotent(2, 5, i32::MAX - 1), 2, Ok(9)),
        (idempotent(2, 5, 1), 1, Err(Code::OutOfOrderSequenceNumber)),
        (idempotent(2, 5, 0), 1, Ok(11)),
        (idempotent(3, 0, i32::MAX), 3, Ok(12)),
        (idempotent(3, 0, 2), 1, Ok(15)),
        (idempotent(3, 0, i32::MAX), 3, Ok(12)),
    ] {
        assert_eq!(put(&mut log, writer, count), expected, "{writer:?}");
    }
}

#[test]
fn a_marker_raises_the_epoch() {
    let mut log = memory();
    assert_eq!(put(&mut log, transactional(1, 0, 0), 1), Ok(0));
    log.append_marker(Producer { id: 1, epoch: 1 }, false, NOW).unwrap();
    assert_eq!(put(&mut log, transactional(1, 0, 1), 1), Err(Code::InvalidProducerEpoch));
    assert_eq!(put(&mut log, transactional(1, 1, 1), 1), Err(Code::OutOfOrderSequenceNumber));
    assert_eq!(put(&mut log, transactional(1, 1, 0), 1), Ok(2));
    assert_eq!(put(&mut log, idempotent(1, 1, 1), 1), Err(Code::InvalidTxnState));
}

#[test]
fn readers_of_committed_records_stop_at_the_oldest_open_transaction() {
    let mut log = memory();
    put(&mut log, ANYONE, 1).unwrap();
    put(&mut log, transactional(1, 0, 0), 1).unwrap();
    put(&mut log, transactional(2, 0, 0), 2).unwrap();
    assert_eq!((log.last_stable(), log.end()), (1, 4));
    assert_eq!(log.open_transactions().collect::<Vec<_>>(), [1, 2]);
    assert_eq!(log.append_marker(Producer { id: 1, epoch: 0 }, false, NOW).unwrap(), 4);
    assert_eq!(log.last_stable(), 2);
    let read = log.read(0, usize::MAX, true, Isolation::ReadCommitted).unwrap();
    assert_eq!(read.aborted, [(1, 1)]);
    assert_eq!(offsets(&log, Isolation::ReadCommitted), [0]);
    assert_eq!(log.append_marker(Producer { id: 2, epoch: 0 }, true, NOW).unwrap(), 5);
    assert_eq!(log.last_stable(), 6);
    assert_eq!(offsets(&log, Isolation::ReadCommitted), [0, 2, 3]);
    assert_eq!(offsets(&log, Isolation::ReadUncommitted), [0, 1, 2, 3]);
    let after = log.read(5, usize::MAX, true, Isolation::ReadCommitted).unwrap();
    assert!(after.aborted.is_empty());
    // a marker for nobody's records ends nothing
    log.append_marker(Producer { id: 9, epoch: 0 }, false, NOW).unwrap();
    assert!(log.read(6, 1, true, Isolation::ReadCommitted).unwrap().aborted.is_empty());
}

#[test]
fn records_are_found_by_time() {
    let mut log = memory();
    let config = config(&[("segment.bytes", "200")]);
    for times in [[10, 12], [11, 30], [5, 6], [30, 20]] {
        let records = times.map(|time| (Some("key"), Some("value"), time));
        for codec in [0, 4] {
            append(&mut log, batch(Writer { codec, ..ANYONE }, &records), &config).unwrap();
        }
    }
    for (time, found) in [
        (0, Some((0, 10))),
        (11, Some((1, 12))),
        (12, Some((1, 12))),
        (13, Some((5, 30))),
        (30, Some((5, 30))),
        (31, None),
    ] {
        assert_eq!(log.offset_for_time(time).unwrap(), found, "{time}");
    }
    assert_eq!(log.max_timestamp().unwrap(), Some((5, 30)));
    log.delete_before(6).unwrap();
    assert_eq!(log.offset_for_time(0).unwrap(), Some((6, 11)));
    assert_eq!(memory().max_timestamp().unwrap(), None);
    assert_eq!(memory().offset_for_time(0).unwrap(), None);
}

#[test]
fn the_log_may_give_the_time() {
    let mut log = memory();
    let config = config(&[("message.timestamp.type", "LogAppendTime")]);
    let sent = batch(idempotent(1, 0, 0), &[(Some("key"), Some("value"), 7)]);
    for _ in 0..2 {
        let appended = log.append(sent.clone(), &config, NOW).unwrap();
        assert_eq!(appended, Appended { base_offset: 0, log_append_time: NOW });
    }
    let read = log.read(0, usize::MAX, true, Isolation::ReadUncommitted).unwrap();
    let header = Header::parse(&read.records).unwrap();
    assert!(batch::is_intact(&read.records) && header.has_log_append_time());
    assert_eq!(log.max_timestamp().unwrap(), Some((0, NOW)));
}
