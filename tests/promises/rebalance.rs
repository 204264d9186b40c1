//! Members come and go.

use std::time::{Duration, Instant};

use crate::harness::ledger::{Ledger, count};
use crate::harness::cluster::Isolation::ReadCommitted;
use crate::harness::room::Room;
use crate::harness::wait::{PATIENCE, wait_until};

/// Cleanly and by `kill -9`, several times, while records flow. Committed positions never go back.
pub(super) fn a_second_process_joins_and_leaves_under_load(room: &Room) {
    let (input, output) = (room.topic("in", 4), room.topic("out", 4));
    let cluster = room.cluster();
    let group = cluster.group(&room.group());
    let load = room.load(&[&input], 4).start(0, 4000);
    let pipeline = room.copy(&[&input], &output);
    let mut first = room.run(&pipeline);
    let mut seen = vec![0; 4];
    let mut goes_on = |what: &str| {
        let begin = seen.clone();
        wait_until(what, PATIENCE, || {
            let now: Vec<i64> = group.committed(&input).into_iter().map(|at| at.unwrap_or(0)).collect();
            assert!(now.iter().zip(&seen).all(|(now, seen)| now >= seen), "positions went back: {seen:?} to {now:?}");
            seen = now;
            seen.iter().zip(&begin).all(|(now, begin)| now > begin)
        });
    };
    for round in 0..room.number(2, 10) {
        goes_on("the first process works alone");
        let mut second = room.run(&pipeline);
        group.wait_members(&[2, 2], PATIENCE);
        goes_on("both work");
        if round % 2 == 0 {
            second.stop_cleanly();
        } else {
            second.kill_in_transaction(cluster, &[&output]);
        }
        group.wait_members(&[4], PATIENCE);
    }
    goes_on("the first process works alone again");
    assert!(first.is_running());
    let total = load.finish();
    group.wait_drained(&[&input], PATIENCE);
    Ledger::of(cluster, &output).assert_exact(0..total);
    first.stop_cleanly();
}

/// The session would last 45 s; a process that is told to stop gives its partitions back at once.
pub(super) fn a_process_that_stops_hands_over_at_once(room: &Room) {
    let (input, output) = (room.topic("in", 4), room.topic("out", 4));
    let mut pipeline = room.copy(&[&input], &output);
    pipeline.session_timeout_ms = 45_000;
    let group = room.cluster().group(&room.group());
    let mut one = room.run(&pipeline);
    let mut two = room.run(&pipeline);
    group.wait_members(&[2, 2], PATIENCE);
    let begin = Instant::now();
    one.stop_cleanly();
    group.wait_members(&[4], PATIENCE);
    assert!(begin.elapsed() < Duration::from_secs(10), "the hand-over took {:?}", begin.elapsed());
    two.stop_cleanly();
}

/// The clean stop has committed what it has written: the next start has nothing to do.
pub(super) fn a_clean_stop_and_a_start_emit_nothing(room: &Room) {
    let (input, output) = (room.topic("in", 2), room.topic("out", 2));
    let load = room.load(&[&input], 2).start(0, 3000);
    let pipeline = room.copy(&[&input], &output);
    let group = room.cluster().group(&room.group());
    let mut process = room.run(&pipeline);
    wait_until("it works", PATIENCE, || group.progress(&[&input]) > 1000);
    process.stop_cleanly();
    let stopped_at = group.progress(&[&input]);
    assert_eq!(count(room.cluster(), &output, ReadCommitted), u64::try_from(stopped_at).unwrap());
    let total = load.finish();
    assert!(stopped_at < i64::try_from(total).unwrap(), "it was stopped with records to come");
    room.drain(&pipeline);
    room.drain(&pipeline);
    Ledger::of(room.cluster(), &output).assert_exact(0..total);
}

/// Without transactions a clean stop still repeats nothing.
pub(super) fn a_clean_stop_repeats_nothing_at_least_once(room: &Room) {
    let (input, output) = (room.topic("in", 2), room.topic("out", 2));
    let load = room.load(&[&input], 2).start(0, 3000);
    let pipeline = room.copy(&[&input], &output).at_least_once();
    let group = room.cluster().group(&room.group());
    let mut process = room.run(&pipeline);
    wait_until("it works", PATIENCE, || group.progress(&[&input]) > 1000);
    process.stop_cleanly();
    let total = load.finish();
    assert!(group.progress(&[&input]) < i64::try_from(total).unwrap(), "it was stopped with records to come");
    room.drain(&pipeline);
    Ledger::of(room.cluster(), &output).assert_exact(0..total);
}
