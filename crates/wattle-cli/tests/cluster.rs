//! The commands that ask a cluster without a pipeline file, as their users meet them: on the embedded broker, in this process.
#![allow(clippy::unwrap_used)] // helpers of tests may panic as tests do

use std::io::Write;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use wattle_broker::Broker;

/// A broker and a folder, both for one test.
struct Room {
    broker: Broker,
    folder: PathBuf,
}

/// How a command has ended, and what it has said.
struct Said {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

impl Room {
    fn new(test: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("wattle-cluster-{test}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        Room { broker: Broker::builder().start().unwrap(), folder }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_wattle"));
        for name in ["WATTLE_LOG", "WATTLE_LOG_FORMAT"] {
            command.env_remove(name);
        }
        command.args(arguments).env("WATTLE_BROKERS", self.broker.address()).current_dir(&self.folder);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn wattle(&self, arguments: &[&str]) -> Said {
        let output = self.command(arguments).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Said { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
    }

    /// Runs the streams of a file to their end.
    fn run(&self, pipeline: &str) {
        let said = self.wattle(&["run", &self.file(pipeline), "--drain"]);
        assert_eq!(said.code, Some(0), "{}", said.stderr);
    }

    fn start(&self, pipeline: &str) -> Child {
        let mut command = self.command(&["run", &self.file(pipeline)]);
        command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    }

    fn file(&self, pipeline: &str) -> String {
        let path = self.folder.join("pipeline.yaml");
        std::fs::write(&path, pipeline).unwrap();
        path.display().to_string()
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.broker.stop();
        if let Err(error) = std::fs::remove_dir_all(&self.folder) {
            eprintln!("{} stays: {error}", self.folder.display());
        }
    }
}

const LOAD: &str = "
streams:
  - id: load
    input: {type: generate, context: {a: 1}, count: 1}
    output: {type: kafka, topic: in}
";

const COPY: &str = "
streams:
  - id: copy
    input: {type: kafka, topics: [in], consumer_group: copy, transactional_offsets: true}
    output: {type: kafka, topic: out, exactly_once: true, transactional_id: copy, offset_commit_group: copy}
";

#[test]
fn topics_are_created_and_those_that_are_there_stay() {
    let room = Room::new("create");
    let said = room.wattle(&["create", "a", "b", "--partitions", "2", "--config", "retention.ms=-1"]);
    assert_eq!(said.code, Some(0), "{}", said.stderr);
    assert_eq!(said.stderr, "created a with 2 partitions\ncreated b with 2 partitions\n");
    let said = room.wattle(&["create", "b", "c", "--partitions", "2"]);
    assert_eq!(said.code, Some(0), "{}", said.stderr);
    assert!(said.stderr.contains("b is there already, with 2 partitions") && said.stderr.contains("created c with 2"));
    assert_eq!(room.wattle(&["create", "one", "--partitions", "1"]).stderr, "created one with 1 partition\n");
}

#[test]
fn a_topic_with_another_number_of_partitions_is_refused_and_nothing_is_created() {
    let room = Room::new("counts");
    assert_eq!(room.wattle(&["create", "z"]).code, Some(0));
    let said = room.wattle(&["create", "a", "z", "--partitions", "4"]);
    assert_eq!(said.code, Some(1));
    assert!(said.stderr.starts_with("error W0003:") && said.stderr.contains("than 4: z with 3"), "{}", said.stderr);
    let said = room.wattle(&["tail", "a", "--from-beginning", "--count", "1"]);
    assert!(said.stderr.contains("topic a does not exist"), "{}", said.stderr);
}

#[test]
fn a_topic_that_the_broker_refuses_is_told_with_what_was_asked_for() {
    let room = Room::new("refused");
    for (arguments, part) in [
        (["create", "t", "--replication-factor", "3"], "create the topic t with partitions=3, replication-factor=3: "),
        (["create", "t", "--config", "no.such=1"], "create the topic t with partitions=3, no.such=1: "),
    ] {
        let said = room.wattle(&arguments);
        assert_eq!(said.code, Some(1));
        assert!(said.stderr.starts_with("error W0010:") && said.stderr.contains(part), "{}", said.stderr);
    }
}

#[test]
fn client_properties_that_carry_a_promise_are_refused() {
    let room = Room::new("properties");
    std::fs::write(room.folder.join("client"), "acks=0\nno.such=1\n").unwrap();
    for command in ["create", "produce"] {
        let said = room.wattle(&[command, "t", "--client-file", "client"]);
        assert_eq!(said.code, Some(2), "{}", said.stderr);
        for part in ["client property acks: cannot be set", "client property no.such: "] {
            assert!(said.stderr.contains(part), "{part}: {}", said.stderr);
        }
    }
}

#[test]
fn lines_become_records_with_keys() {
    let room = Room::new("produce");
    assert_eq!(room.wattle(&["create", "t", "--partitions", "1"]).code, Some(0));
    let mut child = room.command(&["produce", "t"]).stdin(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    // The first line is there while the second is still to come.
    stdin.write_all(b"ada\t{\"i\": 1}\n").unwrap();
    let first = room.wattle(&["tail", "t", "--from-beginning", "--count", "1"]);
    assert!(first.stdout.contains("\"key\":\"ada\",\"headers\":[],\"value\":{\"i\": 1}"), "{}", first.stdout);
    stdin.write_all(b"ada\t\nalone").unwrap();
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "wrote 3 records to t\n");
    let all = room.wattle(&["tail", "t", "--from-beginning", "--count", "3"]).stdout;
    assert!(all.contains("\"key\":\"ada\",\"headers\":[],\"value\":null"), "{all}");
    assert!(all.contains("\"key\":null,\"headers\":[],\"value\":\"alone\""), "{all}");
    let missing = room.wattle(&["produce", "nosuch"]);
    assert!(missing.code == Some(1) && missing.stderr.starts_with("error W0003:"), "{}", missing.stderr);
}

#[test]
fn an_application_of_which_nothing_is_there_is_refused_by_name() {
    let room = Room::new("unknown");
    for more in [&[][..], &["--states"], &["--state-dir", "nosuch"]] {
        let said = room.wattle(&[&["inspect", "typo"], more].concat());
        assert_eq!((said.code, said.stdout.as_str()), (Some(2), ""), "{more:?}");
        for part in ["nothing is known of typo", "neither members nor positions", "no topic typo-changelog"] {
            assert!(said.stderr.contains(part), "{part}: {}", said.stderr);
        }
    }
    let said = room.wattle(&["inspect", "typo", "--json"]);
    assert_eq!(said.code, Some(2), "{}", said.stderr);
    assert!(said.stdout.contains("\"positions\":[]"), "{}", said.stdout);
    let said = room.wattle(&["reset", "typo", "--state-dir", "nosuch", "--execute"]);
    assert_eq!(said.code, Some(0), "{}", said.stderr);
    for part in ["there is nothing to reset", "no local state: there is no folder nosuch"] {
        assert!(said.stdout.contains(part), "{part}: {}", said.stdout);
    }
}

#[test]
fn a_reset_says_beforehand_that_members_hinder_it() {
    let room = Room::new("members");
    assert_eq!(room.wattle(&["create", "in", "out", "--partitions", "1"]).code, Some(0));
    room.run(LOAD);
    let mut running = room.start(COPY);
    let began = Instant::now();
    let stands = |text: String| text.contains("1 member\n") && text.contains("in/0");
    while !stands(room.wattle(&["inspect", "copy"]).stdout) {
        assert!(began.elapsed() < Duration::from_secs(60), "no member came");
    }
    let dry = room.wattle(&["reset", "copy"]);
    // Its process is gone, and nobody has told the group.
    running.kill().unwrap();
    running.wait().unwrap();
    let refused = room.wattle(&["reset", "copy", "--execute"]);
    room.broker.advance(Duration::from_secs(60));
    let after = room.wattle(&["reset", "copy", "--state-dir", "nosuch"]);

    assert_eq!(dry.code, Some(0), "{}", dry.stderr);
    let hindered = "With --execute it would be refused now: group copy has 1 member; stop the application, or, if it was killed, wait";
    assert!(dry.stdout.contains(hindered), "{}", dry.stdout);
    assert_eq!(refused.code, Some(1));
    for part in ["the group copy has members: stop", "or, if it was killed, wait until its session timeout is over"] {
        assert!(refused.stderr.contains(part), "{part}: {}", refused.stderr);
    }
    assert!(after.stdout.contains("  1 position of group copy"), "{}", after.stdout);
    assert!(after.stdout.contains("no local state: there is no folder nosuch"), "{}", after.stdout);
    assert!(after.stdout.ends_with("Nothing is removed without --execute\n"), "{}", after.stdout);
}

/// A file as its user has it, but for the address of the broker.
fn documented(room: &Room, text: &str) -> String {
    text.replace("localhost:9092", &room.broker.address())
}

/// Writes lines with `wattle produce`.
fn produce(room: &Room, topic: &str, lines: &str) {
    let mut child = room.command(&["produce", topic]).stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
    assert!(child.wait().unwrap().success());
}

fn values(room: &Room, topic: &str, count: usize) -> Vec<String> {
    let said = room.wattle(&["tail", topic, "--from-beginning", "--count", &count.to_string()]);
    let value = |line: &str| serde_json::from_str::<serde_json::Value>(line).unwrap()["value"].to_string();
    said.stdout.lines().map(value).collect()
}

#[test]
fn the_documented_files_of_arkflow_run_unchanged() {
    let room = Room::new("arkflow");
    assert_eq!(room.wattle(&["create", "orders", "orders-copy", "--partitions", "1"]).code, Some(0));
    produce(&room, "orders", "k\t{\"n\":0}\n");
    let l2 = documented(&room, include_str!("../../wattle-pipeline/tests/pipeline/fixtures/eos-kafka.yaml"));
    room.run(&l2); // start_from_latest: the new group begins behind what is there
    produce(&room, "orders", "k\t{\"n\":1}\nk\t{\"n\":2}\n");
    room.run(&l2);
    room.run(&l2); // nothing is written again
    let l3 = documented(&room, include_str!("../../wattle-pipeline/tests/pipeline/fixtures/eos-kafka-l3.yaml"));
    produce(&room, "orders", "k\t{\"n\":3}\n");
    room.run(&l3); // the same group goes on
    room.run(&l3);
    produce(&room, "orders-copy", "k\tend\n");
    let expected = [r#"{"copied":true,"n":1}"#, r#"{"copied":true,"n":2}"#, r#"{"n":3}"#, r#""end""#];
    assert_eq!(values(&room, "orders-copy", 4), expected);
}

#[test]
fn a_check_that_connects_names_everything_that_would_stop_a_start() {
    let room = Room::new("connect");
    let file = room.file(COPY);
    assert_eq!(room.wattle(&["check", &file]).code, Some(0), "offline nothing is wrong");
    let said = room.wattle(&["check", &file, "--connect"]);
    assert_eq!(said.code, Some(1), "{}", said.stderr);
    for part in [
        "2 problems",
        "streams[0].input.topics ",
        "streams[0].output.topic ",
        "wattle create in --brokers",
        "wattle create out",
    ] {
        assert!(said.stderr.contains(part), "{part}: {}", said.stderr);
    }
    assert_eq!(room.wattle(&["create", "in", "out", "--partitions", "2"]).code, Some(0));
    let said = room.wattle(&["check", &file, "--connect"]);
    assert_eq!(said.code, Some(0), "{}", said.stderr);
    for part in [
        "copy: reads in (2 partitions) of cluster ",
        "group copy has no members",
        "copy: writes out (2 partitions)",
        "within 60s of at most 900s",
    ] {
        assert!(said.stdout.contains(part), "{part}: {}", said.stdout);
    }
    assert_eq!(room.wattle(&["create", "more", "--partitions", "3"]).code, Some(0));
    let more =
        COPY.replace("[in]", "[in, more]").replace("transactional_id", "transaction_timeout: 2h, transactional_id");
    let said = room.wattle(&["check", &room.file(&more), "--connect"]);
    assert_eq!(said.code, Some(1), "{}", said.stderr);
    for part in ["in has 2, more has 3", "output.transaction_timeout", "transaction.max.timeout.ms"] {
        assert!(said.stderr.contains(part), "{part}: {}", said.stderr);
    }
}

#[test]
fn a_check_that_connects_looks_at_the_table_and_makes_none() {
    let room = Room::new("table");
    assert_eq!(room.wattle(&["create", "in", "--partitions", "1"]).code, Some(0));
    let from = COPY.find("    output:").unwrap();
    let yaml = |more: &str| {
        let copy = COPY[..from].replace(", transactional_offsets: true", "");
        format!(
            "{copy}    output: {{type: sql, output_type: {{type: sqlite, path: rows.db}}, table_name: rows{more}}}\n"
        )
    };
    let check = |more: &str| room.wattle(&["check", &room.file(&yaml(more)), "--connect"]);
    let said = check("");
    assert_eq!(said.code, Some(1), "{}", said.stderr);
    assert!(said.stderr.contains("streams[0].output") && said.stderr.contains("has no table rows"), "{}", said.stderr);
    let said = check(", create_table: true, columns: {n: integer}");
    assert_eq!(said.code, Some(0), "{}", said.stderr);
    assert!(said.stdout.contains("table rows of rows.db will be created"), "{}", said.stdout);
    assert!(!room.folder.join("rows.db").exists(), "a look makes nothing");
    room.run(&yaml(", create_table: true, columns: {n: integer, text: text}"));
    let said = check("");
    assert_eq!(said.code, Some(0), "{}", said.stderr);
    assert!(said.stdout.contains("copy: writes table rows (n, text) of rows.db"), "{}", said.stdout);
    let said = check(", mode: upsert, key: [n]");
    assert_eq!(said.code, Some(1), "{}", said.stderr);
    assert!(said.stderr.contains("cannot take mode: upsert"), "{}", said.stderr);
}

#[test]
fn a_check_that_connects_tells_one_cluster_from_two_and_a_silent_one_from_a_mistake() {
    let (room, other) = (Room::new("here"), Room::new("there"));
    for room in [&room, &other] {
        assert_eq!(room.wattle(&["create", "in", "out", "--partitions", "1"]).code, Some(0));
    }
    let copy = |brokers: &str| {
        let copy = COPY.replace(", transactional_offsets: true", "").replace(", offset_commit_group: copy", "");
        room.file(&copy.replace("topic: out", &format!("topic: out, brokers: '{brokers}'")))
    };
    let (own, there) = (room.broker.address(), other.broker.address());
    let said = room.wattle(&["check", &copy(&there), "--connect"]);
    assert_eq!(said.code, Some(0), "{}", said.stderr);
    assert!(
        said.stdout.contains("on two clusters") && said.stdout.contains("copy-changelog will be created"),
        "{}",
        said.stdout
    );
    let said = room.wattle(&["check", &copy(&own.replace("127.0.0.1", "localhost")), "--connect"]);
    assert_eq!(said.code, Some(0), "{}", said.stderr);
    assert!(said.stdout.contains("input and output are on one cluster"), "{}", said.stdout);
    other.broker.stop();
    let said = room.wattle(&["check", &copy(&there), "--connect"]);
    assert_eq!(said.code, Some(3), "{}", said.stderr);
    assert!(said.stderr.contains("streams[0].output.brokers") && said.stderr.contains(&there), "{}", said.stderr);
}
