//! Inputs that cannot be read again, and the write-ahead log: what is accepted, what it gives, and what is refused.

use crate::support::{accepted, line, logged as stream, problems, refuses};

const HTTP: &str = "type: http, address: \"0.0.0.0:8080\", path: /events";
const LOG: &str = "path: ./data/wal";
const EXACT: &str = "type: kafka, topic: b, exactly_once: true, transactional_id: t";

#[test]
fn a_log_makes_pushed_records_exactly_once_from_there_on() {
    let level = "exactly once: from the write-ahead log on, whose position commits with the records";
    let route = "http 0.0.0.0:8080/events → kafka b";
    let answered = "a request is answered when it is on the disk";
    assert_eq!(line(HTTP, LOG, EXACT), format!("{route} | {level}; {answered}"));
    let periodic = "path: wal, sync: {periodic: 250ms}";
    let loss = "a loss of power can take what was accepted in the last 250ms (sync: periodic)";
    assert_eq!(line(HTTP, periodic, EXACT), format!("{route} | {level}; {loss}"));
    assert_eq!(line("type: stdin", LOG, EXACT), format!("stdin → kafka b | {level}"));
}

#[test]
fn without_exactly_once_the_guarantee_says_when_a_request_is_answered() {
    let drop = "type: drop";
    assert!(
        line(HTTP, "", drop).ends_with("| at least once: a request is answered after the output confirmed its records")
    );
    let log =
        "the write-ahead log's position moves after the output confirmed; a crash between the two repeats records";
    assert!(line(HTTP, LOG, drop).contains(&format!("| at least once: {log}; a request is answered")));
    assert!(line("type: stdin", "", drop).contains("| at least once: as long as the process lives"));
    assert!(line("type: stdin", LOG, drop).ends_with(&format!("| at least once: {log}")));
}

#[test]
fn exactly_once_needs_the_log() {
    for (input, durability) in [(HTTP, ""), ("type: stdin", ""), (HTTP, "enabled: false, path: wal")] {
        let parts = ["output.exactly_once", "cannot be read again after a crash", "durability: {path: FOLDER}"];
        refuses(&stream(input, durability, EXACT), &parts);
    }
    let worker = format!("{EXACT}, transaction_scope: worker");
    refuses(&stream(HTTP, LOG, &worker), &["output.transaction_scope", "an http input has no consumer group"]);
    let group = format!("{EXACT}, offset_commit_group: g");
    refuses(&stream(HTTP, LOG, &group), &["output.offset_commit_group", "an http input has no consumer group"]);
}

#[test]
fn the_predecessors_spelling_is_accepted_as_written() {
    for durability in [
        "enabled: true, path: ./data/wal-eos, sync: group_commit",
        "path: w, sync: per_entry",
        "path: w, sync: {periodic: {secs: 1, nanos: 500000000}}",
        "path: w, sync: {periodic: 10s}",
        "backend: {type: local, path: w, sync: per_entry}",
        "path: w, max_bytes: 64MiB",
    ] {
        accepted(&stream(HTTP, durability, EXACT));
    }
    accepted(&stream(&format!("{HTTP}, cors_enabled: false, auth: {{type: bearer, token: x}}"), LOG, EXACT));
    accepted(&stream(&format!("{HTTP}, auth: {{type: basic, username: u, password: p}}"), LOG, EXACT));
    accepted(&stream(
        &format!("{HTTP}, format: lines, method: PUT, max_body: 16KiB, max_waiting: 10"),
        "",
        "type: drop",
    ));
}

#[test]
fn where_a_log_is_not_needed_none_is_written_and_the_plan_says_so() {
    for (kind, input) in [
        ("kafka", "type: kafka, topics: [a], consumer_group: g"),
        ("file", "type: file, path: x"),
        ("generate", "type: generate, context: x"),
    ] {
        for durability in ["enabled: true, path: ./data/wal-eos, sync: group_commit", "path: ''", "enabled: true"] {
            let plan = accepted(&stream(input, durability, "type: kafka, topic: b"));
            let text = format!("is not needed: a {kind} input can be read again, and no write-ahead log is written");
            let said = format!("note: line 3: streams[0].durability {text}");
            assert!(plan.to_string().lines().any(|line| line == said), "{plan}");
        }
    }
    assert!(accepted(&stream("type: file, path: x", "enabled: false", "type: drop")).notes.is_empty());
}

#[test]
fn mistakes_of_a_log_are_named() {
    for (durability, parts) in [
        ("sync: group_commit", ["durability.path", "needs a path"]),
        ("path: ' '", ["durability.path", "needs a path"]),
        ("path: w, sync: sometimes", ["durability.sync", "per_entry, group_commit"]),
        ("path: w, sync: periodic", ["durability.sync", "sync: {periodic: 1s}"]),
        ("path: w, sync: {periodic: 0s}", ["durability.sync.periodic", "must not be zero"]),
        ("path: w, sync: {periodic: {secs: -1}}", ["durability.sync.periodic.secs", "from 0 to"]),
        ("path: w, sync: {every: 1s}", ["durability.sync", "periodic"]),
        ("path: w, max_bytes: 8KiB", ["durability.max_bytes", "at least 1MiB"]),
        ("path: w, max_bytes: 3MiB", ["input.max_body", "more than four times"]),
        ("path: w, max_size: 4MiB", ["durability.max_size", "unknown key"]),
        (
            "path: w, backend: {type: object_store, s3: {bucket: b}}",
            ["durability.backend.type", "object_store is not supported"],
        ),
    ] {
        let found = problems(&stream(HTTP, durability, EXACT));
        for part in parts {
            assert!(found.iter().any(|problem| problem.contains(part)), "{durability}: {part:?} is not in {found:#?}");
        }
    }
}

#[test]
fn mistakes_of_an_http_input_are_named() {
    for (input, parts) in [
        ("address: \":80\", path: /", ["input.address", "HOST:PORT"]),
        ("address: \"localhost:99999\", path: /", ["input.address", "HOST:PORT"]),
        ("address: \"h:1\", path: events", ["input.path", "must begin with /"]),
        ("address: \"h:1\", path: /, method: GET", ["input.method", "POST, PUT"]),
        ("address: \"h:1\", path: /, cors_enabled: true", ["input.cors_enabled", "not supported"]),
        ("address: \"h:1\", path: /, auth: {type: bearer}", ["input.auth.token", "needs the token"]),
        ("address: \"h:1\", path: /, auth: {type: basic, username: u}", ["input.auth.password", "needs a password"]),
        ("address: \"h:1\", path: /, auth: {type: digest}", ["input.auth.type", "bearer, basic"]),
        ("address: \"h:1\", path: /, max_body: 1", ["input.max_body", "unit of size"]),
        ("address: \"h:1\", path: /, format: csv", ["input.format", "json, lines"]),
        ("path: /", ["input.address", "needs an address"]),
        ("address: \"h:1\"", ["input.path", "needs the path"]),
    ] {
        refuses(&stream(&format!("type: http, {input}"), "", "type: drop"), &parts);
    }
    refuses(&stream("type: stdin, format: xml", "", "type: drop"), &["input.format", "lines, text"]);
}

#[test]
fn streams_do_not_share_what_only_one_can_have() {
    let two = |one: &str, other: &str| {
        format!("streams:\n  - {{{one}, output: {{type: drop}}}}\n  - {{{other}, output: {{type: drop}}}}\n")
    };
    let http = |port: u16, log: &str| {
        format!("input: {{type: http, address: \"h:{port}\", path: /}}, durability: {{path: {log}}}")
    };
    accepted(&two(&http(1, "a"), &http(2, "b")));
    accepted(&two(&http(0, "a"), &http(0, "b")));
    refuses(&two(&http(1, "a"), &http(1, "b")), &["streams[1].input.address", "listen at the same address"]);
    let health = "health_check: {address: \"h:2\"}\n";
    let text = health.to_owned() + &two(&http(1, "a"), &http(2, "b"));
    refuses(&text, &["streams[1].input.address", "and health_check listen at the same address"]);
    refuses(&two(&http(1, "a"), &http(2, "a")), &["streams[1].durability.path", "the same write-ahead log"]);
    let stdin = "input: {type: stdin}";
    refuses(&two(stdin, stdin), &["streams[1].input", "stdin"]);
}
