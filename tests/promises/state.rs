//! A stage that keeps state: the example `count`, whose state, outputs and positions commit together.

use std::collections::BTreeMap;
use std::fs;

use rdkafka::Message as _;
use rdkafka::producer::BaseRecord;

use super::restore::restores;
use crate::harness::cluster::Isolation::ReadCommitted;
use crate::harness::cluster::{answer, options};
use crate::harness::ledger::{assert_counts_of, count, read};
use crate::harness::load::{LOAD_KEYS, confirmed_producer, finish, send};
use crate::harness::process::Process;
use crate::harness::room::Room;
use crate::harness::wait::{PATIENCE, wait_until};

const PARTITIONS: i32 = 6;
/// Of a changelog of which segments close and become old at once.
pub(super) const COMPACTED: [(&str, &str); 5] = [
    ("cleanup.policy", "compact"),
    ("segment.ms", "500"),
    ("min.cleanable.dirty.ratio", "0.01"),
    ("delete.retention.ms", "100"),
    ("max.compaction.lag.ms", "1000"),
];

pub(super) fn start(room: &Room, input: &str, output: &str) -> Process {
    start_example(room, "count", input, output, &[])
}

pub(super) fn start_in(room: &Room, input: &str, output: &str, folder: &str) -> Process {
    start_example(room, "count", input, output, &["--state-dir".to_owned(), folder.to_owned()])
}

fn start_example(room: &Room, name: &'static str, input: &str, output: &str, more: &[String]) -> Process {
    let more: Vec<&str> = more.iter().map(String::as_str).collect();
    start_at(room, &room.broker().address(), name, input, output, &more)
}

pub(super) fn start_at(
    room: &Room,
    brokers: &str,
    name: &'static str,
    input: &str,
    output: &str,
    more: &[&str],
) -> Process {
    let id = room.group();
    let scope = if room.mode().is_worker() { "worker" } else { "task" };
    let place = ["--brokers", brokers, "--input", input, "--output", output];
    room.example(name, &[&place[..], &["--application-id", &id, "--transaction-scope", scope], more].concat())
}

/// Two processes, of which one is killed again and again. The counts of a key are 1, 2, 3, … for each input partition that has it, and each
/// record is counted.
pub(super) fn counts_have_no_gap_and_no_repeat_over_kills(room: &Room) {
    counts_over_kills(room, |_| Vec::new());
}

/// Each process has a folder of its own, over its kills too: tasks come back to one that the other has had meanwhile.
pub(super) fn counts_on_disk_have_no_gap_and_no_repeat_over_kills(room: &Room) {
    counts_over_kills(room, own_folder);
}

fn own_folder(process: usize) -> Vec<String> {
    vec!["--state-dir".to_owned(), format!("state-{process}")]
}

fn counts_over_kills(room: &Room, arguments: impl Fn(usize) -> Vec<String>) {
    let (input, output) = (room.topic("in", PARTITIONS), room.topic("out", PARTITIONS));
    let group = room.cluster().group(&room.group());
    let load = room.load(&[&input], PARTITIONS).start(0, 4000);
    let start = |process: usize| start_example(room, "count", &input, &output, &arguments(process));
    let mut processes = [start(0), start(1)];
    group.wait_members(&[3, 3], PATIENCE);
    for round in 0..room.number(3, 20) {
        let seen = group.progress(&[&input]);
        wait_until("more is counted", PATIENCE, || group.progress(&[&input]) > seen + 2000);
        let process = &mut processes[round % 2];
        process.kill_in_transaction(room.cluster(), &[&output]);
        *process = start(round % 2);
    }
    let total = load.finish();
    group.wait_drained(&[&input], PATIENCE);
    room.cluster().wait_settled(&[&output]);
    assert_counts(room, &output, PARTITIONS, total);
    for process in &mut processes {
        process.stop_cleanly();
    }
}

pub(super) fn assert_counts(room: &Room, output: &str, partitions: i32, total: u64) {
    assert_counts_of(room.cluster(), output, partitions, total);
}

/// Counting from the beginning on top of the old counts would repeat them.
pub(super) fn state_without_positions_is_refused(room: &Room) {
    let (input, output) = (room.topic("in", 1), room.topic("out", 1));
    let group = room.cluster().group(&room.group());
    room.load(&[&input], 1).send(0..100);
    let mut process = start(room, &input, &output);
    group.wait_drained(&[&input], PATIENCE);
    process.stop_cleanly();
    for result in answer(room.cluster().admin().delete_groups(&[&room.group()], &options())) {
        result.expect("an empty group is deleted");
    }
    let mut refused = start(room, &input, &output);
    assert_eq!(refused.wait_exit(PATIENCE), 1);
    assert!(refused.says(&["no committed positions", "the state of 97 keys"]), "log: {}", refused.stderr());
    assert_counts(room, &output, 1, 100);
}

/// Writes `count` records, each with a key of its own: record `i` of the input has the key `key{i}` and the number `first + i`.
pub(super) fn write_keys(room: &Room, input: &str, first: u64, count: u64) {
    let producer = confirmed_producer(&room.broker().address());
    for i in 0..count {
        let (key, value) = (format!("key{i}"), format!(r#"{{"i":{}}}"#, first + i));
        send(&producer, BaseRecord::to(input).key(&key).payload(&value));
    }
    finish(&producer);
}

/// Records that the process has read in each restore.
fn restored(process: &Process) -> Vec<u64> {
    restores(process).iter().map(|restore| restore.records).collect()
}

/// The last count of each key of [`write_keys`].
fn last_counts(room: &Room, output: &str) -> BTreeMap<String, u64> {
    let mut last = BTreeMap::new();
    room.cluster().wait_settled(&[output]);
    read(room.cluster(), output, ReadCommitted, |message| {
        let value: serde_json::Value = serde_json::from_slice(message.payload().expect("a value")).expect("JSON");
        let (key, n) = (value["k"].as_str().expect("a key").to_owned(), value["n"].as_u64().expect("a count"));
        if key.starts_with("key") {
            let before = last.insert(key.clone(), n);
            assert_eq!(n, before.unwrap_or(0) + 1, "the next count of {key}");
        }
    });
    last
}

pub(super) fn assert_all_counted(room: &Room, output: &str, keys: u64, times: u64) {
    let counts = last_counts(room, output);
    assert_eq!(counts.len() as u64, keys);
    assert!(counts.values().all(|n| *n == times), "every key {times} times");
}

const KEYS: u64 = 20_000;

/// Killed with a transaction open. Then the folder is wiped, and everything is read.
pub(super) fn a_killed_process_reads_only_the_tail_of_its_state_and_all_of_it_without_its_folder(room: &Room) {
    let (input, output) = (room.topic("in", PARTITIONS), room.topic("out", PARTITIONS));
    let group = room.cluster().group(&room.group());
    let tasks = usize::try_from(PARTITIONS).expect("few");
    write_keys(room, &input, 0, KEYS);
    let mut process = start_in(room, &input, &output, "state");
    write_keys(room, &input, KEYS, KEYS);
    group.wait_drained(&[&input], PATIENCE);
    // The folder may be a batch behind what is committed, and of all these keys. From here on only the load's can be missing.
    process.stop_cleanly();
    let mut process = start_in(room, &input, &output, "state");
    let load = room.load(&[&input], PARTITIONS).start(0, 4000);
    process.kill_in_transaction(room.cluster(), &[&output]);
    load.finish();
    let mut process = start_in(room, &input, &output, "state");
    group.wait_drained(&[&input], PATIENCE);
    wait_until("it says what it has read", PATIENCE, || restored(&process).len() >= tasks);
    let tail = restored(&process);
    // At most the batch that was committed and not in the folder yet, which has changed keys of the load alone.
    assert!(tail.iter().sum::<u64>() <= tasks as u64 * LOAD_KEYS, "{tail:?}");
    assert!(!process.says(&["is wiped"]), "log: {}", process.stderr());
    assert_all_counted(room, &output, KEYS, 2);
    process.stop_cleanly();
    fs::remove_dir_all(room.folder().join("state")).expect("a folder");
    let mut process = start_in(room, &input, &output, "state");
    write_keys(room, &input, 2 * KEYS, KEYS);
    group.wait_drained(&[&input], PATIENCE);
    wait_until("it says that it has read everything", PATIENCE, || restored(&process).iter().sum::<u64>() >= KEYS);
    assert_all_counted(room, &output, KEYS, 3);
    process.stop_cleanly();
}

/// In memory, over a rebalance that gives everything back first.
pub(super) fn a_task_that_comes_back_reads_only_the_tail_of_its_state(room: &Room) {
    let (input, output) = (room.topic("in", PARTITIONS), room.topic("out", PARTITIONS));
    let group = room.cluster().group(&room.group());
    let mut first = start(room, &input, &output);
    write_keys(room, &input, 0, KEYS);
    group.wait_drained(&[&input], PATIENCE);
    wait_until("it says what it has read", PATIENCE, || restored(&first).len() >= PARTITIONS as usize);
    let before = restored(&first).len();
    let mut second = start(room, &input, &output);
    group.wait_members(&[3, 3], PATIENCE);
    write_keys(room, &input, KEYS, KEYS);
    group.wait_drained(&[&input], PATIENCE);
    wait_until("both say what they have read", PATIENCE, || {
        restored(&first).len() >= before + 3 && restored(&second).iter().sum::<u64>() >= KEYS / 3
    });
    let tail = &restored(&first)[before..];
    assert!(tail.iter().sum::<u64>() <= KEYS / 100, "{tail:?}");
    assert_all_counted(room, &output, KEYS, 2);
    first.stop_cleanly();
    second.stop_cleanly();
}

pub(super) fn a_state_folder_in_use_is_refused_with_its_owner(room: &Room) {
    let (input, output) = (room.topic("in", 1), room.topic("out", 1));
    let group = room.cluster().group(&room.group());
    let mut first = start_in(room, &input, &output, "state");
    group.wait_members(&[1], PATIENCE);
    let mut second = start_in(room, &input, &output, "state");
    assert_eq!(second.wait_exit(PATIENCE), 1);
    let owner = [&format!("process {} on ", first.pid()), &format!("application id {}", room.group())];
    assert!(second.says(&["state folder state is in use", owner[0], owner[1]]), "log: {}", second.stderr());
    assert!(first.kill(), "it runs on");
    // The lock ends with the process, however it ends.
    room.load(&[&input], 1).send(0..10);
    let mut third = start_in(room, &input, &output, "state");
    group.wait_drained(&[&input], PATIENCE);
    third.stop_cleanly();
}

/// A topic that is gone is not made anew beside positions. The state that a folder has belongs to it.
pub(super) fn a_changelog_that_was_made_anew_is_followed(room: &Room) {
    let (input, output) = (room.topic("in", 1), room.topic("out", 1));
    let group = room.cluster().group(&room.group());
    let run = |first: u64| {
        write_keys(room, &input, first, 100);
        let mut process = start_in(room, &input, &output, "state");
        group.wait_drained(&[&input], PATIENCE);
        process.stop_cleanly();
        process
    };
    assert!(!run(0).says(&["is wiped"]));
    assert!(!run(100).says(&["is wiped"]));
    let changelog = format!("{}-changelog", room.group());
    room.cluster().delete_topic(&changelog);
    let mut refused = start_in(room, &input, &output, "state");
    assert_eq!(refused.wait_exit(PATIENCE), 1);
    let remedy = format!("wattle create {changelog} --partitions 1 --config cleanup.policy=compact");
    let words = [&remedy[..], &format!("{input}/0 at "), &format!("wattle reset {}", room.group())];
    assert!(refused.says(&words), "log: {}", refused.stderr());
    room.cluster().create_topic(&changelog, 1, &[("cleanup.policy", "compact")]);
    let last = run(200);
    assert!(last.says(&["task 0", "is wiped", "the changelog topic was made anew"]), "log: {}", last.stderr());
    let mut counts = Vec::new();
    room.cluster().wait_settled(&[&output]);
    read(room.cluster(), &output, ReadCommitted, |message| {
        let value: serde_json::Value = serde_json::from_slice(message.payload().expect("a value")).expect("JSON");
        counts.push((value["i"].as_u64().expect("a number"), value["n"].as_u64().expect("a count")));
    });
    counts.sort_unstable();
    let wanted: Vec<(u64, u64)> = (0..300).map(|i| (i, if (100..200).contains(&i) { 2 } else { 1 })).collect();
    assert_eq!(counts, wanted);
}

/// Two applications with one id would have one state. The second one has no positions beside it.
pub(super) fn an_application_with_the_id_of_another_is_refused(room: &Room) {
    let (one, other, output) = (room.topic("one", 1), room.topic("other", 1), room.topic("out", 1));
    let group = room.cluster().group(&room.group());
    write_keys(room, &one, 0, 10);
    let mut first = start_in(room, &one, &output, "state");
    group.wait_drained(&[&one], PATIENCE);
    first.stop_cleanly();
    let mut second = start_in(room, &other, &output, "state");
    assert_eq!(second.wait_exit(PATIENCE), 1);
    assert!(second.says(&["no committed positions of its partitions", "10 keys"]), "log: {}", second.stderr());
}

/// Whether they are of an earlier version or of another application with the same id, nobody but the operator knows.
pub(super) fn positions_of_a_topic_that_is_read_no_more_are_named(room: &Room) {
    let (one, other, output) = (room.topic("one", 1), room.topic("other", 1), room.topic("out", 1));
    let group = room.cluster().group(&room.group());
    write_keys(room, &one, 0, 10);
    let mut both = start_in(room, &format!("{one},{other}"), &output, "state");
    group.wait_drained(&[&one], PATIENCE);
    both.stop_cleanly();
    let mut without = start_in(room, &one, &output, "state");
    without.wait_says(&["positions of topics that this process does not read", &other, "application_id"], PATIENCE);
    without.stop_cleanly();
    assert!(!both.says(&["positions of topics"]), "log: {}", both.stderr());
}

/// Deletes are tombstones, so that the changelog shrinks to what lives; a folder that has seen none of them for longer than they are kept is not
/// trusted.
pub(super) fn ten_thousand_deletes_are_compacted_away(room: &Room) {
    let (input, output) = (room.topic("in", 1), room.topic("out", 1));
    let changelog = format!("{}-changelog", room.group());
    room.cluster().create_topic(&changelog, 1, &COMPACTED);
    let group = room.cluster().group(&room.group());
    let mut process = start_in(room, &input, &output, "state");
    write_keys(room, &input, 0, 10_010);
    let producer = confirmed_producer(&room.broker().address());
    for i in 0..10_000 {
        send(&producer, BaseRecord::<_, [u8]>::to(&input).key(&format!("key{i}")));
    }
    finish(&producer);
    group.wait_drained(&[&input], PATIENCE);
    let mut next = 20_000;
    wait_until("the changelog shrinks to what lives", 2 * PATIENCE, || {
        // One record more closes the segment when its time has passed.
        let value = format!(r#"{{"i":{next}}}"#);
        send(&producer, BaseRecord::to(&input).key("roll").payload(&value));
        finish(&producer);
        next += 1;
        group.wait_drained(&[&input], PATIENCE);
        count(room.cluster(), &changelog, ReadCommitted) < 100
    });
    process.stop_cleanly();
    let mut process = start_in(room, &input, &output, "state");
    process.wait_says(&["task 0 has its state"], PATIENCE);
    process.wait_says(&["is wiped", "delete.retention.ms"], PATIENCE);
    assert!(restored(&process).iter().sum::<u64>() < 100);
    process.stop_cleanly();
}

/// Each record sets a timer of its own. Two processes, of which one is killed again and again while timers fire: a reminder that was lost or doubled would show, since nothing but the state knows of it.
pub(super) fn a_timer_fires_once_over_kills(room: &Room) {
    timers_over_kills(room, |_| Vec::new());
}

/// Each process has a folder of its own, over its kills too: it finds timers there that have fired at the other one meanwhile.
pub(super) fn a_timer_on_disk_fires_once_over_kills(room: &Room) {
    timers_over_kills(room, own_folder);
}

fn timers_over_kills(room: &Room, arguments: impl Fn(usize) -> Vec<String>) {
    let (input, output) = (room.topic("in", PARTITIONS), room.topic("out", PARTITIONS));
    let group = room.cluster().group(&room.group());
    let load = room.load(&[&input], PARTITIONS).start(0, 300);
    let start = |process: usize| start_example(room, "reminders", &input, &output, &arguments(process));
    let mut processes = [start(0), start(1)];
    let fired = || count(room.cluster(), &output, ReadCommitted);
    for round in 0..room.number(3, 12) {
        let seen = fired();
        wait_until("timers fire", PATIENCE, || fired() > seen + 100);
        let process = &mut processes[round % 2];
        assert!(process.kill(), "it was there to be killed");
        *process = start(round % 2);
    }
    // The last ones fire with no record behind them.
    let total = load.finish();
    wait_until("all timers have fired", PATIENCE, || fired() >= total);
    group.wait_drained(&[&input], PATIENCE);
    for process in &mut processes {
        process.stop_cleanly();
    }
    room.cluster().wait_settled(&[&output]);
    let mut seen = vec![0_u32; usize::try_from(total).expect("fits")];
    read(room.cluster(), &output, ReadCommitted, |message| {
        let value: serde_json::Value = serde_json::from_slice(message.payload().expect("a value")).expect("JSON");
        seen[usize::try_from(value["i"].as_u64().expect("a number")).expect("fits")] += 1;
    });
    let wrong: Vec<_> = seen.iter().enumerate().filter(|(_, times)| **times != 1).collect();
    assert!(wrong.is_empty(), "timers that have not fired once: {wrong:?}");
}

/// The stage waits for each record, for longer or shorter, so that the records of a batch end in any order.
pub(super) fn keys_that_run_at_once_keep_their_counts_and_their_order_over_kills(room: &Room) {
    let (input, output) = (room.topic("in", PARTITIONS), room.topic("out", PARTITIONS));
    let group = room.cluster().group(&room.group());
    let load = room.load(&[&input], PARTITIONS).start(0, 1000);
    let mut process = start_example(room, "enrich", &input, &output, &[]);
    for _ in 0..room.number(2, 10) {
        let seen = group.progress(&[&input]);
        wait_until("more is counted", PATIENCE, || group.progress(&[&input]) > seen + 100);
        assert!(process.kill(), "it was there to be killed");
        process = start_example(room, "enrich", &input, &output, &[]);
    }
    let total = load.finish();
    group.wait_drained(&[&input], PATIENCE);
    process.stop_cleanly();
    room.cluster().wait_settled(&[&output]);
    assert_counts(room, &output, PARTITIONS, total);
    let mut last: BTreeMap<(i32, u64), u64> = BTreeMap::new();
    read(room.cluster(), &output, ReadCommitted, |message| {
        let value: serde_json::Value = serde_json::from_slice(message.payload().expect("a value")).expect("JSON");
        let i = value["i"].as_u64().expect("a number");
        let before = last.insert((message.partition(), i % u64::from(PARTITIONS.unsigned_abs())), i);
        assert!(before.is_none_or(|before| before < i), "record {i} came out behind {before:?}");
    });
}

/// Records without a meaning among others: nothing stops, and the group's lag becomes 0.
pub(super) fn invalid_records_that_are_skipped_commit_their_positions(room: &Room) {
    let (input, output) = (room.topic("in", 1), room.topic("out", 1));
    room.load(&[&input], 1).send(0..100);
    let producer = confirmed_producer(&room.broker().address());
    send(&producer, BaseRecord::to(&input).partition(0).key("k0").payload("{not json"));
    send(&producer, BaseRecord::<[u8], str>::to(&input).partition(0).key(&[0xff][..]).payload(r#"{"i":1}"#));
    send(&producer, BaseRecord::<str, str>::to(&input).partition(0).payload(r#"{"i":1}"#));
    finish(&producer);
    let mut process = start_example(room, "enrich", &input, &output, &[]);
    room.cluster().group(&room.group()).wait_drained(&[&input], PATIENCE);
    process.stop_cleanly();
    assert_counts(room, &output, 1, 100);
}

/// Partition n of the changelog is the state of partition n of the input: an added one has no place there. The process that gets it refuses
/// it before it reads any of it, and so does each that starts.
pub(super) fn a_partition_that_is_added_to_the_input_of_a_stage_with_state_is_refused(room: &Room) {
    let (input, output) = (room.topic("in", 2), room.topic("out", 2));
    let group = room.cluster().group(&room.group());
    let (mut first, mut second) = (start(room, &input, &output), start(room, &input, &output));
    group.wait_members(&[1, 1], PATIENCE);
    room.load(&[&input], 2).send(0..200);
    group.wait_drained(&[&input], PATIENCE);
    room.cluster().add_partitions(&input, 3);
    room.load(&[&input], 3).send(200..500);
    // Who is left divides the partitions that there are now.
    first.stop_cleanly();
    assert_eq!(second.wait_exit(PATIENCE), 1);
    let mut third = start(room, &input, &output);
    assert_eq!(third.wait_exit(PATIENCE), 1);
    for process in [second, third] {
        let words = [&format!("{}-changelog has 2 partitions and the input topics", room.group()), "another application_id"];
        assert!(process.says(&words), "log: {}", process.stderr());
    }
    assert_eq!(group.committed(&input)[2], None);
}
