//! What each fault does. It returns at the fault's end, and only if the fault has happened.

use std::fs;
use std::net::TcpStream;
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use nix::sys::signal::Signal;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::{Offset, TopicPartitionList};

use super::plan::Fault;
use super::storm::Storm;
use crate::harness::cluster::{answer, client, options};
use crate::harness::process::Process;
use crate::harness::proxy::{Api, Hold};
use crate::harness::transaction::fence;
use crate::harness::wait::{PATIENCE, wait_until};
use crate::harness::wire::set_topic_config;

/// So long requests are delayed.
const DELAYED: Duration = Duration::from_secs(4);
/// A marker of a transaction's end is smaller, a batch with an output is not.
const SMALL: &str = "90";
const LARGE: &str = "1048588";

impl Storm<'_> {
    pub(super) fn strike(&mut self, fault: &Fault) {
        match *fault {
            Fault::Kill { victim, in_transaction } => self.kill(victim, in_transaction),
            Fault::Terminate { victim } => {
                assert!(self.process(victim).is_running(), "it was there to be asked");
                self.stop(victim);
                self.start_again(victim);
            }
            Fault::Freeze { victim } => self.freeze(victim),
            Fault::Rebalance { joins } => self.rebalance(joins),
            Fault::Broker => {
                self.broker.kill();
                let address = self.broker.address();
                wait_until("nobody answers", PATIENCE, || TcpStream::connect(&address).is_err());
                self.broker.start_again();
            }
            Fault::Hold { api, millis } => {
                let hold = self.broker.proxy().hold(api, "");
                self.meet("a request is held", &hold, 1);
                sleep(Duration::from_millis(millis)); // the fault is the time itself
                hold.release();
            }
            Fault::Delay { api, millis } => {
                let hold = self.broker.proxy().delay(api, "", Duration::from_millis(millis));
                self.meet("a request is delayed", &hold, 1);
                sleep(DELAYED); // the fault is the time itself
                hold.release();
            }
            Fault::Cut { api, arrives, times } => {
                let cut = self.broker.proxy().cut(api, "", arrives, times);
                self.meet("connections are cut", &cut, times);
            }
            Fault::Late { api, millis } => self.late(api, millis),
            Fault::Intruder { partition, victim } => self.intrude(partition, victim),
            Fault::Refused => self.refuse(),
            Fault::Positions => self.delete_positions(),
            Fault::Disk { victim } => self.fill_disk(victim),
        }
    }

    fn kill(&mut self, victim: Option<usize>, in_transaction: bool) {
        let Some(victim) = victim else { return self.kill_all() };
        if in_transaction {
            let (cluster, output) = (self.broker.cluster(), self.output.clone());
            self.process(victim).kill_in_transaction(cluster, &[&output]);
        } else {
            // One that a fault before has ended is no victim.
            while !self.process(victim).kill() {
                self.start_again(victim);
            }
        }
        self.start_again(victim);
    }

    fn kill_all(&mut self) {
        // Where a fault before has ended all of them, there are new ones first.
        while self.processes().map(|process| usize::from(process.kill())).sum::<usize>() == 0 {
            self.start_all_again();
        }
        self.start_all_again();
    }

    fn start_all_again(&mut self) {
        for index in 0..self.len() {
            self.start_again(index);
        }
    }

    fn freeze(&mut self, victim: usize) {
        self.process(victim).freeze();
        let left = self.len() - 1;
        self.wait(&format!("the frozen process is expelled, and {left} are left"), PATIENCE, |storm| {
            storm.group().members().is_some_and(|members| members.len() == left)
        });
        self.process(victim).signal(Signal::SIGCONT);
    }

    fn rebalance(&mut self, joins: usize) {
        let before = self.len();
        for _ in 0..joins {
            self.join();
        }
        self.wait(&format!("{joins} have joined"), PATIENCE, |storm| {
            storm.group().members().is_some_and(|members| members.len() == before + joins)
        });
        for n in (0..joins).rev() {
            if n == 1 {
                assert!(self.process(before + n).kill(), "it was there to be killed");
                self.forget_last();
            }
            self.be(before + n);
        }
    }

    /// Returns when requests have met this.
    fn meet(&mut self, what: &str, hold: &Hold, times: usize) {
        self.wait(what, PATIENCE, |_| hold.met() >= times);
    }

    fn late(&mut self, api: Api, millis: u64) {
        let hold = self.broker.proxy().hold_one(api, "");
        self.meet("a request is held", &hold, 1);
        self.kill_all();
        sleep(Duration::from_millis(millis)); // not a wait for anything: it varies the moment
        hold.release();
    }

    fn intrude(&mut self, partition: i32, victim: usize) {
        let id = match self.room.mode().is_worker() {
            true => own_id(self.process(victim)),
            false => format!("{}-{partition}", self.room.group()),
        };
        let lines: Vec<usize> = self.processes().map(|process| process.lines()).collect();
        fence(&self.broker.address(), &id);
        wait_until(&format!("{id} is missed"), PATIENCE, || {
            self.processes().zip(&lines).any(|(process, &lines)| process.says_behind(lines, &["fenced", &id]))
        });
    }

    fn refuse(&mut self) {
        let (address, output) = (self.broker.address(), self.output.clone());
        set_topic_config(&address, &output, "max.message.bytes", SMALL);
        wait_until("a process ends over a record that is too large", PATIENCE, || {
            self.processes().any(|process| !process.is_running() && process.says(&["max.message.bytes", &output]))
        });
        set_topic_config(&address, &output, "max.message.bytes", LARGE);
    }

    /// State without positions is refused; with the positions that it had it goes on.
    fn delete_positions(&mut self) {
        let before = self.len();
        self.be(0);
        wait_until("the group has no member", PATIENCE, || self.group().members() == Some(Vec::new()));
        let positions = self.group().committed(&self.input);
        for result in answer(self.cluster().admin().delete_groups(&[&self.room.group()], &options())) {
            result.expect("a group without members is deleted");
        }
        assert!(self.group().committed(&self.input).iter().all(Option::is_none), "positions that were deleted");
        self.join();
        let process = self.process(0);
        assert_eq!(process.wait_exit(PATIENCE), 1, "exit code of a process whose positions are gone");
        assert!(process.says(&["no committed positions"]), "log: {}", process.stderr());
        self.set_positions(&positions);
        assert_eq!(self.group().committed(&self.input), positions, "positions that were set again");
        self.start_again(0);
        self.be(before);
    }

    /// As docs/errors/W0014.md says, with Kafka's own tool; where that is not there, as any client can.
    fn set_positions(&self, positions: &[Option<i64>]) {
        let (group, input) = (self.room.group(), &self.input);
        let positions = (0..).zip(positions).map(|(partition, at)| (partition, at.expect("a position")));
        if let Some(kafka) = self.broker.as_kafka() {
            let file = self.room.folder().join("positions.csv");
            let lines: String = positions.map(|(partition, at)| format!("{input},{partition},{at}\n")).collect();
            fs::write(&file, lines).expect("a file");
            let file = file.to_str().expect("a path that is text");
            let address = self.broker.address();
            let place = ["--bootstrap-server", &address, "--group", &group];
            let what = ["--reset-offsets", "--from-file", file, "--execute"];
            kafka.tool("org.apache.kafka.tools.consumer.group.ConsumerGroupCommand", &[&place[..], &what].concat());
            return;
        }
        let mut list = TopicPartitionList::new();
        for (partition, at) in positions {
            list.add_partition_offset(input, partition, Offset::Offset(at)).expect("a valid offset");
        }
        let consumer: BaseConsumer =
            client(&self.broker.address()).set("group.id", &group).create().expect("a consumer");
        consumer.commit(&list, CommitMode::Sync).expect("positions are set");
    }

    /// No file of the process may grow, for as long as it takes until its state cannot be written.
    fn fill_disk(&mut self, victim: usize) {
        let process = self.process(victim);
        let lines = process.lines();
        limit_files(process, "1:");
        wait_until("its state cannot be written", PATIENCE, || {
            ["local state could not be written", "state on disk could not be"]
                .iter()
                .any(|words| process.says_behind(lines, &[words]))
        });
        if process.is_running() {
            limit_files(process, "unlimited:");
        }
    }
}

/// The transactional id that it has in scope `worker`.
fn own_id(process: &Process) -> String {
    let log = process.stderr();
    let line = log.lines().rfind(|line| line.contains("fenced every older producer")).expect("it works");
    let (_, id) = line.split_once("transactional_id=").expect("the line names it");
    id.split(' ').next().expect("a word").to_owned()
}

/// Sets the soft limit of the size of its files.
fn limit_files(process: &Process, limit: &str) {
    let arguments = [format!("--pid={}", process.pid()), format!("--fsize={limit}")];
    let status = Command::new("prlimit").args(arguments).status().expect("prlimit, of util-linux");
    assert!(status.success(), "prlimit --fsize={limit}");
}
