//! A stage that keeps state, through everything that goes wrong in a bad night.

use std::time::Duration;

use nix::sys::signal::Signal;

use super::state::{assert_counts_of, start_at};
use crate::harness::broker::Broker;
use crate::harness::load::Load;
use crate::harness::process::Process;
use crate::harness::room::Room;
use crate::harness::wait::{PATIENCE, wait_until};

const PARTITIONS: i32 = 6;
/// The example's session: a process that stands still for longer has lost its partitions when it goes on.
const SESSION: Duration = Duration::from_secs(6);

/// Two processes, then three, then one. They are killed, stopped for longer than their session and let go, and asked to end, in turn, each at a
/// moment when more was counted since the last time; the broker dies twice. The counts of each key are 1, 2, 3, … and every record is counted.
pub(super) fn counts_are_exact_whatever_becomes_of_processes_and_broker(room: &Room) {
    let faults: usize = room.number(3, 50);
    let broker = room.own_broker();
    let (input, output) = (room.name("in"), room.name("out"));
    for topic in [&input, &output] {
        broker.cluster().create_topic(topic, PARTITIONS, &[]);
    }
    let load = Load { address: broker.address(), topics: vec![input.clone()], partitions: PARTITIONS }.start(0, 2000);
    let mut night = Night { room, broker: &broker, input, output, processes: Vec::new() };
    for fault in 0..faults {
        night.wait_progress();
        let wanted = [2, 3, 1][fault * 3 / faults];
        night.be(wanted);
        night.wait_progress();
        let victim = fault % wanted;
        match fault % 3 {
            0 => {
                let (cluster, output) = (broker.cluster(), night.output.clone());
                night.processes[victim].kill_in_transaction(cluster, &[&output]);
                night.processes[victim] = night.start(victim);
            }
            1 => {
                let process = &mut night.processes[victim];
                process.signal(Signal::SIGSTOP);
                // The fault is the time itself.
                std::thread::sleep(SESSION + Duration::from_secs(2));
                process.signal(Signal::SIGCONT);
            }
            _ => {
                night.processes[victim].stop_cleanly();
                night.processes[victim] = night.start(victim);
            }
        }
        if fault == faults / 4 || fault == faults * 3 / 4 {
            broker.kill();
            broker.start_again();
        }
        eprintln!("fault {} of {faults}: the group stands at {}", fault + 1, night.progress());
    }
    let total = load.finish();
    let group = broker.cluster().group(&room.group());
    wait_until("everything is counted", 3 * PATIENCE, || {
        night.supervise();
        group.lag(&[&night.input]) == 0
    });
    night.be(0);
    broker.cluster().wait_settled(&[&night.output, &format!("{}-changelog", room.group())]);
    assert_counts_of(broker.cluster(), &night.output, PARTITIONS, total);
    eprintln!("{}: {total} records over {faults} faults: every key counted without gap or repeat", room.group());
}

struct Night<'a> {
    room: &'a Room,
    broker: &'a Broker,
    input: String,
    output: String,
    processes: Vec<Process>,
}

impl Night<'_> {
    /// The state of the first is in memory; the others find the folder of the one before, whatever has happened meanwhile.
    fn start(&self, index: usize) -> Process {
        let folder = format!("state-{index}");
        let more: &[&str] = if index == 0 { &[] } else { &["--state-dir", &folder] };
        start_at(self.room, &self.broker.address(), "count", &self.input, &self.output, more)
    }

    /// Starts or stops processes until there are so many.
    fn be(&mut self, wanted: usize) {
        self.supervise();
        while self.processes.len() > wanted {
            self.processes.pop().expect("there is one").stop_cleanly();
        }
        while self.processes.len() < wanted {
            self.processes.push(self.start(self.processes.len()));
        }
    }

    /// Starts those again that have ended over the broker's death.
    fn supervise(&mut self) {
        for index in 0..self.processes.len() {
            if !self.processes[index].is_running() {
                let code = self.processes[index].wait_exit(Duration::ZERO);
                assert_ne!(code, 0, "exit code of a process that ended by itself");
                self.processes[index] = self.start(index);
            }
        }
    }

    fn progress(&self) -> i64 {
        self.broker.cluster().group(&self.room.group()).progress(&[&self.input])
    }

    fn wait_progress(&mut self) {
        if self.processes.is_empty() {
            return;
        }
        let seen = self.progress();
        wait_until("more is counted", 2 * PATIENCE, || {
            self.supervise();
            self.progress() > seen + 500
        });
    }
}
