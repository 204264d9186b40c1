//! The promises of the log, on a disk that loses power, fails and fills up.

mod accept;
mod bounds;
mod chaos;
mod damage;
mod faults;
mod numbers;
mod replay;
mod sim;
mod starts;

use std::sync::Arc;
use std::time::Duration;

use sim::Sim;

use crate::{Accepted, Error, Log, Options, Position, Sequence, SyncMode};

/// Long enough that nothing is synced by the clock.
const RARELY: SyncMode = SyncMode::Periodic(Duration::from_secs(3600));
const MODES: [SyncMode; 3] = [SyncMode::PerEntry, SyncMode::GroupCommit, RARELY];

/// A log whose segments are small.
fn options(sync: SyncMode) -> Options {
    Options { sync, max_bytes: 64 << 10, segment_bytes: 4 << 10 }
}

fn open(disk: &Sim, sync: SyncMode) -> Log {
    Log::on(Arc::new(disk.clone()), options(sync)).unwrap()
}

fn try_open(disk: &Sim) -> Result<Log, Error> {
    Log::on(Arc::new(disk.clone()), options(SyncMode::GroupCommit))
}

fn append(log: &Log, text: &str) -> Sequence {
    log.try_append(text.into()).unwrap().wait().unwrap()
}

fn wait(accepted: Vec<Accepted>) {
    for accepted in accepted {
        accepted.wait().unwrap();
    }
}

/// What is there from a position on.
fn read(log: &Log, from: Option<Position>) -> Vec<(u64, String)> {
    let mut reader = log.reader(from).unwrap();
    let mut entries = Vec::new();
    while let Some(entry) = reader.read().unwrap() {
        entries.push((entry.sequence.0, String::from_utf8(entry.bytes.to_vec()).unwrap()));
    }
    entries
}

fn texts(log: &Log, from: Option<Position>) -> Vec<String> {
    read(log, from).into_iter().map(|(_, text)| text).collect()
}
