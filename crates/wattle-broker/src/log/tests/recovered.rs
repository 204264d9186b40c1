//! What is there again after the process died.

use std::fs;

use super::*;

fn open(folder: &Temporary) -> Result<PartitionLog, Error> {
    PartitionLog::open(&Place::Folder(folder.path().to_owned()), NOW)
}

/// A log with transactions in several segments, and its last segment's file.
fn written(folder: &Temporary) -> (PartitionLog, PathBuf) {
    let mut log = open(folder).unwrap();
    let config = config(&[("segment.bytes", "300")]);
    for sequence in 0..4 {
        append(&mut log, batch(transactional(1, 0, sequence * 2), &plain(2)), &config).unwrap();
        append(&mut log, batch(transactional(2, 0, sequence), &plain(1)), &config).unwrap();
        log.append_marker(Producer { id: 1, epoch: 0 }, sequence % 2 == 0, NOW).unwrap();
    }
    let last = segment::path(folder.path(), log.segments.last().unwrap().base);
    (log, last)
}

/// Everything that can be asked.
fn facts(log: &PartitionLog) -> impl PartialEq + std::fmt::Debug + use<> {
    let [committed, all] = [Isolation::ReadCommitted, Isolation::ReadUncommitted].map(|isolation| {
        (log.read(log.start(), usize::MAX, true, isolation).unwrap().aborted, consume(log, isolation, 500))
    });
    let open: Vec<_> = log.open_transactions().collect();
    let times = (log.max_timestamp().unwrap(), log.offset_for_time(0).unwrap());
    (log.start(), log.end(), log.last_stable(), log.bytes(), open, times, committed, all)
}

#[test]
fn a_log_is_the_same_when_it_is_opened_again() {
    let folder = Temporary::new();
    let (log, _) = written(&folder);
    assert!(log.segments.len() > 2);
    let before = facts(&log);
    drop(log);
    let mut log = open(&folder).unwrap();
    assert_eq!(facts(&log), before);
    let end = log.end();
    assert_eq!(put(&mut log, transactional(1, 0, 6), 2), Ok(end - 4));
    assert_eq!(put(&mut log, transactional(1, 0, 9), 1), Err(Code::OutOfOrderSequenceNumber));
    assert_eq!(put(&mut log, transactional(1, 0, 8), 1), Ok(end));
    log.remove().unwrap();
    assert!(!folder.path().exists());
    fs::create_dir(folder.path()).unwrap();
}

#[test]
fn a_tail_torn_at_any_byte_is_cut() {
    let folder = Temporary::new();
    let (mut log, path) = written(&folder);
    let (end, size) = (log.end(), fs::metadata(&path).unwrap().len() as usize);
    put(&mut log, ANYONE, 2).unwrap();
    drop(log);
    let whole = fs::read(&path).unwrap();
    assert!(whole.len() > size);
    for cut in size..whole.len() {
        fs::write(&path, &whole[..cut]).unwrap();
        let mut log = open(&folder).unwrap();
        assert_eq!((log.end(), fs::metadata(&path).unwrap().len() as usize), (end, size), "{cut}");
        assert_eq!(put(&mut log, ANYONE, 1), Ok(end));
    }
    // the file grew, the data did not come
    let last_but_zeros = whole.iter().rposition(|byte| *byte != 0).unwrap();
    for from in size..=last_but_zeros {
        let mut zeros = whole.clone();
        zeros[from..].fill(0);
        fs::write(&path, &zeros).unwrap();
        assert_eq!(open(&folder).unwrap().end(), end, "{from}");
    }
}

#[test]
fn damage_in_the_middle_is_refused_with_the_place() {
    let folder = Temporary::new();
    let (log, path) = written(&folder);
    drop(log);
    let whole = fs::read(&path).unwrap();
    let second = Header::parse(&whole).unwrap().size;
    assert!(whole.len() > second + 100);
    // the length's upper bytes, the format, and an offset that goes back
    for (place, value, at) in
        [(8, 1, 0), (9, 1, 0), (8, 0x80, 0), (16, 1, 0), (second + 7, 0, second), (second + 11, 0, second)]
    {
        let mut damaged = whole.clone();
        damaged[place] = value;
        fs::write(&path, &damaged).unwrap();
        match open(&folder) {
            Err(Error::Corrupt { path: named, at: found, .. }) => assert_eq!((named, found), (path.clone(), at as u64)),
            other => panic!("{place}: {other:?}"),
        }
        assert_eq!(fs::read(&path).unwrap(), damaged);
    }
    fs::write(&path, &whole).unwrap();
    let first = segment::path(folder.path(), 0);
    let shorter = fs::read(&first).unwrap();
    fs::write(&first, &shorter[..shorter.len() - 1]).unwrap();
    assert!(matches!(open(&folder), Err(Error::Corrupt { path, .. }) if path == first));
}

#[test]
fn unknown_files_are_refused() {
    let folder = Temporary::new();
    fs::write(folder.path().join("notes.txt"), "").unwrap();
    assert!(matches!(open(&folder), Err(Error::Foreign { .. })));
}

#[test]
fn deleted_records_stay_deleted_where_the_journal_says_so_again() {
    let folder = Temporary::new();
    let (mut log, _) = written(&folder);
    log.delete_before(7).unwrap();
    assert_eq!(log.start(), 7);
    let before = facts(&log);
    drop(log);
    let mut log = open(&folder).unwrap();
    assert!(log.start() <= 7 && log.start() > 0);
    log.delete_before(7).unwrap();
    assert_eq!(facts(&log), before);
    let end = log.end();
    log.delete_before(i64::MAX).unwrap();
    assert_eq!((log.start(), log.end(), log.bytes()), (end, end, 0));
    drop(log);
    assert_eq!(open(&folder).unwrap().end(), end);
}
