//! A transaction of somebody else holds a partition's positions back.

use crate::harness::ledger::Ledger;
use crate::harness::room::Room;
use crate::harness::transaction::Transaction;
use crate::harness::wait::{PATIENCE, wait_until};

pub(super) fn one_partition_held_by_a_foreign_transaction_stalls_that_task_only(room: &Room) {
    let (input, output) = (room.topic("in", 3), room.topic("out", 3));
    let load = room.load(&[&input], 3);
    load.send(0..300);
    let group = room.cluster().group(&room.group());
    let foreign = Transaction::open(&room.broker().address(), &room.name("foreign"));
    foreign.position(&room.group(), &input, 1, 10);
    let mut process = room.run(room.copy(&[&input], &output));
    wait_until("the other tasks are done", PATIENCE, || {
        let at = group.committed(&input);
        (at[0], at[2]) == (Some(100), Some(100))
    });
    process.wait_says(&["wait", &format!("{input}/1")], PATIENCE);
    load.send(300..600);
    wait_until("the other tasks go on", PATIENCE, || {
        let at = group.committed(&input);
        (at[0], at[2]) == (Some(200), Some(200))
    });
    assert_eq!(group.committed(&input)[1], None, "its own position is not decided");
    foreign.abort();
    group.wait_drained(&[&input], PATIENCE);
    Ledger::of(room.cluster(), &output).assert_exact(0..600);
    process.stop_cleanly();
}
