//! Starting a task, strictly in this order: fence, stable positions, seek. Nothing is produced before the fence (W1), and the
//! positions are read after it, so that a commit of the owner before us is either in them or can never happen.

use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use super::commit::Outcome;
use super::restore::{Kept, refresh, refuse_state_without_positions};
use super::{Committer, Lane, millis};
use crate::config::{Delivery, StartFrom, TransactionScope};
use crate::error::Error;
use crate::kafka::{Consumer, PartitionQueue, Position, Producer, RebalanceListener, TopicPartition};
use crate::stage::Transformer;
use crate::task::{Lifecycle, positions};
use crate::worker::{Incarnation, Router, Shared, Stop};

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
            let found = match &self.committer {
                Committer::Sink(_) => self.positions_of_sink(number, &partitions)?,
                _ => positions::stable(&shared, &task_name, &partitions, ours)?,
            };
            let Some(found) = found else { return Ok(()) };
            if found.iter().any(Option::is_none) {
                self.with_store(number, |kept, cancel| {
                    refuse_state_without_positions(&shared, number, &found, kept, cancel)
                })?;
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
            if !self.with_store(number, |kept, cancel| refresh(&shared, number, kept, cancel))? {
                return Ok(());
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
            // It fences when it opens the positions.
            Committer::Sink(state) => state.connect(&config.delivery).map(|()| true),
        }
    }

    /// Lends a task's store out while the task does not run.
    fn with_store<T>(
        &mut self,
        number: i32,
        work: impl FnOnce(&mut Kept, &Stop) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let mut kept = self.output.states.close(number);
        let result = work(&mut kept, &self.tasks[&number].cancel);
        if let Some(store) = kept {
            self.output.states.open(number, store);
        }
        result
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
        let places = task.partitions.iter().cloned().zip(found.iter().copied()).collect();
        let opening = Opening { number, incarnation: task.incarnation, places };
        let queues = open(&self.shared, &[opening], &thread::current())?;
        if let Some(queues) = queues.into_iter().flatten().next() {
            let transactional = matches!(self.committer, Committer::Transactions { .. });
            let producer = transactional.then_some(if fenced_now { "new" } else { "kept" });
            self.begun(number, found, queues, producer, started);
            let places: Vec<_> = self.tasks[&number].partitions.iter().cloned().zip(found.iter().copied()).collect();
            self.show_positions(&places);
        }
        Ok(())
    }

    /// A task reads from its queues from now on.
    pub(super) fn begun(
        &mut self,
        number: i32,
        found: &[Position],
        queues: Queues,
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

/// A task that is to begin at these positions.
pub(super) struct Opening {
    pub(super) number: i32,
    pub(super) incarnation: Incarnation,
    pub(super) places: Vec<(TopicPartition, Position)>,
}

/// The queues of a task's partitions.
pub(super) type Queues = Vec<PartitionQueue<Router>>;

/// Seeks to the positions of tasks and resumes; their queues wake `lane`. `None` where one is not ours any more: none of them begins.
pub(super) fn open<S>(shared: &Shared<S>, tasks: &[Opening], lane: &Thread) -> Result<Option<Vec<Queues>>, Error> {
    let ours = || tasks.iter().all(|task| shared.assignment.is_current(task.number, task.incarnation));
    if !ours() {
        return Ok(None);
    }
    let places: Vec<_> = tasks.iter().flat_map(|task| task.places.iter().cloned()).collect();
    if places.is_empty() {
        return Ok(Some(Vec::new()));
    }
    for (partition, position) in &places {
        positions::check_range(&shared.view, &shared.config, partition, *position)?;
    }
    let failed = |what: &str, source| {
        let partitions: Vec<_> = places.iter().map(|(partition, _)| partition.clone()).collect();
        Error::Kafka { what: format!("{}: {what} {}", shared.config.name, positions::names(&partitions)), source }
    };
    let split = |((topic, partition), _): &(TopicPartition, Position)| {
        let lane = lane.clone();
        shared.consumer.split(topic, *partition, move || lane.unpark())
    };
    let queues = tasks.iter().map(|task| task.places.iter().map(split).collect());
    let queues = queues.collect::<Result<_, _>>().map_err(|source| failed("split the queues of", source))?;
    if let Err(source) = shared.consumer.begin(&places, SEEK, ours) {
        // A rebalance may take the partitions away between the check and the seek; then the seek had nothing to seek in.
        return if ours() { Err(failed("seek in", source)) } else { Ok(None) };
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
