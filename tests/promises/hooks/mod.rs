//! Faults that only a broker with hooks can produce: one request is answered late, not at all, or with an error, and the ledger says
//! what became of the records. A hook that was never reached fails its promise.

mod commit;

pub(super) use commit::*;

use std::thread;

use wattle_broker::{ApiKey, Code, Hook, On};

use crate::harness::cluster::Cluster;
use crate::harness::ledger::Ledger;
use crate::harness::load::Load;
use crate::harness::pipeline::Pipeline;
use crate::harness::process::Process;
use crate::harness::room::Room;
use crate::harness::wait::PATIENCE;

const PARTITIONS: i32 = 3;
/// Ten batches for each partition.
const RECORDS: u64 = 3000;
/// So many cases of a table run at a time.
const AT_ONCE: usize = 3;

/// What the process does about a fault.
#[derive(Clone, Copy, Debug)]
enum Outcome {
    /// It comes to its end as if nothing had been.
    GoesOn,
    /// The same, behind a new fence: it says that it begins anew with another producer.
    StartsAgain,
    /// It ends with 1 and a log line of these words; the next run completes.
    Ends(&'static [&'static str]),
}

/// A copy from a full topic, whose task 0 meets the fault.
struct Copy<'a> {
    room: &'a Room,
    cluster: &'a Cluster,
    input: String,
    output: String,
    /// The consumer group, and the transactional id without the task's number.
    name: String,
    pipeline: Pipeline,
}

impl<'a> Copy<'a> {
    /// `part` keeps several copies of one test apart.
    fn new(room: &'a Room, part: &str) -> Self {
        Copy::on(room, room.cluster(), part)
    }

    fn on(room: &'a Room, cluster: &'a Cluster, part: &str) -> Self {
        let (input, output) = (room.name(&format!("{part}.in")), room.name(&format!("{part}.out")));
        for topic in [&input, &output] {
            cluster.create_topic(topic, PARTITIONS, &[]);
        }
        let load =
            Load { address: cluster.address().to_owned(), topics: vec![input.clone()], partitions: PARTITIONS };
        load.send(0..RECORDS);
        let name = room.name(part);
        let mut pipeline = Pipeline::copy(cluster.address(), &name, &[&input], &output);
        pipeline.batch = "{max_poll_records: 100}";
        Copy { room, cluster, input, output, name, pipeline }
    }

    /// The transactional id of task 0.
    fn id(&self) -> String {
        format!("{}-0", self.name)
    }

    fn drain(&self) -> Process {
        self.room.run_with(&self.pipeline, &["--drain"])
    }

    /// Runs it, and again where it ends; then every record is there once, and nothing is left behind.
    fn comes_to(&self, outcome: Outcome) {
        let mut process = self.drain();
        let code = process.wait_exit(PATIENCE);
        match outcome {
            Outcome::GoesOn => assert_eq!(code, 0, "exit code"),
            Outcome::StartsAgain => {
                assert_eq!(code, 0, "exit code");
                assert!(process.says(&["starts again with a new producer", &self.id()]), "{}", process.stderr());
            }
            Outcome::Ends(words) => {
                assert_eq!(code, 1, "exit code");
                assert!(process.says(words), "{words:?} in {}", process.stderr());
                assert_eq!(self.drain().wait_exit(PATIENCE), 0, "exit code of the second run");
            }
        }
        self.is_exact();
    }

    fn is_exact(&self) {
        Ledger::of(self.cluster, &self.output).assert_exact(0..RECORDS);
        assert_eq!(self.cluster.group(&self.name).lag(&[&self.input]), 0, "lag");
        let open = self.cluster.open_transactions(&[&self.input, &self.output]);
        assert!(open.is_empty(), "{open:?}");
    }
}

/// Requests of one kind, of task 0's transactional id, that are answered with a code.
struct Refusal {
    key: ApiKey,
    code: Code,
    /// So many in turn.
    times: u64,
    outcome: Outcome,
}

/// Runs each case with a copy of its own, which meets the fault in its third batch. `refuse` says how.
fn refused(room: &Room, cases: &[Refusal], refuse: impl Fn(On, Code) -> Hook + Sync) {
    let name = |case: &Refusal| format!("{:?}.{:?}", case.key, case.code);
    all(cases, name, |case, name| {
        let copy = Copy::new(room, name);
        let on = room.broker().embedded().on(case.key).matching(copy.id()).after(2).times(case.times);
        let hook = refuse(on, case.code);
        copy.comes_to(case.outcome);
        assert_eq!(hook.fired(), case.times, "so many were answered with it");
    });
}

/// Runs all cases, some of them at a time.
///
/// # Panics
/// With the names of those that failed.
fn all<C: Sync>(cases: &[C], name: impl Fn(&C) -> String, run: impl Fn(&C, &str) + Sync) {
    let mut failed = Vec::new();
    for chunk in cases.chunks(AT_ONCE) {
        thread::scope(|scope| {
            let started: Vec<_> = (chunk.iter())
                .map(|case| {
                    let (name, run) = (name(case), &run);
                    let builder = thread::Builder::new().name(name.clone());
                    let body = {
                        let name = name.clone();
                        move || run(case, &name)
                    };
                    (name, builder.spawn_scoped(scope, body).expect("a thread"))
                })
                .collect();
            failed.extend(started.into_iter().filter_map(|(name, case)| case.join().err().map(|_| name)));
        });
    }
    assert!(failed.is_empty(), "failed: {failed:?}");
}
