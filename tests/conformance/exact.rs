//! Read, write and commit exactly once with two workers, while everything is killed.

use std::time::Duration;

use super::client::Writer;
use super::worker::{REPLACE_ME, copier};
use crate::harness::cluster::Cluster;
use crate::harness::ledger::Ledger;
use crate::harness::load::{Load, Running};
use crate::harness::process::Process;
use crate::harness::room::Room;
use crate::harness::wait::{PATIENCE, wait_until};

const PARTITIONS: i32 = 4;
const KILLS: u64 = 4;
/// Records a second, written until the last kill is over: a worker that comes back always finds some to be killed with.
const RATE: u64 = 1000;

/// Two workers of one group. Each has a transactional id and an output of its own, so that it can be seen which of them has a
/// transaction open.
struct Pair<'a> {
    room: &'a Room,
    cluster: &'a Cluster,
    input: String,
    outputs: [String; 2],
    workers: [Process; 2],
    load: Running,
}

impl<'a> Pair<'a> {
    fn start(room: &'a Room, cluster: &'a Cluster) -> Self {
        let (input, outputs) = (room.name("in"), ["out0", "out1"].map(|part| room.name(part)));
        for topic in outputs.iter().chain([&input]) {
            cluster.create_topic(topic, PARTITIONS, &[]);
        }
        let load = Load { address: cluster.address().to_owned(), topics: vec![input.clone()], partitions: PARTITIONS };
        let load = load.start(0, RATE);
        let workers = [0, 1].map(|n| worker(room, cluster, n));
        Pair { room, cluster, input, outputs, workers, load }
    }

    fn progress(&self) -> i64 {
        self.cluster.group(&self.room.group()).progress(&[&self.input])
    }

    /// Waits until `records` more are committed.
    fn wait_progress(&mut self, kill: u64, records: u64) {
        let goal = self.progress() + i64::try_from(records).expect("few");
        wait_until(&format!("{goal} records are committed"), 2 * PATIENCE, || {
            supervise(self.room, self.cluster, &mut self.workers);
            self.progress() >= goal
        });
        eprintln!("kill {kill} of {KILLS}: the group stands at {}", self.progress());
    }

    fn finish(self) {
        let Pair { room, cluster, input, outputs, mut workers, load } = self;
        let written = load.finish();
        wait_until("everything is processed", 3 * PATIENCE, || {
            supervise(room, cluster, &mut workers);
            cluster.group(&room.group()).lag(&[&input]) == 0
        });
        for (n, worker) in workers.iter_mut().enumerate() {
            worker.kill();
            Writer::ready(cluster.address(), &room.name(&n.to_string())); // ends what it has left open
        }
        cluster.wait_settled(&[&outputs[0], &outputs[1]]);
        let mut ledger = Ledger::of(cluster, &outputs[0]);
        ledger.add(cluster, &outputs[1]);
        ledger.assert_exact(0..written);
    }
}

/// Starts a worker again that could not go on.
fn supervise(room: &Room, cluster: &Cluster, workers: &mut [Process; 2]) {
    for (n, process) in workers.iter_mut().enumerate() {
        if !process.is_running() {
            let exit = process.wait_exit(Duration::ZERO);
            assert_eq!(exit, i32::from(REPLACE_ME), "{}", process.stderr());
            *process = worker(room, cluster, n);
        }
    }
}

fn worker(room: &Room, cluster: &Cluster, n: usize) -> Process {
    let (id, output) = (room.name(&n.to_string()), room.name(&format!("out{n}")));
    room.client(&copier(cluster.address(), &room.group(), &id, &room.name("in"), &output))
}

pub(super) fn workers_that_are_killed_process_every_record_once(room: &Room) {
    let cluster = room.cluster();
    let mut pair = Pair::start(room, cluster);
    for kill in 1..=KILLS {
        pair.wait_progress(kill, room.number(2_000, 10_000));
        let n = usize::try_from(kill % 2).expect("0 or 1");
        let output = pair.outputs[n].clone();
        // One that was frozen for too long may end when it goes on.
        wait_until("it is frozen in a transaction", PATIENCE, || {
            supervise(room, cluster, &mut pair.workers);
            pair.workers[n].try_freeze_in_transaction(cluster, &[&output]) && pair.workers[n].is_running()
        });
        assert!(pair.workers[n].kill(), "it was there to be killed");
        pair.workers[n] = worker(room, cluster, n);
    }
    pair.finish();
}

pub(super) fn workers_process_every_record_once_beside_a_broker_that_is_killed(room: &Room) {
    let broker = room.own_broker();
    let mut pair = Pair::start(room, broker.cluster());
    for kill in 1..=KILLS {
        pair.wait_progress(kill, room.number(2_000, 10_000));
        broker.kill();
        broker.start_again();
    }
    pair.finish();
}
