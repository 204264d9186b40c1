//! What compaction leaves: the newest record of every key, at its offset.

use super::*;

/// Compacts at once, everything but the last segment.
const EAGER: [(&str, &str); 3] =
    [("cleanup.policy", "compact"), ("segment.bytes", "1"), ("min.cleanable.dirty.ratio", "0")];

fn write(log: &mut PartitionLog, writer: Writer, records: &[(&str, Option<&str>)]) {
    let records: Vec<_> = records.iter().map(|(key, value)| (Some(*key), *value, NOW)).collect();
    append(log, batch(writer, &records), &config(&EAGER)).unwrap();
}

fn clean(log: &mut PartitionLog, config: &TopicConfig, now: Millis) {
    let before = [Isolation::ReadCommitted, Isolation::ReadUncommitted].map(|isolation| consume(log, isolation, 700));
    let ends = (log.start(), log.end(), log.last_stable());
    while log.clean(config, now).unwrap() {}
    let after = [Isolation::ReadCommitted, Isolation::ReadUncommitted].map(|isolation| consume(log, isolation, 700));
    assert_eq!((log.start(), log.end(), log.last_stable()), ends);
    assert_eq!(fold(&before[0]), fold(&after[0]));
    for (before, after) in before.iter().zip(&after) {
        assert!(after.iter().all(|seen| before.contains(seen)));
    }
}

fn keys_and_offsets(log: &PartitionLog) -> Vec<(String, i64)> {
    let seen = consume(log, Isolation::ReadUncommitted, usize::MAX);
    seen.into_iter().map(|seen| (seen.key.unwrap_or_default(), seen.offset)).collect()
}

fn named(expected: &[(&str, i64)]) -> Vec<(String, i64)> {
    expected.iter().map(|(key, offset)| (key.to_string(), *offset)).collect()
}

#[test]
fn the_newest_value_of_every_key_stays_at_its_offset_in_every_codec() {
    for codec in 0..=4 {
        let mut log = memory();
        let writer = Writer { codec, ..ANYONE };
        write(&mut log, writer, &[("a", Some("1")), ("b", Some("1")), ("a", Some("2"))]);
        write(&mut log, writer, &[("c", Some("1")), ("b", Some("2"))]);
        write(&mut log, writer, &[("c", Some("2"))]);
        write(&mut log, writer, &[("a", Some("in the segment that is written to"))]);
        clean(&mut log, &config(&EAGER), NOW);
        assert_eq!(keys_and_offsets(&log), named(&[("a", 2), ("b", 4), ("c", 5), ("a", 6)]), "{codec}");
        let header = Header::parse(&log.read(0, 1, true, Isolation::ReadCommitted).unwrap().records).unwrap();
        assert_eq!((header.base, header.count, header.last_delta, header.codec()), (0, 1, 2, codec));
        let read = log.read(3, 1, true, Isolation::ReadCommitted).unwrap();
        assert_eq!(Header::parse(&read.records).unwrap().last(), 4);
    }
}

#[test]
fn tombstones_stay_for_their_time_and_then_go() {
    let set = [("cleanup.policy", "compact"), ("delete.retention.ms", "100"), ("min.cleanable.dirty.ratio", "0")];
    let config = config(&set);
    let mut log = memory();
    write(&mut log, ANYONE, &[("a", Some("1")), ("b", Some("1"))]);
    write(&mut log, ANYONE, &[("x", Some("1")), ("a", None)]);
    write(&mut log, ANYONE, &[("y", Some("1"))]);
    clean(&mut log, &config, NOW);
    let with = named(&[("b", 1), ("x", 2), ("a", 3), ("y", 4)]);
    assert_eq!(keys_and_offsets(&log), with);
    assert_eq!(log.offset_for_time(NOW).unwrap(), Some((1, NOW)));
    assert_eq!(log.max_timestamp().unwrap(), Some((1, NOW)));
    clean(&mut log, &config, NOW + 99);
    assert_eq!(keys_and_offsets(&log), with);
    clean(&mut log, &config, NOW + 100);
    assert_eq!(keys_and_offsets(&log), named(&[("b", 1), ("x", 2), ("y", 4)]));
    assert!(!log.clean(&config, NOW + 1000).unwrap());
}

#[test]
fn aborted_records_go_and_markers_after_them() {
    let set = [EAGER[0], EAGER[1], EAGER[2], ("delete.retention.ms", "0")];
    let config = config(&set);
    let mut log = memory();
    write(&mut log, transactional(1, 0, 0), &[("a", Some("committed"))]);
    log.append_marker(Producer { id: 1, epoch: 0 }, true, NOW).unwrap();
    write(&mut log, transactional(1, 0, 1), &[("a", Some("aborted"))]);
    log.append_marker(Producer { id: 1, epoch: 0 }, false, NOW).unwrap();
    write(&mut log, transactional(1, 0, 2), &[("b", Some("1"))]);
    log.append_marker(Producer { id: 1, epoch: 0 }, true, NOW).unwrap();
    write(&mut log, ANYONE, &[("last", Some("1"))]);
    clean(&mut log, &config, NOW);
    assert_eq!(keys_and_offsets(&log), named(&[("a", 0), ("b", 4), ("last", 6)]));
    assert_eq!(log.transactions.aborted().len(), 1);
    let markers = |log: &PartitionLog| {
        let mut found = vec![];
        for segment in &log.segments {
            let mut walk = segment.walk_at(0);
            while let Some((header, _)) = walk.next().unwrap() {
                found.extend(header.is_control().then_some(header.base));
            }
        }
        found
    };
    assert_eq!(markers(&log), [1, 3, 5]);
    for now in [NOW + 1, NOW + 2] {
        write(&mut log, ANYONE, &[("more", Some("1"))]);
        clean(&mut log, &config, now);
    }
    assert_eq!(markers(&log), [1, 5]);
    assert!(log.transactions.aborted().is_empty());
}

#[test]
fn an_open_transaction_stops_it() {
    let mut log = memory();
    write(&mut log, ANYONE, &[("a", Some("1"))]);
    write(&mut log, ANYONE, &[("a", Some("2"))]);
    write(&mut log, transactional(1, 0, 0), &[("a", Some("3"))]);
    write(&mut log, ANYONE, &[("a", Some("4"))]);
    write(&mut log, ANYONE, &[("a", Some("5"))]);
    clean(&mut log, &config(&EAGER), NOW);
    assert_eq!(keys_and_offsets(&log), named(&[("a", 1), ("a", 2), ("a", 3), ("a", 4)]));
    log.append_marker(Producer { id: 1, epoch: 0 }, true, NOW).unwrap();
    write(&mut log, ANYONE, &[("a", Some("6"))]);
    clean(&mut log, &config(&EAGER), NOW);
    assert_eq!(keys_and_offsets(&log), named(&[("a", 4), ("a", 6)]));
}

#[test]
fn the_newest_records_wait_for_their_lag_and_the_oldest_are_not_late() {
    let lag = [EAGER[0], EAGER[1], EAGER[2], ("min.compaction.lag.ms", "50")];
    let late = [("cleanup.policy", "compact"), ("max.compaction.lag.ms", "70"), ("min.cleanable.dirty.ratio", "1")];
    for (set, before, after) in [(&lag[..], 49, 50), (&late[..], 69, 70)] {
        let mut log = memory();
        for _ in 0..3 {
            append(&mut log, batch(ANYONE, &plain(2)), &config(set)).unwrap();
        }
        clean(&mut log, &config(set), NOW + before);
        assert_eq!(keys_and_offsets(&log).len(), 6);
        clean(&mut log, &config(set), NOW + after);
        assert!(keys_and_offsets(&log).len() <= 3);
    }
}

#[test]
fn producers_are_known_after_their_records_went() {
    let folder = Temporary::new();
    let place = Place::Folder(folder.path().to_owned());
    let mut log = PartitionLog::open(&place, NOW).unwrap();
    write(&mut log, idempotent(1, 3, 0), &[("a", Some("1"))]);
    write(&mut log, idempotent(1, 3, 1), &[("a", Some("2"))]);
    write(&mut log, transactional(2, 0, 0), &[("a", Some("3"))]);
    log.append_marker(Producer { id: 2, epoch: 1 }, false, NOW).unwrap();
    for value in ["4", "5", "6"] {
        write(&mut log, ANYONE, &[("a", Some(value))]);
        clean(&mut log, &config(&EAGER), NOW + 1000);
    }
    assert_eq!(keys_and_offsets(&log).len(), 2);
    drop(log);
    let mut log = PartitionLog::open(&place, NOW).unwrap();
    assert_eq!(log.open_transactions().count(), 0);
    assert_eq!(put(&mut log, idempotent(1, 3, 1), 1), Ok(1));
    assert_eq!(put(&mut log, idempotent(1, 3, 5), 1), Err(Code::OutOfOrderSequenceNumber));
    assert_eq!(put(&mut log, idempotent(1, 2, 2), 1), Err(Code::InvalidProducerEpoch));
    assert_eq!(put(&mut log, transactional(2, 0, 1), 1), Err(Code::InvalidProducerEpoch));
}

#[test]
fn a_pass_whose_map_is_full_is_followed_by_another() {
    let set = [EAGER[0], ("segment.bytes", "1000000"), EAGER[2]];
    let config = config(&set);
    let mut log = memory();
    let keys: Vec<_> = (0..250_000).map(|number| number.to_string()).collect();
    for value in ["old, and rather long", "new, and rather long"] {
        for keys in keys.chunks(10_000) {
            let records: Vec<_> = keys.iter().map(|key| (Some(&key[..]), Some(value), NOW)).collect();
            append(&mut log, batch(ANYONE, &records), &config).unwrap();
        }
    }
    let calls = |log: &mut PartitionLog| (0..).take_while(|_| log.clean(&config, NOW).unwrap()).count();
    assert!(calls(&mut log) > 0);
    assert!(consume(&log, Isolation::ReadCommitted, 1 << 20).len() > 250_000);
    for _ in 0..3 {
        calls(&mut log);
    }
    let left = consume(&log, Isolation::ReadCommitted, 1 << 20);
    let unmerged = left.iter().filter(|seen| seen.value.as_deref() == Some("old, and rather long")).count();
    assert_eq!(fold(&left).len(), 250_000);
    assert!(unmerged <= 20_000, "{unmerged}");
}

#[test]
fn a_replacement_cut_short_is_finished_or_forgotten() {
    let folder = Temporary::new();
    let place = Place::Folder(folder.path().to_owned());
    let mut log = PartitionLog::open(&place, NOW).unwrap();
    for value in ["1", "2", "3", "4"] {
        write(&mut log, ANYONE, &[("a", Some(value))]);
    }
    let before: Vec<_> = (0..4).map(|base| std::fs::read(segment::path(folder.path(), base)).unwrap()).collect();
    clean(&mut log, &config(&[EAGER[0], EAGER[2]]), NOW);
    let after = keys_and_offsets(&log);
    assert_eq!(after, named(&[("a", 2), ("a", 3)]));
    drop(log);
    let replacement = std::fs::read(segment::path(folder.path(), 0)).unwrap();
    // removed: how many of the old segments are gone already
    for (extension, removed, expected) in
        [("new", 0, 4), ("swap", 0, 2), ("swap", 1, 2), ("swap", 2, 2), ("swap", 3, 2)]
    {
        for base in 0..4 {
            std::fs::write(segment::path(folder.path(), base), &before[base as usize]).unwrap();
        }
        for base in 0..removed {
            std::fs::remove_file(segment::path(folder.path(), base)).unwrap();
        }
        let name = format!("{:020}-{:020}.{extension}", 0, 3);
        std::fs::write(folder.path().join(&name), &replacement).unwrap();
        let log = PartitionLog::open(&place, NOW).unwrap();
        assert_eq!((keys_and_offsets(&log).len(), log.end()), (expected, 4), "{extension} {removed}");
        assert!(!folder.path().join(&name).exists());
    }
}
