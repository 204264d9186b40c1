//! What runs in the processes.

use std::fs;
use std::path::PathBuf;

use crate::harness::cluster::Cluster;
use crate::harness::ledger::{Ledger, assert_counts_of};
use crate::harness::process::Process;
use crate::harness::room::Room;

use super::plan::PARTITIONS;

/// A pipeline without state, or the library's example that counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    Copy,
    Count,
}

/// Outlasts the death of a broker: Kafka 4.3.1 may lose the end of a transaction that it times out while it starts.
const TIMEOUT: &str = "20s";

impl Stage {
    /// Starts process number `index`. Of those that count, each other one keeps its state in a folder of its own, over its deaths too.
    pub(super) fn start(self, room: &Room, brokers: &str, index: usize, input: &str, output: &str) -> Process {
        if self == Stage::Copy {
            let mut pipeline = room.copy_at(brokers, &room.group(), &[input], output);
            pipeline.transaction_timeout = Some(TIMEOUT);
            return room.run(&pipeline);
        }
        let scope = if room.mode().is_worker() { "worker" } else { "task" };
        let (id, folder) = (room.group(), format!("state-{index}"));
        let place = ["--brokers", brokers, "--input", input, "--output", output];
        let more = ["--application-id", &id, "--transaction-scope", scope, "--state-dir", &folder];
        let more = if index.is_multiple_of(2) { &more[..] } else { &more[..4] };
        // A file that may not grow is then an error, as on a full disk, and no signal.
        room.example_in_shell("trap '' XFSZ; exec \"$0\" \"$@\"", "count", &[&place[..], more].concat())
    }

    /// # Panics
    /// Unless the output has each of the load's records once, and those of a key in order.
    pub(super) fn judge(self, cluster: &Cluster, output: &str, total: u64) {
        match self {
            Stage::Copy => Ledger::of(cluster, output).assert_exact(0..total),
            Stage::Count => assert_counts_of(cluster, output, PARTITIONS, total),
        }
    }
}

/// A process whose log is kept when it ends.
pub(super) struct Member {
    pub(super) process: Process,
    log: PathBuf,
}

impl Member {
    pub(super) fn new(process: Process, log: PathBuf) -> Self {
        Member { process, log }
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.process.kill();
        fs::write(&self.log, self.process.stderr()).expect("a log");
    }
}
