//! Topics that keep the latest value of each key.

use rdkafka::error::RDKafkaErrorCode as Code;
use rdkafka::producer::BaseRecord;

use super::client::{Writer, code};
use crate::harness::ledger::records;
use crate::harness::room::Room;
use crate::harness::wait::{PATIENCE, wait_until};

/// A table of which segments close and become old at once.
const COMPACTED: [(&str, &str); 5] = [
    ("cleanup.policy", "compact"),
    ("segment.ms", "500"),
    ("min.cleanable.dirty.ratio", "0.01"),
    ("delete.retention.ms", "100"),
    ("max.compaction.lag.ms", "1000"),
];

fn put(writer: &Writer, topic: &str, pairs: &[(&str, Option<&str>)]) {
    writer.begin();
    let records = pairs.iter().map(|(key, value)| {
        let record = BaseRecord::to(topic).partition(0).key(*key);
        if let Some(value) = value { record.payload(*value) } else { record }
    });
    assert_eq!(writer.send_all(records), Ok(()));
    writer.commit().expect("committed");
}

pub(super) fn a_compacted_topic_takes_tombstones_and_no_records_without_keys(room: &Room) {
    let (topic, cluster) = (room.topic_with("t", 1, &[("cleanup.policy", "compact")]), room.cluster());
    let writer = Writer::ready(&room.broker().address(), &room.name("id"));
    put(&writer, &topic, &[("k1", Some("v1")), ("k2", Some("w1"))]);
    put(&writer, &topic, &[("k2", None)]);
    let keyless = Writer::begun(&room.broker().address(), &room.name("keyless"));
    assert_eq!(keyless.write(&topic, &["a value without a key"]), Err(Code::InvalidRecord));
    code(keyless.commit()); // must be an error
    keyless.abort().expect("aborted");
    put(&writer, &topic, &[("k1", Some("v2"))]);
    cluster.wait_settled(&[&topic]);
    let seen: Vec<_> = records(cluster, &topic).into_iter().map(|record| (record.key, record.value)).collect();
    let pair = |key: &str, value: Option<&str>| (Some(key.as_bytes().to_vec()), value.map(|v| v.as_bytes().to_vec()));
    assert_eq!(seen, [pair("k1", Some("v1")), pair("k2", Some("w1")), pair("k2", None), pair("k1", Some("v2"))]);
}

pub(super) fn a_compacted_topic_forgets_old_values(room: &Room) {
    let (topic, cluster) = (room.topic_with("t", 1, &COMPACTED), room.cluster());
    for (key, value) in COMPACTED {
        assert_eq!(cluster.setting(&topic, key).as_deref(), Some(value), "{key}");
    }
    let writer = Writer::ready(&room.broker().address(), &room.name("id"));
    put(&writer, &topic, &[("k1", Some("v1")), ("k2", Some("w1"))]);
    put(&writer, &topic, &[("k1", Some("v2"))]);
    put(&writer, &topic, &[("k2", None)]);
    wait_until("old values are compacted away", PATIENCE, || {
        put(&writer, &topic, &[("roll", Some("x"))]); // closes the segment when its time has passed
        cluster.wait_settled(&[&topic]);
        let seen = records(cluster, &topic);
        let values = |key: &str| -> Vec<String> {
            seen.iter().filter(|record| record.key.as_deref() == Some(key.as_bytes())).map(|r| r.text()).collect()
        };
        assert!(values("k1").contains(&"v2".to_owned()), "the latest value stays");
        values("k1") == ["v2"] && !values("k2").contains(&"w1".to_owned())
    });
}
