//! What is in a record stays what it is, and goes where a Java producer would put it.

use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::BaseRecord;

use crate::harness::ledger::records;
use crate::harness::load::{confirmed_producer, finish, send};
use crate::harness::room::Room;
use crate::harness::wait::PATIENCE;

/// Binary, empty and absent keys and values, headers in order with duplicates, the timestamp.
pub(super) fn a_copy_is_the_same_byte_for_byte(room: &Room) {
    // The records are years old: the default retention would let go of them.
    let topic = |part| room.topic_with(part, 1, &[("retention.ms", "-1")]);
    let (input, output) = (topic("in"), topic("out"));
    let producer = confirmed_producer(&room.broker().address());
    let keys: [Option<&[u8]>; 5] = [Some(b"\x00\x01\xff"), Some(b"\xff\xfe"), Some(b"\xff\xff"), Some(b""), None];
    let values: [Option<&[u8]>; 3] = [Some(b"\x80\x81\x00\x0a"), Some(b""), None];
    for (key, value) in keys.into_iter().flat_map(|key| values.map(|value| (key, value))) {
        let mut headers = OwnedHeaders::new();
        for value in [Some(&b"\xff"[..]), None, Some(b"")] {
            headers = headers.insert(Header { key: "twice", value });
        }
        let mut record = BaseRecord::<[u8], [u8]>::to(&input).partition(0).timestamp(1_517_443_200_000).headers(headers);
        (record.key, record.payload) = (key, value);
        send(&producer, record);
    }
    finish(&producer);
    room.drain(room.copy(&[&input], &output));
    assert_eq!(records(room.cluster(), &output), records(room.cluster(), &input));
}

const NUMBERS: &str = r#"{"a":9007199254740993,"b":9223372036854775807,"c":-9223372036854775808,"e":1.0,"f":1}"#;

/// Through a program that touches something else.
pub(super) fn numbers_keep_their_value(room: &Room) {
    let (input, output, dead) = (room.topic("in", 1), room.topic("out", 1), room.topic("dead", 1));
    let producer = confirmed_producer(&room.broker().address());
    let too_large = r#"{"d":18446744073709551615}"#;
    for text in [NUMBERS, too_large] {
        send(&producer, BaseRecord::<str, str>::to(&input).partition(0).payload(text));
    }
    finish(&producer);
    let mut pipeline = room.copy(&[&input], &output).processor(r#"{type: vrl, statement: ".z = 0"}"#);
    pipeline.error_output = Some(dead.clone());
    room.drain(&pipeline);
    let out = records(room.cluster(), &output);
    assert_eq!(out[0].text(), NUMBERS.replace('}', r#","z":0}"#));
    // One that a signed 64-bit number cannot hold is kept or set aside; it is never rounded.
    let kept = out.get(1).map(|record| record.text() == r#"{"d":18446744073709551615,"z":0}"#);
    let aside = records(room.cluster(), &dead).first().map(|record| record.text() == too_large);
    assert_eq!(kept.or(aside), Some(true), "{out:?}");
}

/// The partitions that Java's murmur2 gives these keys.
pub(super) fn keys_land_where_java_producers_put_them(room: &Room) {
    for (part, key, partitions, wanted) in
        [("a", "TT0124", 15, 10), ("b", "fd7af248-ce5c-46a5-93d7-1c0c9005b99d", 32, 26)]
    {
        let (input, output) = (room.topic(&format!("{part}.in"), 1), room.topic(&format!("{part}.out"), partitions));
        let producer = confirmed_producer(&room.broker().address());
        send(&producer, BaseRecord::to(&input).key(key).payload("{}"));
        finish(&producer);
        let mut pipeline = room.copy(&[&input], &output);
        pipeline.consumer_group = room.name(part);
        pipeline.transactional_id = Some(room.name(part));
        room.drain(pipeline);
        assert_eq!(records(room.cluster(), &output)[0].partition, wanted, "{key}");
    }
}

/// Committed records only, one JSON object a line.
pub(super) fn tail_prints_what_a_reader_of_committed_records_sees(room: &Room) {
    let topic = room.topic("t", 1);
    let aborted = crate::harness::transaction::Transaction::open(&room.broker().address(), &room.name("helper"));
    aborted.write(&topic, 0, [("k", "{}".to_owned())]);
    aborted.abort();
    let producer = confirmed_producer(&room.broker().address());
    send(&producer, BaseRecord::to(&topic).partition(0).key("k").payload(NUMBERS).timestamp(1_517_443_200_000));
    send(&producer, BaseRecord::<str, [u8]>::to(&topic).partition(0).key("k").payload(b"\xff"));
    finish(&producer);
    let address = room.broker().address();
    let mut tail = room.wattle(&["tail", &topic, "--from-beginning", "--count", "2", "--brokers", &address]);
    assert_eq!(tail.wait_exit(PATIENCE), 0);
    let lines = tail.stdout();
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(lines[0].contains(&format!("\"value\":{NUMBERS}")), "{}", lines[0]);
    let line: serde_json::Value = serde_json::from_str(&lines[0]).unwrap();
    assert_eq!((&line["topic"], &line["partition"], &line["key"]), (&topic.into(), &0.into(), &"k".into()));
    assert_eq!(line["timestamp"], "2018-02-01T00:00:00.000Z");
    assert_eq!(serde_json::from_str::<serde_json::Value>(&lines[1]).unwrap()["value"]["base64"], "/w==");
}
