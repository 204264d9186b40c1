//! Starting a task beside its lane, in scope `worker`: what it has to wait for holds up no other task of the lane. The order is that of
//! [`super::fence`]: the lane has fenced before a starter is sent, and commits first positions itself.
//!
//! A task has at most one starter: the queues of an older one would take the wake-up from those of the newer one when they are dropped.
//! There are at most [`STARTERS`] at a time. One that finds a position held open ends, so that the next task has its turn.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::{self, Thread};

use super::fence::{earliest, open};
use super::restore::{Kept, refresh, refuse_state_without_positions};
use super::{Lane, panic_text};
use crate::config::StartFrom;
use crate::error::Error;
use crate::kafka::{PartitionQueue, Position, TopicPartition};
use crate::stage::Transformer;
use crate::task::Lifecycle;
use crate::task::positions::Wait;
use crate::worker::{Incarnation, Router, Shared, Stop};

/// A process with hundreds of partitions shall not need a thread for each of them at once.
const STARTERS: usize = 16;

/// What a starter has to tell its lane.
pub(super) struct Report {
    number: i32,
    incarnation: Incarnation,
    wait: Wait,
    found: Found,
    /// The task's state, as far as it is there.
    kept: Kept,
}

/// Waits of tasks that have no starter at the moment. One of an older incarnation does not count.
pub(super) type Waits = BTreeMap<i32, (Incarnation, Wait)>;

enum Found {
    /// The task is at these positions, sought and resumed.
    Ready(Vec<Position>, Vec<PartitionQueue<Router>>),
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
        let mut ready: Vec<(usize, i32)> = Vec::new();
        for number in self.in_state(Lifecycle::Starting) {
            let incarnation = self.tasks[&number].incarnation;
            if self.starters.contains_key(&number) || !self.shared.assignment.is_current(number, incarnation) {
                continue;
            }
            let wait = self.waits.get(&number).filter(|(of, _)| *of == incarnation);
            ready.push((wait.map_or(0, |(_, wait)| wait.asked), number));
        }
        ready.sort_unstable();
        for (_, number) in ready.into_iter().take(STARTERS.saturating_sub(self.starters.len())) {
            self.fence()?;
            self.send_starter(number)?;
        }
        Ok(())
    }

    fn read_reports(&mut self) -> Result<(), Error> {
        let mut first = Vec::new();
        while let Ok(Report { number, incarnation, wait, found, kept }) = self.reports.1.try_recv() {
            if let Some(starter) = self.starters.remove(&number) {
                // It ends with its report; a panic was caught.
                drop(starter.join());
            }
            let task = &self.tasks[&number];
            let awaited = task.lifecycle() == Lifecycle::Starting
                && task.incarnation == incarnation
                && self.shared.assignment.is_current(number, incarnation);
            if let Some(store) = kept {
                self.output.states.open(number, store);
            }
            match found {
                Found::Ready(positions, queues) if awaited => {
                    self.begun(number, &positions, queues, None, wait.started);
                }
                Found::First(positions) if awaited => first.extend(positions),
                Found::Pending if awaited => drop(self.waits.insert(number, (incarnation, wait))),
                Found::Ready(..) | Found::First(_) | Found::Pending | Found::Gone => {}
            }
        }
        if !first.is_empty() {
            self.output.clear();
            // Whatever becomes of it: the next starters look.
            self.commit(&first)?;
        }
        Ok(())
    }

    fn send_starter(&mut self, number: i32) -> Result<(), Error> {
        let (shared, reports, lane) = (self.shared.clone(), self.reports.0.clone(), thread::current());
        let task = &self.tasks[&number];
        let incarnation = task.incarnation;
        let before = self.waits.remove(&number).filter(|(of, _)| *of == incarnation);
        let mut wait = before.map_or_else(Wait::begin, |(_, wait)| wait);
        let start = Start { number, partitions: task.partitions.clone(), incarnation, cancel: task.cancel.clone() };
        let mut kept = self.output.states.close(number);
        let work = move || {
            match catch_unwind(AssertUnwindSafe(|| find(&shared, &start, &mut wait, &mut kept, &lane))) {
                // A lane that is gone waits for nothing.
                Ok(Ok(found)) => drop(reports.send(Report { number, incarnation, wait, found, kept })),
                Ok(Err(error)) => shared.fatal.raise(error),
                Err(panic) => {
                    let what = format!("starting {}", shared.task(number));
                    shared.fatal.raise(Error::Panic { what, message: panic_text(panic.as_ref()) });
                }
            }
            lane.unpark();
        };
        let starter = thread::Builder::new()
            .name(format!("start-{number}"))
            .spawn(work)
            .map_err(|source| Error::Io { what: format!("start the thread that starts task {number}"), source })?;
        self.starters.insert(number, starter);
        Ok(())
    }

    /// Returns when no starter is left. They end when their tasks are not ours any more.
    pub(super) fn join_starters(&mut self) {
        for (_, starter) in std::mem::take(&mut self.starters) {
            drop(starter.join());
        }
    }
}

/// The task that a starter starts.
struct Start {
    number: i32,
    partitions: Vec<TopicPartition>,
    incarnation: Incarnation,
    cancel: Stop,
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
            let queues = open(shared, number, partitions, incarnation, &found, lane)?;
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
