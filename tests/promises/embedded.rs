//! The broker that the command brings along: it lives in the first process of a folder, and others there use it.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use nix::sys::signal::Signal;

use crate::harness::cluster::Cluster;
use crate::harness::cluster::Isolation::{ReadCommitted, ReadUncommitted};
use crate::harness::ledger::{Ledger, count};
use crate::harness::load::Load;
use crate::harness::process::Process;
use crate::harness::room::Room;
use crate::harness::transaction::{Transaction, fence};
use crate::harness::wait::{PATIENCE, wait_until};

/// A file into one topic, and on into another one with the partition that it came from. The session is longer than any test: a start
/// that waited for its end would be seen. Each record is a request, so that transactions are open for long enough to be met.
const LOAD_AND_COPY: &str = r#"
brokers: embedded
streams:
  - id: load
    batch: {max_poll_records: 500}
    input: {type: file, path: input.jsonl}
    output:
      {type: kafka, topic: lines, exactly_once: true, transactional_id: load, client: {batch.num.messages: 1}}
  - id: copy
    batch: {max_poll_records: 500}
    input:
      type: kafka
      topics: [lines]
      consumer_group: copy
      transactional_offsets: true
      client: {session.timeout.ms: 600000, max.poll.interval.ms: 600000}
    pipeline: {processors: [{type: vrl, statement: '.from = to_string(%partition)'}]}
    output:
      type: kafka
      topic: copies
      exactly_once: true
      transactional_id: copy
      offset_commit_group: copy
      client: {batch.num.messages: 1}
"#;

/// From one topic into another one until it is stopped.
const COPY: &str = r#"
streams:
  - id: copy
    input: {type: kafka, topics: [lines], consumer_group: copy, transactional_offsets: true}
    output: {type: kafka, topic: copies, exactly_once: true, transactional_id: copy, offset_commit_group: copy}
"#;

/// `wattle broker` on any port, for the room's folder.
fn broker_alone(room: &Room) -> Process {
    room.wattle(&["broker", "--listen", "127.0.0.1:0"])
}

/// What is in the room's folder while nothing of Wattle runs there.
fn look<T>(room: &Room, what: impl FnOnce(&Cluster) -> T) -> T {
    let mut broker = broker_alone(room);
    let seen = what(&Cluster::new(broker.wait_broker()));
    broker.stop_cleanly();
    seen
}

pub(super) fn the_first_run_needs_no_broker_and_no_topic(room: &Room) {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples");
    for file in ["earthquakes.yaml", "earthquakes.jsonl"] {
        fs::copy(examples.join(file), room.folder().join(file)).unwrap();
    }
    let run = || {
        let mut process = room.wattle(&["run", "earthquakes.yaml", "--drain"]);
        assert_eq!(process.wait_exit(PATIENCE), 0, "log: {}", process.stderr());
        process
    };
    let first = run();
    assert!(first.says(&["embedded broker on 127.0.0.1:", "data in .wattle/broker", "development only"]));
    assert!(first.says(&["created quakes, strong-quakes with 3 partitions"]));
    assert!(first.says(&["load", "exactly once"]) && first.says(&["strong", "exactly once"]));
    let lines = fs::read_to_string(examples.join("earthquakes.jsonl")).unwrap();
    let quakes = lines.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let strong = quakes.filter(|quake| quake["mag"].as_f64().is_some_and(|mag| mag >= 4.5));
    let mut wanted: Vec<String> = strong.map(|quake| quake["id"].as_str().unwrap().to_owned()).collect();
    let mut tail = room.wattle(&["tail", "strong-quakes", "--embedded", "--from-beginning", "--count", "85"]);
    assert_eq!(tail.wait_exit(PATIENCE), 0, "log: {}", tail.stderr());
    let keys = tail.stdout().into_iter().map(|line| serde_json::from_str::<serde_json::Value>(&line).unwrap());
    let mut keys: Vec<String> = keys.map(|record| record["key"].as_str().unwrap().to_owned()).collect();
    wanted.sort_unstable();
    keys.sort_unstable();
    assert_eq!(keys, wanted);
    let topics = ["quakes", "strong-quakes"];
    let ends = look(room, |cluster| {
        assert_eq!(topics.map(|topic| count(cluster, topic, ReadUncommitted)), [lines.lines().count() as u64, 85]);
        topics.map(|topic| cluster.ends(topic, ReadUncommitted))
    });
    let second = run();
    assert!(second.says(&["load", "done", "0 new records"]) && second.says(&["strong", "drained", "0 new records"]));
    assert!(!second.says(&["created", "with 3 partitions"]));
    assert_eq!(look(room, |cluster| topics.map(|topic| cluster.ends(topic, ReadUncommitted))), ends);
}

/// Killed together with the broker in it, in turn while a transaction of the one and of the other stream is open.
pub(super) fn a_run_that_is_killed_with_its_broker_goes_on_at_once(room: &Room) {
    let (kills, total) = room.number((6, 30_000), (20, 200_000));
    let lines = (0..total).fold(String::new(), |mut text, id| {
        writeln!(text, r#"{{"i":{id},"from":"file","pad":"{id:064}"}}"#).unwrap();
        text
    });
    fs::write(room.folder().join("input.jsonl"), lines).unwrap();
    let topics = ["lines", "copies"];
    for n in 1..=kills {
        let topic = topics[n % 2];
        let mut process = room.run(LOAD_AND_COPY);
        let cluster = Cluster::new(process.wait_broker());
        let at = || cluster.ends(topic, ReadCommitted).iter().sum::<i64>();
        let before = at();
        wait_until(&format!("kill {n}: more is committed to {topic}"), PATIENCE, || at() > before);
        wait_until("a transaction is open", PATIENCE, || !cluster.open_transactions(&[topic]).is_empty());
        assert!(process.kill(), "it was there to be killed; log: {}", process.stderr());
        eprintln!("kill {n} of {kills}: {topic} was behind {before} of {total}");
    }
    let mut process = room.run_with(LOAD_AND_COPY, &["--drain"]);
    assert_eq!(process.wait_exit(PATIENCE), 0, "log: {}", process.stderr());
    assert!(!process.says(&["load", " 0 new records"]), "every kill met records in flight");
    look(room, |cluster| {
        for topic in topics {
            Ledger::of(cluster, topic).assert_exact(0..total);
            assert!(count(cluster, topic, ReadUncommitted) > total, "aborted records lie in {topic}");
        }
        cluster.wait_settled(&topics);
    });
}

/// A folder in which a run with `--drain` cannot end before the transaction `gate` is fenced.
fn gated(room: &Room) {
    fs::write(room.folder().join("input.jsonl"), "{\"i\":1}\n{\"i\":2}\n{\"i\":3}\n").unwrap();
    look(room, |cluster| {
        for topic in ["lines", "copies"] {
            cluster.create_topic(topic, 1, &[]);
        }
        let open = Transaction::open(cluster.address(), "gate");
        open.write("lines", 0, [("k", r#"{"i":0}"#.to_owned())]);
    });
}

/// Starts a run that holds the broker and cannot end yet, and another one that has joined it.
fn host_and_guest(room: &Room) -> (Process, Process) {
    gated(room);
    let host = room.run_with(LOAD_AND_COPY, &["--drain"]);
    let guest = guest(room, &host);
    (host, guest)
}

/// Starts a run that joins the broker of `host`: a copy of its own.
fn guest(room: &Room, host: &Process) -> Process {
    let address = host.wait_broker();
    let guest = room.run_with(COPY.replace("copies", "more").replace("copy", "more"), &["--embedded"]);
    guest.wait_says(&[&format!("embedded broker of process {} on {address}", host.pid())], PATIENCE);
    guest
}

const STAYS: [&str; 1] = ["the embedded broker stays for other processes that use it"];

pub(super) fn a_second_process_joins_the_broker_which_stays_until_it_has_ended(room: &Room) {
    let (mut host, mut guest) = host_and_guest(room);
    let mut tail = room.wattle(&["tail", "copies", "--embedded", "--from-beginning"]);
    assert!(!host.says(&STAYS), "its own streams still run");
    fence(&host.wait_broker(), "gate");
    host.wait_says(&STAYS, PATIENCE);
    assert!(host.says(&["load", "done"]) && host.says(&["copy", "drained"]), "log: {}", host.stderr());
    wait_until("tail prints the records", PATIENCE, || tail.stdout().len() == 3);
    tail.signal(Signal::SIGINT);
    assert_eq!(tail.wait_exit(PATIENCE), 0, "log: {}", tail.stderr());
    assert!(host.is_running() && guest.is_running());
    let mut tail = room.wattle(&["tail", "more", "--embedded", "--from-beginning", "--count", "3"]);
    assert_eq!(tail.wait_exit(PATIENCE), 0, "log: {}", tail.stderr());
    guest.stop_cleanly();
    assert!(guest.says(&["created more with 3 partitions"]) && guest.says(&["more", "3 in", "3 out"]));
    assert_eq!(host.wait_exit(PATIENCE), 0, "log: {}", host.stderr());
}

pub(super) fn a_signal_ends_a_process_that_stays_for_others(room: &Room) {
    let (mut host, _guest) = host_and_guest(room);
    fence(&host.wait_broker(), "gate");
    host.wait_says(&STAYS, PATIENCE);
    host.signal(Signal::SIGINT);
    assert_eq!(host.wait_exit(PATIENCE), 0, "log: {}", host.stderr());
}

/// The next process that opens the folder answers at the same address.
pub(super) fn a_process_whose_broker_has_ended_says_so_and_goes_on_with_the_next(room: &Room) {
    let mut host = room.run_with(COPY, &["--embedded"]);
    let guests = [guest(room, &host), room.wattle(&["tail", "lines", "--embedded", "--from-beginning"])];
    let load = Load { address: host.wait_broker(), topics: vec!["lines".to_owned()], partitions: 3 };
    load.send(0..1);
    wait_until("tail prints the record", PATIENCE, || guests[1].stdout().len() == 1);
    assert!(host.kill(), "it was there to be killed");
    let said = format!("the embedded broker of process {} has ended", host.pid());
    for guest in &guests {
        guest.wait_says(&[&said, &host.wait_broker()], PATIENCE);
    }
    let mut next = room.run_with(COPY, &["--embedded"]);
    assert_eq!(next.wait_broker(), host.wait_broker());
    load.send(1..2);
    wait_until("tail prints the second record", PATIENCE, || guests[1].stdout().len() == 2);
    let cluster = Cluster::new(next.wait_broker());
    cluster.group("copy").wait_drained(&["lines"], PATIENCE);
    Ledger::of(&cluster, "copies").assert_exact(0..2);
    for mut process in guests {
        process.stop_cleanly();
    }
    drop(cluster); // it is a client too
    next.stop_cleanly();
}

/// The record that it fails over comes when the other process has joined.
pub(super) fn a_failed_run_that_stays_for_others_has_still_failed(room: &Room) {
    let fails = "    pipeline: {processors: [{type: vrl, statement: 'abort'}]}\n";
    let mut host = room.run_with(format!("{COPY}{fails}"), &["--embedded"]);
    let _guest = guest(room, &host);
    Load { address: host.wait_broker(), topics: vec!["lines".to_owned()], partitions: 3 }.send(0..1);
    host.wait_says(&STAYS, PATIENCE);
    host.signal(Signal::SIGINT);
    assert_eq!(host.wait_exit(PATIENCE), 1, "log: {}", host.stderr());
}

pub(super) fn without_any_broker_the_embedded_one_is_mentioned(room: &Room) {
    for mut process in [room.run(COPY), room.wattle(&["tail", "lines"])] {
        assert_eq!(process.wait_exit(PATIENCE), 2, "exit code of a refused configuration");
        assert!(process.says(&["no brokers", "--brokers", "WATTLE_BROKERS", "--embedded"]), "{}", process.stderr());
    }
    let both = ["--embedded", "--brokers", "127.0.0.1:1"];
    for mut process in [room.run_with(COPY, &both), room.wattle(&[&["tail", "lines"], &both[..]].concat())] {
        assert_eq!(process.wait_exit(PATIENCE), 2, "exit code of a refused command line");
        assert!(process.says(&["--embedded", "cannot be used with", "--brokers"]), "{}", process.stderr());
    }
    assert!(!room.folder().join(".wattle").exists(), "nothing was started");
}

pub(super) fn the_environment_does_not_stop_the_embedded_broker(room: &Room) {
    let nobody = "127.0.0.1:1";
    let file =
        "streams: [{id: g, input: {type: generate, context: {i: 7}, count: 2}, output: {type: kafka, topic: t}}]";
    fs::write(room.folder().join("generate.yaml"), file).unwrap();
    let mut process = room.wattle_beside(nobody, &["run", "generate.yaml", "--embedded"]);
    assert_eq!(process.wait_exit(PATIENCE), 0, "log: {}", process.stderr());
    assert!(process.says(&["embedded broker on", "data in .wattle/broker"]), "log: {}", process.stderr());
    let tail = ["tail", "t", "--embedded", "--from-beginning", "--count", "2"];
    let mut process = room.wattle_beside(nobody, &tail);
    assert_eq!(process.wait_exit(PATIENCE), 0, "log: {}", process.stderr());
    assert!(process.stdout().iter().all(|line| line.contains(r#""value":{"i":7}"#)), "{:?}", process.stdout());
    assert_eq!(process.stdout().len(), 2);
}
