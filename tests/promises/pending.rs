//! A transaction of somebody else holds a partition's positions back.

use std::ops::Range;

use crate::harness::ledger::Ledger;
use crate::harness::room::Room;
use crate::harness::transaction::Transaction;
use crate::harness::wait::{PATIENCE, wait_until};

pub(super) fn one_partition_held_by_a_foreign_transaction_stalls_that_task_only(room: &Room) {
    are_held(room, 3, 1..2);
}

/// More of them than a worker starts at a time.
pub(super) fn many_partitions_held_by_a_foreign_transaction_stall_no_other_task(room: &Room) {
    are_held(room, 44, 0..40);
}

/// Of so many partitions those of `held` wait, and the others do not.
fn are_held(room: &Room, partitions: i32, held: Range<i32>) {
    let (input, output) = (room.topic("in", partitions), room.topic("out", 3));
    let load = room.load(&[&input], partitions);
    let all = 100 * partitions as u64;
    load.send(0..all);
    let group = room.cluster().group(&room.group());
    let foreign = Transaction::open(&room.broker().address(), &room.name("foreign"));
    for partition in held.clone() {
        foreign.position(&room.group(), &input, partition, 10);
    }
    let others = |position: i64| {
        let committed = group.committed(&input);
        let mut others = (0..partitions).filter(|partition| !held.contains(partition));
        others.all(|partition| committed[partition as usize] == Some(position))
    };
    let mut process = room.run(room.copy(&[&input], &output));
    wait_until("the other tasks are done", PATIENCE, || others(100));
    process.wait_says(&["wait", &format!("{input}/{}", held.start)], PATIENCE);
    load.send(all..2 * all);
    wait_until("the other tasks go on", PATIENCE, || others(200));
    let committed = group.committed(&input);
    assert!(held.clone().all(|partition| committed[partition as usize].is_none()), "their positions are not decided");
    foreign.abort();
    group.wait_drained(&[&input], PATIENCE);
    Ledger::of(room.cluster(), &output).assert_exact(0..2 * all);
    process.stop_cleanly();
}
