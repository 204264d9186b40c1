//! `wattle broker`: the embedded broker in a process of its own.

use std::fs;
use std::net::TcpListener;
use std::time::Duration;

use crate::harness::cluster::Cluster;
use crate::harness::cluster::Isolation::ReadCommitted;
use crate::harness::ledger::{Ledger, count};
use crate::harness::load::Load;
use crate::harness::ports::free_ports;
use crate::harness::process::Process;
use crate::harness::room::Room;
use crate::harness::wait::{PATIENCE, wait_until};

const GENERATE: &str = "\
brokers: embedded
streams: [{id: g, input: {type: generate, context: {i: 7}, count: 100}, output: {type: kafka, topic: t}}]
";

fn broker(room: &Room) -> Process {
    let process = room.wattle(&["broker", "--listen", "127.0.0.1:0"]);
    process.wait_broker();
    process
}

/// Runs `wattle broker` with these arguments; it must refuse with all of these words.
fn refused(room: &Room, arguments: &[&str], exit: i32, words: &[&str]) {
    let mut process = room.wattle(&[&["broker"], arguments].concat());
    assert_eq!(process.wait_exit(PATIENCE), exit, "exit code of {arguments:?}; log: {}", process.stderr());
    let log = process.stderr();
    assert!(words.iter().all(|word| log.contains(word)), "{words:?} in: {log}");
}

pub(super) fn a_broker_alone_serves_the_runs_of_its_folder(room: &Room) {
    let mut alone = broker(room);
    let address = alone.wait_broker();
    for n in 1..=2 {
        let mut run = room.run(GENERATE);
        assert_eq!(run.wait_exit(PATIENCE), 0, "log: {}", run.stderr());
        assert!(run.says(&[&format!("embedded broker of process {} on {address}", alone.pid())]), "{}", run.stderr());
        assert_eq!(count(&Cluster::new(address.clone()), "t", ReadCommitted), n * 100);
    }
    alone.stop_cleanly();
}

pub(super) fn a_broker_that_cannot_be_is_refused_with_the_place(room: &Room) {
    let first = broker(room);
    let (pid, address) = (format!("process {}", first.pid()), first.wait_broker());
    refused(room, &["--listen", "127.0.0.1:0"], 2, &[".wattle/broker", "is used by", &pid, &address]);
    let taken = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let held = TcpListener::bind(&taken).unwrap();
    refused(room, &["--data", "other", "--listen", &taken], 2, &["cannot listen on", &taken, "in use"]);
    drop(held);
    let foreign = room.folder().join("foreign");
    fs::create_dir(&foreign).unwrap();
    fs::write(foreign.join("thesis.txt"), "chapter one").unwrap();
    let path = foreign.canonicalize().unwrap();
    refused(room, &["--data", "foreign", "--listen", "127.0.0.1:0"], 2, &[path.to_str().unwrap(), "thesis.txt"]);
    let names: Vec<_> = fs::read_dir(&foreign).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["thesis.txt"], "it is as it was");
    assert_eq!(fs::read_to_string(foreign.join("thesis.txt")).unwrap(), "chapter one");
}

/// By `wattle broker`, and by a run that would start the broker.
pub(super) fn a_corrupt_journal_is_refused_with_the_byte(room: &Room) {
    let mut run = room.run(GENERATE);
    assert_eq!(run.wait_exit(PATIENCE), 0, "log: {}", run.stderr());
    let path = room.folder().join(".wattle/broker/journal").canonicalize().unwrap();
    let mut bytes = fs::read(&path).unwrap();
    // The header has 8 bytes; behind it, in the first frame, is the length of the first entry.
    bytes[8] ^= 0xff;
    fs::write(&path, &bytes).unwrap();
    let said = format!("{} is corrupt at byte 8", path.display());
    refused(room, &["--listen", "127.0.0.1:0"], 1, &[&said, "restore it, or remove the folder"]);
    let mut run = room.run(GENERATE);
    assert_eq!(run.wait_exit(PATIENCE), 1, "log: {}", run.stderr());
    assert!(run.says(&[&said]), "log: {}", run.stderr());
    assert_eq!(fs::read(&path).unwrap(), bytes, "it is as it was");
}

/// Under a producer and a pipeline, both of which write without a break.
pub(super) fn a_broker_process_that_is_killed_again_and_again_loses_and_doubles_nothing(room: &Room) {
    let kills = room.number(5, 20);
    let [port] = free_ports().unwrap();
    let address = format!("127.0.0.1:{port}");
    let start = || {
        let process = room.wattle(&["broker", "--listen", &address]);
        assert_eq!(process.wait_broker(), address);
        process
    };
    let mut broker = start();
    let cluster = Cluster::new(address.clone());
    for topic in ["in", "out"] {
        cluster.create_topic(topic, 3, &[]);
    }
    let load = Load { address: address.clone(), topics: vec!["in".to_owned()], partitions: 3 }.start(0, 2000);
    let mut pipeline = room.copy_at(&address, &room.group(), &["in"], "out");
    // Each record is a request, and a batch has some: transactions are open for long enough to be met.
    pipeline.producer = "{batch.num.messages: 1}";
    pipeline.batch = "{commit_interval: 100ms}".to_owned();
    let mut process = room.run(&pipeline);
    let group = cluster.group(&room.group());
    let mut restarts = 0;
    // What a supervisor does: a process that failed is started again.
    let mut supervise = || {
        if !process.is_running() {
            let code = process.wait_exit(Duration::ZERO);
            assert!(code == 1 || code == 3, "exit code {code} of a run that failed over the broker's death");
            process = room.run(&pipeline);
            restarts += 1;
        }
    };
    for n in 1..=kills {
        let before = group.progress(&["in"]);
        wait_until(&format!("kill {n}: the pipeline goes on from {before}"), PATIENCE, || {
            supervise();
            group.progress(&["in"]) > before
        });
        if n % 2 == 0 {
            wait_until("a transaction is open", PATIENCE, || {
                supervise();
                !cluster.open_transactions(&["out"]).is_empty()
            });
        }
        assert!(broker.kill(), "it was there to be killed");
        broker = start();
    }
    let total = load.finish();
    wait_until("everything is processed", PATIENCE, || {
        supervise();
        group.lag(&["in"]) == 0
    });
    eprintln!("{kills} kills of the broker, {restarts} restarts of the pipeline, {total} records");
    process.stop_cleanly();
    for topic in ["in", "out"] {
        Ledger::of(&cluster, topic).assert_exact(0..total);
    }
    cluster.wait_settled(&["out"]);
}
