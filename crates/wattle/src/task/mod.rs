//! One input partition number across all input topics: its queues and its positions.

pub(crate) mod aside;
mod buckets;
mod failure;
pub(crate) mod gather;
mod item;
pub(crate) mod positions;
pub(crate) mod process;

pub use failure::{dead_letter, failed_record};

use crate::kafka::{PartitionQueue, Position, RebalanceListener, TopicPartition};
use crate::worker::{Incarnation, Stop};

/// Where a task is in its life. Legal moves: [`Lifecycle::may_become`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lifecycle {
    /// Assigned; its positions are not known yet, and its partitions are paused.
    Starting,
    /// Reads, processes, commits.
    Running,
    /// Not ours at the moment. What it knows of its last commit is kept, in case that it comes back.
    Suspended,
}

impl Lifecycle {
    fn may_become(self, next: Lifecycle) -> bool {
        use Lifecycle::{Running, Starting, Suspended};
        match (self, next) {
            // started, given up while starting, restarted
            (Starting, Running | Suspended | Starting) | (Running, Suspended | Starting) => true,
            // came back; or was told twice that it is gone
            (Suspended, Starting | Suspended) => true,
            (Running, Running) | (Suspended, Running) => false,
        }
    }
}

/// A task as its lane keeps it.
pub(crate) struct Task<L: RebalanceListener> {
    /// Its partitions, in the order of the input topics.
    pub(crate) partitions: Vec<TopicPartition>,
    pub(crate) incarnation: Incarnation,
    /// Given when the task is not ours any more.
    pub(crate) cancel: Stop,
    /// In the order of the input topics; empty while suspended.
    pub(crate) queues: Vec<PartitionQueue<L>>,
    /// What this process committed last or began with, in the order of the input topics.
    pub(crate) committed: Option<Vec<Position>>,
    lifecycle: Lifecycle,
}

impl<L: RebalanceListener> Task<L> {
    pub(crate) fn new(partitions: Vec<TopicPartition>, incarnation: Incarnation, cancel: Stop) -> Self {
        Task { partitions, incarnation, cancel, queues: Vec::new(), committed: None, lifecycle: Lifecycle::Starting }
    }

    pub(crate) fn lifecycle(&self) -> Lifecycle {
        self.lifecycle
    }

    /// # Panics
    /// Where the move is not legal: a bug in here.
    pub(crate) fn become_(&mut self, next: Lifecycle) {
        assert!(self.lifecycle.may_become(next), "{:?} -> {next:?}", self.lifecycle);
        self.lifecycle = next;
    }
}
