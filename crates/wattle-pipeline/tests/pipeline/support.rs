//! Plans from texts, without a file and without an environment.

use std::path::Path;

use wattle_pipeline::{Context, Plan, Problems};

pub(crate) fn plan_with(
    text: &str,
    brokers: Option<&str>,
    env: &dyn Fn(&str) -> Option<String>,
) -> Result<Plan, Problems> {
    let context = Context { file: Path::new("pipeline.yaml"), brokers: brokers.map(str::to_owned), env };
    wattle_pipeline::plan(text, &context)
}

/// With brokers, and no variable set.
pub(crate) fn plan(text: &str) -> Result<Plan, Problems> {
    plan_with(text, Some("localhost:9092"), &|_| None)
}

/// The plan of a text that must be accepted.
pub(crate) fn accepted(text: &str) -> Plan {
    plan(text).unwrap_or_else(|problems| panic!("must be accepted:\n{problems}"))
}

/// The problems of a text that must be refused, one a line: `line:column path text`.
pub(crate) fn problems(text: &str) -> Vec<String> {
    match plan(text) {
        Ok(plan) => panic!("must be refused:\n{plan}"),
        Err(problems) => lines(&problems),
    }
}

pub(crate) fn lines(problems: &Problems) -> Vec<String> {
    problems.list.iter().map(|p| format!("{}:{} {} {}", p.line, p.column, p.path, p.text)).collect()
}

/// Expects exactly one problem, which contains all of `parts`.
pub(crate) fn refuses(text: &str, parts: &[&str]) {
    let found = problems(text);
    assert_eq!(found.len(), 1, "{found:#?}");
    for part in parts {
        assert!(found[0].contains(part), "{part:?} is not in {:?}", found[0]);
    }
}

/// A stream with this input and this output, each as flow YAML.
pub(crate) fn stream(input: &str, output: &str) -> String {
    format!("streams:\n  - input: {{{input}}}\n    output: {{{output}}}\n")
}

pub(crate) const KAFKA_IN: &str = "type: kafka, topics: [a], consumer_group: g";
pub(crate) const KAFKA_OUT: &str = "type: kafka, topic: b";

/// A stream with the keys of `durability`, or without it.
pub(crate) fn logged(input: &str, durability: &str, output: &str) -> String {
    let durability = if durability.is_empty() { String::new() } else { format!("    durability: {{{durability}}}\n") };
    format!("streams:\n  - input: {{{input}}}\n{durability}    output: {{{output}}}\n")
}

/// What the plan of such a stream says: its route and its guarantee.
pub(crate) fn line(input: &str, durability: &str, output: &str) -> String {
    let plan = accepted(&logged(input, durability, output));
    format!("{} | {}", plan.streams[0].route(), plan.streams[0].guarantee())
}
