//! Watching a worker from other threads.

use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use super::desk::Desk;
use super::restores::{Restore, Restores};
use super::shared::Router;
use crate::error::Error;
use crate::kafka::{Consumer, GroupView, Position, TopicPartition};
use crate::metrics::Metrics;

const ASK: Duration = Duration::from_secs(5);

/// Watches a worker from another thread.
#[derive(Clone, Default)]
pub struct Monitor {
    pub(super) metrics: Arc<Metrics>,
    pub(super) restores: Arc<Restores>,
    pub(crate) desk: Arc<Desk>,
    source: Arc<OnceLock<LagSource>>,
}

struct LagSource {
    consumer: Weak<Consumer<Router>>,
    group: Arc<GroupView>,
    partitions: Vec<TopicPartition>,
}

impl Monitor {
    pub(super) fn attach(
        &self,
        consumer: &Arc<Consumer<Router>>,
        group: Arc<GroupView>,
        partitions: Vec<TopicPartition>,
    ) {
        let source = LagSource { consumer: Arc::downgrade(consumer), group, partitions };
        // A worker runs once, so nothing was attached before.
        drop(self.source.set(source));
    }

    /// The worker's counters.
    #[must_use]
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// The tasks whose state is being read from the changelog right now, every few seconds anew.
    #[must_use]
    pub fn restores(&self) -> Vec<Restore> {
        self.restores.list()
    }

    /// Whether the worker has connected and is a member of its group. Asks nobody.
    #[must_use]
    pub fn membership(&self) -> Membership {
        let Some(consumer) = self.source.get().and_then(|source| source.consumer.upgrade()) else {
            return Membership::NotConnected;
        };
        if consumer.token().is_some() { Membership::Member } else { Membership::Joining }
    }

    /// What the *group* has committed, and where the input topics end for a `read_committed` reader, over all partitions of
    /// all input topics. `None` before the worker is connected and after it has ended. Asks the broker: takes milliseconds, up to
    /// a few seconds.
    ///
    /// # Errors
    /// Where the broker does not answer in time.
    pub fn lag(&self) -> Result<Option<Lag>, Error> {
        let Some(source) = self.source.get() else { return Ok(None) };
        let Some(consumer) = source.consumer.upgrade() else { return Ok(None) };
        let failed = |source| Error::Kafka { what: "ask for the lag".to_owned(), source };
        let committed = source.group.committed(&source.partitions, ASK).map_err(failed)?;
        let mut partitions = Vec::with_capacity(committed.len());
        for ((topic, partition), committed) in source.partitions.iter().zip(committed) {
            let (low, end) = consumer.watermarks(topic, *partition, ASK).map_err(failed)?;
            let (_, high) = source.group.watermarks(topic, *partition, ASK).map_err(failed)?;
            partitions.push(PartitionLag {
                topic: topic.to_string(),
                partition: *partition,
                committed,
                start: Position(low),
                end: Position(end),
                high: Position(high),
            });
        }
        Ok(Some(Lag { partitions }))
    }
}

/// See [`Monitor::membership`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Membership {
    /// It has not connected yet, or has ended.
    NotConnected,
    /// It waits for the group.
    Joining,
    /// It is a member; whether it has partitions is another question.
    Member,
}

/// See [`Monitor::lag`].
#[derive(Clone, Debug)]
pub struct Lag {
    /// In the order of the input topics and their partitions.
    pub partitions: Vec<PartitionLag>,
}

/// See [`Monitor::lag`].
#[derive(Clone, Debug)]
pub struct PartitionLag {
    /// Input topic.
    pub topic: String,
    /// Partition.
    pub partition: i32,
    /// What the group has committed, if anything.
    pub committed: Option<Position>,
    /// The first offset that the partition still has.
    pub start: Position,
    /// The end of the partition for a `read_committed` reader (last stable offset).
    pub end: Position,
    /// The end of the partition (high watermark): behind `end` where a transaction is open.
    pub high: Position,
}

impl Lag {
    /// Offsets (of records and markers) between the committed positions and the ends.
    #[must_use]
    pub fn total(&self) -> i64 {
        self.partitions.iter().map(PartitionLag::count).sum()
    }
}

impl PartitionLag {
    /// Offsets (of records and markers) between the committed position, or the start where there is none, and the end.
    #[must_use]
    pub fn count(&self) -> i64 {
        (self.end.0 - self.committed.unwrap_or(self.start).0).max(0)
    }
}
