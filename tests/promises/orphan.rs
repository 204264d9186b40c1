//! What a dead worker has left open is ended by whoever waits for it; what a living one has open is not.

use std::collections::BTreeSet;
use std::time::Duration;

use nix::sys::signal::Signal;
use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer as _};

use crate::harness::ledger::Ledger;
use crate::harness::pipeline::Pipeline;
use crate::harness::process::Process;
use crate::harness::proxy::Api;
use crate::harness::room::Room;
use crate::harness::transaction::Transaction;
use crate::harness::wait::{PATIENCE, wait_until};

/// What a process says that has ended somebody else's transaction.
const ENDED: &str = "ended what the id may have had open";

fn patient(pipeline: Pipeline) -> Pipeline {
    Pipeline { transaction_timeout: Some("300s"), ..pipeline }
}

/// The transaction is the first one in which the process has records, so that it has committed nothing but its name; its timeout is longer than the
/// test's patience. It has its positions when its process dies: the commit is under way.
pub(super) fn a_dead_workers_transaction_is_ended_by_its_successor(room: &Room) {
    let (input, output) = (room.topic("in", 4), room.topic("out", 4));
    let (group, proxy) = (room.cluster().group(&room.group()), room.broker().proxy());
    room.load(&[&input], 4).send(0..400);
    let pipeline = patient(room.copy(&[&input], &output));
    let mut survivor = room.run(&pipeline);
    group.wait_drained(&[&input], PATIENCE);
    let former = group.holders(&input);
    assert_eq!(former.iter().collect::<BTreeSet<_>>().len(), 1, "{former:?}");
    let mut victim = room.run(Pipeline { brokers: proxy.address().to_owned(), ..pipeline.clone() });
    group.wait_members(&[2, 2], PATIENCE);
    wait_until("the other one has left its name", PATIENCE, || {
        group.holders(&input).iter().zip(&former).filter(|(now, before)| now != before).count() == 2
    });
    // Its ids are on the wire of the proxy alone.
    let hold = proxy.hold(Api::EndTxn, &format!("{}-", room.group()));
    let load = room.load(&[&input], 4).start(400, 4000);
    hold.wait_held(PATIENCE);
    assert_eq!(group.committed(&input).iter().filter(|at| **at == Some(100)).count(), 2, "it has committed no record");
    assert!(victim.kill(), "it was there to be killed");
    assert!(!room.cluster().open_transactions(&[&output]).is_empty(), "its transaction is open");
    group.wait_members(&[4], PATIENCE);
    survivor.wait_says(&[ENDED], PATIENCE);
    let total = load.finish();
    group.wait_drained(&[&input], PATIENCE);
    room.cluster().wait_settled(&[&output]);
    Ledger::of(room.cluster(), &output).assert_exact(0..total);
    hold.release();
    // Records behind the late request: nothing of theirs is ended by it.
    room.load(&[&input], 4).send(total..total + 100);
    group.wait_drained(&[&input], PATIENCE);
    Ledger::of(room.cluster(), &output).assert_exact(0..total + 100);
    survivor.stop_cleanly();
}

/// Its commit is under way when another process joins, for longer than the group waits for it.
pub(super) fn a_living_workers_transaction_is_waited_for(room: &Room) {
    let (input, output) = (room.topic("in", 4), room.topic("out", 4));
    let (group, proxy) = (room.cluster().group(&room.group()), room.broker().proxy());
    let load = room.load(&[&input], 4);
    load.send(0..400);
    let mut pipeline = patient(room.copy(&[&input], &output));
    pipeline.batch = "{commit_interval: 1s}".to_owned(); // all partitions in one batch
    let mut old = room.run(Pipeline {
        brokers: proxy.address().to_owned(),
        group_instance_id: Some("old".to_owned()),
        ..pipeline.clone()
    });
    group.wait_drained(&[&input], PATIENCE);
    let hold = proxy.hold_one(Api::EndTxn, &format!("{}-old", room.group()));
    load.send(400..800);
    hold.wait_held(PATIENCE);
    let mut new = room.run(&pipeline);
    group.wait_members(&[2, 2], PATIENCE);
    new.wait_says(&["waits for the committed positions"], PATIENCE);
    hold.release();
    group.wait_drained(&[&input], PATIENCE);
    assert!(!new.says(&[ENDED]), "the old one is a member");
    Ledger::of(room.cluster(), &output).assert_exact(0..800);
    old.stop_cleanly();
    new.stop_cleanly();
}

/// It has another member id then, and its old one stands in the positions of every quiet partition.
pub(super) fn a_worker_that_was_expelled_and_came_back_is_not_ended(room: &Room) {
    let (input, output) = (room.topic("in", 3), room.topic("out", 3));
    let group = room.cluster().group(&room.group());
    let load = room.load(&[&input], 3);
    load.send(0..300);
    let pipeline = patient(room.copy(&[&input], &output));
    let mut old = room.run(&pipeline);
    group.wait_drained(&[&input], PATIENCE);
    old.signal(Signal::SIGSTOP);
    wait_until("it is expelled", PATIENCE, || group.members().is_some_and(|members| members.is_empty()));
    old.signal(Signal::SIGCONT);
    group.wait_members(&[3], PATIENCE);
    let foreign = Transaction::open(&room.broker().address(), &room.name("foreign"));
    for partition in 0..3 {
        foreign.position(&room.group(), &input, partition, 100);
    }
    let mut new = room.run(&pipeline);
    // By then the question whose transaction it is has been asked at least once.
    let waits = |process: &Process| process.says(&["waits for the committed positions"]);
    wait_until("one of them waits for the foreign transaction", PATIENCE, || waits(&old) || waits(&new));
    foreign.abort();
    load.send(300..600);
    group.wait_drained(&[&input], PATIENCE);
    assert!(!old.says(&[ENDED]) && !new.says(&[ENDED]), "both are members");
    Ledger::of(room.cluster(), &output).assert_exact(0..600);
    old.stop_cleanly();
    new.stop_cleanly();
}

/// Only one of the scopes rests on the group.
pub(super) fn a_group_that_another_product_shares_is_refused_in_scope_worker(room: &Room) {
    let (input, output) = (room.topic("in", 2), room.topic("out", 2));
    let other = stranger(room, &input);
    let group = room.cluster().group(&room.group());
    wait_until("it is a member", PATIENCE, || {
        drop(other.poll(Duration::from_millis(50)));
        group.members().is_some_and(|members| members.len() == 1)
    });
    let pipeline = room.copy(&[&input], &output);
    let mut refused = room.run(&pipeline);
    assert_eq!(refused.wait_exit(PATIENCE), 1, "log: {}", refused.stderr());
    assert!(refused.says(&["client id billing", &room.group(), "transaction_scope: task"]), "log: {}", refused.stderr());
    drop(other);
    room.load(&[&input], 2).send(0..10);
    room.drain(&pipeline);
    Ledger::of(room.cluster(), &output).assert_exact(0..10);
    // The same of one that comes later: its partitions' records would not come here.
    let mut running = room.run(&pipeline);
    running.wait_says(&["task", "started"], PATIENCE);
    let other = stranger(room, &input);
    wait_until("it ends", PATIENCE, || {
        drop(other.poll(Duration::from_millis(50)));
        !running.is_running()
    });
    assert_eq!(running.wait_exit(PATIENCE), 1, "log: {}", running.stderr());
    assert!(running.says(&["client id billing"]), "log: {}", running.stderr());
}

/// A consumer of another product in the test's group.
fn stranger(room: &Room, input: &str) -> BaseConsumer {
    let consumer: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", room.broker().address())
        .set("group.id", room.group())
        .set("client.id", "billing")
        .create()
        .expect("a consumer");
    consumer.subscribe(&[input]).expect("a subscription");
    consumer
}
