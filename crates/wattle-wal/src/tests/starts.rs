//! Starts that build on what was not synced, and starts that do not come to their end.

use std::thread;

use fastrand::Rng;

use super::*;

#[test]
fn a_start_makes_last_what_it_builds_on() {
    // The process is killed between the seal of a segment and its sync.
    let disk = Sim::default();
    let log = open(&disk, RARELY);
    disk.set(|world| world.syncs_stall = true);
    let begun = disk.world().syncs.0;
    let accepted: Vec<_> = (0..40).map(|i| log.try_append(format!("{i:0200}").into()).unwrap()).collect();
    disk.until(|world| world.syncs.0 > begun);
    let killed = disk.killed();
    disk.set(|world| world.syncs_stall = false);
    wait(accepted);
    for seed in 0..50 {
        let disk = killed.killed();
        let log = open(&disk, RARELY);
        let found = texts(&log, None);
        assert!(found.len() > 10);
        append(&log, "later");
        let after = open(&disk.power_lost(&mut Rng::with_seed(seed)), RARELY);
        assert_eq!(texts(&after, None)[..found.len()], found, "seed {seed}");
    }
}

#[test]
fn a_start_that_loses_power_itself_is_repeated() {
    for seed in 0..100 {
        let mut rng = Rng::with_seed(seed);
        let disk = Sim::default();
        let log = open(&disk, RARELY);
        for i in 0..30 {
            append(&log, &format!("{i:0200}"));
        }
        // Unsynced entries, or a torn tail.
        let found = if rng.bool() { disk.killed() } else { disk.power_lost(&mut rng) };
        for syncs in 0..8 {
            let disk = found.killed();
            disk.set(|world| world.stall_behind = Some(syncs));
            let start = thread::spawn({
                let disk = disk.clone();
                move || {
                    let found = texts(&open(&disk, RARELY), None);
                    disk.set(|world| world.is_finished = true);
                    found
                }
            });
            disk.until(|world| world.is_stalled() || world.is_finished);
            let lost = disk.power_lost(&mut rng);
            disk.set(|world| world.stall_behind = None);
            let all = start.join().unwrap();
            let after = texts(&open(&lost, RARELY), None);
            assert_eq!(after, all[..after.len()], "seed {seed}, behind {syncs} syncs");
        }
    }
}
