//! What the two kinds of readers see.

use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::message::Message;
use rdkafka::producer::BaseRecord;
use rdkafka::{Offset, TopicPartitionList};

use super::client::{Writer, texts};
use crate::harness::cluster::Isolation::{ReadCommitted, ReadUncommitted};
use crate::harness::cluster::client;
use crate::harness::ledger;
use crate::harness::load::{confirmed_producer, finish, send};
use crate::harness::room::Room;
use crate::harness::wait::{PATIENCE, wait_for};

/// A record without a transaction.
fn write_plain(room: &Room, topic: &str, text: &str) {
    let producer = confirmed_producer(&room.broker().address());
    send(&producer, BaseRecord::<str, str>::to(topic).partition(0).payload(text));
    finish(&producer);
}

pub(super) fn aborted_records_are_hidden_from_committed_readers(room: &Room) {
    let (topic, cluster) = (room.topic("t", 1), room.cluster());
    let writer = Writer::ready(&room.broker().address(), &room.name("id"));
    writer.commit_texts(&topic, &["a1", "a2"]);
    writer.abort_texts(&topic, &["b1", "b2"]);
    writer.commit_texts(&topic, &["c1"]);
    cluster.wait_settled(&[&topic]);
    assert_eq!(texts(cluster, &topic, ReadCommitted), ["a1", "a2", "c1"]);
    assert_eq!(texts(cluster, &topic, ReadUncommitted), ["a1", "a2", "b1", "b2", "c1"]);
}

/// A plain record behind the open transaction waits with it.
pub(super) fn records_behind_an_open_transaction_are_not_stable(room: &Room) {
    let (topic, cluster) = (room.topic("t", 1), room.cluster());
    let writer = Writer::begun(&room.broker().address(), &room.name("id"));
    assert_eq!(writer.write(&topic, &["x"]), Ok(()));
    write_plain(room, &topic, "y");
    assert_eq!(texts(cluster, &topic, ReadCommitted), [""; 0]);
    assert_eq!(texts(cluster, &topic, ReadUncommitted), ["x", "y"]);
    assert_eq!(cluster.range(&topic, 0, ReadCommitted).1, 0, "the last stable offset");
    assert_eq!(cluster.range(&topic, 0, ReadUncommitted).1, 2, "the high watermark");
    writer.commit().expect("committed");
    cluster.wait_settled(&[&topic]);
    assert_eq!(texts(cluster, &topic, ReadCommitted), ["x", "y"]);
    assert_eq!(cluster.ends(&topic, ReadCommitted), [3]);
    assert_eq!(cluster.ends(&topic, ReadUncommitted), [3]);
}

pub(super) fn markers_take_offsets_that_readers_pass(room: &Room) {
    let (topic, cluster) = (room.topic("t", 1), room.cluster());
    let writer = Writer::ready(&room.broker().address(), &room.name("id"));
    writer.commit_texts(&topic, &["r0"]);
    writer.commit_texts(&topic, &["r2"]);
    writer.abort_texts(&topic, &["r4"]);
    cluster.wait_settled(&[&topic]);
    write_plain(room, &topic, "r6");
    let mut offsets = Vec::new();
    ledger::read(cluster, &topic, ReadCommitted, |message| offsets.push(message.offset()));
    assert_eq!(offsets, [0, 2, 6]);
    assert_eq!(cluster.ends(&topic, ReadUncommitted), [7]);
    assert_eq!(position_at_end(room, &topic), Offset::Offset(7));
    writer.commit_texts(&topic, &["r7"]);
    cluster.wait_settled(&[&topic]);
    assert_eq!(cluster.ends(&topic, ReadCommitted), [9], "the end counts the marker that is last");
    assert_eq!(position_at_end(room, &topic), Offset::Offset(9), "and readers pass it");
}

/// Where a reader of committed records stands when it is told that there is no more.
fn position_at_end(room: &Room, topic: &str) -> Offset {
    let mut config = client(&room.broker().address());
    config.set("group.id", room.group()).set("enable.auto.commit", "false").set("isolation.level", "read_committed");
    let reader: BaseConsumer = config.set("enable.partition.eof", "true").create().expect("a consumer");
    let mut list = TopicPartitionList::new();
    list.add_partition_offset(topic, 0, Offset::Beginning).expect("a valid offset");
    reader.assign(&list).expect("assigned");
    wait_for("the end of the partition", PATIENCE, || match reader.poll(Duration::from_millis(100)) {
        Some(Err(KafkaError::PartitionEOF(_))) => Some(()),
        Some(Err(error)) => panic!("{error}"),
        _ => None,
    });
    reader.position().expect("known here").find_partition(topic, 0).expect("assigned").offset()
}
