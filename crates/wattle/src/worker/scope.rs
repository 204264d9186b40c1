//! The transaction scope: which tasks share a lane, and the transactional id of each lane.

use super::shared::Shared;
use crate::config::{Delivery, TransactionScope};
use crate::kafka::{Holder, TopicPartition};

/// In scope `worker`, so many partition numbers in a row share a lane. Within a transaction a client writes each partition by a request of
/// its own, and a broker answers the requests of one connection in turn, which takes as long as several hundred records: over more partitions
/// one transaction is slower than two beside each other. In a row, because that is how the group assigns them: of several processes each
/// has few lanes.
const TASKS: i32 = 16;
/// Lanes of a worker in scope `worker`, at most.
const LANES: i32 = 4;

impl TransactionScope {
    /// The number of the lane that a task is on. It depends on nothing else, so that a task comes back to its lane.
    pub(super) fn lane_of(self, task: i32) -> i32 {
        match self {
            TransactionScope::Task => task,
            TransactionScope::Worker => task / TASKS % LANES,
        }
    }

    /// How many lanes a worker has that has all partitions.
    pub(super) fn lanes(self, partitions: i32) -> i32 {
        match self {
            TransactionScope::Task => partitions,
            TransactionScope::Worker => ((partitions + TASKS - 1) / TASKS).min(LANES),
        }
    }

    /// The transactional id of a lane. `#` cannot be in an instance's name (a broker takes those of topics), so that no two workers
    /// have one id.
    fn id(self, prefix: &str, instance: &str, lane: i32) -> String {
        match (self, lane) {
            (TransactionScope::Task, _) => format!("{prefix}-{lane}"),
            (TransactionScope::Worker, 0) => format!("{prefix}-{instance}"),
            (TransactionScope::Worker, _) => format!("{prefix}-{instance}#{lane}"),
        }
    }
}

impl<S> Shared<S> {
    pub(crate) fn lane_of(&self, task: i32) -> i32 {
        self.config.transaction_scope.lane_of(task)
    }

    /// `None` where there are no transactions.
    pub(crate) fn transactional_id(&self, lane: i32) -> Option<String> {
        match &self.config.delivery {
            Delivery::ExactlyOnce { transactional_id } => {
                Some(self.config.transaction_scope.id(transactional_id, &self.instance, lane))
            }
            _ => None,
        }
    }

    /// What the positions of a task say of who commits them; `None` where there are no transactions, or they cannot say it.
    fn holder(&self, task: i32) -> Option<Holder> {
        let holder = Holder {
            transactional_id: self.transactional_id(self.lane_of(task))?,
            client_id: self.client_id.clone(),
            instance_id: self.config.group_instance_id.clone(),
        };
        holder.is_told().then_some(holder)
    }

    /// Whether the last positions of these partitions carry our name, as far as they can.
    pub(crate) fn has_signed(&self, partitions: &[TopicPartition], holders: &[Option<Holder>]) -> bool {
        let ours = |(_, task): &TopicPartition| self.holder(*task);
        partitions
            .iter()
            .zip(holders)
            .all(|(place, holder)| ours(place).is_none_or(|ours| holder.as_ref() == Some(&ours)))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::TransactionScope::{Task, Worker};

    fn lanes_of(tasks: std::ops::Range<i32>) -> BTreeMap<i32, usize> {
        let mut lanes = BTreeMap::new();
        for task in tasks {
            *lanes.entry(Worker.lane_of(task)).or_default() += 1;
        }
        lanes
    }

    #[test]
    fn few_partitions_of_a_worker_share_one_lane_and_many_have_four() {
        assert_eq!(lanes_of(0..16), BTreeMap::from([(0, 16)]));
        assert_eq!(lanes_of(0..20), BTreeMap::from([(0, 16), (1, 4)]));
        assert_eq!(lanes_of(64..128), BTreeMap::from([(0, 16), (1, 16), (2, 16), (3, 16)]));
        for partitions in [1, 16, 17, 33, 64, 65, 256] {
            assert_eq!(lanes_of(0..partitions).len(), usize::try_from(Worker.lanes(partitions)).expect("few"));
        }
        assert_eq!((Task.lane_of(70), Task.lanes(71)), (70, 71));
    }

    #[test]
    fn every_lane_has_an_id_of_its_own() {
        assert_eq!(Task.id("app", "one", 3), "app-3");
        assert_eq!(Worker.id("app", "one", 0), "app-one");
        assert_eq!(Worker.id("app", "one", 3), "app-one#3");
    }
}
