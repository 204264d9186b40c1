//! `kill -9`: a process accepts entries and processes them exactly once into a pipe, is killed at any moment, and starts again.
//!
//! The pipe is a sink with transactions: what the parent has read whole is committed. A child writes `accepted NUMBER ID` when an appender is told, and in one piece
//! for each transaction `processed NUMBER ID` … `committed POSITION`.

#![allow(clippy::unwrap_used)] // a program that is a test

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write, stdout};
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use std::{env, thread};

use libtest_mimic::{Arguments, Trial};
use wattle_wal::{Error, Log, Options, Position, SyncMode};

const MODES: [(&str, SyncMode); 3] = [
    ("per_entry", SyncMode::PerEntry),
    ("group_commit", SyncMode::GroupCommit),
    ("periodic", SyncMode::Periodic(Duration::from_millis(50))),
];
const ROUNDS: usize = 12;
const APPENDERS: usize = 8;

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    if let [child, folder, mode, first_id, position] = &arguments[..]
        && child == "--child"
    {
        serve(Path::new(folder), mode, first_id.parse().unwrap(), position.parse().unwrap());
    }
    let trial = |(name, _)| {
        let body = move || {
            Sink::default().run(name);
            Ok(())
        };
        Trial::test(format!("accepted_entries_are_processed_once_over_kills::{name}"), body)
    };
    libtest_mimic::run(&Arguments::from_args(), MODES.map(trial).into()).exit_code()
}

fn open(folder: &Path, mode: &str) -> Log {
    let sync = MODES.into_iter().find(|(name, _)| *name == mode).unwrap().1;
    // Small, so that segments come, go and run full all the time.
    Log::open(folder, "kill", Options { sync, max_bytes: 256 << 10, segment_bytes: 32 << 10 }).unwrap()
}

/// The child.
fn serve(folder: &Path, mode: &str, first_id: u64, position: u64) -> ! {
    let log = Arc::new(open(folder, mode));
    let ids = Arc::new(AtomicU64::new(first_id));
    for _ in 0..APPENDERS {
        let (log, ids) = (log.clone(), ids.clone());
        thread::spawn(move || accept(&log, &ids));
    }
    process(&log, Position(position))
}

fn accept(log: &Log, ids: &AtomicU64) -> ! {
    loop {
        let id = ids.fetch_add(1, Ordering::Relaxed);
        let entry = format!("{id} {}", "x".repeat((id % 300) as usize));
        let number = loop {
            match log.try_append(entry.clone().into()) {
                Ok(accepted) => break accepted.wait().unwrap(),
                Err(Error::Full { .. } | Error::Busy) => thread::yield_now(),
                Err(other) => panic!("{other}"),
            }
        };
        stdout().lock().write_all(format!("accepted {number} {id}\n").as_bytes()).unwrap();
    }
}

fn process(log: &Log, from: Position) -> ! {
    let mut reader = log.reader(Some(from)).unwrap();
    loop {
        let mut transaction = String::new();
        for _ in 0..100 {
            let Some(entry) = reader.read().unwrap() else { break };
            let text = std::str::from_utf8(entry.bytes).unwrap();
            let id = text.split(' ').next().unwrap();
            transaction.push_str(&format!("processed {} {id}\n", entry.sequence));
        }
        if transaction.is_empty() {
            reader.wait(Duration::from_secs(60));
            continue;
        }
        let position = reader.position();
        transaction.push_str(&format!("committed {position}\n"));
        stdout().lock().write_all(transaction.as_bytes()).unwrap();
        log.cover(position).unwrap();
    }
}

/// The parent.
#[derive(Default)]
struct Sink {
    accepted: BTreeMap<u64, u64>,
    processed: BTreeMap<u64, u64>,
    /// Of a transaction that is not committed.
    open: Vec<(u64, u64)>,
    position: u64,
    highest_id: u64,
}

impl Sink {
    fn run(mut self, mode: &str) {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let mut rng = fastrand::Rng::with_seed(mode.len() as u64);
        for _ in 0..ROUNDS {
            let mut child = self.start(folder, mode);
            let mut lines = BufReader::new(child.stdout.take().unwrap());
            self.take(&mut lines, Some(rng.usize(1..3000)));
            child.kill().unwrap();
            child.wait().unwrap();
            // What is in the pipe was written before the end.
            self.take(&mut lines, None);
            self.open.clear();
        }
        self.process_rest(&open(folder, mode));
        assert!(self.accepted.len() > ROUNDS * 20, "{} accepted", self.accepted.len());
        for (number, id) in &self.accepted {
            assert_eq!(self.processed.get(number), Some(id), "accepted as {number}");
        }
        let mut ids: Vec<_> = self.processed.values().collect();
        ids.sort_unstable();
        assert!(ids.is_sorted_by(|a, b| a < b), "an id was processed twice");
    }

    fn start(&self, folder: &Path, mode: &str) -> Child {
        let mut command = Command::new(env::current_exe().unwrap());
        command.arg("--child").arg(folder).arg(mode);
        // Ids that a killed child may have used without a word are left out.
        command.arg((self.highest_id + 10_000).to_string()).arg(self.position.to_string());
        command.stdout(Stdio::piped()).spawn().unwrap()
    }

    /// Takes so many lines, or all; a line without its end was cut off by the kill.
    fn take(&mut self, lines: &mut impl BufRead, count: Option<usize>) {
        let mut line = String::new();
        for _ in 0..count.unwrap_or(usize::MAX) {
            line.clear();
            if lines.read_line(&mut line).unwrap() == 0 || !line.ends_with('\n') {
                return assert!(count.is_none(), "the child has ended by itself");
            }
            let mut words = line.split_whitespace();
            let what = words.next().unwrap();
            let mut number = || words.next().unwrap().parse::<u64>().unwrap();
            match what {
                "accepted" => self.accept(number(), number()),
                "processed" => self.open.push((number(), number())),
                "committed" => self.commit(number()),
                other => panic!("{other}"),
            }
        }
    }

    fn accept(&mut self, number: u64, id: u64) {
        self.highest_id = self.highest_id.max(id);
        assert_eq!(self.accepted.insert(number, id), None, "number {number} was used twice");
    }

    fn commit(&mut self, position: u64) {
        for (number, id) in self.open.drain(..) {
            assert!((self.position..position).contains(&number), "{number} is out of order");
            self.position = number + 1;
            self.highest_id = self.highest_id.max(id);
            self.processed.insert(number, id);
        }
    }

    fn process_rest(&mut self, log: &Log) {
        let mut reader = log.reader(Some(Position(self.position))).unwrap();
        while let Some(entry) = reader.read().unwrap() {
            let text = std::str::from_utf8(entry.bytes).unwrap();
            self.open.push((entry.sequence.0, text.split(' ').next().unwrap().parse().unwrap()));
        }
        self.commit(reader.position().0);
    }
}
