//! What is going to happen: a pure function of the options.

use std::fmt;

use super::stage::Stage;
use crate::harness::proxy::Api;

/// So many partitions the input has, and the output.
pub(super) const PARTITIONS: i32 = 6;

/// What a storm is. The broker, the transaction scope and the group protocol are the room's.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) seed: u64,
    /// So often a process is killed; the other faults are in between.
    pub(crate) kills: usize,
    pub(crate) stage: Stage,
    /// Fewest and most processes at a time.
    pub(crate) processes: (usize, usize),
    /// Names of [`KINDS`] beside the kills.
    pub(crate) kinds: Vec<&'static str>,
    /// Records a second that are written all the time.
    pub(crate) rate: u64,
}

/// One fault, and what it meets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    /// So many processes run; their number changes at rest.
    pub(crate) processes: usize,
    /// It waits until the group has recovered from the one before.
    pub(crate) calm: bool,
    /// Its name in [`KINDS`], or [`KILL`].
    pub(crate) kind: &'static str,
    pub(crate) fault: Fault,
}

/// What it does. Victims are numbers of processes, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// `kill -9`, of all if there is no victim.
    Kill { victim: Option<usize>, in_transaction: bool },
    /// SIGTERM, and the next one starts.
    Terminate { victim: usize },
    /// SIGSTOP until the group has expelled it, then SIGCONT.
    Freeze { victim: usize },
    /// So many join and leave again, one after the other.
    Rebalance { joins: usize },
    /// The broker's `kill -9`.
    Broker,
    /// Requests of this kind do not reach the broker for so long.
    Hold { api: Api, millis: u64 },
    /// Each takes so much longer.
    Delay { api: Api, millis: u64 },
    /// So many connections end over one, before or after it arrives.
    Cut { api: Api, arrives: bool, times: usize },
    /// One is held, all processes are killed and started, and it arrives so much later.
    Late { api: Api, millis: u64 },
    /// Another client takes the transactional id of this partition, or that of a worker.
    Intruder { partition: i32, victim: usize },
    /// The output topic takes nothing that is as large as a batch.
    Refused,
    /// The group's positions are deleted while everything stands still, and set again.
    Positions,
    /// Files of its state may not grow.
    Disk { victim: usize },
}

/// The kind of fault that a plan counts.
pub(super) const KILL: &str = "kill";

/// A kind of fault beside it: its name, the stages that it is for, and one of it.
pub(super) struct Kind {
    pub(super) name: &'static str,
    pub(super) stages: &'static [Stage],
    draw: fn(&mut Random, usize) -> Fault,
}

const ALL: &[Stage] = &[Stage::Copy, Stage::Count];
const APIS: [Api; 3] = [Api::EndTxn, Api::TxnOffsetCommit, Api::Fetch];

pub(super) const KINDS: &[Kind] = &[
    Kind { name: "terminate", stages: ALL, draw: |random, n| Fault::Terminate { victim: random.below(n) } },
    Kind { name: "freeze", stages: ALL, draw: |random, n| Fault::Freeze { victim: random.below(n) } },
    Kind { name: "rebalance", stages: ALL, draw: |random, _| Fault::Rebalance { joins: 1 + random.below(3) } },
    Kind { name: "broker", stages: ALL, draw: |_, _| Fault::Broker },
    Kind {
        name: "hold",
        stages: ALL,
        draw: |random, _| Fault::Hold { api: random.of(APIS), millis: 500 * (1 + random.below(12)) as u64 },
    },
    Kind {
        name: "delay",
        stages: ALL,
        draw: |random, _| Fault::Delay { api: random.of(APIS), millis: 100 * (1 + random.below(10)) as u64 },
    },
    Kind {
        name: "cut",
        stages: ALL,
        draw: |random, _| Fault::Cut { api: random.of(APIS), arrives: random.coin(), times: 1 + random.below(3) },
    },
    Kind {
        name: "late",
        stages: ALL,
        draw: |random, _| Fault::Late { api: random.of([APIS[0], APIS[1]]), millis: 200 * random.below(20) as u64 },
    },
    Kind {
        name: "intruder",
        stages: ALL,
        draw: |random, n| Fault::Intruder {
            partition: random.below(PARTITIONS as usize) as i32,
            victim: random.below(n),
        },
    },
    Kind { name: "refused", stages: ALL, draw: |_, _| Fault::Refused },
    Kind { name: "positions", stages: &[Stage::Count], draw: |_, _| Fault::Positions },
    // Those with an even number have a folder.
    Kind {
        name: "disk",
        stages: &[Stage::Count],
        draw: |random, n| Fault::Disk { victim: 2 * random.below(n.div_ceil(2)) },
    },
];

/// Kills, and behind each one to three of them another kind, each kind as often as the others: a deck that is shuffled whenever it has run out.
pub(crate) fn plan(options: &Options) -> Vec<Step> {
    let mut random = Random(options.seed);
    let of_stage = |kind: &&Kind| options.kinds.contains(&kind.name) && kind.stages.contains(&options.stage);
    let kinds: Vec<&Kind> = KINDS.iter().filter(of_stage).collect();
    let (least, most) = options.processes;
    let (mut steps, mut deck, mut kills, mut processes) = (Vec::new(), Vec::new(), 0, least);
    while kills < options.kills {
        let mut calm = steps.is_empty() || random.below(3) > 0;
        if calm {
            processes = least + random.below(most - least + 1);
        }
        for _ in 0..(1 + random.below(3)).min(options.kills - kills) {
            let victim = (random.below(8) > 0).then(|| random.below(processes));
            let fault = Fault::Kill { victim, in_transaction: calm && victim.is_some() && random.coin() };
            steps.push(Step { processes, calm, kind: KILL, fault });
            kills += 1;
            calm = random.below(3) > 0;
        }
        if deck.is_empty() {
            deck.clone_from(&kinds);
            random.shuffle(&mut deck);
        }
        if let Some(kind) = deck.pop() {
            let fault = (kind.draw)(&mut random, processes);
            // A broker may die in the middle of a recovery; what the others assert needs a group that rests.
            let calm = !matches!(fault, Fault::Broker) || random.coin();
            steps.push(Step { processes, calm, kind: kind.name, fault });
        }
    }
    steps
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let when = if self.calm { "" } else { ", before the last one is over" };
        write!(f, "{:?} with {} processes{when}", self.fault, self.processes)
    }
}

/// SplitMix64: the same numbers for a seed everywhere.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    fn coin(&mut self) -> bool {
        self.below(2) == 0
    }

    fn of<T: Copy, const N: usize>(&mut self, all: [T; N]) -> T {
        all[self.below(N)]
    }

    fn shuffle<T>(&mut self, all: &mut [T]) {
        for last in (1..all.len()).rev() {
            all.swap(last, self.below(last + 1));
        }
    }
}
