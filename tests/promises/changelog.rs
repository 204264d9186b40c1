//! A changelog that is not what a start expects: what its last entries are, what was removed of it, and how many partitions it has. The example
//! `count` on one partition.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use rdkafka::TopicPartitionList;
use rdkafka::error::RDKafkaErrorCode as Code;

use super::batch::Count;
use super::state::COMPACTED;
use crate::harness::cluster::Isolation::ReadUncommitted;
use crate::harness::cluster::{answer, options};
use crate::harness::ledger::{count, records};
use crate::harness::process::Process;
use crate::harness::room::Room;
use crate::harness::transaction::Transaction;
use crate::harness::wait::{PATIENCE, wait_until};
use crate::harness::wire::set_topic_config;

/// A start with little state that takes longer waits for something that does not come.
const SOON: Duration = Duration::from_secs(40);

/// Runs until everything is counted.
fn count_all(app: &Count<'_>) -> Process {
    let mut process = app.start();
    let begin = Instant::now(); // the first start may build the example
    app.wait_drained();
    assert!(begin.elapsed() < SOON, "{}: {:?}; log: {}", app.id, begin.elapsed(), process.stderr());
    process.stop_cleanly();
    process
}

/// The last count of each key.
fn counts(app: &Count<'_>) -> BTreeMap<String, u64> {
    app.room.cluster().wait_settled(&[&app.output]);
    let counted = records(app.room.cluster(), &app.output).into_iter().map(|record| {
        let value: serde_json::Value = serde_json::from_str(&record.text()).expect("JSON");
        (value["k"].as_str().expect("a key").to_owned(), value["n"].as_u64().expect("a count"))
    });
    counted.collect()
}

fn assert_counts<const N: usize>(app: &Count<'_>, wanted: [(&str, u64); N]) {
    assert_eq!(counts(app), wanted.map(|(key, n)| (key.to_owned(), n)).into(), "{}", app.id);
}

/// Begins a transaction with a state that nobody has had.
fn stranger(app: &Count<'_>, id: &str) -> Transaction {
    let transaction = Transaction::open(&app.room.broker().address(), &app.room.name(id));
    transaction.write(&app.changelog, 0, [("k", "99".to_owned())]);
    transaction
}

/// A marker is no record, and the end of a topic may be one, or several, or an aborted record before one.
pub(super) fn a_changelog_is_restored_whatever_its_last_entries_are(room: &Room) {
    type End = fn(&Count<'_>);
    let ends: [(&str, End); 3] = [
        ("commit", |_| {}),
        ("abort", |app| stranger(app, "abort.one").abort()),
        ("markers", |app| {
            let both = [stranger(app, "markers.one"), stranger(app, "markers.two")];
            both.into_iter().for_each(Transaction::abort);
        }),
    ];
    thread::scope(|scope| {
        for (part, end) in ends {
            scope.spawn(move || {
                let app = Count::new(room, part);
                app.write(0, &["k"; 5]);
                count_all(&app);
                end(&app);
                room.cluster().wait_settled(&[&app.changelog]);
                app.write(5, &["k"]);
                count_all(&app);
                assert_counts(&app, [("k", 6)]);
            });
        }
    });
}

/// Compaction has removed records, aborted ones and markers, also close to the end.
pub(super) fn a_changelog_with_holes_at_its_end_is_restored(room: &Room) {
    let app = Count::with(room, "app", 1, (1, &COMPACTED));
    let mut process = app.start();
    for first in (0..50).step_by(10) {
        app.write(first, &["a", "b", "a", "b", "a", "b", "a", "b", "a", "b"]);
        app.wait_drained();
    }
    process.stop_cleanly();
    let entries = || count(room.cluster(), &app.changelog, ReadUncommitted);
    let mut aborted = 0;
    wait_until("of the aborted records some are removed", 2 * PATIENCE, || {
        // An entry more closes the segment when its time has passed.
        stranger(&app, "stranger").abort();
        aborted += 1;
        aborted > 1 && entries() < aborted
    });
    app.write(50, &["a", "b"]);
    count_all(&app);
    assert_counts(&app, [("a", 26), ("b", 26)]);
}

/// Removes the records before `offset`, which a compacted topic refuses, and leaves its settings as they were.
fn remove_before(app: &Count<'_>, offset: i64) {
    let (cluster, address) = (app.room.cluster(), app.room.broker().address());
    let refusal = || {
        let mut list = TopicPartitionList::new();
        list.add_partition_offset(&app.changelog, 0, rdkafka::Offset::Offset(offset)).expect("a valid offset");
        let answer = answer(cluster.admin().delete_records(&list, &options()));
        answer.elements()[0].error().err().and_then(|error| error.rdkafka_error_code())
    };
    assert_eq!(refusal(), Some(Code::PolicyViolation));
    set_topic_config(&address, &app.changelog, "cleanup.policy", "compact,delete");
    wait_until("the broker removes them", PATIENCE, || refusal().is_none());
    set_topic_config(&address, &app.changelog, "cleanup.policy", "compact");
    wait_until("it is compacted again", PATIENCE, || {
        cluster.setting(&app.changelog, "cleanup.policy").as_deref() == Some("compact")
    });
}

/// The changelog is the state: without it the keys begin anew. Its first and last offset are one number above 0.
pub(super) fn a_changelog_without_records_above_zero_is_an_empty_state(room: &Room) {
    let app = Count::new(room, "app");
    app.write(0, &["k"; 20]);
    count_all(&app);
    let end = room.cluster().range(&app.changelog, 0, ReadUncommitted).1;
    remove_before(&app, end);
    assert_eq!(room.cluster().range(&app.changelog, 0, ReadUncommitted), (end, end));
    app.write(20, &["k"]);
    let process = count_all(&app);
    assert!(process.says(&["task 0 has its state", "records=0 ", &format!("from={end} ")]), "log: {}", process.stderr());
    assert!(!process.stderr().contains("=-"), "no number is negative: {}", process.stderr());
    assert_counts(&app, [("k", 1)]);
}

/// What was read before the records behind it were removed is older than what is left. A restart reads that alone.
pub(super) fn records_that_are_removed_during_a_restore_are_loud(room: &Room) {
    let app = Count::new(room, "app");
    let mut process = app.start();
    app.write(0, &["a", "b"]);
    app.wait_drained();
    let pin = stranger(&app, "pin");
    app.write(2, &["a"]);
    app.wait_drained();
    let removed = room.cluster().range(&app.changelog, 0, ReadUncommitted).1;
    app.write(3, &["b"]);
    app.wait_drained();
    process.stop_cleanly();
    let mut process = app.start();
    process.wait_says(&["waits for", &app.changelog, "a transaction is open"], PATIENCE);
    remove_before(&app, removed);
    pin.abort();
    assert_eq!(process.wait_exit(PATIENCE), 1, "log: {}", process.stderr());
    let words = [&format!("{}/0", app.changelog), "were deleted while they were read", "restart"];
    assert!(process.says(&words), "log: {}", process.stderr());
    app.write(4, &["a", "b"]);
    count_all(&app);
    assert_counts(&app, [("a", 1), ("b", 3)]);
}

/// Partition n of the changelog is the state of partition n of the input.
pub(super) fn a_changelog_of_another_partition_count_is_refused(room: &Room) {
    thread::scope(|scope| {
        for count in [3, 5] {
            scope.spawn(move || {
                let app = Count::with(room, &format!("has{count}"), 4, (count, &[("cleanup.policy", "compact")]));
                app.write(0, &["a", "b", "c", "d"]);
                let mut process = app.start();
                let begin = Instant::now();
                assert_eq!(process.wait_exit(PATIENCE), 1, "log: {}", process.stderr());
                assert!(begin.elapsed() < SOON, "{:?}", begin.elapsed());
                let words = [&format!("{} has {count} partitions", app.changelog), "input topics 4"];
                assert!(process.says(&words), "log: {}", process.stderr());
                assert_eq!(app.group().committed(&app.input), [None; 4]);
                assert_eq!(room.cluster().partitions(&app.changelog), Some(count), "it is as it was");
            });
        }
    });
}
