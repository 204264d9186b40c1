//! Timestamps that are none, old, far away, or the broker's.

use crate::harness::ledger::records;
use crate::harness::raw::RawBatch;
use crate::harness::room::Room;

const ANY_TIME: [(&str, &str); 2] = [("retention.ms", "-1"), ("message.timestamp.after.max.ms", "9223372036854775807")];
const YEAR_10000: i64 = 253_402_300_800_000;

fn write(room: &Room, topic: &str, time: i64, text: &str) {
    let batch = RawBatch { time, producer: (-1, -1, -1), texts: &[text] };
    batch.append(&room.broker().address(), topic).expect("the topic takes any time");
}

/// What a program sees, and what a copy makes of it.
pub(super) fn whatever_a_timestamp_is_the_record_is_processed(room: &Room) {
    let topic = |part| room.topic_with(part, 1, &ANY_TIME);
    let (input, output) = (topic("in"), topic("out"));
    let appended = room.topic_with("appended", 1, &[("retention.ms", "-1"), ("message.timestamp.type", "LogAppendTime")]);
    let times = [-1, 0, 1, YEAR_10000];
    for time in times {
        write(room, &input, time, &time.to_string());
    }
    write(room, &appended, 1, "5");
    let program = r#"{type: vrl, statement: '. = {"at": %timestamp, "v": .}'}"#;
    room.drain(room.copy(&[&input, &appended], &output).processor(program));
    let mut texts: Vec<String> = records(room.cluster(), &output).iter().map(|record| record.text()).collect();
    let by_broker = texts.iter().position(|text| text.ends_with(r#","v":5}"#)).expect("it is there");
    let by_broker = texts.remove(by_broker);
    assert!((r#"{"at":"2020"#..r#"{"at":"3"#).contains(&&*by_broker), "the broker's: {by_broker}");
    let wanted = [
        r#"{"at":null,"v":-1}"#,
        r#"{"at":"1970-01-01T00:00:00Z","v":0}"#,
        r#"{"at":"1970-01-01T00:00:00.001Z","v":1}"#,
        r#"{"at":"+10000-01-01T00:00:00Z","v":253402300800000}"#,
    ];
    assert_eq!(texts, wanted);
    let copies = topic("copies");
    let mut copy = room.copy(&[&input], &copies);
    (copy.consumer_group, copy.transactional_id) = (room.name("copy"), Some(room.name("copy")));
    room.drain(copy);
    let copied = records(room.cluster(), &copies);
    assert_eq!(copied.iter().map(|record| record.text()).collect::<Vec<_>>(), times.map(|time| time.to_string()));
    assert_eq!((copied[2].timestamp, copied[3].timestamp), (Some(1), Some(YEAR_10000)));
}
