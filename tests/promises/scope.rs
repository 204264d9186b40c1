//! What is about the transaction scope itself: its change, its ids, and what the tasks of a worker have in common.

use std::collections::BTreeSet;

use crate::harness::cluster::Isolation::ReadCommitted;
use crate::harness::ledger::{Ledger, count};
use crate::harness::load::{confirmed_producer, finish, send, value};
use crate::harness::mode::Scope;
use crate::harness::pipeline::Pipeline;
use crate::harness::proxy::Api;
use crate::harness::room::Room;
use crate::harness::wait::{PATIENCE, wait_until};
use crate::promises::handover::the_scope_was;
use rdkafka::producer::BaseRecord;

pub(super) fn a_dead_task_is_taken_over_in_scope_worker(room: &Room) {
    the_scope_was(Scope::Task, room);
}

pub(super) fn a_dead_worker_is_taken_over_in_scope_task(room: &Room) {
    the_scope_was(Scope::Worker, room);
}

/// Its positions are under way when another process joins, for longer than the group waits. The new owner begins before them; then they
/// arrive.
pub(super) fn a_stale_token_is_refused_and_the_records_are_processed_again(room: &Room) {
    let (input, output) = (room.topic("in", 4), room.topic("out", 4));
    let (group, proxy) = (room.cluster().group(&room.group()), room.broker().proxy());
    let load = room.load(&[&input], 4);
    load.send(0..400);
    let mut pipeline = room.copy(&[&input], &output);
    pipeline.transaction_timeout = Some("60s");
    pipeline.batch = "{commit_interval: 1s}".to_owned(); // all partitions in one batch
    let mut old = room.run(Pipeline { brokers: proxy.address().to_owned(), ..pipeline.clone() });
    group.wait_drained(&[&input], PATIENCE);
    let hold = proxy.hold_one(Api::TxnOffsetCommit, &room.group());
    load.send(400..800);
    hold.wait_held(PATIENCE);
    let mut new = room.run(&pipeline);
    group.wait_members(&[2, 2], PATIENCE);
    wait_until("the new owner has processed what the old one holds", PATIENCE, || {
        group.committed(&input).iter().filter(|at| **at == Some(200)).count() == 2
    });
    assert!(!old.says(&["aborted and runs again"]), "nothing was refused yet");
    hold.release();
    old.wait_says(&["aborted and runs again"], PATIENCE);
    group.wait_drained(&[&input], PATIENCE);
    load.send(800..1200);
    group.wait_drained(&[&input], PATIENCE);
    Ledger::of(room.cluster(), &output).assert_exact(0..1200);
    old.stop_cleanly();
    new.stop_cleanly();
}

/// Records of two partitions in one batch, of which the last one is not JSON.
pub(super) fn one_failing_record_commits_nothing_of_its_workers_batch(room: &Room) {
    let (input, output) = (room.topic("in", 2), room.topic("out", 2));
    let mut pipeline = room.copy(&[&input], &output).processor(r#"{type: vrl, statement: ".seen = true"}"#);
    pipeline.batch = "{commit_interval: 3s}".to_owned();
    let mut process = room.run(&pipeline);
    for task in 0..2 {
        process.wait_says(&[&format!("task {task} started")], PATIENCE);
    }
    let producer = confirmed_producer(&room.broker().address());
    for (partition, id) in [(0, 0), (0, 1), (1, 2)] {
        let text = value(&input, partition, id);
        send(&producer, BaseRecord::to(&input).partition(partition).key("k").payload(&text));
    }
    send(&producer, BaseRecord::to(&input).partition(1).key("k").payload("{bad"));
    finish(&producer);
    assert_eq!(process.wait_exit(PATIENCE), 1);
    assert!(process.says(&["task 1 stopped", &format!("{input}/1"), "offset 1"]), "log: {}", process.stderr());
    assert_eq!(count(room.cluster(), &output, ReadCommitted), 0);
    let at = room.cluster().group(&room.group()).committed(&input);
    assert_eq!(at, [Some(0), Some(0)], "the good records of the other task are not passed");
    room.cluster().wait_settled(&[&output]);
}

/// One process works alone, then two, then one. In scope `task` a partition has the same id whoever has it, in scope `worker` each
/// process has its own.
pub(super) fn transactional_ids_are_those_of_partitions_or_of_workers(room: &Room) {
    let (input, output) = (room.topic("in", 4), room.topic("out", 4));
    let (group, load, pipeline) = (room.cluster().group(&room.group()), room.load(&[&input], 4), room.copy(&[&input], &output));
    let mut sent = 0;
    let mut process_more = || {
        load.send(sent..sent + 400);
        sent += 400;
        group.wait_drained(&[&input], PATIENCE);
    };
    let mut first = room.run(&pipeline);
    process_more();
    let mut second = room.run(&pipeline);
    group.wait_members(&[2, 2], PATIENCE);
    process_more();
    second.stop_cleanly();
    group.wait_members(&[4], PATIENCE);
    process_more();
    first.stop_cleanly();
    Ledger::of(room.cluster(), &output).assert_exact(0..1200);
    let list = ["--bootstrap-server", &room.broker().address(), "list"];
    let text = room.broker().kafka().tool("org.apache.kafka.tools.TransactionsCommand", &list);
    let prefix = format!("{}-", room.group());
    let of_ours = |line: &'_ str| Some(line.split_whitespace().next()?.strip_prefix(&prefix)?.to_owned());
    let ids: BTreeSet<String> = text.lines().filter_map(of_ours).collect();
    if room.mode().is_worker() {
        assert_eq!(ids.len(), 2, "one of each process: {ids:?}");
    } else {
        assert!(ids.iter().eq(["0", "1", "2", "3"]), "one of each partition: {ids:?}");
    }
}
