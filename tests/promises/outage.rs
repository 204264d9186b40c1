//! The broker dies and comes back.

use std::time::Duration;

use crate::harness::broker::Broker;
use crate::harness::ledger::Ledger;
use crate::harness::load::Load;
use crate::harness::pipeline::Pipeline;
use crate::harness::process::Process;
use crate::harness::room::Room;
use crate::harness::wait::{PATIENCE, wait_until};

/// A pipeline on the broker that may be killed.
struct Night<'a> {
    room: &'a Room,
    broker: &'a Broker,
    input: String,
    output: String,
    pipeline: Pipeline,
}

impl<'a> Night<'a> {
    fn new(room: &'a Room, broker: &'a Broker) -> Self {
        let (input, output) = (room.name("in"), room.name("out"));
        broker.cluster().create_topic(&input, 3, &[]);
        broker.cluster().create_topic(&output, 3, &[]);
        let mut pipeline = room.copy_at(&broker.address(), &room.group(), &[&input], &output);
        // Outlasts the outage in either scope: Kafka 4.3.1 may lose the end of a transaction that it times out while it starts.
        pipeline.transaction_timeout = Some("60s");
        Night { room, broker, input, output, pipeline }
    }

    fn load(&self) -> Load {
        Load { address: self.broker.address(), topics: vec![self.input.clone()], partitions: 3 }
    }

    fn progress(&self) -> i64 {
        self.broker.cluster().group(&self.room.group()).progress(&[&self.input])
    }

    /// What a supervisor does: a process that ended is started again. Ending well is not allowed.
    fn supervise(&self, process: &mut Process) {
        if !process.is_running() {
            assert_ne!(process.wait_exit(Duration::ZERO), 0, "exit code of a process that ended by itself");
            *process = self.room.run(&self.pipeline);
        }
    }

    fn wait_progress(&self, process: &mut Process, more: i64) {
        let seen = self.progress();
        wait_until(&format!("{more} more records are committed"), 2 * PATIENCE, || {
            self.supervise(process);
            self.progress() >= seen + more && process.is_running()
        });
    }

    /// What a process that ended has left open hides records until it is over.
    fn is_exact(&self, total: u64) {
        self.broker.cluster().wait_settled_within(2 * PATIENCE, &[&self.output]);
        Ledger::of(self.broker.cluster(), &self.output).assert_exact(0..total);
    }

    fn wait_drained(&self, process: &mut Process) {
        wait_until("everything is processed", 2 * PATIENCE, || {
            self.supervise(process);
            self.broker.cluster().group(&self.room.group()).lag(&[&self.input]) == 0
        });
    }
}

pub(super) fn a_broker_that_is_killed_under_load_loses_and_doubles_nothing(room: &Room) {
    let broker = room.own_broker();
    let night = Night::new(room, &broker);
    let load = night.load().start(0, 2000);
    let mut process = room.run(&night.pipeline);
    for _ in 0..room.number(2, 5) {
        night.wait_progress(&mut process, 2000);
        let lines = process.stderr().lines().count();
        broker.kill();
        broker.start_again();
        night.wait_progress(&mut process, 2000);
        let more = process.stderr().lines().count().saturating_sub(lines);
        assert!(more < 200, "an outage is not {more} lines of log");
    }
    let total = load.finish();
    night.wait_drained(&mut process);
    night.is_exact(total);
    process.stop_cleanly();
}

/// Without transactions: nothing is missing.
pub(super) fn at_least_once_misses_nothing_when_the_broker_is_killed(room: &Room) {
    let broker = room.own_broker();
    let mut night = Night::new(room, &broker);
    night.pipeline = night.pipeline.at_least_once();
    let load = night.load().start(0, 2000);
    let mut process = room.run(&night.pipeline);
    for _ in 0..2 {
        night.wait_progress(&mut process, 2000);
        broker.kill();
        broker.start_again();
    }
    night.wait_progress(&mut process, 2000);
    let total = load.finish();
    night.wait_drained(&mut process);
    Ledger::of(broker.cluster(), &night.output).assert_complete(0..total);
}

/// A coordinator that is loading must not look like a group without positions.
pub(super) fn a_start_beside_a_starting_broker_repeats_nothing(room: &Room) {
    let broker = room.own_broker();
    let night = Night::new(room, &broker);
    night.load().send(0..1000);
    room.drain(&night.pipeline);
    for _ in 0..room.number(2, 10) {
        broker.kill();
        let mut process = std::thread::scope(|scope| {
            scope.spawn(|| broker.start_again());
            room.run(&night.pipeline)
        });
        // It has waited for the broker, or said that there is none.
        wait_until("it owns its partitions or has ended", PATIENCE, || {
            night.supervise(&mut process);
            process.says(&["task", "started"]) && broker.cluster().group(&room.group()).members() == Some(vec![3])
        });
        process.stop_cleanly();
        assert_eq!(night.progress(), 1000);
    }
    night.is_exact(1000);
}

/// Frozen for longer than requests wait: the process recovers or ends, and is never alive and idle.
pub(super) fn a_broker_that_was_frozen_is_worked_with_again(room: &Room) {
    let broker = room.own_broker();
    let mut night = Night::new(room, &broker);
    // A call of the client may hang over it: the watchdog ends the process after twice this time and some.
    night.pipeline.transaction_timeout = Some("10s");
    let load = night.load().start(0, 100);
    let mut process = room.run(&night.pipeline);
    night.wait_progress(&mut process, 100);
    broker.kafka().freeze();
    // The fault is the time itself: requests wait for ten seconds and more.
    std::thread::sleep(Duration::from_secs(room.number(14, 90)));
    broker.kafka().thaw();
    let seen = night.progress();
    wait_until("it goes on, or ends and is started again", PATIENCE, || {
        night.supervise(&mut process);
        night.progress() > seen + 500
    });
    let total = load.finish();
    night.wait_drained(&mut process);
    night.is_exact(total);
    process.stop_cleanly();
}
