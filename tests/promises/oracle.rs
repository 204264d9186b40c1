//! The tests' own instruments: each must see the fault that it is there for.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use rdkafka::producer::BaseRecord;

use crate::harness::cluster::Isolation::{ReadCommitted, ReadUncommitted};
use crate::harness::ledger::{self, Ledger};
use crate::harness::load::{confirmed_producer, finish, send, value};
use crate::harness::proxy::Api;
use crate::harness::room::Room;
use crate::harness::transaction::Transaction;

pub(super) fn the_ledger_sees_missing_doubled_and_overtaken_records(room: &Room) {
    let ledger = |part: &str, ids: &[u64]| {
        let topic = room.topic(part, 1);
        let producer = confirmed_producer(&room.broker().address());
        for id in ids {
            send(&producer, BaseRecord::to(&topic).key("k").payload(&value("in", 0, *id)));
        }
        finish(&producer);
        Ledger::of(room.cluster(), &topic)
    };
    let refusal = |ledger: Ledger| {
        let result = catch_unwind(AssertUnwindSafe(|| ledger.assert_exact(0..4)));
        result.err().and_then(|error| error.downcast::<String>().ok()).map(|text| *text).unwrap_or_default()
    };
    assert_eq!(refusal(ledger("exact", &[0, 1, 2, 3])), "");
    assert!(refusal(ledger("missing", &[0, 1, 3])).contains("missing: [2]"));
    assert!(refusal(ledger("doubled", &[0, 1, 2, 2, 3])).contains("more than once: [(2, 2)]"));
    assert!(refusal(ledger("overtaken", &[0, 2, 1, 3])).contains("1 after 2"));
    assert!(refusal(ledger("strange", &[0, 1, 2, 3, 9])).contains("[9]"));
}

pub(super) fn open_and_aborted_transactions_are_seen(room: &Room) {
    let (input, topic) = (room.topic("in", 1), room.topic("t", 2));
    let cluster = room.cluster();
    let transaction = Transaction::open(&room.broker().address(), &room.name("helper"));
    transaction.write(&topic, 1, (0..3).map(|id| ("k", value("in", 0, id))));
    transaction.position(&room.group(), &input, 0, 7);
    assert_eq!(cluster.open_transactions(&[&topic]), [format!("{topic}/1: stable to 0 of 3")]);
    assert_eq!(cluster.group(&room.group()).committed(&input), [None], "pending positions do not count");
    transaction.abort();
    cluster.wait_settled(&[&topic]);
    assert_eq!(ledger::count(cluster, &topic, ReadCommitted), 0);
    assert_eq!(ledger::count(cluster, &topic, ReadUncommitted), 3);
}

pub(super) fn the_proxy_holds_what_it_is_told_to_hold(room: &Room) {
    let topic = room.topic("t", 1);
    let (proxy, id) = (room.broker().proxy(), room.name("helper"));
    let hold = proxy.hold(Api::EndTxn, &id);
    let transaction = Transaction::open(proxy.address(), &id);
    transaction.write(&topic, 0, [("k", value("in", 0, 0))]);
    std::thread::scope(|scope| {
        let commit = scope.spawn(|| transaction.commit());
        hold.wait_held(Duration::from_secs(10));
        assert!(!commit.is_finished() && !room.cluster().open_transactions(&[&topic]).is_empty());
        hold.release();
        commit.join().unwrap();
    });
    assert_eq!(ledger::count(room.cluster(), &topic, ReadCommitted), 1);
}
