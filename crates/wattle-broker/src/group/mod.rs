//! Consumer groups of the classic protocol, and their positions. Pure: time comes in, answers come out; waiting is done by `api/`.

use serde::{Deserialize, Serialize};

use crate::types::{Committed, Millis, TopicPartition};

/// A group's membership as the journal keeps it: members survive a restart of the broker, as they do in Kafka.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Image {
    pub(crate) name: String,
}

/// All groups.
#[derive(Debug, Default)]
pub(crate) struct Groups {}

impl Groups {
    /// A group's membership from the journal.
    pub(crate) fn restore(&mut self, _image: Image, _now: Millis) {
        todo!()
    }

    /// Removes a group.
    pub(crate) fn remove(&mut self, _group: &str) {
        todo!()
    }

    /// Sets positions: from the journal, from OffsetCommit, or from a committed transaction. Creates the group if need be.
    pub(crate) fn commit(&mut self, _group: &str, _offsets: Vec<(TopicPartition, Committed)>) {
        todo!()
    }

    /// Removes positions.
    pub(crate) fn forget(&mut self, _group: &str, _partitions: &[TopicPartition]) {
        todo!()
    }

    /// A topic was deleted: its positions go in all groups.
    pub(crate) fn forget_topic(&mut self, _topic: &str) {
        todo!()
    }

    /// Sessions and rebalances that are overdue. Returns the images to journal; whoever waits has to be woken if it is not empty or a rebalance ended.
    pub(crate) fn expire(&mut self, _now: Millis) -> Vec<Image> {
        todo!()
    }

    /// Everything, for a snapshot: images and positions.
    pub(crate) fn snapshot(&self) -> Vec<(Image, Vec<(TopicPartition, Committed)>)> {
        todo!()
    }
}
