//! The transaction scope `worker`: one transaction for all partitions of a process, fenced by the group's generation.

use std::convert::identity;

use crate::harness::cluster::Isolation::ReadCommitted;
use crate::harness::ledger::{Ledger, count};
use crate::harness::load::{confirmed_producer, finish, send, value};
use crate::harness::pipeline::Pipeline;
use crate::harness::process::Process;
use crate::harness::proxy::Api;
use crate::harness::room::Room;
use crate::harness::wait::{PATIENCE, wait_until};
use crate::promises::handover::{self, Scopes};
use crate::promises::{hooks, order, outage, pending, rebalance, start, zombie};
use nix::sys::signal::Signal;
use rdkafka::producer::BaseRecord;

/// The new one has an id of its own: nothing but the group fences the old one.
const WORKERS: Scopes = Scopes { old: handover::worker, new: Pipeline::scope_worker };

/// Each time the survivor waits for what the dead one has left open, takes all partitions over, and gives half of them to the next one.
pub(super) fn several_kills_of_one_of_two_workers_in_a_transaction_are_exact(room: &Room) {
    let (input, output) = (room.topic("in", 4), room.topic("out", 4));
    let group = room.cluster().group(&room.group());
    let load = room.load(&[&input], 4).start(0, 4000);
    let pipeline = room.copy(&[&input], &output).scope_worker();
    let mut survivor = room.run(&pipeline);
    for _ in 0..room.number(3, 15) {
        let mut victim = room.run(&pipeline);
        group.wait_members(&[2, 2], PATIENCE);
        wait_until("both work", PATIENCE, || group.progress(&[&input]) > 0 && victim.says(&["task", "started"]));
        freeze_in_its_own_transaction(room, &mut victim, &input, &output);
        assert!(victim.kill(), "it was there to be killed");
        group.wait_members(&[4], PATIENCE);
        let seen = group.committed(&input);
        wait_until("the survivor works on all partitions", PATIENCE, || {
            group.committed(&input).iter().zip(&seen).all(|(now, seen)| now > seen)
        });
    }
    assert!(survivor.is_running());
    let total = load.finish();
    group.wait_drained(&[&input], PATIENCE);
    Ledger::of(room.cluster(), &output).assert_exact(0..total);
    room.cluster().wait_settled(&[&output]);
    survivor.stop_cleanly();
}

/// A transaction that stays open while the other process commits on is the frozen one's.
pub(super) fn freeze_in_its_own_transaction(room: &Room, process: &mut Process, input: &str, output: &str) {
    let (cluster, group) = (room.cluster(), room.cluster().group(&room.group()));
    let stable = || cluster.ends(output, ReadCommitted);
    wait_until("it is frozen in a transaction of its own", PATIENCE, || {
        process.freeze_in_transaction(cluster, &[output]);
        let (before, seen) = (stable(), group.progress(&[input]));
        wait_until("the other one commits", PATIENCE, || group.progress(&[input]) > seen + 500);
        let open = !cluster.open_transactions(&[output]).is_empty();
        if open && stable().iter().zip(&before).any(|(now, before)| now == before) {
            return true;
        }
        process.signal(Signal::SIGCONT);
        false
    });
}

pub(super) fn workers_join_and_leave_under_load(room: &Room) {
    rebalance::joins_and_leaves(room, Pipeline::scope_worker);
}

/// With a timeout that outlasts the outage: Kafka 4.3.1 may lose the markers of a transaction that it times out while it starts.
pub(super) fn a_broker_that_is_killed_under_a_worker_loses_and_doubles_nothing(room: &Room) {
    outage::dies_under_load(room, |pipeline| Pipeline { transaction_timeout: Some("60s"), ..pipeline.scope_worker() });
}

/// Its positions are under way when another process joins, for longer than the group waits. The new owner begins before them; then they
/// arrive.
pub(super) fn a_stale_token_is_refused_and_the_records_are_processed_again(room: &Room) {
    let (input, output) = (room.topic("in", 4), room.topic("out", 4));
    let (group, proxy) = (room.cluster().group(&room.group()), room.broker().proxy());
    let load = room.load(&[&input], 4);
    load.send(0..400);
    let mut pipeline = room.copy(&[&input], &output).scope_worker();
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

pub(super) fn a_task_that_waits_holds_up_no_other_task_of_its_worker(room: &Room) {
    pending::one_is_held(room, Pipeline::scope_worker);
}

pub(super) fn a_stopped_worker_writes_nothing_when_it_goes_on(room: &Room) {
    zombie::stopped(room, Pipeline::scope_worker);
}

pub(super) fn a_workers_transaction_that_the_broker_timed_out_is_processed_again(room: &Room) {
    zombie::timed_out(room, Pipeline::scope_worker);
}

/// Its transaction would be waited for for 60 s otherwise; the promise is about 20 s.
pub(super) fn a_worker_with_an_instance_id_ends_its_own_transaction_when_it_restarts(room: &Room) {
    rebalance::static_member(room, |pipeline| Pipeline { transaction_timeout: Some("60s"), ..pipeline.scope_worker() });
}

pub(super) fn two_workers_with_one_instance_id_are_loud(room: &Room) {
    rebalance::there_twice(room, Pipeline::scope_worker);
}

pub(super) fn a_new_group_of_workers_loses_nothing_after_its_first_start(room: &Room) {
    start::crashes_before_its_first_batch(room, Pipeline::scope_worker);
}

pub(super) fn a_workers_late_commit_before_the_takeover_is_not_repeated(room: &Room) {
    handover::released_before(room, WORKERS);
}

/// The new owner waits for the transaction: it counts.
pub(super) fn a_workers_late_commit_during_the_takeover_is_neither_lost_nor_doubled(room: &Room) {
    handover::released_during(room, WORKERS);
}

/// Commit, positions and outputs arrive when the transaction has timed out and the new owner has processed everything again.
pub(super) fn late_requests_of_a_worker_are_refused(room: &Room) {
    for (part, api) in [("commit", Api::EndTxn), ("positions", Api::TxnOffsetCommit), ("outputs", Api::Produce)] {
        handover::released_after(room, part, api, WORKERS);
    }
}

pub(super) fn a_workers_late_commit_never_ends_its_next_transaction(room: &Room) {
    handover::late_commit(room, "patient", "{}", handover::worker);
    handover::late_commit(room, "hasty", "{socket.timeout.ms: 1000}", handover::worker);
}

/// A stopped application changes its scope; what it has left open does, and does not, hold positions.
fn scope_changes(room: &Room, scopes: Scopes) {
    for (part, api) in [("pending", Api::EndTxn), ("free", Api::TxnOffsetCommit)] {
        handover::released_after(room, part, api, scopes);
    }
}

pub(super) fn a_dead_task_is_taken_over_in_scope_worker(room: &Room) {
    scope_changes(room, Scopes { old: handover::short, new: Pipeline::scope_worker });
}

pub(super) fn a_dead_worker_is_taken_over_in_scope_task(room: &Room) {
    // No task has this id: nothing but the group fences the worker.
    fn old(pipeline: Pipeline) -> Pipeline {
        Pipeline { group_instance_id: Some("00".to_owned()), ..handover::worker(pipeline) }
    }
    scope_changes(room, Scopes { old, new: identity });
}

/// Records of two partitions in one batch, of which the last one is not JSON.
pub(super) fn one_failing_record_commits_nothing_of_its_workers_batch(room: &Room) {
    let (input, output) = (room.topic("in", 2), room.topic("out", 2));
    let mut pipeline = room.copy(&[&input], &output).scope_worker().processor(r#"{type: vrl, statement: ".seen = true"}"#);
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

pub(super) fn a_worker_that_hears_bad_news_loses_and_doubles_nothing(room: &Room) {
    hooks::bad_news(room, Pipeline::scope_worker);
}

pub(super) fn a_worker_keeps_the_order_of_its_input_partitions(room: &Room) {
    order::in_order(room, Pipeline::scope_worker);
}
