//! Size and ownership.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use super::*;

#[test]
fn segments_are_deleted_once_they_are_covered() {
    let disk = Sim::default();
    let log = open(&disk, SyncMode::GroupCommit);
    let numbers: Vec<_> = (0..300).map(|i| append(&log, &format!("{i:0100}"))).collect();
    read(&log, None);
    let before = disk.segments();
    assert!(before.len() > 5, "{before:?}");
    let second: u64 = before[1][..20].parse().unwrap();
    log.cover(Position(second - 1)).unwrap();
    assert_eq!(disk.segments(), before, "one entry of the first is not done with");
    log.cover(Position(second)).unwrap();
    assert_eq!(disk.segments(), before[1..]);
    log.cover(numbers[299].next()).unwrap();
    assert_eq!(disk.segments(), before[before.len() - 1..]);
    assert_eq!(log.status().bytes, disk.world().in_segments() as u64 + 24, "with the seal to come");
}

/// Appends until the log is full.
fn fill(log: &Log) -> (usize, Error) {
    for count in 0.. {
        match log.try_append(vec![b'x'; 100]) {
            Ok(accepted) => wait(vec![accepted]),
            Err(error) => return (count, error),
        }
    }
    unreachable!()
}

#[test]
fn a_full_log_refuses_and_goes_on_when_entries_are_covered() {
    let disk = Sim::default();
    let log = open(&disk, SyncMode::GroupCommit);
    for _ in 0..20 {
        let (count, error) = fill(&log);
        assert!(matches!(error, Error::Full { max_bytes: 65536, .. }), "{error}");
        assert!(count > 400, "{count}: what was covered is room again");
        assert!(disk.world().in_segments() <= 64 << 10);
        let end = Position(read(&log, None).last().unwrap().0 + 1);
        log.cover(end).unwrap();
    }
}

#[test]
fn an_appender_waits_while_the_log_is_full() {
    let disk = Sim::default();
    let log = open(&disk, SyncMode::GroupCommit);
    fill(&log);
    let mut waiting = pin!(log.append(vec![b'y'; 100]));
    let mut context = Context::from_waker(Waker::noop());
    assert!(waiting.as_mut().poll(&mut context).is_pending());
    let end = Position(read(&log, None).last().unwrap().0 + 1);
    assert!(waiting.as_mut().poll(&mut context).is_pending(), "reading is not processing");
    log.cover(end).unwrap();
    let number = loop {
        if let Poll::Ready(number) = waiting.as_mut().poll(&mut context) {
            break number.unwrap();
        }
        std::thread::yield_now();
    };
    assert_eq!(read(&log, Some(end)), [(number.0, "y".repeat(100))]);
}

#[test]
fn with_everything_covered_the_longest_entry_has_room() {
    let disk = Sim::default();
    let options = Options { sync: SyncMode::GroupCommit, max_bytes: 8 << 10, segment_bytes: 4 << 10 };
    let log = Log::on(std::sync::Arc::new(disk.clone()), options.clone()).unwrap();
    for i in 0..200 {
        let length = if i % 2 == 0 { options.longest() as usize } else { fastrand::Rng::with_seed(i).usize(..4000) };
        let number = append(&log, &"x".repeat(length));
        read(&log, None);
        log.cover(number.next()).unwrap();
        assert!(disk.world().in_segments() <= 8 << 10);
    }
}

#[test]
fn many_pending_entries_stay_within_the_limit() {
    let disk = Sim::default();
    let log = open(&disk, SyncMode::GroupCommit);
    let begun = disk.world().syncs.0;
    disk.set(|world| world.syncs_stall = true);
    let mut accepted = vec![log.try_append("first".into()).unwrap()];
    disk.until(|world| world.syncs.0 > begun);
    // Each is more than half of a segment, so each begins a new one.
    while let Ok(more) = log.try_append(vec![b'x'; 2200]) {
        accepted.push(more);
    }
    assert!(accepted.len() > 20);
    disk.set(|world| world.syncs_stall = false);
    wait(accepted);
    let (total, status) = (disk.world().in_segments(), log.status());
    assert!(total <= 64 << 10 && status.bytes <= status.max_bytes, "{total}, {status:?}");
}

#[test]
fn what_waits_for_the_disk_is_bounded() {
    let disk = Sim::default();
    let options = Options { sync: SyncMode::GroupCommit, max_bytes: 1 << 30, segment_bytes: 1 << 20 };
    let log = Log::on(std::sync::Arc::new(disk.clone()), options).unwrap();
    disk.set(|world| world.syncs_stall = true);
    let mut bytes = 0;
    let mut accepted = Vec::new();
    let error = loop {
        match log.try_append(vec![b'x'; 100 << 10]) {
            Ok(more) => accepted.push(more),
            Err(error) => break error,
        }
        bytes += 100 << 10;
        assert!(bytes < 16 << 20);
    };
    assert!(matches!(error, Error::Busy), "{error}");
    disk.set(|world| world.syncs_stall = false);
    wait(accepted);
    append(&log, "and it goes on");
}

#[test]
fn a_folder_belongs_to_one_process() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("deep/wal");
    let log = Log::open(&path, "stream orders", Options::default()).unwrap();
    let number = append(&log, "entry");
    let refused = Log::open(&path, "stream other", Options::default()).err().unwrap().to_string();
    for word in [format!("process {}", std::process::id()).as_str(), "stream orders", "a folder of its own"] {
        assert!(refused.contains(word), "{word}: {refused}");
    }
    drop(log);
    let log = Log::open(&path, "stream other", Options::default()).unwrap();
    assert_eq!(read(&log, None), [(number.0, "entry".to_owned())]);
}

#[test]
fn a_folder_for_something_else_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("thesis.txt"), "").unwrap();
    let refused = Log::open(folder.path(), "", Options::default()).err().unwrap();
    assert!(matches!(&refused, Error::Foreign { name, .. } if name == "thesis.txt"), "{refused}");
}

#[test]
fn options_that_cannot_work_are_refused_all_at_once() {
    let options = Options { sync: SyncMode::Periodic(Duration::ZERO), max_bytes: 1, segment_bytes: 1 };
    let folder = tempfile::tempdir().unwrap();
    match Log::open(&folder.path().join("wal"), "", options) {
        Err(Error::Options { problems }) => assert_eq!(problems.len(), 3),
        _ => panic!("must be refused"),
    }
    assert!(!folder.path().join("wal").exists());
}
