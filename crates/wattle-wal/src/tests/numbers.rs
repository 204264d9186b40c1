//! No number is ever used twice.

use fastrand::Rng;

use super::*;

#[test]
fn numbers_go_on_behind_entries_that_were_processed_and_then_lost() {
    // With periodic an entry is processed before it is synced, and its position is committed elsewhere.
    let disk = Sim::default();
    let log = open(&disk, RARELY);
    for i in 0..10 {
        append(&log, &format!("entry {i}"));
    }
    let processed = read(&log, None).last().unwrap().0 + 1;
    for seed in 0..50 {
        let after = open(&disk.power_lost(&mut Rng::with_seed(seed)), RARELY);
        let committed = Some(Position(processed));
        assert_eq!(texts(&after, committed), [""; 0]);
        append(&after, "later");
        assert_eq!(texts(&after, committed), ["later"], "what came later is behind the committed position");
    }
}

#[test]
fn periodic_entries_that_were_acknowledged_do_not_hide_later_ones() {
    let disk = Sim::default();
    let log = open(&disk, RARELY);
    for i in 0..1000 {
        append(&log, &format!("first {i}"));
        if i % 100 == 99 {
            log.cover(Position(read(&log, None).last().unwrap().0 + 1)).unwrap();
        }
    }
    for seed in 0..20 {
        let lost = if seed == 0 { disk.killed() } else { disk.power_lost(&mut Rng::with_seed(seed)) };
        let log = open(&lost, RARELY);
        let before = texts(&log, None).len();
        for i in 0..500 {
            append(&log, &format!("second {i}"));
        }
        let log = open(&lost.killed(), RARELY);
        let expected: Vec<_> = (0..500).map(|i| format!("second {i}")).collect();
        assert_eq!(texts(&log, None)[before..], expected);
        if seed == 0 {
            assert_eq!(before, 0, "the end of the process takes no acknowledgement");
        }
    }
}

#[test]
fn numbers_go_on_when_all_segments_were_deleted() {
    let mut disk = Sim::default();
    let mut highest = None;
    for life in 0..6 {
        let log = open(&disk, SyncMode::GroupCommit);
        for i in 0..200 {
            let number = append(&log, &format!("entry {i} of life {life}"));
            assert!(Some(number) > highest, "{number} after {highest:?}");
            highest = Some(number);
        }
        read(&log, None);
        log.cover(highest.unwrap().next()).unwrap();
        assert_eq!(disk.segments().len(), 1);
        disk = match life % 3 {
            0 => disk.killed(),
            1 => disk.power_lost(&mut Rng::with_seed(life)),
            _ => {
                log.close().unwrap();
                disk
            }
        };
    }
}

#[test]
fn numbers_of_a_torn_tail_are_not_used_again() {
    let disk = Sim::default();
    let log = open(&disk, SyncMode::GroupCommit);
    append(&log, "kept");
    append(&log, "torn");
    let after = disk.killed();
    let bytes = after.bytes(&after.segments()[0]);
    after.replace(&after.segments()[0], bytes[..bytes.len() - 1].to_vec());
    let log = open(&after, SyncMode::GroupCommit);
    let number = append(&log, "new");
    assert!(number > Sequence(1), "{number}");
    assert_eq!(texts(&log, None), ["kept", "new"]);
}

#[test]
fn a_clean_stop_leaves_no_hole() {
    let disk = Sim::default();
    for life in 0..5 {
        let log = open(&disk, SyncMode::GroupCommit);
        assert_eq!(append(&log, "entry"), Sequence(life));
        log.close().unwrap();
        // One without entries leaves nothing behind.
        open(&disk, SyncMode::GroupCommit).close().unwrap();
        assert_eq!(disk.segments().len() as u64, life + 2);
    }
}

#[test]
fn starts_that_accept_nothing_leave_nothing_for_long() {
    let mut disk = Sim::default();
    let log = open(&disk, SyncMode::GroupCommit);
    let last = append(&log, "entry").next();
    for _ in 0..20 {
        disk = disk.killed();
        open(&disk, SyncMode::GroupCommit).reader(Some(last)).unwrap();
    }
    let disk = disk.killed();
    let log = open(&disk, SyncMode::GroupCommit);
    assert_eq!(texts(&log, None), ["entry"]);
    log.cover(last).unwrap();
    assert_eq!(disk.segments().len(), 1);
    assert_eq!(texts(&open(&disk.killed(), SyncMode::GroupCommit), Some(last)), [""; 0], "the position stays good");
}
