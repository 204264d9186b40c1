//! An application that was Flechtwerk's goes on as a stage of ours, on what its last transactions have left.

use rdkafka::producer::BaseRecord;

use super::state::start_at;
use crate::harness::ledger::{Seen, records};
use crate::harness::load::{confirmed_producer, finish, send};
use crate::harness::room::Room;
use crate::harness::transaction::Transaction;
use crate::harness::wait::PATIENCE;

/// Partition, key, number; without one the record deletes the key.
type Reading = (i32, &'static str, Option<&'static str>);

const PROCESSED: [Reading; 3] = [(0, "a", Some("0.1")), (0, "a", Some("0.2")), (1, "ä", Some("1e16"))];
const NEXT: [Reading; 7] = [
    (0, "a", Some("0.3")),
    (0, "emptied", Some("1")),
    (0, "nothing", Some("0.00001")),
    (0, "deleted", Some("2.5")),
    (0, "left", None),
    (0, "aborted", Some("7")),
    (1, "ä", Some("2")),
];
/// What Python makes of them: `json.dumps(…, sort_keys=True, separators=(",", ":"), ensure_ascii=False)`.
const STATES: [(i32, &str, Option<&str>); 7] = [
    (0, "a", Some(r#"{"count":3,"total":0.6000000000000001}"#)),
    (0, "emptied", Some(r#"{"count":1,"total":1.0}"#)),
    (0, "nothing", Some(r#"{"count":1,"total":1e-05}"#)),
    (0, "deleted", Some(r#"{"count":1,"total":2.5}"#)),
    (0, "left", None),
    (0, "aborted", Some(r#"{"count":1,"total":7.0}"#)),
    (1, "ä", Some(r#"{"count":2,"total":1.0000000000000002e+16}"#)),
];

/// The predecessor's changelog has deletes as it writes them (null) and as it has written and read them (no bytes, the empty object), and markers.
/// The last transaction of its task 0 was never ended: the same transactional id ends it.
pub(super) fn a_stopped_flechtwerk_transformer_is_taken_over_in_place(room: &Room) {
    let (input, output, id) = (room.topic("in", 2), room.topic("out", 2), room.group());
    let changelog = format!("{id}-changelog");
    room.cluster().create_topic(&changelog, 2, &[("cleanup.policy", "compact")]);
    write(room, &input, &PROCESSED);
    let address = room.broker().address();
    let transaction = |task: i32, states: &[(&str, &str)], position: i64| {
        let transaction = Transaction::open(&address, &format!("{id}-{task}"));
        transaction.write(&changelog, task, states.iter().map(|(key, value)| (*key, (*value).to_owned())));
        transaction.position(&id, &input, task, position);
        transaction
    };
    let producer = confirmed_producer(&address);
    send(&producer, BaseRecord::<str, [u8]>::to(&changelog).partition(0).key("deleted"));
    finish(&producer);
    let old = [("a", r#"{"count":1,"total":0.1}"#), ("emptied", r#"{"count":9,"total":9.0}"#), ("nothing", "{}")];
    transaction(0, &old, 1).commit();
    transaction(0, &[("aborted", r#"{"count":8,"total":8.0}"#)], 2).abort();
    let last = [("a", r#"{"count":2,"total":0.30000000000000004}"#), ("emptied", ""), ("left", r#"{"count":1,"total":0.5}"#)];
    transaction(0, &last, 2).commit();
    transaction(1, &[("ä", r#"{"count":1,"total":1e+16}"#)], 1).commit();
    let before = changes(room, &changelog);
    drop(transaction(0, &[("aborted", r#"{"count":6,"total":6.0}"#)], 3));
    assert!(before.contains(&(0, "emptied".to_owned(), Some(String::new()))), "no bytes, which is not null: {before:?}");

    write(room, &input, &NEXT);
    let mut process = start_at(room, &address, "takeover", &input, &output, &[]);
    room.cluster().group(&id).wait_drained(&[&input], PATIENCE);
    process.stop_cleanly();
    room.cluster().wait_settled(&[&changelog, &output]);
    let mut written = changes(room, &changelog);
    written.retain(|change| !before.contains(change));
    let mut wanted: Vec<_> =
        STATES.iter().map(|(task, key, state)| (*task, (*key).to_owned(), state.map(str::to_owned))).collect();
    written.sort();
    wanted.sort();
    assert_eq!(written, wanted);
    let out: Vec<String> = records(room.cluster(), &output).iter().map(Seen::text).collect();
    assert_eq!(out.len(), 6, "{out:?}");
    assert!(out.contains(&r#"{"count":2,"key":"ä","total":1.0000000000000002e+16}"#.to_owned()), "{out:?}");
}

fn write(room: &Room, topic: &str, readings: &[Reading]) {
    let producer = confirmed_producer(&room.broker().address());
    for (partition, key, x) in readings {
        let value = x.map(|x| format!(r#"{{"x":{x}}}"#));
        let record = BaseRecord::to(topic).partition(*partition).key(*key);
        match &value {
            Some(value) => send(&producer, record.payload(value)),
            None => send(&producer, record),
        }
    }
    finish(&producer);
}

/// Committed records of the changelog: partition, key, value.
fn changes(room: &Room, changelog: &str) -> Vec<(i32, String, Option<String>)> {
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    let change = |seen: Seen| (seen.partition, text(seen.key.expect("a key")), seen.value.map(text));
    records(room.cluster(), changelog).into_iter().map(change).collect()
}
