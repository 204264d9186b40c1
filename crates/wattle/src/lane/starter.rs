//! Starting tasks beside their lane, in scope `worker`: what one has to wait for holds up no other task of the lane. The order is that of
//! [`super::fence`]: the lane has fenced before a starter is sent, and commits first positions itself.
//!
//! Tasks that come together are started together, by one starter with one question: most often all positions are stable. Where one is held
//! open, each task has a starter of its own from then on, which asks once and ends, so that the next task has its turn; there are
//! at most [`STARTERS`] at a time. So it is for a task with state too, which takes long to restore.
//!
//! A task has at most one starter: the queues of an older one would take the wake-up from those of the newer one when they are dropped.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::{self, JoinHandle, Thread};

use super::Lane;
use super::commit::Outcome;
use super::fence::{Opening, Queues, earliest, open};
use super::restore::{Kept, refresh, refuse_state_without_positions};
use crate::config::StartFrom;
use crate::error::{Error, panic_text};
use crate::kafka::{Position, TopicPartition};
use crate::stage::Transformer;
use crate::task::Lifecycle;
use crate::task::positions::Wait;
use crate::worker::{Incarnation, Shared, Stop};

/// A process with hundreds of partitions shall not need a thread for each of them at once.
const STARTERS: usize = 16;

/// One that runs.
pub(super) struct Starter {
    tasks: Vec<i32>,
    thread: JoinHandle<()>,
}

/// What a starter has to tell its lane, of all its tasks in their order.
pub(super) struct Report {
    tasks: Vec<(i32, Incarnation)>,
    wait: Wait,
    found: Vec<Found>,
    /// The state of the first task, as far as it is there: a task with state has a starter of its own.
    kept: Kept,
}

/// Waits of tasks that have no starter at the moment. One of an older incarnation does not count.
pub(super) type Waits = BTreeMap<i32, (Incarnation, Wait)>;

enum Found {
    /// The task is at these positions, sought and resumed.
    Ready(Vec<Position>, Queues),
    /// The group has no positions: these come first.
    First(Vec<(TopicPartition, Position)>),
    /// Not yet: a transaction holds a position open, or the coordinator does not answer.
    Pending,
    /// The task is not ours any more.
    Gone,
}

impl<S: Transformer> Lane<S> {
    /// Takes over what starters have found, and sends new ones to tasks that need them, those first that have asked least.
    pub(super) fn start_beside(&mut self) -> Result<(), Error> {
        self.read_reports()?;
        if self.wipe_unread()? {
            return Ok(());
        }
        let (mut new, mut waiting) = (Vec::new(), Vec::new());
        for number in self.in_state(Lifecycle::Starting) {
            let incarnation = self.tasks[&number].incarnation;
            let has_starter = self.starters.iter().any(|starter| starter.tasks.contains(&number));
            if has_starter || !self.shared.assignment.is_current(number, incarnation) {
                continue;
            }
            match self.waits.get(&number).filter(|(of, _)| *of == incarnation) {
                Some((_, wait)) => waiting.push((wait.asked, number)),
                None => new.push(number),
            }
        }
        waiting.sort_unstable();
        let alone = self.shared.stage.is_stateful();
        let new = new.chunks(if alone { 1 } else { usize::MAX }).map(<[i32]>::to_vec);
        let chunks: Vec<_> = new.chain(waiting.into_iter().map(|(_, number)| vec![number])).collect();
        for tasks in chunks.into_iter().take(STARTERS.saturating_sub(self.starters.len())) {
            self.fence()?;
            self.send_starter(&tasks)?;
        }
        Ok(())
    }

    fn read_reports(&mut self) -> Result<(), Error> {
        let (mut first, mut unsigned) = (Vec::new(), Vec::new());
        while let Ok(Report { tasks, wait, found, kept }) = self.reports.1.try_recv() {
            let first_task = tasks[0].0;
            if let Some(index) = self.starters.iter().position(|starter| starter.tasks.contains(&first_task)) {
                // It ends with its report; a panic was caught.
                drop(self.starters.swap_remove(index).thread.join());
            }
            if let Some(store) = kept {
                self.output.states.open(first_task, store);
            }
            for ((number, incarnation), found) in tasks.into_iter().zip(found) {
                let task = &self.tasks[&number];
                let awaited = task.lifecycle() == Lifecycle::Starting
                    && task.incarnation == incarnation
                    && self.shared.assignment.is_current(number, incarnation);
                match found {
                    Found::Ready(positions, queues) if awaited => {
                        if !wait.signed {
                            unsigned.extend(task.partitions.iter().cloned().zip(positions.iter().copied()));
                        }
                        self.begun(number, &positions, queues, None, wait.started);
                    }
                    Found::First(positions) if awaited => first.extend(positions),
                    Found::Pending if awaited => drop(self.waits.insert(number, (incarnation, wait))),
                    Found::Ready(..) | Found::First(_) | Found::Pending | Found::Gone => {}
                }
            }
        }
        if !first.is_empty() {
            self.output.clear();
            // Whatever becomes of it: the next starters look.
            self.commit(&first)?;
        }
        self.sign(unsigned)
    }

    /// Commits where tasks begin, so that their positions carry our name before a transaction with records holds them open: a successor that waits
    /// for it reads there whose it is. Without, one that dies in its first transaction would be waited for until the timeout.
    fn sign(&mut self, mut positions: Vec<(TopicPartition, Position)>) -> Result<(), Error> {
        loop {
            self.suspend_lost();
            positions.retain(|((_, number), _)| self.tasks[number].lifecycle() == Lifecycle::Running);
            if positions.is_empty() {
                return Ok(());
            }
            self.output.clear();
            // Where one of the tasks is gone, the others are still to be signed; where they start again, they ask again.
            if self.commit(&positions)? != Outcome::Dropped {
                return Ok(());
            }
        }
    }

    fn send_starter(&mut self, tasks: &[i32]) -> Result<(), Error> {
        let (shared, reports, lane) = (self.shared.clone(), self.reports.0.clone(), thread::current());
        let starts: Vec<_> = tasks.iter().map(|number| self.start_of(*number)).collect();
        let ids: Vec<_> = starts.iter().map(|start| (start.number, start.incarnation)).collect();
        // Those that have waited before come alone.
        let before = self.waits.remove(&tasks[0]).filter(|(of, _)| *of == starts[0].incarnation);
        let mut wait = before.map_or_else(Wait::begin, |(_, wait)| wait);
        let mut kept = self.output.states.close(tasks[0]);
        let work = move || {
            let find = || match &starts[..] {
                [start] => Ok(vec![find(&shared, start, &mut wait, &mut kept, &lane)?]),
                starts => find_together(&shared, starts, &mut wait, &lane),
            };
            match catch_unwind(AssertUnwindSafe(find)) {
                // A lane that is gone waits for nothing.
                Ok(Ok(found)) => drop(reports.send(Report { tasks: ids, wait, found, kept })),
                Ok(Err(error)) => shared.fatal.raise(error),
                Err(panic) => {
                    let what = format!("starting {}", shared.task(ids[0].0));
                    shared.fatal.raise(Error::Panic { what, message: panic_text(panic.as_ref()) });
                }
            }
            lane.unpark();
        };
        let thread = thread::Builder::new()
            .name(format!("start-{}", tasks[0]))
            .spawn(work)
            .map_err(|source| Error::Io { what: format!("start the thread that starts task {}", tasks[0]), source })?;
        self.starters.push(Starter { tasks: tasks.to_vec(), thread });
        Ok(())
    }

    fn start_of(&self, number: i32) -> Start {
        let task = &self.tasks[&number];
        Start {
            number,
            partitions: task.partitions.clone(),
            incarnation: task.incarnation,
            cancel: task.cancel.clone(),
        }
    }

    /// Returns when no starter is left. They end when their tasks are not ours any more.
    pub(super) fn join_starters(&mut self) {
        for starter in std::mem::take(&mut self.starters) {
            drop(starter.thread.join());
        }
    }
}

/// A task that a starter starts.
struct Start {
    number: i32,
    partitions: Vec<TopicPartition>,
    incarnation: Incarnation,
    cancel: Stop,
}

impl Start {
    fn opening(&self, found: &[Position]) -> Opening {
        let places = self.partitions.iter().cloned().zip(found.iter().copied()).collect();
        Opening { number: self.number, incarnation: self.incarnation, places }
    }
}

/// Starts tasks without state at once. Those for which it is not as simple as that are left to starters of their own.
fn find_together<S: Transformer>(
    shared: &Arc<Shared<S>>,
    starts: &[Start],
    wait: &mut Wait,
    lane: &Thread,
) -> Result<Vec<Found>, Error> {
    let pending = || starts.iter().map(|_| Found::Pending).collect::<Vec<_>>();
    let partitions: Vec<_> = starts.iter().flat_map(|start| start.partitions.iter().cloned()).collect();
    let Some(positions) = wait.ask(shared, "all new tasks", &partitions)? else { return Ok(pending()) };
    let topics = shared.topics.len();
    let known: Vec<Option<Vec<Position>>> = positions.chunks(topics).map(|of| of.iter().copied().collect()).collect();
    let ready = starts.iter().zip(&known).filter_map(|(start, found)| found.as_ref().map(|found| start.opening(found)));
    let Some(queues) = open(shared, &ready.collect::<Vec<_>>(), lane)? else { return Ok(pending()) };
    let mut queues = queues.into_iter();
    let found = starts.iter().zip(known).zip(positions.chunks(topics)).map(|((start, known), found)| match known {
        Some(known) => Ok(queues.next().map_or(Found::Pending, |queues| Found::Ready(known, queues))),
        None if shared.config.start_from == StartFrom::Earliest => {
            Ok(Found::First(earliest(&shared.consumer, &start.partitions, found)?))
        }
        None => Ok(Found::Pending),
    });
    found.collect()
}

fn find<S: Transformer>(
    shared: &Arc<Shared<S>>,
    start: &Start,
    wait: &mut Wait,
    kept: &mut Kept,
    lane: &Thread,
) -> Result<Found, Error> {
    let Start { number, partitions, incarnation, cancel } = start;
    let (number, incarnation) = (*number, *incarnation);
    let name = format!("task {number}");
    let ours = || shared.assignment.is_current(number, incarnation);
    loop {
        if !ours() {
            return Ok(Found::Gone);
        }
        let Some(found) = wait.ask(shared, &name, partitions)? else {
            return Ok(Found::Pending);
        };
        if found.iter().all(Option::is_some) {
            let found: Vec<Position> = found.into_iter().flatten().collect();
            if !refresh(shared, number, kept, cancel)? {
                return Ok(Found::Gone);
            }
            let queues = open(shared, &[start.opening(&found)], lane)?;
            let queues = queues.into_iter().flatten().next();
            return Ok(queues.map_or(Found::Gone, |queues| Found::Ready(found, queues)));
        }
        refuse_state_without_positions(shared, number, &found, kept, cancel)?;
        if shared.config.start_from == StartFrom::Earliest {
            return Ok(Found::First(earliest(&shared.consumer, partitions, &found)?));
        }
        if !shared.set_latest_positions(&shared.task(number), partitions, ours)? {
            return Ok(Found::Gone);
        }
    }
}
