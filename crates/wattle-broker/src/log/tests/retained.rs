//! What retention leaves.

use super::*;

fn at(log: &mut PartitionLog, time: Millis, config: &TopicConfig) {
    log.append(batch(ANYONE, &[(Some("key"), Some("value"), time)]), config, time).unwrap();
}

#[test]
fn old_segments_go_and_the_last_one_too() {
    let config = config(&[("segment.ms", "10"), ("retention.ms", "100")]);
    let mut log = memory();
    for time in [0, 5, 50, 55, 100] {
        at(&mut log, NOW + time, &config);
    }
    for (time, start) in [(104, 0), (105, 2), (154, 2), (155, 4), (199, 4), (200, 5)] {
        assert!(!log.clean(&config, NOW + time).unwrap());
        assert_eq!(log.start(), start, "{time}");
    }
    assert_eq!((log.end(), log.bytes(), log.segments.len()), (5, 0, 1));
}

#[test]
fn surplus_segments_go() {
    let mut log = memory();
    at(&mut log, NOW, &config(&[]));
    let size = log.bytes();
    let [segment, retained] = [size * 2, size * 5].map(|size| size.to_string());
    let config = config(&[("segment.bytes", &segment), ("retention.bytes", &retained)]);
    for time in 1..12 {
        at(&mut log, NOW + time, &config);
    }
    log.clean(&config, NOW + 20).unwrap();
    assert_eq!((log.start(), log.bytes()), (6, size * 6));
}

#[test]
fn an_open_transaction_keeps_what_is_behind_it() {
    let config = config(&[("segment.ms", "10"), ("retention.ms", "100")]);
    let mut log = memory();
    at(&mut log, NOW, &config);
    log.append(batch(transactional(1, 0, 0), &plain(1)), &config, NOW + 20).unwrap();
    at(&mut log, NOW + 40, &config);
    log.clean(&config, NOW + 1000).unwrap();
    assert_eq!((log.start(), log.last_stable(), log.end()), (1, 1, 3));
    log.append_marker(Producer { id: 1, epoch: 0 }, false, NOW + 1000).unwrap();
    log.clean(&config, NOW + 2000).unwrap();
    assert_eq!((log.start(), log.end()), (4, 4));
    assert!(log.transactions.aborted().is_empty());
}

#[test]
fn silent_producers_are_forgotten() {
    let mut log = memory();
    put(&mut log, idempotent(1, 0, 0), 1).unwrap();
    put(&mut log, transactional(2, 0, 0), 1).unwrap();
    let day = 24 * 60 * 60 * 1000;
    log.clean(&config(&[]), NOW + day - 1).unwrap();
    assert_eq!(put(&mut log, idempotent(1, 0, 5), 1), Err(Code::OutOfOrderSequenceNumber));
    log.clean(&config(&[]), NOW + day).unwrap();
    assert_eq!(put(&mut log, idempotent(1, 0, 5), 1), Ok(2));
    assert_eq!(put(&mut log, transactional(2, 0, 5), 1), Err(Code::OutOfOrderSequenceNumber));
}
