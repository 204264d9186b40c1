//! What a check finds on the disk and at an MQTT broker, where a start would find it too. Nothing is made.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::thread;

use tempfile::TempDir;
use wattle::Exit;
use wattle_pipeline::{Connected, Context, connect};

fn connected(folder: &Path, stream: &str) -> Connected {
    let file = folder.join("pipeline.yaml");
    let context = Context { file: &file, brokers: None, env: &|_| None };
    let text = format!("streams: [{{{stream}}}]");
    let plan = wattle_pipeline::plan(&text, &context).unwrap_or_else(|problems| panic!("{problems}"));
    connect(&plan, &file)
}

/// The one problem of a stream.
fn problem(folder: &Path, stream: &str) -> String {
    let found = connected(folder, stream);
    let problems = found.problems.unwrap_or_else(|| panic!("{stream} has a problem"));
    assert_eq!((problems.list.len(), found.exit), (1, Exit::Failed), "{problems}");
    problems.list[0].to_string()
}

const MADE: &str = "input: {type: generate, context: x}";

#[test]
fn files_and_folders_that_cannot_be_are_named_and_none_is_made() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    std::fs::write(folder.join("file"), "").unwrap();
    std::fs::create_dir(folder.join("sub")).unwrap();
    let sqlite = |path: &str| {
        format!(
            "{MADE}, output: {{type: sql, output_type: {{type: sqlite, path: {path}}}, table_name: t, positions_id: p, create_table: true, columns: {{a: integer}}}}"
        )
    };
    let out = |path: &str| format!("{MADE}, output: {{type: file, path: {path}}}");
    let read = |path: &str| format!("input: {{type: file, path: {path}}}, output: {{type: drop}}");
    let log = |path: &str| format!("input: {{type: stdin}}, durability: {{path: {path}}}, output: {{type: drop}}");
    for (stream, parts) in [
        (read("none.jsonl"), ["input.path", "cannot read"]),
        (read("sub"), ["input.path", "is a folder"]),
        (out("file/x.jsonl"), ["output", "is a file"]),
        (out("file/deeper/x.jsonl"), ["output", "is a file"]),
        (log("file"), ["durability.path", "is a file"]),
        (sqlite("sub"), ["output_type.path", "is a folder"]),
        (sqlite("none/rows.db"), ["output_type.path", "there is no folder"]),
    ] {
        let text = problem(folder, &stream);
        assert!(parts.iter().all(|part| text.contains(part)), "{stream}: {text}");
    }
    for stream in [read("file"), out("new/deep/x.jsonl"), log("new/log"), sqlite("rows.db")] {
        assert!(connected(folder, &stream).problems.is_none(), "{stream}");
    }
    assert_eq!(std::fs::read_dir(folder).unwrap().count(), 2);
}

#[test]
fn a_table_of_sqlite_that_takes_no_such_rows_is_named() {
    let folder = TempDir::new().unwrap();
    let sqlite = |table: &str, more: &str| {
        format!(
            "{MADE}, output: {{type: sql, output_type: {{type: sqlite, path: rows.db}}, table_name: {table}, positions_id: p, {more}}}"
        )
    };
    let make = "create_table: true, columns: {a: integer, b: text}, key: [a]";
    let context = Context { file: &folder.path().join("pipeline.yaml"), brokers: None, env: &|_| None };
    let text = format!("streams: [{{{}}}]", sqlite("rows", make).replace("context: x", "context: {a: 1}, count: 1"));
    let plan = wattle_pipeline::plan(&text, &context).unwrap_or_else(|problems| panic!("{problems}"));
    let options = wattle_pipeline::RunOptions { drain: false, stop: wattle::Stop::new() };
    assert!(matches!(wattle_pipeline::start(plan, options).unwrap().wait()[0].outcome, wattle_pipeline::Outcome::Done));
    let text = problem(folder.path(), &sqlite("none", "columns: [a]"));
    assert!(text.contains("has no table none"), "{text}");
    assert!(connected(folder.path(), &sqlite("rows", "columns: [a]")).problems.is_none());
    // Its columns all need a value but the last.
    let text = problem(folder.path(), &sqlite("wattle_positions", "columns: [id], positions_table: other"));
    assert!(text.contains("needs a value for topic, partition, epoch"), "{text}");
}

/// Answers one client with these packets, and tells what it has sent.
fn broker(answers: &'static [&'static [u8]]) -> (u16, thread::JoinHandle<Vec<Vec<u8>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let serve = move || {
        let (mut socket, _) = listener.accept().unwrap();
        let mut packets = Vec::new();
        for answer in answers {
            let mut packet = vec![0; 1024];
            let length = socket.read(&mut packet).unwrap();
            packet.truncate(length);
            packets.push(packet);
            socket.write_all(answer).unwrap();
        }
        packets
    };
    (port, thread::spawn(serve))
}

const WELCOME: &[u8] = b"\x20\x03\0\0\0";

fn mqtt(port: u16) -> String {
    let input =
        format!("type: mqtt, host: 127.0.0.1, port: {port}, client_id: the-one-that-runs, topics: [a/#, $share/g/b]");
    format!("input: {{{input}}}, durability: {{path: log}}, output: {{type: drop}}")
}

#[test]
fn an_mqtt_broker_is_asked_without_taking_a_session_or_a_message() {
    let folder = TempDir::new().unwrap();
    let (port, asked) = broker(&[WELCOME, b"\x90\x05\0\x01\0\x01\x01"]);
    let found = connected(folder.path(), &mqtt(port));
    assert!(found.problems.is_none() && found.facts[0].1.contains("lets us subscribe"), "{:?}", found.facts);
    let packets = asked.join().unwrap();
    let has = |packet: &[u8], part: &[u8]| packet.windows(part.len()).any(|window| window == part);
    assert!(has(&packets[0], b"wattle-check-") && !has(&packets[0], b"the-one-that-runs"), "an id of its own");
    assert!(has(&packets[0], b"\x11\0\0\0\0"), "no session stays");
    assert!(has(&packets[1], b"\0\x03a/#\x21\0\x01b\x21"), "no retained messages, and none that are for a group");
}

#[test]
fn an_mqtt_broker_that_refuses_is_told_from_one_that_is_silent() {
    let folder = TempDir::new().unwrap();
    for (answers, part) in [
        (&[b"\x20\x03\0\x86\0" as &[u8]] as &[&[u8]], "does not let us in: bad username or password"),
        (&[WELCOME, b"\x90\x05\0\x01\0\x01\x87"], "refuses the subscription to $share/g/b: not authorized"),
        (&[WELCOME, b"\x90\x05\0\x01\0\0\x01"], "grants QoS 0 for a/#"),
    ] {
        let (port, asked) = broker(answers);
        let text = problem(folder.path(), &mqtt(port));
        assert!(text.contains(part), "{text}");
        asked.join().unwrap();
    }
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let found = connected(folder.path(), &mqtt(nobody));
    assert!(found.exit == Exit::Unreachable && found.problems.is_some());
}
