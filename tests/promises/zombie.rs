//! A process that was stopped for longer than its session writes nothing when it goes on.

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use crate::harness::ledger::Ledger;
use crate::harness::room::Room;
use crate::harness::wait::{PATIENCE, wait_until};

/// Stopped with a transaction open; another process takes over meanwhile.
pub(super) fn a_stopped_process_writes_nothing_when_it_goes_on(room: &Room) {
    let (input, output) = (room.topic("in", 2), room.topic("out", 2));
    let cluster = room.cluster();
    let group = cluster.group(&room.group());
    let load = room.load(&[&input], 2).start(0, 2000);
    let pipeline = room.copy(&[&input], &output);
    let mut old = room.run(&pipeline);
    old.freeze_in_transaction(cluster, &[&output]);
    let frozen = group.committed(&input);
    let mut new = room.run(&pipeline);
    wait_until("the new process goes on where the old one stands", PATIENCE, || {
        group.committed(&input).iter().zip(&frozen).all(|(now, then)| now > then)
    });
    group.wait_members(&[2], PATIENCE);
    old.signal(Signal::SIGCONT);
    wait_until("it says that it lost its place", PATIENCE, || {
        old.says(&["fenced"]) || old.says(&["lost", &input]) || old.says(&["away for"])
    });
    // It may come back as a member, or end: not well, and then a restart is right.
    wait_until("it recovers or ends", PATIENCE, || {
        !old.is_running() || group.members().is_some_and(|members| members.len() == 2)
    });
    if !old.is_running() {
        assert_ne!(old.wait_exit(Duration::ZERO), 0, "exit code of a fenced process");
    }
    let seen = group.progress(&[&input]);
    wait_until("the group goes on", PATIENCE, || group.progress(&[&input]) > seen + 2000);
    let total = load.finish();
    group.wait_drained(&[&input], PATIENCE);
    cluster.wait_settled(&[&output]); // no reader sees what is behind an open transaction
    Ledger::of(cluster, &output).assert_exact(0..total);
    new.stop_cleanly();
}

/// Alone, and stopped for longer than its transaction's timeout: the broker ends the transaction, and the process must not go
/// on behind the records that were in it.
pub(super) fn a_transaction_that_the_broker_timed_out_is_processed_again(room: &Room) {
    let (input, output) = (room.topic("in", 1), room.topic("out", 1));
    let cluster = room.cluster();
    let group = cluster.group(&room.group());
    let mut pipeline = room.copy(&[&input], &output);
    pipeline.transaction_timeout = Some("2s");
    room.set_session(&mut pipeline, 30_000);
    let load = room.load(&[&input], 1).start(0, 2000);
    let mut process = room.run(&pipeline);
    process.freeze_in_transaction(cluster, &[&output]);
    wait_until("the broker aborts the transaction", PATIENCE, || cluster.open_transactions(&[&output]).is_empty());
    let total = load.finish();
    process.signal(Signal::SIGCONT);
    wait_until("it recovers or ends", PATIENCE, || group.lag(&[&input]) == 0 || !process.is_running());
    if !process.is_running() {
        assert_ne!(process.wait_exit(Duration::ZERO), 0, "exit code");
        room.drain(&pipeline);
    }
    Ledger::of(cluster, &output).assert_exact(0..total);
}

/// No transaction is begun before there is something to commit: a quiet hour expires none.
pub(super) fn a_quiet_time_longer_than_a_transaction_expires_none(room: &Room) {
    let (input, output) = (room.topic("in", 1), room.topic("out", 1));
    let cluster = room.cluster();
    let group = cluster.group(&room.group());
    let mut pipeline = room.copy(&[&input], &output);
    pipeline.transaction_timeout = Some("4s");
    room.set_session(&mut pipeline, 30_000);
    let load = room.load(&[&input], 1);
    let mut process = room.run(&pipeline);
    load.send(0..1);
    group.wait_drained(&[&input], PATIENCE);
    cluster.wait_settled(&[&output]);
    let quiet = Instant::now();
    // The fault is the time itself: twice the timeout, and what the broker takes to notice.
    wait_until("the quiet is over", PATIENCE, || {
        assert_eq!(cluster.open_transactions(&[&output]), [""; 0]);
        quiet.elapsed() > Duration::from_secs(room.number(9, 60))
    });
    load.send(1..2);
    group.wait_drained(&[&input], PATIENCE);
    assert!(!process.says(&["new producer"]) && !process.says(&["runs again"]), "log: {}", process.stderr());
    Ledger::of(cluster, &output).assert_exact(0..2);
    process.stop_cleanly();
}
