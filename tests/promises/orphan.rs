//! What a dead worker has left open is ended by whoever waits for it; what a living one has open is not.

use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer as _};

use super::kill::freeze_in_its_own_transaction;
use crate::harness::ledger::Ledger;
use crate::harness::pipeline::Pipeline;
use crate::harness::proxy::Api;
use crate::harness::room::Room;
use crate::harness::wait::{PATIENCE, wait_until};

/// What a process says that has ended somebody else's transaction.
const ENDED: &str = "ended what the id may have had open";

fn patient(pipeline: Pipeline) -> Pipeline {
    Pipeline { transaction_timeout: Some("300s"), ..pipeline }
}

/// The transaction's timeout is longer than the test's patience.
pub(super) fn a_dead_workers_transaction_is_ended_by_its_successor(room: &Room) {
    let (input, output) = (room.topic("in", 4), room.topic("out", 4));
    let group = room.cluster().group(&room.group());
    let load = room.load(&[&input], 4).start(0, 4000);
    let pipeline = patient(room.copy(&[&input], &output));
    let mut survivor = room.run(&pipeline);
    let mut victim = room.run(&pipeline);
    group.wait_members(&[2, 2], PATIENCE);
    wait_until("both work", PATIENCE, || group.progress(&[&input]) > 0 && victim.says(&["task", "started"]));
    freeze_in_its_own_transaction(room, &mut victim, &input, &output);
    assert!(victim.kill(), "it was there to be killed");
    group.wait_members(&[4], PATIENCE);
    let total = load.finish();
    group.wait_drained(&[&input], PATIENCE);
    survivor.wait_says(&[ENDED], PATIENCE);
    Ledger::of(room.cluster(), &output).assert_exact(0..total);
    room.cluster().wait_settled(&[&output]);
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

/// Only one of the scopes rests on the group.
pub(super) fn a_group_that_another_product_shares_is_refused_in_scope_worker(room: &Room) {
    let (input, output) = (room.topic("in", 2), room.topic("out", 2));
    let other: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", room.broker().address())
        .set("group.id", room.group())
        .set("client.id", "billing")
        .create()
        .expect("a consumer");
    other.subscribe(&[&input]).expect("a subscription");
    let group = room.cluster().group(&room.group());
    wait_until("it is a member", PATIENCE, || {
        drop(other.poll(std::time::Duration::from_millis(50)));
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
}
