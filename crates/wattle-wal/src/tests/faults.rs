//! Disks that fail and disks that are full.

use fastrand::Rng;

use super::*;

#[test]
fn a_failed_sync_ends_the_log_for_good_and_nothing_is_accepted() {
    for mode in MODES {
        let disk = Sim::default();
        let log = open(&disk, mode);
        append(&log, "before");
        disk.set(|world| world.syncs_fail = true);
        let before = disk.world().syncs.0;
        match mode {
            RARELY => {
                // Accepted already; it is the end of the segment that syncs.
                let full = (0..100).find_map(|_| log.try_append(vec![b'x'; 1000]).and_then(|more| more.wait()).err());
                assert!(matches!(full, Some(Error::Broken { .. })), "{full:?}");
            }
            _ => {
                let refused = log.try_append("lost".into()).unwrap().wait().unwrap_err();
                assert!(matches!(refused, Error::Broken { .. }), "{mode:?}: {refused}");
            }
        }
        // The disk seems to be well again. It has forgotten what it could not write.
        disk.set(|world| world.syncs_fail = false);
        let syncs = disk.world().syncs.0;
        assert_eq!(syncs, before + 1, "{mode:?}: asked once");
        for _ in 0..3 {
            assert!(matches!(log.try_append("after".into()), Err(Error::Broken { .. })));
        }
        let mut reader = log.reader(None).unwrap();
        assert_eq!(reader.read().unwrap().unwrap().bytes, b"before");
        let told =
            std::iter::from_fn(|| reader.read().map(|entry| entry.map(|_| ())).transpose()).find_map(Result::err);
        assert!(matches!(told, Some(Error::Broken { .. })), "no stream waits for it in vain: {told:?}");
        assert!(matches!(log.status().refuses, Some(Error::Broken { .. })));
        assert!(matches!(log.close(), Err(Error::Broken { .. })));
        assert_eq!(disk.world().syncs.0, syncs, "{mode:?}: never asked again");
    }
}

#[test]
fn after_a_failed_sync_a_start_has_everything_that_was_accepted() {
    for seed in 0..50 {
        let disk = Sim::default();
        let log = open(&disk, SyncMode::GroupCommit);
        for i in 0..20 {
            append(&log, &i.to_string());
        }
        disk.set(|world| world.syncs_fail = true);
        assert!(log.try_append("lost".into()).unwrap().wait().is_err());
        for after in [disk.killed(), disk.power_lost(&mut Rng::with_seed(seed))] {
            let log = open(&after, SyncMode::GroupCommit);
            let found = texts(&log, None);
            assert_eq!(found[..20], (0..20).map(|i| i.to_string()).collect::<Vec<_>>());
            assert!(append(&log, "new") > Sequence(20));
        }
    }
}

#[test]
fn a_full_disk_accepts_nothing_and_the_log_goes_on_when_there_is_room() {
    for mode in MODES {
        let disk = Sim::default();
        let log = open(&disk, mode);
        append(&log, "before");
        let total = disk.world().total();
        for free in [0, 1, 24, 30, 100, 3000] {
            disk.set(|world| world.capacity = Some(world.total() + free));
            let refused = (0..200).find_map(|_| log.try_append(vec![b'x'; 200]).and_then(|more| more.wait()).err());
            let refused = refused.unwrap();
            assert!(matches!(refused, Error::DiskFull { .. }), "{mode:?}: {refused}");
            assert!(refused.to_string().contains("Make room"), "{refused}");
            assert!(matches!(log.status().refuses, Some(Error::DiskFull { .. })));
            let found = read(&log, None);
            let after = open(&disk.killed(), mode);
            assert_eq!(read(&after, None), found, "{mode:?}: what was refused is not there");
            disk.set(|world| world.capacity = None);
            append(&log, "and it goes on");
            assert!(log.status().refuses.is_none());
        }
        assert!(disk.world().total() > total);
        let found = read(&log, None);
        assert!(found.is_sorted_by(|a, b| a.0 + 1 == b.0), "{mode:?}: what is refused has no number");
        log.close().unwrap();
        assert_eq!(read(&open(&disk, mode), None), found);
    }
}

#[test]
fn a_disk_that_is_full_at_the_start_is_told_and_changes_nothing() {
    let disk = Sim::default();
    let log = open(&disk, SyncMode::GroupCommit);
    append(&log, "entry");
    for free in 0..80 {
        let full = disk.killed();
        full.set(|world| world.capacity = Some(world.total() + free));
        match try_open(&full) {
            Err(Error::DiskFull { .. }) => {}
            Err(other) => panic!("{free}: {other}"),
            Ok(_) => assert!(free >= 24 + 48, "{free}"),
        }
        full.set(|world| world.capacity = None);
        assert_eq!(texts(&try_open(&full).unwrap(), None), ["entry"], "{free}");
    }
}
