//! What a reader sees.

use super::*;
use crate::scan::WINDOW;

#[test]
fn replay_comes_first_and_new_entries_behind_it() {
    let disk = Sim::default();
    let log = open(&disk, SyncMode::PerEntry);
    append(&log, "100");
    drop(log);
    let log = open(&disk, SyncMode::PerEntry);
    append(&log, "200");
    assert_eq!(texts(&log, None), ["100", "200"]);
}

#[test]
fn a_reader_goes_on_at_the_committed_position() {
    let disk = Sim::default();
    let log = open(&disk, SyncMode::GroupCommit);
    let numbers: Vec<_> = (0..300).map(|i| append(&log, &i.to_string())).collect();
    read(&log, None);
    log.cover(numbers[9].next()).unwrap();
    for log in [open(&disk.killed(), SyncMode::GroupCommit), log] {
        assert_eq!(texts(&log, None), (10..300).map(|i| i.to_string()).collect::<Vec<_>>());
        for done in [9, 10, 150, 299] {
            let expected: Vec<_> = (done + 1..300).map(|i| i.to_string()).collect();
            assert_eq!(texts(&log, Some(numbers[done].next())), expected);
        }
    }
}

#[test]
fn nothing_is_replayed_after_everything_was_acknowledged() {
    let disk = Sim::default();
    let log = open(&disk, SyncMode::GroupCommit);
    let last = (0..100).map(|i| append(&log, &i.to_string())).last().unwrap();
    assert_eq!(texts(&log, None).len(), 100);
    log.cover(last.next()).unwrap();
    assert_eq!(texts(&open(&disk.killed(), SyncMode::GroupCommit), None), [""; 0]);
    log.close().unwrap();
    assert_eq!(texts(&open(&disk, SyncMode::GroupCommit), None), [""; 0]);
}

#[test]
fn a_reader_holds_a_window_and_not_the_log() {
    let disk = Sim::default();
    let options = Options { sync: RARELY, max_bytes: 32 << 20, segment_bytes: 8 << 20 };
    let log = Log::on(std::sync::Arc::new(disk.clone()), options).unwrap();
    let text = "x".repeat(1000);
    let accepted: Vec<_> = (0..7000).map(|_| log.try_append(text.clone().into()).unwrap()).collect();
    wait(accepted);
    let killed = disk.killed();
    assert_eq!(texts(&open(&killed, RARELY), None).len(), 7000);
    assert_eq!(killed.world().longest_read, WINDOW);
}

#[test]
fn a_reader_waits_for_the_next_entry_and_goes_on() {
    let disk = Sim::default();
    let log = open(&disk, SyncMode::GroupCommit);
    let mut reader = log.reader(None).unwrap();
    let reads = std::thread::spawn(move || {
        let mut numbers = Vec::new();
        while numbers.len() < 500 {
            match reader.read().unwrap() {
                Some(entry) => numbers.push(entry.sequence.0),
                None => reader.wait(Duration::from_secs(60)),
            }
        }
        numbers
    });
    for i in 0..500 {
        append(&log, &i.to_string());
    }
    assert_eq!(reads.join().unwrap(), (0..500).collect::<Vec<_>>());
}

#[test]
fn a_position_that_the_log_cannot_have_is_refused() {
    let disk = Sim::default();
    let log = open(&disk, SyncMode::GroupCommit);
    let numbers: Vec<_> = (0..300).map(|i| append(&log, &i.to_string())).collect();
    let refused = |position: Position| match log.reader(Some(position)) {
        Err(error @ Error::OutOfRange { .. }) => error.to_string(),
        _ => panic!("{position}"),
    };
    // A copy of the folder was brought back: the numbers that follow would be below the position.
    assert!(refused(Position(5)).contains("older than the committed position"));
    assert!(matches!(log.cover(Position(5)), Err(Error::OutOfRange { .. })), "nobody has read so far");
    assert_eq!(texts(&log, None).len(), 300);
    assert!(log.reader(Some(numbers[299].next())).is_ok());
    log.cover(numbers[299].next()).unwrap();
    assert!(refused(Position(0)).contains("set back"));
}

#[test]
fn a_log_has_an_id_of_its_own_for_good() {
    let disk = Sim::default();
    let id = open(&disk, SyncMode::GroupCommit).id();
    assert_eq!(open(&disk, SyncMode::GroupCommit).id(), id);
    assert_ne!(open(&Sim::default(), SyncMode::GroupCommit).id(), id);
}
