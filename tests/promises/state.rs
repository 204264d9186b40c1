//! A stage that keeps state: the example `count`, whose state, outputs and positions commit together.

use std::collections::BTreeMap;

use rdkafka::Message as _;
use rdkafka::producer::BaseRecord;

use crate::harness::cluster::Isolation::ReadCommitted;
use crate::harness::cluster::{answer, options};
use crate::harness::ledger::{count, read};
use crate::harness::load::{confirmed_producer, finish, send};
use crate::harness::process::Process;
use crate::harness::room::Room;
use crate::harness::wait::{PATIENCE, wait_until};

const PARTITIONS: i32 = 6;

fn start(room: &Room, input: &str, output: &str) -> Process {
    start_example(room, "count", input, output)
}

fn start_example(room: &Room, name: &'static str, input: &str, output: &str) -> Process {
    let (brokers, id) = (room.broker().address(), room.group());
    let scope = if room.mode().is_worker() { "worker" } else { "task" };
    let place = ["--brokers", &brokers, "--input", input, "--output", output];
    room.example(name, &[&place[..], &["--application-id", &id, "--transaction-scope", scope]].concat())
}

/// Two processes, of which one is killed again and again. The counts of a key are 1, 2, 3, … for each input partition that has it, and each
/// record is counted.
pub(super) fn counts_have_no_gap_and_no_repeat_over_kills(room: &Room) {
    let (input, output) = (room.topic("in", PARTITIONS), room.topic("out", PARTITIONS));
    let group = room.cluster().group(&room.group());
    let load = room.load(&[&input], PARTITIONS).start(0, 4000);
    let mut processes = [start(room, &input, &output), start(room, &input, &output)];
    group.wait_members(&[3, 3], PATIENCE);
    for round in 0..room.number(3, 20) {
        let seen = group.progress(&[&input]);
        wait_until("more is counted", PATIENCE, || group.progress(&[&input]) > seen + 2000);
        let process = &mut processes[round % 2];
        process.kill_in_transaction(room.cluster(), &[&output]);
        *process = start(room, &input, &output);
    }
    let total = load.finish();
    group.wait_drained(&[&input], PATIENCE);
    room.cluster().wait_settled(&[&output]);
    assert_counts(room, &output, PARTITIONS, total);
    for process in &mut processes {
        process.stop_cleanly();
    }
}

fn assert_counts(room: &Room, output: &str, partitions: i32, total: u64) {
    let mut counts: BTreeMap<(String, u64), u64> = BTreeMap::new();
    let mut seen = vec![false; usize::try_from(total).expect("fits")];
    read(room.cluster(), output, ReadCommitted, |message| {
        let value: serde_json::Value = serde_json::from_slice(message.payload().expect("a value")).expect("JSON");
        let (key, i) = (value["k"].as_str().expect("a key"), value["i"].as_u64().expect("a number"));
        // The load's records go around the partitions.
        let count = counts.entry((key.to_owned(), i % u64::from(partitions.unsigned_abs()))).or_default();
        *count += 1;
        assert_eq!(value["n"].as_u64(), Some(*count), "the next count of {key}, at record {i}");
        let seen = &mut seen[usize::try_from(i).expect("fits")];
        assert!(!std::mem::replace(seen, true), "record {i} is counted twice");
    });
    let missing = seen.iter().filter(|seen| !**seen).count();
    assert_eq!(missing, 0, "records of {total} that are not counted");
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

/// Each record sets a timer of its own, which fires in a transaction of its own once no record comes any more. Two processes, of which one is killed
/// again and again while timers fire: a reminder that was lost or doubled would show, since nothing but the state knows of it.
pub(super) fn a_timer_fires_once_over_kills(room: &Room) {
    let (input, output) = (room.topic("in", PARTITIONS), room.topic("out", PARTITIONS));
    let (group, total) = (room.cluster().group(&room.group()), room.number(1500, 6000));
    room.load(&[&input], PARTITIONS).send(0..total);
    let start = || start_example(room, "reminders", &input, &output);
    let mut processes = [start(), start()];
    let fired = || count(room.cluster(), &output, ReadCommitted);
    for round in 0..room.number(3, 12) {
        let seen = fired();
        wait_until("timers fire", PATIENCE, || fired() > seen || seen == total);
        assert!(fired() < total || round > 0, "timers were left when the first process was killed");
        let process = &mut processes[round % 2];
        assert!(process.kill(), "it was there to be killed");
        *process = start();
    }
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
    let total = room.number(6000, 30_000);
    room.load(&[&input], PARTITIONS).send(0..total);
    let mut process = start_example(room, "enrich", &input, &output);
    for _ in 0..room.number(2, 10) {
        let seen = group.progress(&[&input]);
        wait_until("more is counted", PATIENCE, || group.progress(&[&input]) > seen + 100);
        assert!(process.kill(), "it was there to be killed");
        process = start_example(room, "enrich", &input, &output);
    }
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
    let mut process = start_example(room, "enrich", &input, &output);
    room.cluster().group(&room.group()).wait_drained(&[&input], PATIENCE);
    process.stop_cleanly();
    assert_counts(room, &output, 1, 100);
}
