//! Read, write and commit exactly once with two workers, while everything is killed.

use std::time::Duration;

use super::client::Writer;
use super::worker::{REPLACE_ME, copier};
use crate::harness::cluster::Cluster;
use crate::harness::ledger::Ledger;
use crate::harness::load::Load;
use crate::harness::process::Process;
use crate::harness::room::Room;
use crate::harness::wait::{PATIENCE, wait_until};

const PARTITIONS: i32 = 4;
const KILLS: u64 = 4;

/// Two workers of one group. Each has a transactional id and an output of its own, so that it can be seen which of them has a
/// transaction open.
struct Pair<'a> {
    room: &'a Room,
    cluster: &'a Cluster,
    input: String,
    outputs: [String; 2],
    workers: [Process; 2],
    records: u64,
}

impl<'a> Pair<'a> {
    fn start(room: &'a Room, cluster: &'a Cluster, records: u64) -> Self {
        let (input, outputs) = (room.name("in"), ["out0", "out1"].map(|part| room.name(part)));
        for topic in outputs.iter().chain([&input]) {
            cluster.create_topic(topic, PARTITIONS, &[]);
        }
        let load = Load { address: cluster.address().to_owned(), topics: vec![input.clone()], partitions: PARTITIONS };
        load.send(0..records);
        let workers = [0, 1].map(|n| worker(room, cluster, n));
        Pair { room, cluster, input, outputs, workers, records }
    }

    fn progress(&self) -> i64 {
        self.cluster.group(&self.room.group()).progress(&[&self.input])
    }

    /// Starts a worker again that could not go on.
    fn supervise(&mut self) {
        for n in 0..2 {
            if !self.workers[n].is_running() {
                let exit = self.workers[n].wait_exit(Duration::ZERO);
                assert_eq!(exit, i32::from(REPLACE_ME), "{}", self.workers[n].stderr());
                self.workers[n] = worker(self.room, self.cluster, n);
            }
        }
    }

    /// Waits for the `n`th of the shares that the kills divide the records into; some are left then.
    fn wait_share(&mut self, n: u64) {
        let share = i64::try_from(self.records * n / (KILLS + 2)).expect("few");
        wait_until(&format!("{share} records are committed"), 2 * PATIENCE, || {
            self.supervise();
            self.progress() >= share
        });
        let at = self.progress();
        assert!(at < self.records as i64, "a kill with records in flight: at {at} of {}", self.records);
        eprintln!("kill {n} of {KILLS}: the group stands at {at} of {}", self.records);
    }

    fn finish(mut self) {
        wait_until("everything is processed", 3 * PATIENCE, || {
            self.supervise();
            self.cluster.group(&self.room.group()).lag(&[&self.input]) == 0
        });
        for n in 0..2 {
            self.workers[n].kill();
            Writer::ready(self.cluster.address(), &self.room.name(&n.to_string())); // ends what it has left open
        }
        self.cluster.wait_settled(&[&self.outputs[0], &self.outputs[1]]);
        let mut ledger = Ledger::of(self.cluster, &self.outputs[0]);
        ledger.add(self.cluster, &self.outputs[1]);
        ledger.assert_exact(0..self.records);
    }
}

fn worker(room: &Room, cluster: &Cluster, n: usize) -> Process {
    let (id, output) = (room.name(&n.to_string()), room.name(&format!("out{n}")));
    room.client(&copier(cluster.address(), &room.group(), &id, &room.name("in"), &output))
}

pub(super) fn workers_that_are_killed_process_every_record_once(room: &Room) {
    let cluster = room.cluster();
    let mut pair = Pair::start(room, cluster, room.number(60_000, 300_000));
    for kill in 1..=KILLS {
        pair.wait_share(kill);
        let n = usize::try_from(kill % 2).expect("0 or 1");
        let output = pair.outputs[n].clone();
        pair.workers[n].kill_in_transaction(cluster, &[&output]);
        pair.workers[n] = worker(room, cluster, n);
    }
    pair.finish();
}

pub(super) fn workers_process_every_record_once_beside_a_broker_that_is_killed(room: &Room) {
    let broker = room.own_broker();
    let mut pair = Pair::start(room, broker.cluster(), room.number(60_000, 300_000));
    for kill in 1..=KILLS {
        pair.wait_share(kill);
        broker.kill();
        broker.start_again();
    }
    pair.finish();
}
