//! What a record consists of comes back.

use rdkafka::consumer::Consumer;
use rdkafka::error::RDKafkaErrorCode as Code;
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::BaseRecord;
use rdkafka::{Offset, TopicPartitionList};

use super::client::{TIMEOUT, Writer, code, member, texts};
use crate::harness::cluster::Isolation::ReadCommitted;
use crate::harness::ledger::records;
use crate::harness::room::Room;

/// Some day in 2023.
const THEN: i64 = 1_700_000_000_000;

pub(super) fn records_of_every_codec_come_back(room: &Room) {
    let wanted: Vec<String> = (0..100).map(|n| format!("{}{n}", "v".repeat(50))).collect();
    let wanted: Vec<&str> = wanted.iter().map(String::as_str).collect();
    for codec in ["none", "gzip", "snappy", "lz4", "zstd"] {
        let topic = room.topic(codec, 1);
        let more = [("compression.type", codec), ("linger.ms", "50")];
        let writer = Writer::new(&room.broker().address(), &room.name(codec), &more);
        writer.init().expect("initialised");
        writer.commit_texts(&topic, &wanted);
        room.cluster().wait_settled(&[&topic]);
        assert_eq!(texts(room.cluster(), &topic, ReadCommitted), wanted, "{codec}");
    }
}

/// Old records: such a topic must not let go of them because of their age.
fn lasting_topic(room: &Room, partitions: i32) -> String {
    room.topic_with("t", partitions, &[("retention.ms", "-1")])
}

pub(super) fn headers_and_timestamps_come_back_from_every_partition(room: &Room) {
    let topic = lasting_topic(room, 3);
    let headers = || {
        let headers = OwnedHeaders::new().insert(Header { key: "h", value: Some("1") });
        headers.insert(Header { key: "n", value: None::<&str> })
    };
    let writer = Writer::begun(&room.broker().address(), &room.name("id"));
    let records = (0..3).map(|partition| {
        let record = BaseRecord::to(&topic).partition(partition).key("k").payload("v");
        record.headers(headers()).timestamp(THEN + i64::from(partition))
    });
    assert_eq!(writer.send_all(records), Ok(()));
    writer.commit().expect("committed");
    room.cluster().wait_settled(&[&topic]);
    let mut seen = records_by_partition(room, &topic);
    seen.sort_by_key(|record| record.0);
    let wanted = [("h".to_owned(), Some(b"1".to_vec())), ("n".to_owned(), None)];
    for (partition, (at, timestamp, headers)) in (0..).zip(&seen) {
        assert_eq!((*at, *timestamp), (partition, Some(THEN + i64::from(partition))));
        assert_eq!(headers, &wanted);
    }
    assert_eq!(seen.len(), 3, "one transaction in three partitions");
}

type Place = (i32, Option<i64>, Vec<(String, Option<Vec<u8>>)>);

fn records_by_partition(room: &Room, topic: &str) -> Vec<Place> {
    records(room.cluster(), topic).into_iter().map(|record| (record.partition, record.timestamp, record.headers)).collect()
}

pub(super) fn offsets_are_found_by_time(room: &Room) {
    let topic = lasting_topic(room, 2);
    let writer = Writer::begun(&room.broker().address(), &room.name("id"));
    let at = |n: i64| BaseRecord::to(&topic).partition(0).key("k").payload("v").timestamp(THEN + 1000 * n);
    assert_eq!(writer.send_all((0..3).map(at)), Ok(()));
    writer.commit().expect("committed");
    room.cluster().wait_settled(&[&topic]);
    let asks = member(&room.broker().address(), &room.group(), &[]);
    let found = |partition: i32, timestamp: i64| {
        let mut list = TopicPartitionList::new();
        list.add_partition_offset(&topic, partition, Offset::Offset(timestamp)).expect("a valid offset");
        asks.offsets_for_times(list, TIMEOUT).expect("an answer").elements()[0].offset()
    };
    assert_eq!(found(0, THEN - 1), Offset::Offset(0));
    assert_eq!(found(0, THEN + 1), Offset::Offset(1));
    assert_eq!(found(0, THEN + 2000), Offset::Offset(2));
    let late = found(0, THEN + 2001);
    assert!(matches!(late, Offset::End | Offset::Offset(3)), "only the marker at 3 is as late as this: {late:?}");
    assert_eq!(found(1, THEN), Offset::End, "nothing is there at all");
}

pub(super) fn an_empty_transaction_ends_either_way(room: &Room) {
    let topic = room.topic("t", 1);
    let writer = Writer::begun(&room.broker().address(), &room.name("id"));
    writer.commit().expect("committed");
    writer.begin();
    writer.abort().expect("aborted");
    writer.commit_texts(&topic, &["a"]);
    room.cluster().wait_settled(&[&topic]);
    assert_eq!(texts(room.cluster(), &topic, ReadCommitted), ["a"], "and it goes on");
}

pub(super) fn an_unknown_topic_in_a_transaction_is_an_error(room: &Room) {
    let topic = room.topic("t", 1);
    let soon = [("topic.metadata.propagation.max.ms", "2000")];
    let writer = Writer::new(&room.broker().address(), &room.name("id"), &soon);
    writer.init().expect("initialised");
    writer.begin();
    let refusal = writer.write(&room.name("nope"), &["x"]).expect_err("there is no such topic");
    assert!(matches!(refusal, Code::UnknownTopicOrPartition | Code::UnknownTopic | Code::UnknownPartition), "{refusal:?}");
    code(writer.commit()); // must be an error
    writer.abort().expect("aborted");
    writer.commit_texts(&topic, &["a"]);
    room.cluster().wait_settled(&[&topic]);
    assert_eq!(texts(room.cluster(), &topic, ReadCommitted), ["a"], "and it goes on");
    assert_eq!(room.cluster().partitions(&room.name("nope")), None, "it was not created");
}
