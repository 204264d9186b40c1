//! When an entry is accepted.

use std::time::Duration;

use fastrand::Rng;

use super::*;

#[test]
fn an_accepted_entry_outlives_a_loss_of_power() {
    for mode in [SyncMode::PerEntry, SyncMode::GroupCommit] {
        let disk = Sim::default();
        let log = open(&disk, mode);
        for i in 0..200 {
            append(&log, &format!("entry {i}"));
            let after = open(&disk.power_lost(&mut Rng::with_seed(i)), mode);
            let expected: Vec<_> = (0..=i).map(|i| format!("entry {i}")).collect();
            assert_eq!(texts(&after, None), expected, "{mode:?}");
        }
    }
}

#[test]
fn nobody_is_told_and_nobody_reads_before_the_sync_has_ended() {
    for mode in [SyncMode::PerEntry, SyncMode::GroupCommit] {
        let disk = Sim::default();
        let log = open(&disk, mode);
        let begun = disk.world().syncs.0;
        disk.set(|world| world.syncs_stall = true);
        let mut accepted = log.try_append("entry".into()).unwrap();
        disk.until(|world| world.syncs.0 > begun);
        assert!(accepted.0.try_recv().is_err(), "{mode:?}: the sync is under way");
        assert_eq!(texts(&log, None), [""; 0], "{mode:?}");
        disk.set(|world| world.syncs_stall = false);
        assert_eq!(accepted.wait().unwrap(), Sequence(0));
        assert_eq!(texts(&log, None), ["entry"]);
    }
}

/// Syncs for 50 entries of which 49 come while the first one is being synced.
fn syncs_for_fifty(mode: SyncMode) -> usize {
    let disk = Sim::default();
    let log = open(&disk, mode);
    let before = disk.world().syncs.0;
    disk.set(|world| world.syncs_stall = true);
    let mut accepted = vec![log.try_append("entry 0".into()).unwrap()];
    disk.until(|world| world.syncs.0 > before);
    accepted.extend((1..50).map(|i| log.try_append(format!("entry {i}").into()).unwrap()));
    disk.set(|world| world.syncs_stall = false);
    for (i, accepted) in accepted.into_iter().enumerate() {
        assert_eq!(accepted.wait().unwrap(), Sequence(i as u64));
    }
    disk.world().syncs.0 - before
}

#[test]
fn with_group_commit_appenders_share_a_sync() {
    assert_eq!(syncs_for_fifty(SyncMode::GroupCommit), 2);
    assert_eq!(syncs_for_fifty(SyncMode::PerEntry), 50);
}

#[test]
fn with_periodic_an_entry_is_accepted_when_the_system_has_it() {
    let disk = Sim::default();
    let log = open(&disk, RARELY);
    let before = disk.world().syncs.0;
    append(&log, "entry");
    assert_eq!(texts(&open(&disk.killed(), RARELY), None), ["entry"], "the end of the process takes nothing");
    assert_eq!(disk.world().syncs.0, before);
    log.close().unwrap();
    assert_eq!(texts(&open(&disk.power_lost(&mut Rng::with_seed(1)), RARELY), None), ["entry"]);
}

#[test]
fn with_periodic_a_sync_comes_by_the_clock_without_another_entry() {
    let disk = Sim::default();
    let log = open(&disk, SyncMode::Periodic(Duration::from_millis(5)));
    let before = disk.world().syncs.1;
    append(&log, "entry");
    disk.until(|world| world.syncs.1 > before);
    assert_eq!(texts(&open(&disk.power_lost(&mut Rng::with_seed(1)), RARELY), None), ["entry"]);
}

#[test]
fn what_was_handed_in_is_accepted_before_a_log_is_closed() {
    for mode in MODES {
        let disk = Sim::default();
        let log = open(&disk, mode);
        let accepted: Vec<_> = (0..100).map(|i| log.try_append(format!("entry {i}").into()).unwrap()).collect();
        log.close().unwrap();
        wait(accepted);
        assert_eq!(texts(&open(&disk, mode), None).len(), 100);
    }
}

#[test]
fn empty_and_long_entries_are_entries() {
    let disk = Sim::default();
    let log = open(&disk, SyncMode::GroupCommit);
    let longest = "x".repeat(log.shared.options.longest() as usize);
    for text in ["", &longest, "", &longest] {
        append(&log, text);
    }
    let too_long = log.try_append(format!("{longest}x").into()).err().unwrap();
    assert!(matches!(too_long, Error::TooLong { .. }), "{too_long}");
    drop(log);
    assert_eq!(texts(&open(&disk, SyncMode::GroupCommit), None), ["", &longest, "", &longest]);
    assert!(disk.segments().iter().all(|name| disk.bytes(name).len() <= 4 << 10));
}
