//! Starting a task beside its lane, in scope `worker`: what it has to wait for holds up no other task of the lane. The order is that of
//! [`super::fence`]: the lane has fenced before a starter is sent, and commits first positions itself.
//!
//! A task has at most one starter: the queues of an older one would take the wake-up from those of the newer one when they are dropped.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::{self, Thread};
use std::time::Instant;

use super::fence::{earliest, open};
use super::restore::{refuse_state_without_positions, restore};
use super::{Lane, panic_text};
use crate::config::StartFrom;
use crate::error::Error;
use crate::kafka::{PartitionQueue, Position, TopicPartition};
use crate::stage::Transformer;
use crate::state::Store;
use crate::task::{Lifecycle, positions};
use crate::worker::{Incarnation, Router, Shared, Stop};

/// What a starter has to tell its lane.
pub(super) struct Report {
    number: i32,
    incarnation: Incarnation,
    since: Instant,
    found: Found,
}

enum Found {
    /// The task is at these positions, sought and resumed.
    /// With its state, where it keeps some and what it had is not right any more.
    Ready(Vec<Position>, Vec<PartitionQueue<Router>>, Option<Box<dyn Store>>),
    /// The group has no positions: these come first.
    First(Vec<(TopicPartition, Position)>),
    /// The task is not ours any more.
    Gone,
}

impl<S: Transformer> Lane<S> {
    /// Takes over what starters have found, and sends one to every task that needs it.
    pub(super) fn start_beside(&mut self) -> Result<(), Error> {
        self.read_reports()?;
        for number in self.in_state(Lifecycle::Starting) {
            let current = self.shared.assignment.is_current(number, self.tasks[&number].incarnation);
            if current && !self.starters.contains_key(&number) {
                self.fence()?;
                self.send_starter(number)?;
            }
        }
        Ok(())
    }

    fn read_reports(&mut self) -> Result<(), Error> {
        let mut first = Vec::new();
        while let Ok(Report { number, incarnation, since, found }) = self.reports.1.try_recv() {
            if let Some(starter) = self.starters.remove(&number) {
                // It ends with its report; a panic was caught.
                drop(starter.join());
            }
            let task = &self.tasks[&number];
            let awaited = task.lifecycle() == Lifecycle::Starting
                && task.incarnation == incarnation
                && self.shared.assignment.is_current(number, incarnation);
            match found {
                Found::Ready(positions, queues, store) if awaited => {
                    if let Some(store) = store {
                        self.output.states.open(number, store);
                    }
                    self.begun(number, &positions, queues, None, since);
                }
                Found::First(positions) if awaited => first.extend(positions),
                Found::Ready(..) | Found::First(_) | Found::Gone => {}
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
        let (partitions, incarnation, since) = (task.partitions.clone(), task.incarnation, Instant::now());
        // Positions at which the state that is here is right.
        let warm = self.output.states.is_open(number).then(|| task.committed.clone()).flatten();
        let cancel = task.cancel.clone();
        let work = move || {
            let find = || find(&shared, number, &partitions, incarnation, warm.as_deref(), &cancel, &lane);
            match catch_unwind(AssertUnwindSafe(find)) {
                // A lane that is gone waits for nothing.
                Ok(Ok(found)) => drop(reports.send(Report { number, incarnation, since, found })),
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

fn find<S: Transformer>(
    shared: &Arc<Shared<S>>,
    number: i32,
    partitions: &[TopicPartition],
    incarnation: Incarnation,
    warm: Option<&[Position]>,
    cancel: &Stop,
    lane: &Thread,
) -> Result<Found, Error> {
    let name = format!("task {number}");
    let ours = || shared.assignment.is_current(number, incarnation);
    loop {
        let Some(found) = positions::stable(shared, &name, partitions, ours)? else {
            return Ok(Found::Gone);
        };
        if found.iter().all(Option::is_some) {
            let found: Vec<Position> = found.into_iter().flatten().collect();
            let mut store = None;
            if shared.stage.is_stateful() && warm != Some(&*found) {
                store = restore(shared, number, cancel)?;
                if store.is_none() {
                    return Ok(Found::Gone);
                }
            }
            let queues = open(shared, number, partitions, incarnation, &found, lane)?;
            return Ok(queues.map_or(Found::Gone, |queues| Found::Ready(found, queues, store)));
        }
        refuse_state_without_positions(shared, number, &found, cancel)?;
        if shared.config.start_from == StartFrom::Earliest {
            return Ok(Found::First(earliest(&shared.consumer, partitions, &found)?));
        }
        if !shared.set_latest_positions(&shared.task(number), partitions, ours)? {
            return Ok(Found::Gone);
        }
    }
}
