//! Members come and go.

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use crate::harness::cluster::Group;
use crate::harness::cluster::Isolation::ReadCommitted;
use crate::harness::ledger::{Ledger, count};
use crate::harness::process::Process;
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
    for round in 0..room.number(2, 10) {
        goes_on(&group, &input, &mut seen, "the first process works alone");
        let mut second = room.run(&pipeline);
        group.wait_members(&[2, 2], PATIENCE);
        goes_on(&group, &input, &mut seen, "both work");
        if round % 2 == 0 {
            second.stop_cleanly();
        } else {
            second.kill_in_transaction(cluster, &[&output]);
        }
        group.wait_members(&[4], PATIENCE);
    }
    goes_on(&group, &input, &mut seen, "the first process works alone again");
    assert!(first.is_running());
    assert_aborts(&first, room);
    let total = load.finish();
    group.wait_drained(&[&input], PATIENCE);
    cluster.wait_settled(&[&output]); // no reader sees what is behind an open transaction
    Ledger::of(cluster, &output).assert_exact(0..total);
    first.stop_cleanly();
}

/// A rebalance costs a lane one aborted batch at most: the repetition has the token of the new generation.
pub(super) fn assert_aborts(process: &Process, room: &Room) {
    let (aborts, rebalances) = (process.times(&["aborted and runs again"]), process.times(&["gave back"]));
    let lanes = if room.mode().is_worker() { 1 } else { 4 };
    eprintln!("{}: {aborts} batches aborted over {rebalances} revocations", room.group());
    assert!(rebalances > 0 && aborts <= rebalances * lanes, "{aborts} batches aborted over {rebalances} revocations");
}

/// Returns when every partition's position has moved on from `seen`; each look at them is not behind the one before.
fn goes_on(group: &Group<'_>, input: &str, seen: &mut Vec<i64>, what: &str) {
    let begin = seen.clone();
    wait_until(what, PATIENCE, || {
        let now: Vec<i64> = group.committed(input).into_iter().map(|at| at.unwrap_or(0)).collect();
        assert!(now.iter().zip(&*seen).all(|(now, seen)| now >= seen), "positions went back: {seen:?} to {now:?}");
        *seen = now;
        seen.iter().zip(&begin).all(|(now, begin)| now > begin)
    });
}

/// Without transactions nothing but the order of things keeps an old position from being committed over a new one.
pub(super) fn positions_never_go_back_at_least_once(room: &Room) {
    let (input, output) = (room.topic("in", 4), room.topic("out", 4));
    let group = room.cluster().group(&room.group());
    let load = room.load(&[&input], 4).start(0, 4000);
    let pipeline = room.copy(&[&input], &output).at_least_once();
    let mut first = room.run(&pipeline);
    let mut seen = vec![0; 4];
    for round in 0..room.number(2, 20) {
        let mut second = room.run(&pipeline);
        group.wait_members(&[2, 2], PATIENCE);
        goes_on(&group, &input, &mut seen, "both work");
        if round % 2 == 0 {
            assert!(second.kill(), "it was there to be killed");
        } else {
            second.stop_cleanly();
        }
        group.wait_members(&[4], PATIENCE);
        goes_on(&group, &input, &mut seen, "the first process works alone");
    }
    assert!(first.is_running());
    let total = load.finish();
    group.wait_drained(&[&input], PATIENCE);
    Ledger::of(room.cluster(), &output).assert_complete(0..total);
    first.stop_cleanly();
}

/// With a `group_instance_id` a restart within the session takes its partitions at once, and ends what it has left open, which would last
/// for a minute otherwise.
pub(super) fn a_static_member_that_restarts_keeps_its_partitions(room: &Room) {
    let (input, output) = (room.topic("in", 2), room.topic("out", 2));
    let mut pipeline = room.copy(&[&input], &output);
    room.set_session(&mut pipeline, 45_000);
    pipeline.group_instance_id = Some("one".into());
    pipeline.transaction_timeout = Some("60s");
    let group = room.cluster().group(&room.group());
    let load = room.load(&[&input], 2).start(0, 1000);
    let mut process = room.run(&pipeline);
    wait_until("it works", PATIENCE, || group.progress(&[&input]) > 0);
    process.kill_in_transaction(room.cluster(), &[&output]);
    let (seen, begin) = (group.progress(&[&input]), Instant::now());
    let mut process = room.run(&pipeline);
    wait_until("it goes on", PATIENCE, || group.progress(&[&input]) > seen);
    assert!(begin.elapsed() < Duration::from_secs(40), "it waited for its own session: {:?}", begin.elapsed());
    let total = load.finish();
    group.wait_drained(&[&input], PATIENCE);
    Ledger::of(room.cluster(), &output).assert_exact(0..total);
    process.stop_cleanly();
}

/// A second process with the same `group_instance_id` takes the place of the first one, which ends and says why.
pub(super) fn a_static_member_that_is_there_twice_is_loud(room: &Room) {
    let (input, output) = (room.topic("in", 2), room.topic("out", 2));
    let mut pipeline = room.copy(&[&input], &output);
    pipeline.group_instance_id = Some("one".into());
    let group = room.cluster().group(&room.group());
    let load = room.load(&[&input], 2).start(0, 1000);
    let mut first = room.run(&pipeline);
    wait_until("it works", PATIENCE, || group.progress(&[&input]) > 0);
    let mut second = room.run(&pipeline);
    assert_eq!(first.wait_exit(PATIENCE), 1);
    assert!(first.says(&["group_instance_id"]) || first.says(&["group.instance.id"]), "log: {}", first.stderr());
    let total = load.finish();
    group.wait_drained(&[&input], PATIENCE);
    Ledger::of(room.cluster(), &output).assert_exact(0..total);
    second.stop_cleanly();
}

/// A group that began at the end reads an added partition from its beginning: all of it came after the group's start.
pub(super) fn a_partition_that_is_added_is_read_from_its_beginning(room: &Room) {
    let (input, output) = (room.topic("in", 1), room.topic("out", 1));
    let mut pipeline = room.copy(&[&input], &output);
    pipeline.start_from_latest = true;
    pipeline.consumer = "topic.metadata.refresh.interval.ms: 500";
    let group = room.cluster().group(&room.group());
    room.load(&[&input], 1).send(0..10);
    let mut process = room.run(&pipeline);
    wait_until("it has begun at the end", PATIENCE, || group.committed(&input) == [Some(10)]);
    process.signal(Signal::SIGSTOP);
    room.cluster().add_partitions(&input, 3);
    room.load(&[&input], 3).send(10..310);
    process.signal(Signal::SIGCONT);
    wait_until("all of it is processed, by this process or after a restart", PATIENCE, || {
        if !process.is_running() {
            process = room.run(&pipeline);
        }
        group.lag(&[&input]) == 0 && group.committed(&input).len() == 3
    });
    Ledger::of(room.cluster(), &output).assert_exact(10..310);
    process.stop_cleanly();
}

/// The session would last 45 s; a process that is told to stop gives its partitions back at once.
pub(super) fn a_process_that_stops_hands_over_at_once(room: &Room) {
    let (input, output) = (room.topic("in", 4), room.topic("out", 4));
    let mut pipeline = room.copy(&[&input], &output);
    room.set_session(&mut pipeline, 45_000);
    let group = room.cluster().group(&room.group());
    let mut one = room.run(&pipeline);
    let mut two = room.run(&pipeline);
    group.wait_members(&[2, 2], PATIENCE);
    let begin = Instant::now();
    one.stop_cleanly();
    group.wait_members(&[4], PATIENCE);
    assert!(begin.elapsed() < Duration::from_secs(40), "the hand-over took {:?}", begin.elapsed());
    two.stop_cleanly();
}

/// Each of them leaves while the others' leaving calls for a rebalance.
pub(super) fn processes_that_stop_at_the_same_time_all_stop(room: &Room) {
    let (input, output) = (room.topic("in", 6), room.topic("out", 1));
    room.load(&[&input], 6).send(0..60);
    let pipeline = room.copy(&[&input], &output);
    let group = room.cluster().group(&room.group());
    for _ in 0..room.number(3, 30) {
        let mut processes = [(); 3].map(|()| room.run(&pipeline));
        group.wait_members(&[2, 2, 2], PATIENCE);
        let begin = Instant::now();
        processes.iter().for_each(|process| process.signal(Signal::SIGTERM));
        for process in &mut processes {
            assert_eq!(process.wait_exit(PATIENCE), 0, "log: {}", process.stderr());
        }
        assert!(begin.elapsed() < Duration::from_secs(25), "the stop took {:?}", begin.elapsed());
    }
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
    room.cluster().wait_settled(&[&output]);
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

/// What waits for more records when the process is told to stop is dropped, and read again: the wait would last longer.
pub(super) fn a_clean_stop_does_not_wait_for_a_buffer_to_fill(room: &Room) {
    let (input, output) = (room.topic("in", 1), room.topic("out", 1));
    let pipeline = room.copy(&[&input], &output).at_least_once();
    let buffered = pipeline.to_string().replace("batch: {}", "buffer: {type: memory, capacity: 100, timeout: 1h}");
    let group = room.cluster().group(&room.group());
    room.load(&[&input], 1).send(0..1050);
    let mut process = room.run(buffered);
    wait_until("ten buffers are full", PATIENCE, || group.progress(&[&input]) == 1000);
    let begin = Instant::now();
    process.stop_cleanly();
    assert!(begin.elapsed() < Duration::from_secs(30), "{:?}", begin.elapsed());
    assert_eq!(group.progress(&[&input]), 1000, "the last buffer was not full");
    room.drain(&pipeline);
    Ledger::of(room.cluster(), &output).assert_exact(0..1050);
}
