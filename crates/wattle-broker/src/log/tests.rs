//! The promises of a partition's log, in memory and in a folder alike.

use std::collections::BTreeMap;

use super::record::testing::{ANYONE, Plain, Writer, batch};
use super::*;

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

/// Offset, key, value of all records that a reader sees, by reading again and again.
fn fold(log: &PartitionLog, isolation: Isolation) -> Vec<(i64, String, Option<usize>)> {
    let mut seen = vec![];
    let mut from = log.start();
    loop {
        let read = log.read(from, 1, true, isolation).unwrap();
        if read.records.is_empty() {
            return seen;
        }
        let header = Header::parse(&read.records).unwrap();
        let dropped =
            read.aborted.iter().any(|(producer, first)| *producer == header.producer.id && *first <= header.base);
        if !header.is_control() && !dropped {
            for record in Records::open(&header, &read.records).unwrap().iter().map(Result::unwrap) {
                let key = String::from_utf8(record.key.unwrap_or_default().to_vec()).unwrap();
                seen.push((header.base + i64::from(record.offset_delta), key, (!record.is_tombstone).then_some(1)));
            }
        }
        from = header.last() + 1;
    }
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
    assert_eq!(fold(&log, Isolation::ReadCommitted).len(), 1);
    assert_eq!(log.append_marker(Producer { id: 2, epoch: 0 }, true, NOW).unwrap(), 5);
    assert_eq!(log.last_stable(), 6);
    assert_eq!(fold(&log, Isolation::ReadCommitted).iter().map(|seen| seen.0).collect::<Vec<_>>(), [0, 2, 3]);
    assert_eq!(fold(&log, Isolation::ReadUncommitted).len(), 4);
    let after = log.read(5, usize::MAX, true, Isolation::ReadCommitted).unwrap();
    assert!(after.aborted.is_empty());
    // a marker for nobody's records ends nothing
    log.append_marker(Producer { id: 9, epoch: 0 }, false, NOW).unwrap();
    assert!(log.read(6, 1, true, Isolation::ReadCommitted).unwrap().aborted.is_empty());
}
