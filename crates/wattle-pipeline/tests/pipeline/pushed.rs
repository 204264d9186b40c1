//! An `http` input over a connection: what is answered to whom.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::thread;

use tempfile::TempDir;
use wattle::Stop;
use wattle_pipeline::{Context, Outcome, RunOptions, Running};

/// A port that is free now, and given to nobody else here.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn start(folder: &Path, text: &str, stop: &Stop) -> Running {
    let context = Context { file: &folder.join("pipeline.yaml"), brokers: None, env: &|_| None };
    let plan = wattle_pipeline::plan(text, &context).unwrap_or_else(|problems| panic!("{problems}"));
    wattle_pipeline::start(plan, RunOptions { drain: false, stop: stop.clone() }).unwrap()
}

/// Sends a request and reads the whole answer; waits until somebody listens.
fn ask(port: u16, request: &str) -> String {
    let mut stream = loop {
        match TcpStream::connect(("127.0.0.1", port)) {
            Ok(stream) => break stream,
            Err(_) => thread::yield_now(),
        }
    };
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn post(port: u16, more: &str, body: &str) -> String {
    let length = body.len();
    ask(port, &format!("POST /events HTTP/1.1\r\nConnection: close\r\nContent-Length: {length}\r\n{more}\r\n{body}"))
}

fn assert_answer(answer: &str, status: u16, parts: &[&str]) {
    assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{status}: {answer}");
    parts.iter().for_each(|part| assert!(answer.contains(part), "{part}: {answer}"));
}

/// Runs a stream from HTTP to nowhere while `ask` asks it; returns how many records it had.
fn serving(keys: &str, stream: &str, ask: impl FnOnce(u16)) -> u64 {
    let (folder, port, stop) = (TempDir::new().unwrap(), free_port(), Stop::new());
    let input = format!("{{type: http, address: '127.0.0.1:{port}', path: /events{keys}}}");
    let text = format!("streams: [{{input: {input}{stream}, output: {{type: drop}}}}]");
    let running = start(folder.path(), &text, &stop);
    ask(port);
    stop.stop();
    let ends = running.wait();
    assert!(matches!(ends[0].outcome, Outcome::Stopped), "{:?}", ends[0].snapshot);
    ends[0].snapshot.records
}

#[test]
fn a_request_is_answered_with_what_became_of_it() {
    let keys = ", format: lines, max_body: 1KiB, auth: {type: basic, username: u, password: 'p:w'}";
    for log in ["", ", durability: {path: wal}"] {
        let records = serving(keys, log, |port| {
            let auth = "Authorization: Basic dTpwOnc=\r\n";
            assert_answer(&post(port, auth, "{\"a\":1}\n[2]\n\n"), 200, &["2 accepted"]);
            assert_answer(&post(port, auth, " \n"), 200, &["0 accepted"]);
            assert_answer(&post(port, auth, "1\n2\n{\"a\":x}"), 400, &["line 3: not JSON at byte 6"]);
            assert_answer(&post(port, "", "1"), 401, &["www-authenticate: Basic realm=\"wattle\""]);
            assert_answer(&post(port, "Authorization: Basic dTpwOnc\r\n", "1"), 401, &[]);
            assert_answer(&ask(port, "POST / HTTP/1.1\r\nConnection: close\r\n\r\n"), 404, &["taken at /events"]);
            assert_answer(&ask(port, "GET /events HTTP/1.1\r\nConnection: close\r\n\r\n"), 405, &["allow: POST"]);
            assert_answer(&post(port, auth, &"1".repeat(1025)), 413, &["longer than 1024 bytes"]);
            assert_answer(&post(port, &format!("{auth}Content-Encoding: gzip\r\n"), "1"), 415, &["uncompressed"]);
        });
        assert_eq!(records, 2, "of a body that is refused nothing is taken{log}");
    }
}

/// Its body comes slowly, so that it is in hand meanwhile.
#[test]
fn a_request_above_the_bound_is_told_to_come_again() {
    let records = serving(", max_waiting: 1", "", |port| {
        assert_answer(&post(port, "", "0"), 200, &[]);
        let mut slow = TcpStream::connect(("127.0.0.1", port)).unwrap();
        let head = "POST /events HTTP/1.1\r\nConnection: close\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n";
        slow.write_all(head.as_bytes()).unwrap();
        let mut asked_to_go_on = [0; 25];
        slow.read_exact(&mut asked_to_go_on).unwrap();
        assert_eq!(&asked_to_go_on, b"HTTP/1.1 100 Continue\r\n\r\n");
        assert_answer(&post(port, "", "1"), 429, &["retry-after: 1", "1 requests wait already"]);
        slow.write_all(b"2").unwrap();
        let mut answer = String::new();
        slow.read_to_string(&mut answer).unwrap();
        assert_answer(&answer, 200, &["1 accepted"]);
        assert_answer(&post(port, "", "3"), 200, &[]);
    });
    assert_eq!(records, 3);
}

#[test]
fn an_address_in_use_fails_with_its_name() {
    let (folder, listener) = (TempDir::new().unwrap(), TcpListener::bind("127.0.0.1:0").unwrap());
    let address = listener.local_addr().unwrap();
    let text = format!("streams: [{{input: {{type: http, address: '{address}', path: /}}, output: {{type: drop}}}}]");
    let ends = start(folder.path(), &text, &Stop::new()).wait();
    let Outcome::Failed(error) = &ends[0].outcome else { panic!("must fail") };
    assert_eq!(error.code(), Some("W0023"));
    assert!(error.to_string().contains(&format!("cannot listen at {address}")), "{error}");
}

/// Many clients at once: each of their records is there once, and a log that is opened again has none of them left.
#[test]
fn what_is_delivered_is_gone_from_the_log() {
    let (folder, port) = (TempDir::new().unwrap(), free_port());
    let text = format!(
        "streams: [{{input: {{type: http, address: '127.0.0.1:{port}', path: /events}}, durability: {{path: wal}}, output: {{type: drop}}}}]"
    );
    let stop = Stop::new();
    let running = start(folder.path(), &text, &stop);
    let handle = Arc::new(running.streams()[0].clone());
    thread::scope(|scope| {
        for client in 0..8 {
            scope.spawn(move || {
                (0..50).for_each(|n| assert_answer(&post(port, "", &format!("[{client},{n}]")), 200, &[]))
            });
        }
    });
    while handle.snapshot().records < 400 {
        thread::yield_now();
    }
    stop.stop();
    assert_eq!(running.wait()[0].snapshot.records, 400);
    let stop = Stop::new();
    let running = start(folder.path(), &text, &stop);
    assert_answer(&post(port, "", "{}"), 200, &[]);
    while running.streams()[0].snapshot().records == 0 {
        thread::yield_now();
    }
    stop.stop();
    assert_eq!(running.wait()[0].snapshot.records, 1, "the new one alone");
}
