//! A lane whose outputs are gathered into groups ([`Gather`](crate::Gather)): what was made of a batch is held, and what comes out of the groups that
//! have ended is committed, with the positions behind them. A stage without state need not run again for a commit that was dropped: what is to be
//! written waits in [`Held`] until it is committed.

use std::collections::BTreeMap;
use std::time::Instant;

use super::commit::Outcome;
use super::{Lane, guard};
use crate::config::WorkerConfig;
use crate::error::Error;
use crate::kafka::{Position, TopicPartition};
use crate::stage::Transformer;
use crate::task::Lifecycle;
use crate::task::gather::Held;
use crate::task::process::Done;

/// What a lane holds at its start.
pub(super) fn held(config: &WorkerConfig) -> Option<Held> {
    let gather = config.batch.gather.as_ref()?;
    Some(Held::new(gather, config.dead_letter_topic.as_deref(), &config.topics))
}

impl<S: Transformer> Lane<S> {
    /// Processes the batch, and commits what comes out of groups. Without records it does so for groups that are old.
    pub(super) fn run_gathered(&mut self) -> Result<(), Error> {
        self.batch.order();
        let shared = self.shared.clone();
        let limits = self.limits();
        let mut open = shared.metrics.open();
        let mut done = 0;
        loop {
            self.keep_running(done);
            done = 0;
            self.output.clear();
            if let Some(held) = &mut self.held {
                // Before records come that make more to write.
                held.end_old(if self.care.cut_above(true).is_some() { 1 } else { limits.bytes() });
            }
            if !self.batch.is_empty() {
                let Some(Done { until, aside, .. }) = self.process(&limits)? else { continue };
                if let Some(held) = &mut self.held {
                    held.take(&self.batch, 0..until, &self.output, aside);
                }
                done = until;
            }
            if !self.release(done)? {
                return Ok(());
            }
            open.renew();
            if done == self.batch.len() {
                return Ok(());
            }
        }
    }

    /// Commits what is to be written and the positions that are to be moved, once the first `until` records of the batch are processed. Where a task is taken away
    /// meanwhile, the others go on. Returns false where the lane starts again.
    fn release(&mut self, until: usize) -> Result<bool, Error> {
        let shared = self.shared.clone();
        loop {
            let started = Instant::now();
            let positions = self.positions_released(until)?;
            let Some(mut held) = self.held.take_if(|_| !positions.is_empty()) else { return Ok(true) };
            while let Err(error) =
                guard::check(&held.ready.output, &held.ready.batch, &shared.config, &shared.topology.limits)
            {
                if !held.put_aside(&error) {
                    return Err(error);
                }
            }
            let records = held.records();
            let dead_letters = held.dead_letters();
            let messages = held.ready.output.len() - dead_letters;
            // What is held is out of reach meanwhile: tasks that are lost in between are forgotten behind it.
            std::mem::swap(&mut self.batch, &mut held.ready.batch);
            std::mem::swap(&mut self.output, &mut held.ready.output);
            let outcome = self.commit(&positions);
            std::mem::swap(&mut self.batch, &mut held.ready.batch);
            std::mem::swap(&mut self.output, &mut held.ready.output);
            let outcome = match outcome {
                Err(error) if held.put_aside(&error) => {
                    tracing::debug!("{}: writes again with what was refused put aside: {error}", self.name());
                    self.care.learn(&error);
                    self.held = Some(held);
                    self.suspend_lost();
                    continue;
                }
                outcome => outcome?,
            };
            if outcome == Outcome::Committed {
                self.care.committed();
                let (withdrawn, letters) =
                    held.aside.refused(self.take_refused(), &held.ready.batch, &held.ready.output);
                shared.metrics.batch(records, messages - withdrawn, dead_letters + letters, started.elapsed());
                let aside = held.committed();
                shared.metrics.skipped(aside.skipped.count);
                self.asides.note(&shared.config.name, aside);
            }
            self.held = Some(held);
            self.suspend_lost();
            match outcome {
                Outcome::Committed => return Ok(true),
                Outcome::Dropped => {}
                Outcome::Restarted => return Ok(false),
            }
        }
    }

    /// Behind what is to be written and what nothing was made from; none passes a record that is held.
    fn positions_released(&self, until: usize) -> Result<Vec<(TopicPartition, Position)>, Error> {
        let mut next = if until == self.batch.len() { self.behind_markers()? } else { BTreeMap::new() };
        for (place, passed) in self.held.iter().flat_map(Held::positions) {
            let position = next.entry(place).or_insert(passed);
            *position = (*position).max(passed);
        }
        let partition = |(task, topic): (i32, usize)| self.tasks[&task].partitions[topic].clone();
        Ok(next.into_iter().map(|(place, position)| (partition(place), position)).collect())
    }

    /// Drops what is held of tasks that are not ours any more or begin anew: it is read again.
    pub(super) fn forget_held(&mut self) {
        let tasks = &self.tasks;
        if let Some(held) = &mut self.held {
            held.keep(|task| tasks.get(&task).is_some_and(|task| task.lifecycle() == Lifecycle::Running));
        }
    }
}
