//! What is fetched late, and what must not be fetched at all.

use std::time::Duration;

use wattle_broker::ApiKey;

use super::{Copy, PARTITIONS, RECORDS};
use crate::harness::cluster::Isolation::ReadCommitted;
use crate::harness::ledger::count;
use crate::harness::load::value;
use crate::harness::room::Room;
use crate::harness::transaction::Transaction;
use crate::harness::wait::{PATIENCE, wait_until};

/// Two members: the records of one do not come. Those of the other do, and both stay members.
pub(in crate::promises) fn a_fetch_that_is_held_stops_no_other_member(room: &Room) {
    let mut copy = Copy::on(room, room.cluster(), "held");
    let group = room.cluster().group(&copy.name);
    let broker = room.broker().embedded();
    copy.pipeline.group_instance_id = None; // two workers have two
    copy.pipeline.consumer = "client.id: wattle-held";
    let mut slow = room.run(&copy.pipeline);
    copy.pipeline.consumer = "client.id: wattle-free";
    let mut free = room.run(&copy.pipeline);
    group.wait_members(&[1, 2], PATIENCE);
    let hook = broker.on(ApiKey::Fetch).matching(&copy.input).client("wattle-held").times(u64::MAX).hold();
    assert!(hook.wait_fired(1, PATIENCE), "it fetches");
    copy.load().send(0..RECORDS);
    let ends = room.cluster().ends(&copy.input, ReadCommitted);
    let done = || group.committed(&copy.input).iter().zip(&ends).filter(|(at, end)| **at == Some(**end)).count();
    let beats = broker.on(ApiKey::Heartbeat).matching(&copy.name).client("wattle-held").observe();
    wait_until("the other member is through", PATIENCE, || done() >= 1 && beats.fired() >= 2);
    assert!(done() < PARTITIONS as usize, "what is held is not processed");
    group.wait_members(&[1, 2], PATIENCE);
    hook.release();
    copy.wait_drained();
    for process in [&mut slow, &mut free] {
        process.stop_cleanly();
    }
    copy.is_exact(0..RECORDS);
}

/// Somebody's transaction is open in the input, and the broker aborts it when its time is over: its records are not processed, and
/// those behind it wait until then.
pub(in crate::promises) fn records_of_a_transaction_that_expires_are_not_processed(room: &Room) {
    let broker = room.own_broker();
    let mut copy = Copy::on(room, broker.cluster(), "expires");
    // The clock moves past the transaction's timeout of a minute, and not past the session.
    room.set_session(&mut copy.pipeline, 120_000);
    let open = Transaction::open_for(&broker.address(), &room.name("other"), Duration::from_secs(60));
    let strange = |id| ("k", value(&copy.input, 0, id));
    copy.load().send(0..RECORDS);
    open.write(&copy.input, 0, (10 * RECORDS..10 * RECORDS + 100).map(strange));
    copy.load().send(RECORDS..2 * RECORDS);
    let fetched = broker.embedded().on(ApiKey::Fetch).matching(&copy.input).observe();
    let mut process = room.run(&copy.pipeline);
    copy.wait_drained();
    assert_eq!(
        count(broker.cluster(), &copy.output, ReadCommitted),
        2 * RECORDS - RECORDS / 3,
        "what is behind it waits"
    );
    broker.embedded().advance(Duration::from_secs(61));
    wait_until("the broker aborts it", PATIENCE, || broker.cluster().open_transactions(&[&copy.input]).is_empty());
    copy.wait_drained();
    drop((fetched, open));
    process.stop_cleanly();
    copy.is_exact(0..2 * RECORDS);
}
