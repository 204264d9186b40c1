//! Runs a plan: processes that work all the time, input that is written all the time, one fault after the other, and the ledger at the end.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::plan::{Options, PARTITIONS, Step, plan};
use super::report::Report;
use super::stage::Member;
use crate::harness::broker::Broker;
use crate::harness::cluster::{Cluster, Group, Isolation};
use crate::harness::load::Load;
use crate::harness::process::Process;
use crate::harness::room::Room;
use crate::harness::wait::{PATIENCE, wait_until};

/// In this time every partition has new output after a fault, or the storm has failed: what is left open without an owner lasts 20 s at most.
const RECOVERY: Duration = Duration::from_secs(120);

/// What the faults meet.
pub(super) struct Storm<'a> {
    pub(super) room: &'a Room,
    pub(super) broker: &'a Broker,
    pub(super) options: &'a Options,
    pub(super) input: String,
    pub(super) output: String,
    members: Vec<Member>,
    logs: PathBuf,
    started: usize,
    /// The kind of fault that struck last.
    kind: &'static str,
    report: Report,
}

/// # Panics
/// If a fault does not happen, or something is lost, doubled, out of order or stuck.
pub(crate) fn run(room: &Room, options: &Options) {
    let broker = room.own_broker();
    let (input, output) = (room.name("in"), room.name("out"));
    for topic in [&input, &output] {
        broker.cluster().create_topic(topic, PARTITIONS, &[]);
    }
    let logs = room.folder().join("logs");
    fs::create_dir_all(&logs).expect("a folder");
    let load = Load { address: broker.address(), topics: vec![input.clone()], partitions: PARTITIONS };
    let load = load.start(0, options.rate);
    let (members, report) = (Vec::new(), Report::default());
    let mut storm =
        Storm { room, broker: &broker, options, input, output, members, logs, started: 0, kind: "start", report };
    let (steps, begin) = (plan(options), Instant::now());
    eprintln!("{}: seed {}, {} faults", room.group(), options.seed, steps.len());
    for (n, step) in steps.iter().enumerate() {
        let at = begin.elapsed().as_secs();
        eprintln!("{at:5} s  fault {} of {}: {step}", n + 1, steps.len());
        storm.step(step, steps.get(n + 1).is_none_or(|next| next.calm));
    }
    let total = load.finish();
    storm.settle(total);
    eprintln!(
        "{}: seed {}, {} faults in {} s, {total} records: none lost, none doubled, none out of order, no transaction open, lag 0\n{}",
        room.group(),
        options.seed,
        steps.len(),
        begin.elapsed().as_secs(),
        storm.report
    );
}

impl Storm<'_> {
    fn step(&mut self, step: &Step, wait: bool) {
        if step.calm {
            self.rest();
            if self.len() != step.processes {
                self.be(step.processes);
                self.rest();
                self.wait_new_output("a change of the number of processes");
            }
        }
        self.kind = step.kind;
        self.report.fault(step.kind);
        self.strike(&step.fault);
        if wait {
            let took = self.wait_new_output(step.kind);
            self.report.recovered(step.kind, took);
        }
    }

    /// What of the broker is seen from outside.
    pub(super) fn cluster(&self) -> &Cluster {
        self.broker.cluster()
    }

    /// The processes' group.
    pub(super) fn group(&self) -> Group<'_> {
        self.cluster().group(&self.room.group())
    }

    /// Process number `index`, which may have ended.
    pub(super) fn process(&mut self, index: usize) -> &mut Process {
        &mut self.members[index].process
    }

    /// All of them.
    pub(super) fn processes(&mut self) -> impl Iterator<Item = &mut Process> {
        self.members.iter_mut().map(|member| &mut member.process)
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.members.len()
    }

    /// Starts process number `index`.
    fn start(&mut self, index: usize) -> Member {
        self.started += 1;
        let log = self.logs.join(format!("{:04}-process-{index}.log", self.started));
        // Everything goes through the proxy, the load and the judge do not.
        let proxy = self.broker.proxy().address();
        Member::new(self.options.stage.start(self.room, proxy, index, &self.input, &self.output), log)
    }

    /// Starts process number `index` in the place of the one that was there.
    pub(super) fn start_again(&mut self, index: usize) {
        self.members[index] = self.start(index);
    }

    /// Starts one more, without a word about the others.
    pub(super) fn join(&mut self) {
        let member = self.start(self.members.len());
        self.members.push(member);
    }

    /// The last one has ended, as it should.
    pub(super) fn forget_last(&mut self) {
        self.members.pop();
    }

    /// Starts or stops processes until there are so many.
    pub(super) fn be(&mut self, wanted: usize) {
        self.supervise();
        while self.members.len() > wanted {
            self.stop(self.members.len() - 1);
            self.forget_last();
        }
        while self.members.len() < wanted {
            self.join();
        }
    }

    /// SIGTERM, unless it has ended; before its first line a process has no handler for it yet.
    pub(super) fn stop(&mut self, index: usize) {
        let process = self.process(index);
        wait_until("it has begun", PATIENCE, || process.lines() > 0 || !process.is_running());
        if process.is_running() {
            process.stop_cleanly();
        }
    }

    /// What a supervisor does: starts those again that have ended. By themselves they never end well.
    pub(super) fn supervise(&mut self) {
        for index in 0..self.members.len() {
            if !self.process(index).is_running() {
                let code = self.process(index).wait_exit(Duration::ZERO);
                assert!(code == 1 || code == 3, "exit code {code} of process {index}, which ended by itself");
                self.report.ended(self.kind);
                self.start_again(index);
            }
        }
    }

    /// Waits, and starts processes again meanwhile.
    pub(super) fn wait(&mut self, what: &str, patience: Duration, mut holds: impl FnMut(&mut Self) -> bool) {
        wait_until(what, patience, || {
            self.supervise();
            holds(self)
        });
    }

    /// Returns when all processes are members of the group and nobody else is.
    fn rest(&mut self) {
        let wanted = self.members.len();
        self.wait(&format!("the group rests with {wanted} members"), RECOVERY, |storm| {
            wanted == 0 || storm.group().members().is_some_and(|members| members.len() == wanted)
        });
    }

    /// From now to the first newly committed output of every partition: of the input by the group's positions, of the output by what a
    /// `read_committed` reader gets to see.
    fn wait_new_output(&mut self, after: &str) -> Duration {
        let begin = Instant::now();
        let (positions, stable) = (self.group().committed(&self.input), self.stable());
        self.wait(&format!("new output of every partition after {after}"), RECOVERY, |storm| {
            let moved = storm.group().committed(&storm.input).iter().zip(&positions).all(|(now, then)| now > then);
            moved && storm.stable().iter().zip(&stable).all(|(now, then)| now > then)
        });
        begin.elapsed()
    }

    fn stable(&self) -> Vec<i64> {
        self.cluster().ends(&self.output, Isolation::ReadCommitted)
    }

    /// Everything that was written is processed, nothing is left open, and the ledger is right.
    fn settle(&mut self, total: u64) {
        self.wait("the group has lag 0", 3 * PATIENCE, |storm| storm.group().lag(&[&storm.input]) == 0);
        self.be(0);
        let changelog = format!("{}-changelog", self.room.group());
        let topics = [&*self.output, &*changelog];
        let topics = if self.cluster().partitions(&changelog).is_some() { &topics[..] } else { &topics[..1] };
        self.cluster().wait_settled_within(PATIENCE, topics);
        assert_eq!(self.group().lag(&[&self.input]), 0, "the lag when everything has ended");
        self.options.stage.judge(self.cluster(), &self.output, total);
    }
}

impl Drop for Storm<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let (seed, logs) = (self.options.seed, self.logs.display());
            eprintln!("the storm of seed {seed} failed over {:?}; logs in {logs} (kept with WATTLE_KEEP=1)", self.kind);
            // The broker may be what has failed.
            drop(catch_unwind(AssertUnwindSafe(|| {
                let (positions, open) =
                    (self.group().committed(&self.input), self.cluster().open_transactions(&[&self.output]));
                eprintln!("{} processes; positions {positions:?}; open transactions: {open:?}", self.members.len());
            })));
        }
    }
}
