//! The consumer loop.

mod stop;

use std::sync::Arc;

pub use stop::Stop;

use crate::config::WorkerConfig;
use crate::error::Error;
use crate::kafka::Position;
use crate::metrics::Metrics;
use crate::stage::Transformer;

/// One member of the consumer group: a consumer, and a lane for each input partition that it is assigned.
pub struct Worker<S> {
    config: WorkerConfig,
    stage: Arc<S>,
    monitor: Monitor,
}

impl<S: Transformer> Worker<S> {
    /// A worker that runs `stage`. Nothing connects yet.
    ///
    /// # Errors
    /// [`Error::Config`] with every problem of the configuration.
    pub fn new(config: WorkerConfig, stage: S) -> Result<Self, Error> {
        config.validate()?;
        Ok(Worker { config, stage: Arc::new(stage), monitor: Monitor { metrics: Arc::default() } })
    }

    /// A view of the worker that stays valid while it runs and after.
    pub fn monitor(&self) -> Monitor {
        self.monitor.clone()
    }

    /// Runs until `stop`, or until an error. Blocks the calling thread, which must not be one of an async runtime.
    ///
    /// # Errors
    /// See [`Error`]. Whatever was not committed is processed again by the next run.
    pub fn run(self, stop: &Stop) -> Result<(), Error> {
        let _ = (&self.config, &self.stage, stop);
        unimplemented!()
    }
}

/// Watches a worker from another thread.
#[derive(Clone, Debug)]
pub struct Monitor {
    metrics: Arc<Metrics>,
}

impl Monitor {
    /// The worker's counters.
    #[must_use]
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// What the *group* has committed, and where the input topics end for a `read_committed` reader, over all partitions of
    /// all input topics. `None` before the worker is connected. Asks the broker: takes milliseconds, up to a few seconds.
    ///
    /// # Errors
    /// Where the broker does not answer in time.
    pub fn lag(&self) -> Result<Option<Lag>, Error> {
        unimplemented!()
    }
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
    /// The end of the partition for a `read_committed` reader (last stable offset).
    pub end: Position,
}

impl Lag {
    /// Records (and markers) between the committed positions and the ends. A partition without a committed position counts from
    /// the beginning of its numbering.
    #[must_use]
    pub fn total(&self) -> i64 {
        self.partitions.iter().map(PartitionLag::count).sum()
    }
}

impl PartitionLag {
    /// Records (and markers) between the committed position and the end.
    #[must_use]
    pub fn count(&self) -> i64 {
        (self.end.0 - self.committed.map_or(0, |position| position.0)).max(0)
    }
}
