//! A record that is refused, by Kafka or by a program, commits nothing, and says where it is.

use std::collections::BTreeSet;

use rdkafka::producer::BaseRecord;

use crate::harness::cluster::Isolation::{ReadCommitted, ReadUncommitted};
use crate::harness::ledger::{Ledger, count, records};
use crate::harness::load::{confirmed_producer, finish, send, value};
use crate::harness::mode::Scope;
use crate::harness::pipeline::Pipeline;
use crate::harness::room::Room;
use crate::harness::wait::{PATIENCE, wait_until};

/// Records 0 to 10, of which the fifth is too large for the output.
fn large_record_in(room: &Room) -> (String, String) {
    let input = room.topic("in", 1);
    let output = room.topic_with("out", 1, &[("max.message.bytes", "1000")]);
    let producer = confirmed_producer(&room.broker().address());
    for id in 0..11 {
        let text = if id == 4 { padded(&input, id, 5000) } else { value(&input, 0, id) };
        send(&producer, BaseRecord::to(&input).partition(0).key("k").payload(&text));
    }
    finish(&producer);
    (input, output)
}

/// A record with so many bytes more that hardly pack.
pub(super) fn padded(input: &str, id: u64, length: usize) -> String {
    value(input, 0, id).replace('}', &format!(r#","pad":"{}"}}"#, noise(id, length)))
}

/// Text that hardly packs.
fn noise(id: u64, length: usize) -> String {
    let mut state = 0x2545_f491_4f6c_dd1d_u64.wrapping_mul(id + 1);
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        Some(char::from(b'a' + (state % 26) as u8))
    };
    std::iter::from_fn(next).take(length).collect()
}

/// All eleven are one batch: all or nothing.
pub(super) fn a_refused_output_commits_nothing_and_names_the_record(room: &Room) {
    let (input, output) = large_record_in(room);
    let mut pipeline = room.copy(&[&input], &output);
    pipeline.batch = "{commit_interval: 2s}".to_owned();
    let mut process = room.run(&pipeline);
    assert_eq!(process.wait_exit(PATIENCE), 1);
    assert_eq!(count(room.cluster(), &output, ReadCommitted), 0);
    assert!(matches!(room.cluster().group(&room.group()).committed(&input)[0], None | Some(0)));
    names_the_refused_record(&process.stderr(), &input, &output);
    room.cluster().wait_settled(&[&output]);
}

/// Whatever of it was delivered, no position passes the refused record.
pub(super) fn a_refused_output_is_never_passed_at_least_once(room: &Room) {
    let (input, output) = large_record_in(room);
    let mut process = room.run(room.copy(&[&input], &output).at_least_once());
    assert_eq!(process.wait_exit(PATIENCE), 1);
    let at = room.cluster().group(&room.group()).committed(&input)[0];
    assert!(at.is_none_or(|at| at <= 4), "the position is {at:?}");
    names_the_refused_record(&process.stderr(), &input, &output);
}

fn names_the_refused_record(log: &str, input: &str, output: &str) {
    for word in [output, &format!("{input}/0"), "1000", "max.message.bytes"] {
        assert!(log.contains(word), "{word:?} is not in the log: {log}");
    }
    assert!(log.contains("offset 4") || log.contains(&format!("{input}/0/4")), "the offset is not in the log: {log}");
}

/// Three records, of which the middle one is not JSON.
fn bad_record_in(room: &Room) -> (String, String) {
    let (input, output) = (room.topic("in", 1), room.topic("out", 1));
    let producer = confirmed_producer(&room.broker().address());
    for text in [value(&input, 0, 0), "{bad".into(), value(&input, 0, 1)] {
        send(&producer, BaseRecord::to(&input).partition(0).key("k").payload(&text));
    }
    finish(&producer);
    (input, output)
}

const TOUCH: &str = r#"{type: vrl, statement: ".seen = true"}"#;

pub(super) fn a_record_that_cannot_be_processed_stops_its_stream_and_is_named(room: &Room) {
    let (input, output) = bad_record_in(room);
    let pipeline = room.copy(&[&input], &output).processor(TOUCH);
    for _ in 0..2 {
        let mut process = room.run(&pipeline);
        assert_eq!(process.wait_exit(PATIENCE), 1);
        assert!(process.says(&[&format!("{input}/0"), "offset 1"]), "log: {}", process.stderr());
        assert!(!process.stderr().contains("{bad"), "contents of records stay out of the log");
    }
    let at = room.cluster().group(&room.group()).committed(&input)[0];
    assert!(at.is_none_or(|at| at <= 1), "the position is {at:?}");
    room.cluster().wait_settled(&[&output]);
    let visible = count(room.cluster(), &output, ReadCommitted);
    assert_eq!(visible, at.unwrap_or(0).unsigned_abs(), "what is visible is what is committed");
}

pub(super) fn a_record_that_cannot_be_processed_moves_to_the_error_topic(room: &Room) {
    let (input, output) = bad_record_in(room);
    let dead = room.topic("dead", 1);
    let mut pipeline = room.copy(&[&input], &output).processor(TOUCH);
    pipeline.error_output = Some(dead.clone());
    room.drain(&pipeline);
    Ledger::of(room.cluster(), &output).assert_exact(0..2);
    let letters = records(room.cluster(), &dead);
    assert_eq!(letters.len(), 1);
    assert_eq!((letters[0].text().as_str(), letters[0].key.as_deref()), ("{bad", Some(&b"k"[..])), "untouched");
    let header = |name: &str| letters[0].header(name).unwrap_or_else(|| panic!("{name} is not in {:?}", letters[0]));
    assert_eq!((header("wattle.topic"), header("wattle.partition"), header("wattle.offset")), (input, "0".into(), "1".into()));
    assert!(!header("wattle.error").is_empty());
}

/// Of the second one the error topic takes no more than what it was. The broker judges what is compressed, and Wattle what is not.
pub(super) fn a_record_that_is_too_large_for_its_topic_moves_to_the_error_topic(room: &Room) {
    let input = room.topic("in", 1);
    let producer = confirmed_producer(&room.broker().address());
    let texts: Vec<_> = (0..11)
        .map(|id| match id {
            4 => padded(&input, id, 2500),
            7 => padded(&input, id, 9000),
            _ => value(&input, 0, id),
        })
        .collect();
    for text in &texts {
        send(&producer, BaseRecord::to(&input).partition(0).key("k").payload(text));
    }
    finish(&producer);
    for (part, keys, is_exact) in [("plain", "", true), ("packed", "compression: zstd", true), ("least", "", false)] {
        let limited = |name: &str, bytes| room.topic_with(&format!("{part}.{name}"), 1, &[("max.message.bytes", bytes)]);
        let (output, dead) = (limited("out", "1000"), limited("dead", "3000"));
        let mut pipeline = room.copy_at(&room.broker().address(), &room.name(part), &[&input], &output);
        (pipeline.error_output, pipeline.batch) = (Some(dead.clone()), "{commit_interval: 1s}".to_owned());
        if !is_exact {
            pipeline = pipeline.at_least_once();
        }
        room.drain(with_keys(&pipeline, keys));
        let fit = (0..11).filter(|id| ![4, 7].contains(id)).collect();
        Ledger::of(room.cluster(), &output).assert_once(&fit, &BTreeSet::new());
        let letters = records(room.cluster(), &dead);
        let header = |index: usize, name: &str| letters[index].header(name).unwrap_or_default();
        assert_eq!(letters.iter().map(|letter| letter.text()).collect::<Vec<_>>(), [&texts[4], ""], "{part}");
        assert_eq!([header(0, "wattle.cut"), header(1, "wattle.cut")], ["", "value"]);
        assert_eq!(header(1, "wattle.value_bytes"), texts[7].len().to_string());
        for (index, offset) in [(0, "4"), (1, "7")] {
            assert_eq!(letters[index].key.as_deref(), Some(&b"k"[..]));
            assert_eq!((header(index, "wattle.offset").as_str(), header(index, "wattle.stage").as_str()), (offset, "output"));
            assert!(header(index, "wattle.error").contains("1000 (max.message.bytes)"), "{letters:?}");
        }
    }
}

/// With more keys of its output.
fn with_keys(pipeline: &Pipeline, keys: &str) -> String {
    pipeline.to_string().replace("\n      topic: ", &format!("\n      {keys}\n      topic: "))
}

/// Every third record is too large, which only the broker can tell of what is compressed, and it tells of one in a transaction.
fn many_large_records_in(room: &Room) -> (Pipeline, u64, BTreeSet<u64>) {
    let total = room.number(120, 900);
    let input = room.topic("in", 1);
    let (output, dead) = (room.topic_with("out", 1, &[("max.message.bytes", "1000")]), room.topic("dead", 1));
    let producer = confirmed_producer(&room.broker().address());
    for id in 0..total {
        let text = if id % 3 == 2 { padded(&input, id, 3000) } else { value(&input, 0, id) };
        send(&producer, BaseRecord::to(&input).partition(0).key("k").payload(&text));
    }
    finish(&producer);
    let mut pipeline = room.copy(&[&input], &output);
    (pipeline.error_output, pipeline.group_instance_id) = (Some(dead), Some("0".to_owned()));
    (pipeline, total, (0..total).filter(|id| id % 3 != 2).collect())
}

/// What is before one is committed, so that a process that is killed again and again comes to the end too.
pub(super) fn many_records_that_are_too_large_move_aside_one_after_another_over_a_kill(room: &Room) {
    let (pipeline, total, fit) = many_large_records_in(room);
    let (input, group) = (&pipeline.topics[0], room.cluster().group(&room.group()));
    let yaml = with_keys(&pipeline, "compression: zstd");
    let mut process = room.run(&yaml);
    wait_until("it moves on", PATIENCE, || group.progress(&[input]) > 0);
    assert!(process.kill());
    let before = group.progress(&[input]).unsigned_abs();
    assert!(before < total, "it was killed in the middle");
    room.drain(&yaml);
    Ledger::of(room.cluster(), &pipeline.topic).assert_once(&fit, &BTreeSet::new());
    let letters = records(room.cluster(), pipeline.error_output.as_deref().expect("set"));
    let offsets: Vec<_> = letters.iter().map(|letter| letter.header("wattle.offset").unwrap_or_default()).collect();
    let expected: Vec<_> = (0..total).filter(|id| !fit.contains(id)).map(|id| id.to_string()).collect();
    assert_eq!(offsets, expected);
    eprintln!("{} of {total} records were too large; killed behind {before}", offsets.len());
}

/// Without a transaction all of them are found at once.
pub(super) fn records_that_are_too_large_hardly_repeat_others_at_least_once(room: &Room) {
    let (pipeline, total, fit) = many_large_records_in(room);
    let pipeline = pipeline.at_least_once();
    room.drain(with_keys(&pipeline, "compression: zstd"));
    let written = count(room.cluster(), &pipeline.topic, ReadCommitted);
    assert!(Ledger::of(room.cluster(), &pipeline.topic).has(&fit));
    assert!(written <= 3 * fit.len() as u64, "{written} instead of {}", fit.len());
    let letters = count(room.cluster(), pipeline.error_output.as_deref().expect("set"), ReadCommitted);
    assert!(letters >= total - fit.len() as u64);
    eprintln!("{written} records for {}, {letters} dead letters for {}", fit.len(), total - fit.len() as u64);
}

/// A broker judges record batches, and each record is small: whoever compresses, Wattle or the broker, and also where batches are asked for that are larger.
pub(super) fn small_records_that_are_too_large_together_are_written(room: &Room) {
    let input = room.topic("in", 1);
    let producer = confirmed_producer(&room.broker().address());
    for id in 0..2000 {
        let text = padded(&input, id, 100);
        send(&producer, BaseRecord::to(&input).partition(0).key("k").payload(&text));
    }
    finish(&producer);
    let ways = [("plain", "none", "producer"), ("packed", "zstd", "producer"), ("anew", "none", "gzip"), ("unpacked", "lz4", "uncompressed")];
    let dead = room.topic("dead", 1);
    let pipelines = ways.map(|(part, compression, settings)| {
        let settings = [("max.message.bytes", "1000"), ("compression.type", settings)];
        let (output, name) = (room.topic_with(part, 1, &settings), room.name(part));
        let mut pipeline = room.copy_at(&room.broker().address(), &name, &[&input], &output);
        pipeline = match part {
            "plain" => pipeline.at_least_once(),
            "packed" => pipeline.scope(Scope::Worker),
            _ => pipeline,
        };
        (pipeline.error_output, pipeline.producer) = (Some(dead.clone()), "{batch.size: 500000}");
        (pipeline.topic.clone(), with_keys(&pipeline, &format!("compression: {compression}")).replace("id: copy", &format!("id: {part}")))
    });
    let streams = pipelines.iter().map(|(_, yaml)| yaml.strip_prefix("streams:\n").expect("one stream"));
    room.drain(format!("streams:\n{}", streams.collect::<String>()));
    for (output, _) in &pipelines {
        Ledger::of(room.cluster(), output).assert_exact(0..2000);
    }
    assert_eq!(count(room.cluster(), &dead, ReadUncommitted), 0);
}

/// Two streams in one file: the one that fails ends the other one cleanly, and the process with its error.
pub(super) fn a_stream_that_fails_ends_the_process(room: &Room) {
    let (input, output) = bad_record_in(room);
    let (good, copied) = (room.topic("good", 1), room.topic("copied", 1));
    room.load(&[&good], 1).send(0..100);
    let first = room.copy_at(&room.broker().address(), &room.name("good"), &[&good], &copied).to_string();
    let second = room.copy(&[&input], &output).processor(TOUCH).to_string().replace("id: copy", "id: bad");
    let second = second.strip_prefix("streams:\n").expect("one stream");
    let mut process = room.run(first + second);
    assert_eq!(process.wait_exit(PATIENCE), 1);
    assert!(process.says(&[&format!("{input}/0"), "offset 1"]), "log: {}", process.stderr());
    let at = room.cluster().group(&room.name("good")).committed(&good)[0].unwrap_or(0);
    room.cluster().wait_settled(&[&copied]);
    assert_eq!(count(room.cluster(), &copied, ReadCommitted), at.unsigned_abs(), "what is visible is what is committed");
}
