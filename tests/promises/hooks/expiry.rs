//! Sessions and transactions that are over while a commit is under way.

use std::time::Duration;

use wattle_broker::ApiKey;

use super::{Copy, RECORDS};
use crate::harness::cluster::Isolation::ReadUncommitted;
use crate::harness::pipeline::Pipeline;
use crate::harness::room::Room;
use crate::harness::wait::{PATIENCE, wait_until};

/// The commit of task 0 is held while its owner's session ends and another process takes over; then it comes through.
pub(in crate::promises) fn a_member_whose_session_ends_in_a_commit_writes_nothing_more(room: &Room) {
    let broker = room.own_broker();
    let (hooks, cluster) = (broker.embedded(), broker.cluster());
    let mut copy = Copy::on(room, cluster, "session");
    copy.load().send(0..RECORDS);
    let group = cluster.group(&copy.name);
    copy.pipeline.consumer = "client.id: wattle-old";
    let commit = hooks.on(ApiKey::EndTxn).matching(copy.id()).after(3).hold();
    // It would come back, and with a commit under way its partition would wait for that.
    // A static member joins once, another one asks for its id first.
    let joins = if copy.pipeline.group_instance_id.is_some() { 1 } else { 2 };
    let join = hooks.on(ApiKey::JoinGroup).matching(&copy.name).client("wattle-old").after(joins).hold();
    let mut old = room.run(&copy.pipeline);
    assert!(commit.wait_fired(1, PATIENCE), "a commit is under way");
    hooks.advance(Duration::from_millis(copy.pipeline.session_timeout_ms.into()) + Duration::from_secs(1));
    assert!(join.wait_fired(1, PATIENCE), "it hears that it is no member any more");
    let new = Pipeline { consumer: "client.id: wattle-new", group_instance_id: None, ..copy.pipeline.clone() };
    let mut new = room.run(new);
    copy.wait_drained();
    copy.is_exact(0..RECORDS);
    let (ends, positions) = (cluster.ends(&copy.output, ReadUncommitted), group.committed(&copy.input));
    commit.release();
    old.wait_says(&[&copy.id(), "fenced"], PATIENCE);
    assert_eq!(cluster.ends(&copy.output, ReadUncommitted), ends, "it writes nothing");
    assert_eq!(group.committed(&copy.input), positions, "it moves nothing");
    join.release();
    group.wait_members(&[1, 2], PATIENCE);
    copy.load().send(RECORDS..2 * RECORDS);
    copy.wait_drained();
    copy.is_exact(0..2 * RECORDS);
    old.stop_cleanly();
    new.stop_cleanly();
}

/// The broker aborts the transaction between its last output and its commit.
pub(in crate::promises) fn a_transaction_that_expires_before_its_commit_is_processed_again(room: &Room) {
    let broker = room.own_broker();
    let hooks = broker.embedded();
    let mut copy = Copy::on(room, broker.cluster(), "transaction");
    copy.pipeline.transaction_timeout = Some("5s");
    room.set_session(&mut copy.pipeline, 60_000);
    copy.load().send(0..RECORDS);
    let commit = hooks.on(ApiKey::EndTxn).matching(copy.id()).after(3).hold();
    let mut process = room.run(&copy.pipeline);
    assert!(commit.wait_fired(1, PATIENCE), "a commit is under way");
    let open = || broker.cluster().open_transactions(&[&copy.output]);
    assert!(!open().is_empty(), "its outputs are written");
    hooks.advance(Duration::from_secs(6));
    wait_until("the broker has aborted it", PATIENCE, || open().is_empty());
    commit.release();
    process.wait_says(&["starts again with a new producer", &copy.id()], PATIENCE);
    copy.wait_drained();
    process.stop_cleanly();
    copy.is_exact(0..RECORDS);
}
