//! Records that are written together (`batch`): what is held is never passed, and where groups end depends on the records alone.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;

use rdkafka::producer::BaseRecord;

use super::cursor::lines;
use super::post::metric;
use super::refused::padded;
use crate::harness::cluster::Cluster;
use crate::harness::cluster::Isolation::{ReadCommitted, ReadUncommitted};
use crate::harness::ledger::{Ledger, count, records};
use crate::harness::load::{confirmed_producer, finish, send, value};
use crate::harness::pipeline::Pipeline;
use crate::harness::ports::free_ports;
use crate::harness::proxy::Api;
use crate::harness::receiver::get;
use crate::harness::room::Room;
use crate::harness::wait::{PATIENCE, wait_until};

const PARTITIONS: u64 = 2;
const COUNT: usize = 7;

/// The ids of each array, by the input partition that they are of.
fn groups(cluster: &Cluster, topic: &str) -> BTreeMap<String, Vec<Vec<u64>>> {
    let mut groups: BTreeMap<String, Vec<Vec<u64>>> = BTreeMap::new();
    for record in records(cluster, topic) {
        let items: Vec<serde_json::Value> = serde_json::from_str(&record.text()).expect("a JSON array");
        let from = items[0]["from"].as_str().expect("a partition").to_owned();
        assert!(items.iter().all(|item| item["from"] == *from), "of one partition: {items:?}");
        groups.entry(from).or_default().push(items.iter().map(|item| item["i"].as_u64().expect("an id")).collect());
    }
    groups
}

/// Every third record is left out. Batches are cut differently by each process, and no group ends by time.
pub(super) fn groups_of_records_do_not_depend_on_how_batches_were_cut_over_kills(room: &Room) {
    let partitions = i32::try_from(PARTITIONS).expect("few");
    let (input, output) = (room.topic("in", partitions), room.topic("out", 1));
    let (cluster, group) = (room.cluster(), room.cluster().group(&room.group()));
    let load = room.load(&[&input], partitions);
    let running = load.start(0, 2000);
    let pipeline = |records: usize, interval: &str| {
        let mut pipeline = room.copy(&[&input], &output).known_id();
        pipeline.transaction_timeout = Some(if room.mode().is_worker() { "5s" } else { "60s" });
        pipeline.batch = room.batch(records);
        let filter = r#"{type: filter, condition: "mod(int!(.i), 3) != 0"}"#;
        let batch = format!("{{type: batch, count: {COUNT}, interval: {interval}, format: array}}");
        pipeline.processor(filter).processor(&batch)
    };
    let kills = room.number(2, 20);
    let mut process = room.run(pipeline(50, "1h"));
    for n in 0..kills {
        let seen = group.progress(&[&input]);
        wait_until("it commits", PATIENCE, || group.progress(&[&input]) > seen + 200);
        process.kill_in_transaction(cluster, &[&output]);
        // The last one has to catch up with the load.
        let records = if n + 1 < kills { 20 + n * 13 % 50 } else { 1000 };
        process = room.run(pipeline(records, "1h"));
    }
    let mut total = running.finish();
    let kept = |partition: u64, total: u64| (0..total).filter(move |id| id % PARTITIONS == partition && id % 3 != 0);
    while (0..PARTITIONS).any(|partition| kept(partition, total).count() % COUNT == 0) {
        load.send(total..total + 1);
        total += 1;
    }
    // The full groups of each partition, and no record of the one that is held.
    let expected: BTreeMap<String, Vec<Vec<u64>>> = (0..PARTITIONS)
        .map(|partition| {
            let ids: Vec<u64> = kept(partition, total).collect();
            (format!("{input}/{partition}"), ids.chunks_exact(COUNT).map(<[u64]>::to_vec).collect())
        })
        .collect();
    let full: usize = expected.values().map(Vec::len).sum();
    wait_until("all full groups are there", PATIENCE, || count(cluster, &output, ReadCommitted) >= full as u64);
    cluster.wait_settled(&[&output]);
    assert_eq!(groups(cluster, &output), expected);
    let held: i64 = group.lag(&[&input]);
    assert!(held > 0, "what is held is not committed");
    process.stop_cleanly();
    assert_eq!(groups(cluster, &output), expected, "a stop writes no part of a group");
    // What is left comes when its time is over.
    room.drain(pipeline(50, "100ms"));
    let all = groups(cluster, &output).into_values().flatten().flatten();
    let mut all: Vec<u64> = all.collect();
    all.sort_unstable();
    assert_eq!(all, (0..total).filter(|id| id % 3 != 0).collect::<Vec<_>>(), "each once");
    eprintln!("{full} groups over {kills} kills, {held} offsets held at the end");
}

/// Three records one after another, and nothing behind them.
pub(super) fn a_group_that_is_not_full_is_written_when_its_time_is_over(room: &Room) {
    written_by_time(room, "exactly", |pipeline| pipeline);
    if !room.mode().is_worker() {
        // At least once has no transactions, and so no scope.
        written_by_time(room, "least", Pipeline::at_least_once);
    }
}

fn written_by_time(room: &Room, part: &str, delivery: fn(Pipeline) -> Pipeline) {
    let (input, output) = (room.topic(&format!("{part}.in"), 1), room.topic(&format!("{part}.out"), 1));
    let group = room.cluster().group(&room.name(part));
    let mut pipeline = delivery(room.copy(&[&input], &output)).processor("{type: batch, count: 100, interval: 2s, format: array}");
    pipeline.consumer_group = room.name(part);
    pipeline.transactional_id = pipeline.transactional_id.map(|_| room.name(part));
    let mut process = room.run(&pipeline);
    group.wait_members(&[1], PATIENCE);
    let producer = confirmed_producer(&room.broker().address());
    for id in 0..3 {
        send(&producer, BaseRecord::<str, str>::to(&input).partition(0).payload(&value(&input, 0, id)));
        finish(&producer);
    }
    wait_until("its time is over", PATIENCE, || count(room.cluster(), &output, ReadCommitted) > 0);
    group.wait_drained(&[&input], PATIENCE);
    let all: Vec<_> = groups(room.cluster(), &output).into_values().flatten().collect();
    assert_eq!(all, [[0, 1, 2]], "one group, since all came within its time");
    process.stop_cleanly();
}

/// And what is held is counted, and is no reason to call a stream stuck.
pub(super) fn a_stop_commits_nothing_that_is_held(room: &Room) {
    let (input, output) = (room.topic("in", 1), room.topic("out", 1));
    let group = room.cluster().group(&room.group());
    let [port] = free_ports().expect("a free port");
    let pipeline = |count: usize| {
        let pipeline = room.copy(&[&input], &output).processor(&format!("{{type: batch, count: {count}, interval: 1h}}"));
        format!("health_check: {{address: '127.0.0.1:{port}', stuck_after: 200ms}}\n{pipeline}")
    };
    room.load(&[&input], 1).send(0..5);
    let mut process = room.run(pipeline(6));
    wait_until("it holds records for longer than would be stuck", PATIENCE, || {
        get(port, "/readiness").0 == 200 && metric(port, "wattle_frontier_age_seconds") > 0.5
    });
    assert_eq!(metric(port, "wattle_records_total"), 0.0);
    process.stop_cleanly();
    assert_eq!(group.lag(&[&input]), 5);
    assert_eq!(count(room.cluster(), &output, ReadUncommitted), 0);
    // They are read again; the last two wait for others.
    let mut process = room.run(pipeline(3));
    wait_until("a group is full", PATIENCE, || group.lag(&[&input]) == 2);
    process.stop_cleanly();
    assert_eq!(count(room.cluster(), &output, ReadCommitted), 3);
    let mut process = room.run(pipeline(1));
    group.wait_drained(&[&input], PATIENCE);
    process.stop_cleanly();
    Ledger::of(room.cluster(), &output).assert_exact(0..5);
}

/// The same records in a file and, of one key, in a partition of a topic.
struct Twice {
    path: PathBuf,
    input: String,
    texts: Vec<String>,
}

impl Twice {
    /// Records with so much each that hardly packs.
    fn write(room: &Room, count: u64, length: impl Fn(u64) -> usize) -> Self {
        let (input, path) = (room.topic("in", 1), room.folder().join("input.jsonl"));
        let texts: Vec<_> = (0..count).map(|id| padded(&input, id, length(id))).collect();
        fs::write(&path, texts.join("\n")).expect("a file");
        let producer = confirmed_producer(room.cluster().address());
        texts.iter().for_each(|text| send(&producer, BaseRecord::to(&input).partition(0).key("k").payload(text)));
        finish(&producer);
        Twice { path, input, texts }
    }
}

/// Compressed, only the broker can tell. Three groups each, of which the middle one does not pack.
pub(super) fn an_array_that_only_the_broker_can_refuse_moves_to_the_error_topic(room: &Room) {
    let cluster = room.cluster();
    let Twice { path, input, texts } = Twice::write(room, 30, |id| if (10..20).contains(&id) { 200 } else { 2 });
    let brokers = format!("brokers: \"{}\"", cluster.address());
    let mut yaml = "streams:\n".to_owned();
    let parts = ["task", "worker", "least", "file"].map(|part| {
        let name = room.name(part);
        let output = room.topic_with(part, 1, &[("max.message.bytes", "1000")]);
        let dead = room.topic(&format!("{part}.dead"), 1);
        let (kafka, keys) = (format!("type: kafka, topics: [{input}], consumer_group: {name}, {brokers}"), format!("transactional_id: {name}"));
        let (source, delivery) = match part {
            "task" | "worker" => (kafka, format!("exactly_once: true, {keys}, transaction_scope: {part}, ")),
            "least" => (kafka, String::new()),
            _ => (format!("type: file, path: {}", path.display()), format!("exactly_once: true, {keys}, ")),
        };
        let batch = "{type: batch, count: 10, interval: 1h, bytes: 100KiB, format: array}";
        yaml += &format!("  - id: {part}\n    input: {{{source}}}\n    pipeline: {{processors: [{batch}]}}\n    output: {{type: kafka, topic: {output}, ");
        yaml += &format!("compression: zstd, {delivery}{brokers}}}\n    error_output: {{type: kafka, topic: {dead}}}\n");
        (part, output, dead)
    });
    room.drain(yaml);
    for (part, output, dead) in &parts {
        let arrays: Vec<_> = records(cluster, output).iter().map(|record| record.text()).collect();
        let array = |ids: Range<usize>| format!("[{}]", texts[ids].join(","));
        let letters = records(cluster, dead);
        let first = if *part == "file" { "11" } else { "10" };
        assert_eq!(letters.iter().map(|letter| letter.text()).collect::<Vec<_>>(), [array(10..20)], "{part}");
        assert_eq!(letters[0].header("wattle.group.first_offset").as_deref(), Some(first), "{part}");
        // At least once what was written with it is written again.
        let unique: BTreeSet<_> = arrays.iter().cloned().collect();
        assert_eq!(unique, BTreeSet::from([array(0..10), array(20..30)]), "{part}");
        assert!(arrays.len() == 2 || *part == "least", "{part}: {}", arrays.len());
    }
}

/// Two groups, each with one record that does not pack. What was put aside is so still when a refused transaction has cost the producer.
pub(super) fn groups_with_records_that_only_the_broker_can_refuse_go_on(room: &Room) {
    let cluster = room.cluster();
    let is_large = |id: u64| id == 6 || id == 13;
    let Twice { path, input, texts } = Twice::write(room, 14, |id| if is_large(id) { 150_000 } else { 100 });
    let brokers = format!("brokers: \"{}\"", cluster.address());
    let mut yaml = "streams:\n".to_owned();
    let sources = [
        ("kafka", format!("type: kafka, topics: [{input}], consumer_group: {}, {brokers}", room.name("kafka"))),
        ("file", format!("type: file, path: {}", path.display())),
    ];
    let parts = sources.map(|(part, source)| {
        let output = room.topic_with(part, 1, &[("max.message.bytes", "100000")]);
        let dead = room.topic(&format!("{part}.dead"), 1);
        yaml += &format!("  - id: {part}\n    input: {{{source}}}\n    pipeline: {{processors: [{{type: batch, count: 7, interval: 1h}}]}}\n    output: {{type: kafka, topic: {output}, ");
        yaml += &format!("compression: lz4, exactly_once: true, transactional_id: {}, {brokers}}}\n    error_output: {{type: kafka, topic: {dead}}}\n", room.name(part));
        (output, dead)
    });
    room.drain(yaml);
    for (output, dead) in &parts {
        let [written, letters] = [output, dead].map(|topic| {
            let mut texts: Vec<_> = records(cluster, topic).iter().map(|record| record.text()).collect();
            texts.sort();
            texts
        });
        let part = |large| {
            let ids = (0..14).filter(|id| is_large(*id as u64) == large);
            let mut texts: Vec<_> = ids.map(|id: usize| texts[id].clone()).collect();
            texts.sort();
            texts
        };
        assert_eq!((written, letters), (part(false), part(true)), "{output}");
    }
}

/// The cursor is at the end of a group, and the last group ends with the file.
pub(super) fn groups_of_lines_do_not_depend_on_how_batches_were_cut_over_kills(room: &Room) {
    let (kills, total) = room.number((2, 20_000), (20, 100_000));
    let path = room.folder().join("input.jsonl");
    fs::write(&path, lines(0..total)).expect("a file");
    let (output, cluster, proxy) = (room.topic("out", 1), room.cluster(), room.broker().proxy());
    // Whoever looks at a reader finds it with most of its lines before it.
    let _slow = proxy.delay(Api::Produce, &room.group(), Duration::from_millis(50));
    let pipeline = |records, brokers: &str| {
        let keys = format!("exactly_once: true, transactional_id: {}, brokers: \"{brokers}\"", room.group());
        let stream = format!("streams:\n  - input: {{type: file, path: {}}}\n    batch: {}\n", path.display(), room.batch(records));
        let batch = format!("{{type: batch, count: {COUNT}, interval: 1h, format: array}}");
        format!("{stream}    pipeline: {{processors: [{batch}]}}\n    output: {{type: kafka, topic: {output}, {keys}}}\n")
    };
    for n in 0..kills {
        let before = cluster.ends(&output, ReadCommitted);
        let mut process = room.run(pipeline(100 + n, proxy.address()));
        wait_until("it goes on", PATIENCE, || cluster.ends(&output, ReadCommitted) > before);
        process.kill_in_transaction(cluster, &[&output]);
    }
    let mut process = room.run(pipeline(1000, cluster.address()));
    assert_eq!(process.wait_exit(2 * PATIENCE), 0, "exit code; log: {}", process.stderr());
    fs::remove_file(&path).expect("it is there");
    let ids: Vec<u64> = (0..total).collect();
    let expected: Vec<Vec<u64>> = ids.chunks(COUNT).map(<[u64]>::to_vec).collect();
    assert!(expected.last().is_some_and(|last| last.len() < COUNT), "the last one is not full");
    let all: Vec<_> = groups(cluster, &output).into_values().flatten().collect();
    assert!(all == expected, "{} groups instead of {}", all.len(), expected.len());
}
