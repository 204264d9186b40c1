//! The group protocol `consumer` (KIP-848): the broker divides the partitions, and only those that move are given back.

use std::time::Instant;

use crate::harness::ledger::Ledger;
use crate::harness::mode::Protocol;
use crate::harness::process::Process;
use crate::harness::room::Room;
use crate::harness::wait::{PATIENCE, wait_until};
use crate::promises::rebalance::assert_aborts;

/// What a process keeps is neither stopped nor started again when another one comes and goes.
pub(super) fn tasks_that_stay_go_on_while_others_move(room: &Room) {
    let (input, output) = (room.topic("in", 4), room.topic("out", 4));
    let group = room.cluster().group(&room.group());
    let load = room.load(&[&input], 4).start(0, 4000);
    let pipeline = room.copy(&[&input], &output);
    let mut first = room.run(&pipeline);
    wait_until("it works on all partitions", PATIENCE, || started(&first) == [1, 1, 1, 1]);
    let begin = Instant::now();
    let mut second = room.run(&pipeline);
    group.wait_members(&[2, 2], PATIENCE);
    wait_until("the other one works", PATIENCE, || started(&second).iter().sum::<usize>() == 2);
    eprintln!("{}: two of four partitions moved to a process within {:?} of its start", room.group(), begin.elapsed());
    let moved = started(&second);
    let begin = Instant::now();
    second.stop_cleanly();
    wait_until("they come back", PATIENCE, || started(&first).iter().sum::<usize>() == 6);
    eprintln!("{}: they came back within {:?} of the signal to stop", room.group(), begin.elapsed());
    let again: Vec<usize> = started(&first).iter().map(|times| times - 1).collect();
    assert_eq!(again, moved, "those that moved were started again, and no others");
    assert_aborts(&first, room);
    let total = load.finish();
    group.wait_drained(&[&input], PATIENCE);
    Ledger::of(room.cluster(), &output).assert_exact(0..total);
    first.stop_cleanly();
}

/// How often each of four tasks was started.
fn started(process: &Process) -> [usize; 4] {
    let log = process.stderr();
    [0, 1, 2, 3].map(|task| log.matches(&format!("task {task} started")).count())
}

/// A group that began at the end reads them from their beginning, and its other task does not stop.
pub(super) fn partitions_that_are_added_join_the_others(room: &Room) {
    let (input, output) = (room.topic("in", 1), room.topic("out", 1));
    let mut pipeline = room.copy(&[&input], &output);
    pipeline.start_from_latest = true;
    pipeline.consumer = "topic.metadata.refresh.interval.ms: 500";
    let group = room.cluster().group(&room.group());
    room.load(&[&input], 1).send(0..10);
    let mut process = room.run(&pipeline);
    wait_until("it has begun at the end", PATIENCE, || group.committed(&input) == [Some(10)]);
    room.cluster().add_partitions(&input, 4);
    room.load(&[&input], 4).send(10..410);
    wait_until("all of it is processed", PATIENCE, || {
        assert!(process.is_running());
        group.lag(&[&input]) == 0 && group.committed(&input).len() == 4
    });
    assert_eq!(started(&process), [1, 1, 1, 1]);
    Ledger::of(room.cluster(), &output).assert_exact(10..410);
    process.stop_cleanly();
}

/// A member's place is its own until its session ends, also against a process of the same `group_instance_id`: one that is started beside
/// it is refused, and one that is started again after a clean stop has its partitions at once.
pub(super) fn a_static_member_keeps_its_place_until_its_session_ends(room: &Room) {
    let (input, output) = (room.topic("in", 2), room.topic("out", 2));
    let mut pipeline = room.copy(&[&input], &output);
    pipeline.group_instance_id = Some("one".into());
    // The next process has come before it is over, on a busy machine too.
    room.set_session(&mut pipeline, 8000);
    let group = room.cluster().group(&room.group());
    let load = room.load(&[&input], 2).start(0, 1000);
    let works = |process: &mut Process| {
        let seen = group.progress(&[&input]);
        wait_until("it works", PATIENCE, || group.progress(&[&input]) > seen || !process.is_running());
        process.is_running()
    };
    let mut process = room.run(&pipeline);
    assert!(works(&mut process));
    process.stop_cleanly();
    let mut process = room.run(&pipeline);
    assert!(works(&mut process), "after a clean stop its place is free");
    let refused = |process: &mut Process| {
        assert_eq!(process.wait_exit(PATIENCE), 1);
        assert!(process.says(&["group_instance_id one", "session has to end"]), "log: {}", process.stderr());
    };
    refused(&mut room.run(&pipeline));
    assert!(works(&mut process), "the one that was there goes on");
    process.kill_in_transaction(room.cluster(), &[&output]);
    let mut again = room.run(&pipeline);
    refused(&mut again);
    let mut starts = 0;
    while !works(&mut again) {
        refused(&mut again);
        again = room.run(&pipeline);
        starts += 1;
    }
    assert!(starts > 0, "it was refused at first");
    let total = load.finish();
    group.wait_drained(&[&input], PATIENCE);
    Ledger::of(room.cluster(), &output).assert_exact(0..total);
    again.stop_cleanly();
}

pub(super) fn nothing_is_missed_at_least_once_when_the_broker_divides(room: &Room) {
    let (input, output) = (room.topic("in", 4), room.topic("out", 4));
    let group = room.cluster().group(&room.group());
    let load = room.load(&[&input], 4).start(0, 4000);
    let pipeline = room.copy(&[&input], &output).at_least_once();
    let mut first = room.run(&pipeline);
    for clean in [true, false] {
        let mut second = room.run(&pipeline);
        group.wait_members(&[2, 2], PATIENCE);
        let seen = group.progress(&[&input]);
        wait_until("both work", PATIENCE, || group.progress(&[&input]) > seen + 2000);
        if clean {
            second.stop_cleanly();
        } else {
            assert!(second.kill(), "it was there to be killed");
        }
        group.wait_members(&[4], PATIENCE);
    }
    let total = load.finish();
    group.wait_drained(&[&input], PATIENCE);
    Ledger::of(room.cluster(), &output).assert_complete(0..total);
    first.stop_cleanly();
}

/// Nothing is ignored: what the broker decides cannot be set at the client.
pub(super) fn a_session_timeout_that_the_broker_decides_is_refused_with_the_remedy(room: &Room) {
    let mut pipeline = room.copy(&["in"], "out");
    pipeline.consumer = "session.timeout.ms: 3000";
    let mut process = room.run(&pipeline);
    assert_eq!(process.wait_exit(PATIENCE), 2);
    let words = ["client.session.timeout.ms", "kafka-configs", "consumer.session.timeout.ms=ms"];
    assert!(process.says(&words), "log: {}", process.stderr());
}

pub(super) fn a_broker_that_does_not_divide_is_named_at_the_start(room: &Room) {
    let (input, output) = (room.topic("in", 1), room.topic("out", 1));
    let begin = Instant::now();
    let mut process = room.run(room.copy(&[&input], &output).protocol(Protocol::Consumer));
    assert_eq!(process.wait_exit(PATIENCE), 1);
    eprintln!("it was said within {:?}", begin.elapsed());
    let words = ["w0004", "group protocol consumer", "kafka 4.0", "group_protocol classic"];
    assert!(process.says(&words), "log: {}", process.stderr());
}
