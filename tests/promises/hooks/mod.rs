//! Faults that only a broker with hooks can produce: one request is answered late, not at all, or with an error, and the ledger says
//! what became of the records. A hook that was never reached fails its promise.

mod commit;
mod cursor;
mod expiry;
mod fetch;
mod group;
mod produce;
mod start;
mod steps;

pub(super) use commit::*;
pub(super) use cursor::*;
pub(super) use expiry::*;
pub(super) use fetch::*;
pub(super) use group::*;
pub(super) use produce::*;
pub(super) use start::*;
pub(super) use steps::*;

use std::ops::Range;
use std::thread;
use std::time::{Duration, Instant};

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
const AT_ONCE: usize = 4;
/// A `socket.timeout.ms` that is over soon, and an answer that comes later than that.
const HASTY: &str = "{socket.timeout.ms: 1000}";
const LATE: Duration = Duration::from_millis(1500);
/// A process that fails has ended by then. Its grace period is longer: it has not waited in vain for something to be given back.
const PROMPTLY: Duration = Duration::from_secs(25);

/// What the process does about a fault.
#[derive(Clone, Copy, Debug)]
enum Outcome {
    /// It comes to its end as if nothing had been.
    GoesOn,
    /// It comes to its end, and says that it ran a batch again.
    Repeats,
    /// It comes to its end, and says that it began anew with another producer.
    StartsAgain,
    /// It ends with 1 and a log line of these words; the next run comes to the end.
    Ends(&'static [&'static str]),
}
use Outcome::{Ends, GoesOn, Repeats, StartsAgain};

impl Outcome {
    /// Runs the process, and again where it ends, until all its input is done. Returns the first one.
    fn of(self, id: &str, run: impl Fn() -> Process) -> Process {
        let mut process = run();
        let code = process.wait_exit(PATIENCE);
        let log = process.stderr();
        let (repeats, starts) = ("aborted and runs again", "starts again with a new producer");
        match self {
            GoesOn => assert!(code == 0 && !log.contains(repeats) && !log.contains(starts), "{code}: {log}"),
            Repeats => assert!(code == 0 && process.says(&[id, repeats]) && !log.contains(starts), "{code}: {log}"),
            StartsAgain => assert!(code == 0 && process.says(&[id, starts]), "{code}: {log}"),
            Ends(words) => {
                assert!(code == 1 && process.says(words), "{code}: {log}");
                let mut second = run();
                assert_eq!(second.wait_exit(PATIENCE), 0, "the second run: {}", second.stderr());
            }
        }
        process
    }
}

/// A copy of a topic.
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
    /// Of a topic with [`RECORDS`]. `part` keeps several copies of one test apart.
    fn full(room: &'a Room, part: &str) -> Self {
        let copy = Copy::on(room, room.cluster(), part);
        copy.load().send(0..RECORDS);
        copy
    }

    /// Of an empty topic.
    fn on(room: &'a Room, cluster: &'a Cluster, part: &str) -> Self {
        let (input, output) = (room.name(&format!("{part}.in")), room.name(&format!("{part}.out")));
        for topic in [&input, &output] {
            cluster.create_topic(topic, PARTITIONS, &[]);
        }
        let name = room.name(part);
        let mut pipeline = room.copy_at(cluster.address(), &name, &[&input], &output).known_id();
        pipeline.batch = "{max_poll_records: 100}".to_owned();
        Copy { room, cluster, input, output, name, pipeline }
    }

    fn load(&self) -> Load {
        let address = self.cluster.address().to_owned();
        Load { address, topics: vec![self.input.clone()], partitions: PARTITIONS }
    }

    /// The transactional id of the task, or of the worker, that meets the fault.
    fn id(&self) -> String {
        self.pipeline.id()
    }

    /// Every record is there once, and nothing is left behind.
    fn comes_to(&self, outcome: Outcome) -> Process {
        let process = outcome.of(&self.id(), || self.room.run_with(&self.pipeline, &["--drain"]));
        self.is_exact(0..RECORDS);
        process
    }

    fn is_exact(&self, ids: Range<u64>) {
        Ledger::of(self.cluster, &self.output).assert_exact(ids);
        assert_eq!(self.cluster.group(&self.name).lag(&[&self.input]), 0, "lag");
        let open = self.cluster.open_transactions(&[&self.input, &self.output]);
        assert!(open.is_empty(), "{open:?}");
    }

    /// Behind the fault the process runs on; where the fault ends it, the next run does.
    fn goes_on(&self, mut process: Process, outcome: Outcome) -> Process {
        let Ends(words) = outcome else { return process };
        assert_eq!(process.wait_exit(PROMPTLY), 1, "exit code");
        assert!(process.says(words), "{words:?} in {}", process.stderr());
        self.room.run(&self.pipeline)
    }

    fn wait_drained(&self) {
        self.cluster.group(&self.name).wait_drained(&[&self.input], PATIENCE);
    }
}

/// Requests of one kind that are answered with a code, so many in turn.
type Refusal = (ApiKey, Code, u64, Outcome);

/// Each case has a copy of its own, and task 0 meets the fault in its third transaction. `refuse` says how.
fn refused(room: &Room, cases: &[Refusal], refuse: impl Fn(On, &Copy<'_>, Code) -> Hook + Sync) {
    let name = |(key, code, ..): &Refusal| format!("{key:?}.{code:?}");
    all(cases, name, |&(key, code, times, outcome), name| {
        let copy = Copy::full(room, name);
        let on = room.broker().embedded().on(key).matching(copy.id()).after(2).times(times);
        let hook = refuse(on, &copy, code);
        copy.comes_to(outcome);
        assert_eq!(hook.fired(), times, "so many were answered with it");
    });
}

/// Runs all cases, some of them at a time.
///
/// # Panics
/// With the names of those that failed.
fn all<C: Sync>(cases: &[C], name: impl Fn(&C) -> String, run: impl Fn(&C, &str) + Sync) {
    let named: Vec<(String, &C)> = cases.iter().map(|case| (name(case), case)).collect();
    let timed = |name: &str, case| {
        let begun = Instant::now();
        run(case, name);
        eprintln!("{name}: {:.1} s", begun.elapsed().as_secs_f32());
    };
    let timed = &timed;
    let mut failed = Vec::new();
    for chunk in named.chunks(AT_ONCE) {
        thread::scope(|scope| {
            let running: Vec<_> = (chunk.iter())
                .map(|(name, case)| {
                    let thread = thread::Builder::new().name(name.clone());
                    (name, thread.spawn_scoped(scope, move || timed(name, case)).expect("a thread"))
                })
                .collect();
            failed.extend(running.into_iter().filter_map(|(name, case)| case.join().is_err().then_some(name)));
        });
    }
    assert!(failed.is_empty(), "failed: {failed:?}");
}
