//! Starting a task, strictly in this order: fence, stable positions, seek. Nothing is produced before the fence (W1), and the
//! positions are read after it, so that a commit of the owner before us is either in them or can never happen.

use std::time::{Duration, Instant};

use super::commit::Outcome;
use super::{Committer, Lane};
use crate::config::{Delivery, StartFrom};
use crate::error::Error;
use crate::kafka::{Position, Producer, TopicPartition};
use crate::stage::Transformer;
use crate::task::{Lifecycle, positions};

/// librdkafka's longest wait for a seek; the lane starts again after it.
const SEEK: Duration = Duration::from_secs(30);

impl<S: Transformer> Lane<S> {
    /// Brings a task from `Starting` to `Running`, or leaves it where the assignment has gone meanwhile.
    pub(super) fn start(&mut self, number: i32) -> Result<(), Error> {
        let started = Instant::now();
        let task_name = format!("task {number}");
        let mut fenced_now = false;
        loop {
            let shared = self.shared.clone();
            // A fence throws out whoever has the partition, so it is asked just before.
            if !shared.assignment.is_current(number, self.tasks[&number].incarnation) {
                return Ok(());
            }
            fenced_now |= self.fence()?;
            let task = &self.tasks[&number];
            let (partitions, incarnation) = (task.partitions.clone(), task.incarnation);
            let ours = || shared.assignment.is_current(number, incarnation);
            let Some(found) =
                positions::stable(&shared.consumer, (&shared.config.name, &task_name), &partitions, ours)?
            else {
                return Ok(());
            };
            if found.iter().any(Option::is_none) {
                if !self.set_first_positions(&partitions, &found)? {
                    return Ok(());
                }
                continue;
            }
            let found: Vec<Position> = found.into_iter().flatten().collect();
            // A producer that was kept while the task was away is good only if nobody else has committed since: otherwise another
            // owner came after our fence, and there is one that must be fenced now.
            if !fenced_now && self.tasks[&number].committed.as_ref() != Some(&found) {
                self.drop_producer();
                continue;
            }
            return self.begin(number, &found, fenced_now, started);
        }
    }

    /// A producer for the lane, if it has none. Returns whether the positions that follow are read behind a fence of our own: true
    /// right after it, and without transactions always.
    fn fence(&mut self) -> Result<bool, Error> {
        let config = &self.shared.config;
        match &mut self.committer {
            Committer::Transactions { producer: Some(_), .. } => Ok(false),
            Committer::Transactions { id, producer } => {
                let started = Instant::now();
                let fresh = Producer::new(&self.shared.producer_config(id))?;
                let _watched =
                    self.shared.watchdog.watch(self.number, "init_transactions", config.transaction_timeout * 2);
                fresh.init_transactions(config.transaction_timeout).map_err(|source| Error::Kafka {
                    what: format!("{id}: init_transactions (the fence of the transactional id)"),
                    source,
                })?;
                let took_ms = millis(started);
                tracing::info!(stream = %config.name, transactional_id = %id, took_ms, "fenced every older producer of the id");
                *producer = Some(fresh);
                Ok(true)
            }
            Committer::AtLeastOnce { sink } => {
                if let (None, Delivery::AtLeastOnce(make)) = (&sink, &config.delivery) {
                    *sink = Some(make()?);
                }
                Ok(true)
            }
        }
    }

    pub(super) fn drop_producer(&mut self) {
        if let Committer::Transactions { producer, .. } = &mut self.committer {
            *producer = None;
        }
    }

    /// Commits where the group begins before any record is processed, so that a crash before the first batch does not decide anew.
    /// Returns false where the task is not ours any more.
    ///
    /// With `Earliest` a task does so for its own partitions: resolving twice gives the same. With `Latest` it would not, and records
    /// would be lost between the two; there all partitions of the group get their positions in one transaction of one id, so that
    /// afterwards a partition without a position is known to be younger than the group.
    fn set_first_positions(
        &mut self,
        partitions: &[TopicPartition],
        found: &[Option<Position>],
    ) -> Result<bool, Error> {
        if self.shared.config.start_from == StartFrom::Latest {
            return self.shared.set_latest_positions(&self.name(), partitions, || self.tasks_are_ours());
        }
        let mut first = Vec::new();
        for (partition, found) in partitions.iter().zip(found) {
            if found.is_none() {
                let position =
                    positions::resolve(&self.shared.consumer, &partition.0, partition.1, StartFrom::Earliest, false)?;
                first.push((partition.clone(), position));
            }
        }
        self.output.clear();
        Ok(match self.commit(&first)? {
            Outcome::Committed | Outcome::Restarted => true,
            Outcome::Dropped => false,
        })
    }

    fn begin(&mut self, number: i32, found: &[Position], fenced_now: bool, started: Instant) -> Result<(), Error> {
        let shared = self.shared.clone();
        let name = shared.task(number);
        let transactional = matches!(self.committer, Committer::Transactions { .. });
        let task = self.tasks.get_mut(&number).expect("the task that is started");
        if !shared.assignment.is_current(number, task.incarnation) {
            return Ok(());
        }
        let places: Vec<_> = task.partitions.iter().cloned().zip(found.iter().copied()).collect();
        for (partition, position) in &places {
            positions::check_range(&shared.view, &shared.config.group, partition, *position)?;
        }
        let failed = |what: &str| format!("{name}: {what} {}", positions::names(&task.partitions));
        let thread = std::thread::current();
        task.queues = task
            .partitions
            .iter()
            .map(|(topic, partition)| {
                let thread = thread.clone();
                shared.consumer.split(topic, *partition, move || thread.unpark())
            })
            .collect::<Result<_, _>>()
            .map_err(|source| Error::Kafka { what: failed("split the queues of"), source })?;
        if let Err(source) = shared.consumer.begin(&places, SEEK) {
            // A rebalance may take the partitions away between the check and the seek; then the seek had nothing to seek in.
            if !shared.assignment.is_current(number, task.incarnation) {
                return Ok(());
            }
            return Err(Error::Kafka { what: failed("seek in"), source });
        }
        task.committed = Some(found.to_vec());
        task.become_(Lifecycle::Running);
        tracing::info!(
            stream = %shared.config.name,
            positions = %positions::places(&places),
            producer = transactional.then_some(if fenced_now { "new" } else { "kept" }),
            generation = shared.consumer.token().map(|token| token.generation()),
            took_ms = millis(started),
            "task {number} started"
        );
        Ok(())
    }
}

fn millis(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX)
}
