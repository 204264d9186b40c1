//! Inputs that other transactions wrote, and inputs with holes.

use std::collections::BTreeMap;

use rdkafka::producer::BaseRecord;

use crate::harness::cluster::Isolation::{ReadCommitted, ReadUncommitted};
use crate::harness::ledger::{Ledger, count, records};
use crate::harness::load::{confirmed_producer, finish, send, value};
use crate::harness::pipeline::Pipeline;
use crate::harness::room::Room;
use crate::harness::transaction::Transaction;
use crate::harness::wait::{PATIENCE, wait_until};

fn values(topic: &str, partition: i32, ids: std::ops::Range<u64>) -> impl Iterator<Item = (&'static str, String)> {
    ids.map(move |id| ("k", value(topic, partition, id)))
}

/// A committed, an aborted and an open transaction, and records behind the open one. The process is killed meanwhile.
pub(super) fn only_committed_input_is_processed_and_in_order(room: &Room) {
    let (input, output) = (room.topic("in", 1), room.topic("out", 1));
    let (address, cluster) = (room.broker().address(), room.cluster());
    let transaction = |id: &str, ids| {
        let transaction = Transaction::open(&address, &room.name(id));
        transaction.write(&input, 0, values(&input, 0, ids));
        transaction
    };
    transaction("one", 0..5).commit();
    transaction("two", 100..105).abort();
    cluster.wait_settled(&[&input]); // the last marker may come after the answer
    let stable = cluster.range(&input, 0, ReadUncommitted).1;
    let open = transaction("three", 5..10);
    let producer = confirmed_producer(&address);
    for (key, text) in values(&input, 0, 10..15) {
        send(&producer, BaseRecord::to(&input).partition(0).key(key).payload(&text));
    }
    finish(&producer);
    let group = cluster.group(&room.group());
    let pipeline = room.copy(&[&input], &output);
    let mut process = room.run(&pipeline);
    wait_until("it has processed what is stable", PATIENCE, || group.lag(&[&input]) == 0);
    assert_eq!(group.committed(&input), [Some(stable)], "behind the aborted records, before the open ones");
    Ledger::of(cluster, &output).assert_exact(0..5);
    assert!(process.kill(), "it was there to be killed");
    let mut process = room.run(&pipeline);
    open.commit();
    wait_until("the rest is processed", PATIENCE, || count(cluster, &output, ReadCommitted) == 15);
    group.wait_drained(&[&input], PATIENCE);
    Ledger::of(cluster, &output).assert_exact(0..15);
    process.stop_cleanly();
}

/// Markers at the end count for nothing: the lag is 0, and stays 0. With transactions of our own, and without.
pub(super) fn a_topic_that_ends_in_markers_drains_to_lag_zero(room: &Room) {
    ends_in_markers(room, "exactly", |pipeline| pipeline);
    ends_in_markers(room, "least", Pipeline::at_least_once);
}

fn ends_in_markers(room: &Room, part: &str, delivery: fn(Pipeline) -> Pipeline) {
    let (input, output) = (room.topic(&format!("{part}.in"), 2), room.topic(&format!("{part}.out"), 1));
    let address = room.broker().address();
    for (n, partition) in [(0, 0), (1, 1)] {
        let transaction = Transaction::open(&address, &room.name("one"));
        transaction.write(&input, partition, values(&input, partition, n * 3..n * 3 + 3));
        transaction.commit();
    }
    let transaction = Transaction::open(&address, &room.name("two"));
    transaction.write(&input, 1, values(&input, 1, 100..105));
    transaction.abort();
    room.cluster().wait_settled(&[&input]); // the last marker may come after the answer
    let name = room.name(part);
    let pipeline = delivery(room.copy_at(&address, &name, &[&input], &output));
    let group = room.cluster().group(&name);
    let mut process = room.run(&pipeline);
    group.wait_drained(&[&input], PATIENCE);
    assert_eq!(group.committed(&input), [Some(4), Some(10)]);
    process.stop_cleanly();
    let end = room.cluster().ends(&output, ReadUncommitted);
    room.drain(&pipeline);
    assert_eq!(room.cluster().ends(&output, ReadUncommitted), end, "the next start writes nothing");
    Ledger::of(room.cluster(), &output).assert_exact(0..6);
}

/// Compaction leaves a few records and many holes.
pub(super) fn a_compacted_topic_is_read_over_its_holes(room: &Room) {
    let configs = [
        ("cleanup.policy", "compact"),
        ("segment.ms", "1000"),
        ("min.cleanable.dirty.ratio", "0.001"),
        ("min.compaction.lag.ms", "0"),
        ("max.compaction.lag.ms", "1000"),
        ("delete.retention.ms", "0"),
    ];
    let (input, output) = (room.topic_with("in", 1, &configs), room.topic("out", 1));
    let cluster = room.cluster();
    let producer = confirmed_producer(&room.broker().address());
    let write = |key: &str, id: u64| {
        send(&producer, BaseRecord::to(&input).partition(0).key(key).payload(&value(&input, 0, id)));
        finish(&producer);
    };
    (0..200).for_each(|id| write(if id % 2 == 0 { "a" } else { "b" }, id));
    let mut next = 200;
    wait_until("the topic is compacted", PATIENCE, || {
        write("c", next); // rolls the segment when its time has passed
        next += 1;
        count(cluster, &input, ReadCommitted) < 100
    });
    let end = cluster.range(&input, 0, ReadUncommitted).1;
    let pipeline = room.copy(&[&input], &output);
    let mut process = room.run(&pipeline);
    let group = cluster.group(&room.group());
    wait_until("it has begun", PATIENCE, || group.progress(&[&input]) > 0);
    assert!(process.kill(), "it was there to be killed");
    let process = room.drain(&pipeline);
    assert_eq!(group.committed(&input), [Some(end)]);
    assert!(!process.says(&["warn"]), "holes are not a loss: {}", process.stderr());
    let mut latest: BTreeMap<_, _> = BTreeMap::new();
    for record in records(cluster, &output) {
        let times = latest.entry((record.key.clone(), record.value.clone())).or_insert(0);
        *times += 1;
        assert_eq!(*times, 1, "twice: {record:?}");
    }
    for survivor in records(cluster, &input) {
        assert!(latest.contains_key(&(survivor.key.clone(), survivor.value.clone())), "missing: {survivor:?}");
    }
}

/// Nothing comes out, and the positions commit.
pub(super) fn input_that_is_all_filtered_out_still_commits(room: &Room) {
    let (input, output) = (room.topic("in", 2), room.topic("out", 1));
    room.load(&[&input], 2).send(0..1000);
    let pipeline = room.copy(&[&input], &output).processor(r#"{type: filter, condition: ".i == -1"}"#);
    let mut process = room.run(&pipeline);
    room.cluster().group(&room.group()).wait_drained(&[&input], PATIENCE);
    assert_eq!(room.cluster().group(&room.group()).committed(&input), [Some(500), Some(500)]);
    process.stop_cleanly();
    assert_eq!(count(room.cluster(), &output, ReadCommitted), 0);
    assert!(room.drain(&pipeline).says(&["0 new records"]), "the second run has nothing to do");
}
