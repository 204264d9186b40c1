//! Streams that need no broker: how they end, and what they say.

use std::path::Path;
use std::time::Duration;

use tempfile::TempDir;
use wattle::Stop;
use wattle_pipeline::{Context, Outcome, RunOptions, Running, StreamEnd};

/// A folder of its own for each test.
fn folder(file: &[u8]) -> TempDir {
    let folder = TempDir::new().unwrap();
    std::fs::write(folder.path().join("in.jsonl"), file).unwrap();
    folder
}

fn start(folder: &Path, streams: &str, stop: &Stop) -> Running {
    let context = Context { file: &folder.join("pipeline.yaml"), brokers: None, env: &|_| None };
    let plan = wattle_pipeline::plan(streams, &context).unwrap_or_else(|problems| panic!("{problems}"));
    wattle_pipeline::start(plan, RunOptions { drain: false, stop: stop.clone() }).unwrap()
}

fn run(folder: &Path, streams: &str) -> Vec<StreamEnd> {
    start(folder, streams, &Stop::new()).wait()
}

fn failure(end: &StreamEnd) -> String {
    match &end.outcome {
        Outcome::Failed(error) => error.to_string(),
        Outcome::Done | Outcome::Drained | Outcome::Stopped => panic!("must fail"),
    }
}

const FILE: &str = "input: {type: file, path: in.jsonl}, output: {type: drop}";
const ENDLESS: &str = "input: {type: generate, context: '{}', interval: 5ms}, output: {type: drop}";

#[test]
fn a_file_is_read_to_its_end() {
    let folder = folder(b"{\"a\":1}\n\n{\"a\":2}\n{\"a\":3}");
    let filter = "pipeline: {processors: [{type: filter, condition: .a != 2}]}";
    let ends = run(folder.path(), &format!("streams: [{{id: load, {FILE}, {filter}}}]"));
    assert!(matches!(ends[0].outcome, Outcome::Done));
    assert_eq!((ends[0].id.as_str(), ends[0].snapshot.records, ends[0].snapshot.messages), ("load", 3, 2));
    assert_eq!(ends[0].lag, None);
}

#[test]
fn a_bad_line_stops_with_path_and_line() {
    let folder = folder(b"{\"a\":1}\n\n{bad\n");
    for pipeline in ["", ", pipeline: {processors: [{type: filter, condition: 'true'}]}"] {
        let ends = run(folder.path(), &format!("streams: [{{{FILE}{pipeline}}}]"));
        let text = failure(&ends[0]);
        assert!(text.contains("in.jsonl:3: not JSON at byte 1"), "{text}");
        assert_eq!(ends[0].snapshot.records, 0);
    }
}

#[test]
fn a_missing_file_stops_with_its_path() {
    let folder = folder(b"");
    let ends = run(folder.path(), "streams: [{input: {type: file, path: no.jsonl}, output: {type: drop}}]");
    let text = failure(&ends[0]);
    assert!(text.contains(&folder.path().join("no.jsonl").display().to_string()), "{text}");
}

#[test]
fn generate_counts_and_ends() {
    let folder = folder(b"");
    let ends =
        run(folder.path(), "streams: [{input: {type: generate, context: '{}', count: 25000}, output: {type: drop}}]");
    assert!(matches!(ends[0].outcome, Outcome::Done));
    assert_eq!(ends[0].snapshot.records, 25_000);
}

#[test]
fn a_request_to_stop_reaches_every_stream() {
    let folder = folder(b"");
    let stop = Stop::new();
    let running = start(folder.path(), &format!("streams: [{{{ENDLESS}}}, {{{ENDLESS}}}]"), &stop);
    let handles = running.streams().to_vec();
    while handles.iter().any(|handle| handle.snapshot().records == 0) {
        std::thread::sleep(Duration::from_millis(5));
    }
    stop.stop();
    assert!(running.wait().iter().all(|end| matches!(end.outcome, Outcome::Stopped)));
    assert!(handles.iter().all(|handle| handle.is_done() && handle.lag().is_none()));
}

#[test]
fn a_stream_that_fails_stops_the_others() {
    let folder = folder(b"{bad\n");
    let ends = run(folder.path(), &format!("streams: [{{id: x, {ENDLESS}}}, {{id: y, {FILE}}}]"));
    assert!(matches!(ends[0].outcome, Outcome::Stopped));
    assert!(failure(&ends[1]).contains("in.jsonl:1"));
}

/// The lines of the only file in `out`.
fn written(folder: &Path) -> Vec<String> {
    let files: Vec<_> = std::fs::read_dir(folder.join("out")).unwrap().map(|entry| entry.unwrap().path()).collect();
    let texts: String = files
        .iter()
        .filter(|path| path.extension().is_some_and(|end| end == "jsonl"))
        .map(|path| std::fs::read_to_string(path).unwrap())
        .collect();
    std::fs::remove_dir_all(folder.join("out")).unwrap();
    texts.lines().map(str::to_owned).collect()
}

#[test]
fn groups_of_a_file_end_by_count_by_time_and_with_the_file() {
    let folder = folder(b"1\n2\n3\n4\n5\n");
    let stream = |input: &str, batch: &str| {
        let output = "output: {type: file, path: out/x.jsonl}";
        format!(
            "streams: [{{input: {{{input}}}, {output}, pipeline: {{processors: [{{type: batch, format: array, {batch}}}]}}}}]"
        )
    };
    for records in 1..6 {
        let text = stream("type: file, path: in.jsonl", "count: 2, interval: 1h")
            .replace("streams: [{", &format!("streams: [{{batch: {{max_poll_records: {records}}}, "));
        let ends = run(folder.path(), &text);
        assert!(matches!(ends[0].outcome, Outcome::Done));
        assert_eq!((ends[0].snapshot.records, ends[0].snapshot.messages, ends[0].snapshot.oldest_held), (5, 3, None));
        assert_eq!(written(folder.path()), ["[1,2]", "[3,4]", "[5]"], "batches of {records}");
    }
    // The next record comes in an hour.
    let stop = Stop::new();
    let running =
        start(folder.path(), &stream("type: generate, context: '7', interval: 1h", "count: 2, interval: 100ms"), &stop);
    let handle = running.streams()[0].clone();
    while handle.snapshot().records == 0 {
        assert!(!handle.is_done());
        std::thread::sleep(Duration::from_millis(5));
    }
    stop.stop();
    assert!(matches!(running.wait()[0].outcome, Outcome::Stopped));
    assert_eq!(written(folder.path()), ["[7]"]);
    // A stop writes nothing that is held.
    let stop = Stop::new();
    let running =
        start(folder.path(), &stream("type: generate, context: '7', interval: 1h", "count: 2, interval: 1h"), &stop);
    let handle = running.streams()[0].clone();
    while handle.snapshot().oldest_held.is_none() {
        assert!(!handle.is_done());
        std::thread::sleep(Duration::from_millis(5));
    }
    stop.stop();
    assert_eq!(running.wait()[0].snapshot.messages, 0);
}
