//! The `wattle` binary as its users meet it. Nothing here needs a broker.
#![allow(clippy::unwrap_used)] // helpers of tests may panic as tests do

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// A folder of its own for a test, removed with it.
struct Folder(PathBuf);

impl Folder {
    fn new(test: &str) -> Self {
        let path = std::env::temp_dir().join(format!("wattle-cli-{test}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn file(&self, text: &str) -> String {
        let path = self.0.join("pipeline.yaml");
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0) {
            eprintln!("{} stays: {error}", self.0.display());
        }
    }
}

/// `wattle`, without what the caller's environment says to it.
fn wattle(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_wattle"));
    for name in ["WATTLE_BROKERS", "WATTLE_LOG", "WATTLE_LOG_FORMAT"] {
        command.env_remove(name);
    }
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn code(output: &Output) -> Option<i32> {
    output.status.code()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// An address on this machine where nobody listens: bound for a moment, so that the system names a free port.
fn closed_address() -> String {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string()
}

const COPY: &str = "
streams:
  - id: copy
    input:
      type: kafka
      brokers: [\"${BROKERS:-localhost:9092}\"]
      topics: [orders]
      consumer_group: orders-copy
      transactional_offsets: true
    output:
      type: kafka
      brokers: [\"${BROKERS:-localhost:9092}\"]
      topic: orders-copy
      exactly_once: true
      transactional_id: orders-copy
      offset_commit_group: orders-copy
";

const GENERATE: &str = "
streams:
  - id: hello
    input:
      type: generate
      context: '{\"n\": 9007199254740993}'
      count: 3
    output:
      type: stdout
";

#[test]
fn a_sound_file_shows_its_plan() {
    let folder = Folder::new("plan");
    let output = wattle(&["check", &folder.file(COPY)]).output().unwrap();
    assert_eq!(code(&output), Some(0), "{}", stderr(&output));
    for part in ["copy", "kafka orders", "kafka orders-copy", "exactly once"] {
        assert!(stdout(&output).contains(part), "{part}: {}", stdout(&output));
    }
}

#[test]
fn the_pipeline_in_the_readme_is_sound() {
    let readme = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../README.md")).unwrap();
    let (_, rest) = readme.split_once("```yaml\nbrokers: embedded").expect("the readme shows a pipeline");
    let (pipeline, _) = rest.split_once("```").unwrap();
    let folder = Folder::new("readme");
    let file = folder.file(&format!("brokers: embedded{pipeline}"));
    let output = wattle(&["check", &file]).output().unwrap();
    assert_eq!(code(&output), Some(0), "{}", stderr(&output));
    assert!(stdout(&output).contains("exactly once"), "{}", stdout(&output));
}

#[test]
fn every_mistake_is_reported_at_once() {
    let folder = Folder::new("mistakes");
    let text = COPY
        .replace("topics: [orders]", "topics: [orders]\n      start_form_latest: true")
        .replace("transactional_id: orders-copy", "transactional_id: \" \"")
        .replace("offset_commit_group: orders-copy", "acks: many");
    for command in ["check", "run"] {
        let output = wattle(&[command, &folder.file(&text)]).output().unwrap();
        assert_eq!(code(&output), Some(2), "{}", stderr(&output));
        for part in ["start_from_latest", "transactional_id", "offset_commit_group", "acks", "pipeline.yaml", "8:7"] {
            assert!(stderr(&output).contains(part), "{part}: {}", stderr(&output));
        }
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn an_unreadable_file_is_refused_by_name() {
    let output = wattle(&["run", "/nowhere/pipeline.yaml"]).output().unwrap();
    assert_eq!(code(&output), Some(2));
    assert!(stderr(&output).contains("/nowhere/pipeline.yaml"), "{}", stderr(&output));
}

#[test]
fn a_command_line_that_cannot_be_is_refused() {
    for arguments in [&["run"][..], &["tail", "t", "--count", "0"], &["check", "f", "--log-level", "loud"], &["fly"]] {
        let output = wattle(arguments).output().unwrap();
        assert_eq!(code(&output), Some(2), "{arguments:?}");
        assert!(!output.stderr.is_empty());
    }
}

#[test]
fn no_brokers_is_refused_with_both_remedies() {
    let folder = Folder::new("brokers");
    let text = COPY.replace("      brokers: [\"${BROKERS:-localhost:9092}\"]\n", "");
    let file = folder.file(&text);
    for arguments in
        [&["check", &file][..], &["run", &file], &["tail", "orders"], &["create", "orders"], &["produce", "orders"]]
    {
        let output = wattle(arguments).output().unwrap();
        assert_eq!(code(&output), Some(2), "{arguments:?}");
        for remedy in ["--brokers", "WATTLE_BROKERS"] {
            assert!(stderr(&output).contains(remedy), "{arguments:?}: {}", stderr(&output));
        }
    }
    assert_eq!(code(&wattle(&["check", &file, "--brokers", "b:9092"]).output().unwrap()), Some(0));
    assert_eq!(code(&wattle(&["check", &file]).env("WATTLE_BROKERS", "b:9092").output().unwrap()), Some(0));
}

#[test]
fn a_broker_that_is_down_ends_the_start_in_time_and_by_name() {
    let folder = Folder::new("down");
    let address = closed_address();
    let file = folder.file(COPY);
    let started = Instant::now();
    let commands = [&["run", &file][..], &["tail", "orders", "--brokers", &address]];
    let children = commands.map(|arguments| wattle(arguments).env("BROKERS", &address).spawn().unwrap());
    for output in children.map(|child| child.wait_with_output().unwrap()) {
        // What it took by its own clock, and before anything else gives up.
        assert!(stderr(&output).contains(&format!("no broker answers at {address} within 8 s")), "{}", stderr(&output));
        assert!(started.elapsed() < Duration::from_secs(25), "{:?}", started.elapsed());
        assert_eq!(code(&output), Some(3), "{}", stderr(&output));
    }
}

#[test]
fn a_finite_stream_runs_to_its_end() {
    let folder = Folder::new("finite");
    let output = wattle(&["run", &folder.file(GENERATE)]).output().unwrap();
    assert_eq!(code(&output), Some(0), "{}", stderr(&output));
    assert_eq!(stdout(&output), "{\"n\": 9007199254740993}\n".repeat(3));
    let told = stderr(&output);
    assert!(told.starts_with("wattle 0."), "{told}");
    assert!(told.contains("done") && told.contains("3 records in"), "{told}");
    assert!(!told.contains('\x1b'), "no colours in a pipe: {told}");
}

#[test]
fn json_logs_are_json_on_every_line() {
    let folder = Folder::new("json");
    let output = wattle(&["run", &folder.file(GENERATE), "--log-format", "json"]).output().unwrap();
    assert_eq!(code(&output), Some(0), "{}", stderr(&output));
    let events: Vec<serde_json::Value> =
        stderr(&output).lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    let ended = events.iter().find(|event| event["event"] == "ended").expect("the end is told");
    assert_eq!((&ended["stream"], &ended["outcome"], &ended["records"]), (&"hello".into(), &"done".into(), &3.into()));
}

#[test]
fn a_file_says_what_becomes_of_the_log_unless_the_command_line_does() {
    let folder = Folder::new("logging");
    let file = folder.file(&format!("logging: {{level: info, format: json, file_path: run.log}}\n{GENERATE}"));
    let output = wattle(&["run", &file]).output().unwrap();
    assert_eq!((code(&output), stderr(&output)), (Some(0), String::new()));
    let log = std::fs::read_to_string(folder.0.join("run.log")).unwrap();
    assert!(log.lines().any(|line| line.contains("\"event\":\"ended\"")), "{log}");
    let output = wattle(&["run", &file, "--log-format", "text"]).output().unwrap();
    assert!(stderr(&output).starts_with("wattle 0."), "{}", stderr(&output));
    let file = folder.file(&format!("logging: {{file_path: no/such/folder.log}}\n{GENERATE}"));
    let output = wattle(&["run", &file]).output().unwrap();
    assert_eq!(code(&output), Some(2));
    assert!(stderr(&output).contains("logging.file_path"), "{}", stderr(&output));
}

const EXAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/earthquakes.yaml");

#[test]
fn tests_of_a_file_pass_fail_and_must_be_there() {
    let output = wattle(&["test", EXAMPLE]).output().unwrap();
    assert_eq!(code(&output), Some(0), "{}{}", stdout(&output), stderr(&output));
    assert!(stdout(&output).contains("ok       strong quakes go on, with a readable time\n"), "{}", stdout(&output));
    let folder = Folder::new("tests");
    let file = folder.file(&format!(
        "{GENERATE}tests: [{{name: three, input: [{{value: {{n: 3}}}}], output: [{{value: {{n: 4}}}}]}}]\n"
    ));
    let output = wattle(&["test", &file]).output().unwrap();
    assert_eq!(code(&output), Some(1), "{}", stderr(&output));
    let expected = format!("FAILED   three   {file}:10\n         output[0].value.n: expected 4, got 3\n");
    assert_eq!(stdout(&output), expected);
    assert!(stderr(&output).contains("1 of 1 tests failed"), "{}", stderr(&output));
    let output = wattle(&["test", &folder.file(GENERATE)]).output().unwrap();
    assert_eq!(code(&output), Some(2));
    assert!(
        stderr(&output).contains("no tests") && stderr(&output).contains("pipeline.tests.yaml"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn the_schema_is_json() {
    let output = wattle(&["schema"]).output().unwrap();
    let schema: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
}

/// Starts an endless stream and waits for its first record.
fn endless(folder: &Folder, interval: &str, options: &[&str]) -> (Child, BufReader<ChildStdout>) {
    let file = folder.file(&GENERATE.replace("count: 3", interval));
    let mut child = wattle(&["run", &file]).args(options).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    lines.read_line(&mut line).unwrap();
    assert!(line.contains("9007199254740993"), "{line}");
    (child, lines)
}

/// Starts one that cannot finish its first batch: nobody reads its stdout any more, and a pipe holds less than one such batch.
fn stuck(folder: &Folder, options: &[&str]) -> (Child, BufReader<ChildStdout>) {
    endless(folder, "batch_size: 10000", options)
}

fn signal(child: &Child, name: &str) {
    let done = Command::new("kill").args([name, &child.id().to_string()]).status().unwrap();
    assert!(done.success());
}

/// Reads stderr up to a line with this text.
fn wait_for(lines: &mut impl BufRead, text: &str) {
    let mut told = String::new();
    while !told.contains(text) {
        assert_ne!(lines.read_line(&mut told).unwrap(), 0, "ended without {text}: {told}");
    }
}

#[test]
fn a_signal_stops_cleanly() {
    for name in ["-INT", "-TERM"] {
        let folder = Folder::new(&format!("signal{name}"));
        let (mut child, mut lines) = endless(&folder, "interval: 10ms", &[]);
        signal(&child, name);
        let mut rest = String::new();
        lines.read_to_string(&mut rest).unwrap();
        assert!(rest.is_empty() || rest.ends_with('\n'), "half a line was written: {rest}");
        let mut told = String::new();
        child.stderr.take().unwrap().read_to_string(&mut told).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(0), "{told}");
        assert!(told.contains("stopping: hello finishes its batch"), "{told}");
        assert!(
            told.trim_end().ends_with("stopped cleanly: the next start goes on behind what is committed"),
            "{told}"
        );
    }
}

#[test]
fn a_second_signal_ends_at_once() {
    let folder = Folder::new("second");
    let (mut child, _unread) = stuck(&folder, &[]);
    let mut told = BufReader::new(child.stderr.take().unwrap());
    signal(&child, "-TERM");
    wait_for(&mut told, "stopping: hello");
    let started = Instant::now();
    signal(&child, "-TERM");
    wait_for(&mut told, "ended at once by a second signal");
    assert_eq!(child.wait().unwrap().code(), Some(1));
    assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
}

#[test]
fn a_stop_that_hangs_ends_within_the_grace_period_and_says_what_hung() {
    let folder = Folder::new("grace");
    let (mut child, _unread) = stuck(&folder, &["--grace-period", "2"]);
    let mut told = BufReader::new(child.stderr.take().unwrap());
    let started = Instant::now();
    signal(&child, "-TERM");
    wait_for(&mut told, "did not stop within 1.5 s (three quarters of the grace period); still busy: hello");
    assert_eq!(child.wait().unwrap().code(), Some(1));
    assert!(started.elapsed() >= Duration::from_millis(1_400), "{:?}", started.elapsed());
}

/// The file is a pipe: the process has come as far as reading it, and no further.
#[test]
fn a_signal_before_the_file_is_read_stops_cleanly_and_a_second_one_at_once() {
    let folder = Folder::new("early");
    let file = folder.0.join("pipeline.yaml").display().to_string();
    assert!(Command::new("mkfifo").arg(&file).status().unwrap().success());
    for (signals, expected) in [(&["-TERM"][..], Some(0)), (&["-INT", "-TERM"][..], None)] {
        let child = wattle(&["run", &file]).spawn().unwrap();
        let mut pipe = std::fs::File::options().write(true).open(&file).unwrap(); // when both ends are open
        signals.iter().for_each(|name| signal(&child, name));
        if expected.is_some() {
            pipe.write_all(GENERATE.replace("count: 3", "interval: 10ms").as_bytes()).unwrap();
            drop(pipe);
        }
        let output = child.wait_with_output().unwrap();
        assert_eq!(code(&output), expected, "{}", stderr(&output));
        assert_eq!(stderr(&output).contains("stopped cleanly"), expected.is_some(), "{}", stderr(&output));
    }
}

#[test]
fn secrets_do_not_reach_the_log() {
    let folder = Folder::new("secrets");
    let secret = "hunter2-do-not-show";
    let text = COPY.replace(
        "      transactional_id:",
        "      client: { sasl.username: \"${NAME}\", sasl.password: \"${PASSWORD}\" }\n      transactional_id:",
    );
    let security = COPY.replace(
        "      transactional_id:",
        "      security: { sasl: { mechanism: plain, username: \"${NAME}\", password: \"${PASSWORD}\" } }\n      transactional_id:",
    );
    let uri = "postgres://me:${PASSWORD}@localhost:1/x";
    let sql = format!(
        "streams: [{{input: {{type: stdin}}, output: {{type: sql, table_name: t, retry_for: 1s, output_type: {{type: postgres, uri: '{uri}'}}}}}}]\n"
    );
    let http = "streams: [{input: {type: http, address: '127.0.0.1:0', path: /x, auth: {type: bearer, token: '${PASSWORD}'}, max_body: 0}, output: {type: drop}}]\n";
    // What librdkafka itself logs of its properties.
    let talkative = text.replace("sasl.username:", "debug: all, sasl.username:");
    let mut children = Vec::new();
    // Once as they are, once with a mistake beside or in the secret.
    for text in [
        text.clone(),
        text.replace("sasl.username", "transactional.id"),
        text.replace("sasl.password", "sasl.passwort"),
        text.replace("sasl.password", "linger.ms"),
        talkative,
        security.clone(),
        security.replace("mechanism: plain", "mechanism: \"${PASSWORD}\""),
        security.replace("password:", "pass:"),
        sql.clone(),
        sql.replace("postgres://", "mysql://"),
        http.to_owned(),
    ] {
        let file = folder.0.join(format!("{}.yaml", children.len())).display().to_string();
        std::fs::write(&file, &text).unwrap();
        for arguments in [&["check", &file][..], &["run", &file, "--drain", "--log-level", "trace"]] {
            let broker = closed_address();
            let variables = [("NAME", "wattle"), ("PASSWORD", secret), ("BROKERS", &broker)];
            let told = [("RUST_LOG", "trace"), ("RUST_BACKTRACE", "full")];
            children.push((text.clone(), wattle(arguments).envs(variables).envs(told).spawn().unwrap()));
        }
    }
    for (text, child) in children {
        let output = child.wait_with_output().unwrap();
        assert!(!stderr(&output).contains(secret), "{text}: {}", stderr(&output));
        assert!(!stdout(&output).contains(secret), "{text}: {}", stdout(&output));
        assert!(!output.stdout.is_empty() || !output.stderr.is_empty(), "{text}");
    }
}
