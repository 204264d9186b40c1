//! One transactional producer and the tasks that commit together on it. A lane is a thread; what it does is sequential: a batch
//! is taken only when the outcome of the one before is known and applied.

mod commit;
mod fence;
mod gathered;
mod guard;
mod moved;
mod reaction;
mod refusal;
mod restore;
mod sink;
mod starter;
mod stores;
mod transactional;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread;
use std::time::{Duration, Instant};

pub(crate) use guard::check_sizes;
pub(crate) use reaction::{AFTER_FENCE, Fences, Patience, Reaction, reaction};
pub(crate) use refusal::refusal;
#[cfg(any(test, fuzzing))]
pub(crate) use restore::fold;
pub use sink::{KafkaSink, KafkaSinkConfig, Sink};
pub(crate) use transactional::{LONGEST_PAUSE, gave_up, open as open_sink, taken};
pub use transactional::{Place, RefusedRecord, SinkFailure, TransactionalSink, TransactionalSinkFactory};

use crate::config::{BatchLimits, Delivery, TransactionScope};
use crate::error::{Error, panic_text};
use crate::kafka::{self, Batch, Offset, Position, Producer};
use crate::stage::{Output, Transformer};
use crate::state::now_ms;
use crate::task::aside::{AsideLog, Care, Marks, put_aside};
use crate::task::gather::Held;
use crate::task::process::{self, Done, Firing, Processing};
use crate::task::{Lifecycle, Task, positions};
use crate::worker::{Incarnation, Question, Router, Shared, Stop};
use commit::Outcome;
use starter::{Report, Starter, Waits};
use transactional::SinkState;

/// With nothing to do, positions that only markers have moved are committed after this time.
const QUIET: Duration = Duration::from_secs(1);
/// Records that are taken from one queue before the next one has its turn.
const TURN: usize = 512;

/// What the worker tells a lane.
pub(crate) enum Command {
    /// A task is ours. Its partitions are paused.
    Start { task: i32, incarnation: Incarnation, cancel: Stop },
    /// What is the committed state of a key?
    Ask(Question),
    /// End; nothing is ours any more.
    Close,
}

/// How outputs and positions of the lane's tasks are made durable.
enum Committer {
    /// `producer` is there from the fence on.
    Transactions { id: String, producer: Option<Producer> },
    /// `sink` is there from the first start of a task on.
    AtLeastOnce { sink: Option<Box<dyn Sink>> },
    /// The sink's own transactions.
    Sink(SinkState),
}

pub(crate) struct Lane<S: Transformer> {
    /// In scope `task` the number of its one task.
    number: i32,
    shared: Arc<Shared<S>>,
    inbox: Receiver<Command>,
    committer: Committer,
    tasks: BTreeMap<i32, Task<Router>>,
    /// In scope `worker`: those that start tasks right now.
    starters: Vec<Starter>,
    waits: Waits,
    reports: (Sender<Report>, Receiver<Report>),
    fences: Fences,
    batch: Batch,
    output: Output,
    /// Where outputs are gathered into groups.
    held: Option<Held>,
    runtime: process::Runtime,
    asides: AsideLog,
    /// By topic, partition and offset.
    marks: Marks<(usize, i32, Offset)>,
    care: Care,
    /// Which queue has the first turn.
    turn: usize,
    /// When the stores were last told that they are ours.
    owned: Instant,
    /// What the metrics were told of the tasks.
    told: BTreeMap<i32, Lifecycle>,
}

impl<S: Transformer> Lane<S> {
    pub(crate) fn new(number: i32, shared: Arc<Shared<S>>, inbox: Receiver<Command>) -> Result<Self, Error> {
        let committer = match (shared.transactional_id(number), &shared.config.delivery) {
            (Some(id), _) => Committer::Transactions { id, producer: None },
            (None, Delivery::TransactionalSink(_)) => Committer::Sink(SinkState::new()),
            (None, _) => Committer::AtLeastOnce { sink: None },
        };
        Ok(Lane {
            number,
            batch: Batch::new(shared.config.topics.clone()),
            held: gathered::held(&shared.config),
            shared,
            inbox,
            committer,
            tasks: BTreeMap::new(),
            starters: Vec::new(),
            waits: Waits::new(),
            reports: channel(),
            fences: Fences::default(),
            output: Output::default(),
            runtime: process::Runtime::new()?,
            asides: AsideLog::default(),
            marks: Marks::new(),
            care: Care::default(),
            turn: 0,
            owned: Instant::now(),
            told: BTreeMap::new(),
        })
    }

    /// The thread's work. An error or a panic ends the worker.
    pub(crate) fn run(mut self) {
        let shared = self.shared.clone();
        let name = self.name();
        match catch_unwind(AssertUnwindSafe(|| self.serve())) {
            Ok(Ok(())) => {}
            Ok(Err(error)) => shared.fatal.raise(error),
            Err(panic) => shared.fatal.raise(Error::Panic { what: name, message: panic_text(panic.as_ref()) }),
        }
        self.asides.say(&shared.config.name);
        self.join_starters();
    }

    fn serve(&mut self) -> Result<(), Error> {
        let mut quiet_since = Instant::now();
        loop {
            let ends = self.read_inbox();
            self.tell(ends);
            if ends {
                return Ok(());
            }
            self.own_stores()?;
            // One whose timers could not be read.
            if self.wipe_unread()? {
                continue;
            }
            if self.shared.config.transaction_scope == TransactionScope::Worker {
                self.start_beside()?;
            } else if let Some(task) = self.in_state(Lifecycle::Starting).first().copied() {
                self.start(task)?;
                quiet_since = Instant::now();
                continue;
            }
            self.fill()?;
            let next_timer = self.next_timer();
            if !self.batch.is_empty() || next_timer.is_some_and(|wait| wait.is_zero()) {
                if self.held.is_some() {
                    self.run_gathered()?
                } else {
                    self.run_batch()?
                }
                quiet_since = Instant::now();
            } else if quiet_since.elapsed() >= QUIET {
                self.commit_markers()?;
                quiet_since = Instant::now();
            } else {
                // A queue that fills and a command that arrives unpark this thread, also if they do so before it parks.
                let quiet = QUIET.saturating_sub(quiet_since.elapsed());
                thread::park_timeout(next_timer.map_or(quiet, |wait| wait.min(quiet)));
            }
        }
    }

    /// Tells those who watch where the tasks are.
    fn tell(&mut self, ends: bool) {
        for (number, task) in &self.tasks {
            let now = if ends { Lifecycle::Suspended } else { task.lifecycle() };
            if self.told.insert(*number, now) != Some(now) {
                self.shared.metrics.task(*number, now);
            }
        }
        if let Some(held) = &self.held {
            self.shared.metrics.held(self.number, held.since().filter(|_| !ends));
        }
    }

    /// Returns whether the lane ends.
    fn read_inbox(&mut self) -> bool {
        loop {
            match self.inbox.try_recv() {
                Ok(Command::Start { task, incarnation, cancel }) => self.expect(task, incarnation, cancel),
                Ok(Command::Ask(question)) => self.answer(&question),
                Ok(Command::Close) | Err(TryRecvError::Disconnected) => return true,
                Err(TryRecvError::Empty) => break,
            }
        }
        self.suspend_lost();
        false
    }

    /// Suspends the tasks that are not ours any more. The others go on.
    fn suspend_lost(&mut self) {
        let shared = &self.shared;
        for (number, task) in &mut self.tasks {
            if task.lifecycle() != Lifecycle::Suspended && !shared.assignment.is_current(*number, task.incarnation) {
                task.become_(Lifecycle::Suspended);
                task.queues.clear();
                tracing::debug!(stream = %shared.config.name, "task {number} suspended");
            }
        }
        self.forget_held();
    }

    /// Leaves what is committed of the batch behind, and drops the records of tasks that are not ours any more or begin anew: those are
    /// read again from the committed positions, by whoever has the task. What is left is of tasks that run on.
    fn keep_running(&mut self, done: usize) {
        self.suspend_lost();
        let before = self.batch.len() - done;
        let tasks = &self.tasks;
        self.batch.retain(done, |task| tasks[&task].lifecycle() == Lifecycle::Running);
        if self.batch.len() < before {
            tracing::debug!("{}: dropped {} records that were not committed", self.name(), before - self.batch.len());
        }
    }

    fn expect(&mut self, number: i32, incarnation: Incarnation, cancel: Stop) {
        let partitions = self.shared.partitions_of(number);
        let task = self.tasks.entry(number).or_insert_with(|| Task::new(partitions, incarnation, cancel.clone()));
        task.incarnation = incarnation;
        task.cancel = cancel;
        task.queues.clear();
        task.become_(Lifecycle::Starting);
    }

    fn in_state(&self, state: Lifecycle) -> Vec<i32> {
        self.tasks.iter().filter(|(_, task)| task.lifecycle() == state).map(|(number, _)| *number).collect()
    }

    /// Takes records until every queue is empty or the batch is full. Queues take turns, so that a full one does not hold the
    /// others up.
    fn fill(&mut self) -> Result<(), Error> {
        let limits = self.limits();
        self.batch.clear();
        let running = || self.tasks.iter().filter(|(_, task)| task.lifecycle() == Lifecycle::Running);
        let queues: Vec<_> = running()
            .flat_map(|(number, task)| {
                let positions = task.committed.iter().flatten();
                task.queues
                    .iter()
                    .zip(positions)
                    .enumerate()
                    .map(move |(topic, (queue, from))| (*number, topic, queue, *from))
            })
            .collect();
        if queues.is_empty() {
            return Ok(());
        }
        let deadline = Instant::now() + limits.commit_interval;
        let mut empty = 0;
        loop {
            let room = limits.records() - self.batch.len();
            if room == 0 || self.batch.byte_len() >= limits.bytes() {
                return Ok(());
            }
            let (task, topic, queue, from) = queues[self.turn % queues.len()];
            self.turn = self.turn.wrapping_add(1);
            let (taken, drained) = match queue.drain(&mut self.batch, topic, from, room.min(TURN)) {
                Ok(result) => result,
                Err(error) => {
                    read_failed(&self.shared, task, topic, from, error)?;
                    (0, false)
                }
            };
            empty = if drained && taken == 0 { empty + 1 } else { 0 };
            if empty >= queues.len() {
                let wait = deadline.saturating_duration_since(Instant::now());
                let given_up = running().any(|(_, task)| task.cancel.is_stopped());
                if self.batch.is_empty() || wait.is_zero() || given_up {
                    return Ok(());
                }
                thread::park_timeout(wait);
                empty = 0;
            }
        }
    }

    fn limits(&self) -> BatchLimits {
        self.shared.config.batch.over(self.in_state(Lifecycle::Running).len() * self.shared.topics.len())
    }

    /// Processes and commits the batch, in as many transactions as the limits ask for. Where a task is taken away meanwhile, the others
    /// of the lane go on: their records run again without those of that task.
    fn run_batch(&mut self) -> Result<(), Error> {
        self.batch.order();
        self.marks.apply(&mut self.batch, place);
        let shared = self.shared.clone();
        let limits = self.limits();
        let mut open = shared.metrics.open();
        let (mut committed, mut ran) = (0, false);
        loop {
            self.keep_running(committed);
            // Without records it runs for the timers alone. Those that are due then wait for the next batch.
            if self.batch.is_empty() && std::mem::replace(&mut ran, true) {
                return Ok(());
            }
            ran = true;
            committed = 0;
            self.output.clear();
            let processed = self.process(&limits);
            // Looked at before the result, which is wrong where the stage did not see its state.
            if self.wipe_unread()? {
                return Ok(());
            }
            let Some(Done { until, fired, mut aside }) = processed? else { continue };
            let started = Instant::now();
            let positions = self.positions_behind(until, &fired)?;
            if positions.is_empty() {
                return Ok(());
            }
            let dead_letters = aside.dead_letters.count;
            let messages = self.output.len() - dead_letters;
            if let Some(changelog) = &shared.config.changelog_topic {
                self.output.log_states(changelog);
                if self.wipe_unread()? {
                    return Ok(());
                }
            }
            let checked = guard::check(&self.output, &self.batch, &shared.config, &shared.topology.limits);
            let outcome = match checked.and_then(|()| self.commit(&positions)) {
                Err(error)
                    if put_aside(&error, &self.output, &mut self.batch, shared.config.dead_letter_topic.as_deref()) =>
                {
                    tracing::debug!("{}: runs again with a record put aside: {error}", self.name());
                    self.care.learn(&error);
                    self.marks.keep(&self.batch, 0, |index| place(&self.batch, index));
                    continue;
                }
                outcome => outcome?,
            };
            match outcome {
                Outcome::Committed => {
                    let (withdrawn, letters) = aside.refused(self.take_refused(), &self.batch, &self.output);
                    shared.metrics.batch(until, messages - withdrawn, dead_letters + letters, started.elapsed());
                    shared.metrics.skipped(aside.skipped.count);
                    self.asides.note(&shared.config.name, aside);
                    open.renew();
                    self.marks.forget(until, |index| place(&self.batch, index));
                    self.care.committed();
                    committed = until;
                }
                Outcome::Dropped => {}
                Outcome::Restarted => return Ok(()),
            }
        }
    }

    /// The batch through the stage, behind it the timers that are due.
    fn process(&mut self, limits: &BatchLimits) -> Result<Option<Done>, Error> {
        let (shared, tasks) = (&self.shared, &self.tasks);
        let running = self.in_state(Lifecycle::Running);
        let processing = Processing {
            stage: &*shared.stage,
            limits,
            dead_letter_topic: shared.config.dead_letter_topic.as_deref(),
            cut_above: self.care.cut_above(self.held.is_some()),
            runtime: &self.runtime,
            timers: Firing { now: now_ms(), tasks: &running },
        };
        process::run(&processing, &self.batch, 0, &mut self.output, |task| &tasks[&task].cancel)
    }

    /// When the next timer of a running task is due, or a group ends by its age.
    fn next_timer(&self) -> Option<Duration> {
        self.held.as_ref().map_or_else(|| self.next_of_states(), Held::due_in)
    }

    fn next_of_states(&self) -> Option<Duration> {
        let (states, now) = (&self.output.states, now_ms());
        let running = || self.tasks.iter().filter(|(_, task)| task.lifecycle() == Lifecycle::Running);
        if running().any(|(number, _)| states.due(*number, now).next().is_some()) {
            return Some(Duration::ZERO);
        }
        let next = running().filter_map(|(number, _)| states.next_wall(*number)).min()?;
        Some(Duration::from_millis(u64::try_from(next.saturating_sub(now)).unwrap_or_default()))
    }

    fn name(&self) -> String {
        match &self.committer {
            Committer::Transactions { id, .. } => id.clone(),
            Committer::AtLeastOnce { .. } | Committer::Sink(_) => self.shared.task(self.number),
        }
    }

    /// Tasks that are not suspended.
    fn awake(&self) -> impl Iterator<Item = (&i32, &Task<Router>)> {
        self.tasks.iter().filter(|(_, task)| task.lifecycle() != Lifecycle::Suspended)
    }

    /// Whether every task that is not suspended is still in our hands.
    fn tasks_are_ours(&self) -> bool {
        self.awake().all(|(number, task)| self.shared.assignment.is_current(*number, task.incarnation))
    }
}

fn place(batch: &Batch, index: usize) -> (usize, i32, Offset) {
    let record = batch.get(index);
    (batch.topic_index(index), record.partition, record.offset)
}

/// A position out of range is explained. It may also be about the placeholder of the assignment, fetched just before the pause; then
/// the range is right, and the seek that followed has ended it.
fn read_failed<S>(
    shared: &Shared<S>,
    task: i32,
    topic: usize,
    from: Position,
    source: kafka::Error,
) -> Result<(), Error> {
    let topic = &shared.topics[topic];
    if source.is_out_of_range() {
        return positions::check_range(&shared.view, &shared.config, &(topic.clone(), task), from);
    }
    Err(Error::Kafka { what: format!("{}: read {topic}", shared.task(task)), source })
}

fn millis(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX)
}
