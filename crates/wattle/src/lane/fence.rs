//! Starting a task, strictly in this order: fence, stable positions, seek. Nothing is produced before the fence (W1), and the
//! positions are read after it, so that a commit of the owner before us is either in them or can never happen.

use std::thread::Thread;
use std::time::{Duration, Instant};

use super::commit::Outcome;
use super::restore::{Refreshed, refresh, refuse_state_without_positions};
use super::{Committer, Lane, millis};
use crate::config::{Delivery, StartFrom, TransactionScope};
use crate::error::Error;
use crate::kafka::{Consumer, PartitionQueue, Position, Producer, RebalanceListener, TopicPartition};
use crate::stage::Transformer;
use crate::task::{Lifecycle, positions};
use crate::worker::{Incarnation, Router, Shared};

/// librdkafka's longest wait for a seek; the lane starts again after it.
const SEEK: Duration = Duration::from_secs(30);
const CLUSTER: Duration = Duration::from_secs(10);

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
            let Some(found) = positions::stable(&shared, &task_name, &partitions, ours)? else {
                return Ok(());
            };
            if found.iter().any(Option::is_none) {
                refuse_state_without_positions(&shared, number, &found, &self.tasks[&number].cancel)?;
                if !self.set_first_positions(&partitions, &found)? {
                    return Ok(());
                }
                continue;
            }
            let found: Vec<Position> = found.into_iter().flatten().collect();
            // A producer that was kept while the task was away is good only if nobody else has committed since: otherwise another
            // owner came after our fence, and there is one that must be fenced now.
            // Where there are timers, the positions do not tell.
            let timers = self.output.states.has_timers(number);
            if !fenced_now && (timers || self.tasks[&number].committed.as_ref() != Some(&found)) {
                self.drop_producer();
                continue;
            }
            match refresh(&shared, number, &found, self.warm(number).as_deref(), &self.tasks[&number].cancel)? {
                Refreshed::Right => {}
                Refreshed::Read(store) => self.output.states.open(number, store),
                Refreshed::Gone => return Ok(()),
            }
            return self.begin(number, &found, fenced_now, started);
        }
    }

    /// A producer for the lane, if it has none. Returns whether the positions that follow are read behind a fence of our own: true
    /// right after it, and without transactions always.
    pub(super) fn fence(&mut self) -> Result<bool, Error> {
        let config = &self.shared.config;
        match &mut self.committer {
            Committer::Transactions { producer: Some(_), .. } => Ok(false),
            Committer::Transactions { id, producer } => {
                let started = Instant::now();
                let fresh = Producer::new(&self.shared.producer_config(id))?;
                let _watched = self.shared.watchdog.watch(self.number, "init_transactions", config.patience() * 2);
                fresh.init_transactions(config.patience()).map_err(|source| Error::Kafka {
                    what: format!("{id}: init_transactions (the fence of the transactional id)"),
                    source,
                })?;
                if config.transaction_scope == TransactionScope::Worker {
                    same_cluster(&fresh, &self.shared.consumer, &config.brokers)?;
                }
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

    /// Positions at which the state that the lane has of a task is right. With timers there are none: one that fires changes the state and
    /// moves no position, here or at another owner in between, or in a commit of ours whose outcome is unknown. Without, nothing can have
    /// fired at these positions.
    pub(super) fn warm(&self, number: i32) -> Option<Vec<Position>> {
        let states = &self.output.states;
        (states.is_open(number) && !states.has_timers(number)).then(|| self.tasks[&number].committed.clone()).flatten()
    }

    fn drop_producer(&mut self) {
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
        let first = earliest(&self.shared.consumer, partitions, found)?;
        self.output.clear();
        Ok(match self.commit(&first)? {
            Outcome::Committed | Outcome::Restarted => true,
            Outcome::Dropped => false,
        })
    }

    fn begin(&mut self, number: i32, found: &[Position], fenced_now: bool, started: Instant) -> Result<(), Error> {
        let task = &self.tasks[&number];
        let lane = std::thread::current();
        let queues = open(&self.shared, number, &task.partitions, task.incarnation, found, &lane)?;
        if let Some(queues) = queues {
            let transactional = matches!(self.committer, Committer::Transactions { .. });
            let producer = transactional.then_some(if fenced_now { "new" } else { "kept" });
            self.begun(number, found, queues, producer, started);
        }
        Ok(())
    }

    /// A task reads from its queues from now on.
    pub(super) fn begun(
        &mut self,
        number: i32,
        found: &[Position],
        queues: Vec<PartitionQueue<Router>>,
        producer: Option<&str>,
        started: Instant,
    ) {
        let task = self.tasks.get_mut(&number).expect("the task that is started");
        let places: Vec<_> = task.partitions.iter().cloned().zip(found.iter().copied()).collect();
        task.queues = queues;
        task.committed = Some(found.to_vec());
        task.become_(Lifecycle::Running);
        tracing::info!(
            stream = %self.shared.config.name,
            positions = %positions::places(&places),
            producer,
            generation = self.shared.consumer.token().map(|token| token.generation()),
            took_ms = millis(started),
            "task {number} started"
        );
    }
}

/// First positions under `Earliest`, for those of a task's partitions that have none.
pub(super) fn earliest<L: RebalanceListener>(
    consumer: &Consumer<L>,
    partitions: &[TopicPartition],
    found: &[Option<Position>],
) -> Result<Vec<(TopicPartition, Position)>, Error> {
    let missing = partitions.iter().zip(found).filter(|(_, found)| found.is_none());
    let first = missing.map(|(partition, _)| {
        let position = positions::resolve(consumer, &partition.0, partition.1, StartFrom::Earliest, false)?;
        Ok((partition.clone(), position))
    });
    first.collect()
}

/// Seeks to a task's positions and resumes; its queues wake `lane`. `None` where it is not ours any more.
pub(super) fn open<S>(
    shared: &Shared<S>,
    number: i32,
    partitions: &[TopicPartition],
    incarnation: Incarnation,
    found: &[Position],
    lane: &Thread,
) -> Result<Option<Vec<PartitionQueue<Router>>>, Error> {
    if !shared.assignment.is_current(number, incarnation) {
        return Ok(None);
    }
    let places: Vec<_> = partitions.iter().cloned().zip(found.iter().copied()).collect();
    for (partition, position) in &places {
        positions::check_range(&shared.view, &shared.config.group, partition, *position)?;
    }
    let failed = |what: &str| format!("{}: {what} {}", shared.task(number), positions::names(partitions));
    let queues = partitions.iter().map(|(topic, partition)| {
        let lane = lane.clone();
        shared.consumer.split(topic, *partition, move || lane.unpark())
    });
    let queues = queues
        .collect::<Result<_, _>>()
        .map_err(|source| Error::Kafka { what: failed("split the queues of"), source })?;
    if let Err(source) = shared.consumer.begin(&places, SEEK) {
        // A rebalance may take the partitions away between the check and the seek; then the seek had nothing to seek in.
        if !shared.assignment.is_current(number, incarnation) {
            return Ok(None);
        }
        return Err(Error::Kafka { what: failed("seek in"), source });
    }
    Ok(Some(queues))
}

/// Refuses a producer of another cluster than the group's, which could come from a list of brokers of two: its coordinator would not know
/// the group, whose generation is the fence.
fn same_cluster<L: RebalanceListener>(producer: &Producer, consumer: &Consumer<L>, brokers: &str) -> Result<(), Error> {
    let (ours, group) = (producer.cluster_id(CLUSTER), consumer.cluster_id(CLUSTER));
    if ours.is_some() && ours == group {
        return Ok(());
    }
    let say = |id: Option<String>| id.unwrap_or_else(|| "unknown".to_owned());
    let text = format!(
        "transaction_scope worker needs one cluster, and the brokers {brokers} lead to the cluster {} for the outputs and to {} for \
         the consumer group: list brokers of one cluster",
        say(ours),
        say(group)
    );
    Err(Error::BrokerSetting { text })
}
