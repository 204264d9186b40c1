//! `memory` inputs: messages that the file gives.

use std::fs;

use tempfile::TempDir;
use wattle::Stop;
use wattle_pipeline::{Context, Outcome, RunOptions};

use crate::support::{accepted, refuses, stream};

#[test]
fn messages_are_written_once_and_in_order() {
    let folder = TempDir::new().unwrap();
    let input = r#"type: memory, messages: ['{"i": 1}', {i: 2}, [3], 4]"#;
    let text = stream(input, "type: file, path: out.jsonl");
    let context = Context { file: &folder.path().join("pipeline.yaml"), brokers: None, env: &|_| None };
    let plan = wattle_pipeline::plan(&text, &context).unwrap_or_else(|problems| panic!("{problems}"));
    let running = wattle_pipeline::start(plan, RunOptions { drain: false, stop: Stop::new() }).unwrap();
    assert!(running.wait().iter().all(|end| matches!(end.outcome, Outcome::Done)));
    let file = fs::read_dir(folder.path()).unwrap().next().unwrap().unwrap().path();
    assert_eq!(fs::read_to_string(file).unwrap(), "{\"i\": 1}\n{\"i\":2}\n[3]\n4\n");
}

#[test]
fn the_guarantee_is_that_of_a_source_with_a_position() {
    let plan = accepted(&stream("type: memory, messages: [a]", "type: drop"));
    assert_eq!(plan.streams[0].route(), "memory → drop");
    assert!(plan.streams[0].is_finite());
    let exact = "type: kafka, topic: b, exactly_once: true, transactional_id: t";
    let plan = accepted(&stream("type: memory, messages: [a]", exact));
    assert_eq!(plan.streams[0].guarantee(), "exactly once: the number of messages given commits with them");
    refuses(&stream("type: memory", "type: drop"), &["input.messages", "needs a list of messages"]);
    refuses(&stream("type: memory, messages: a", "type: drop"), &["input.messages", "must be a list"]);
}
