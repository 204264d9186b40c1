//! The transaction coordinator: transactional ids, epochs, partitions and pending positions of open transactions. Pure: it decides, `core` applies.

use serde::{Deserialize, Serialize};

use crate::types::{Code, Committed, Millis, Producer, TopicPartition};

/// A transactional id as the journal keeps it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Image {
    pub(crate) id: String,
}

/// A transaction that is to end now: `core` writes the markers with this producer (after a fence or a timeout its epoch is the raised one) and applies the positions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Ended {
    pub(crate) id: String,
    pub(crate) producer: Producer,
    pub(crate) commit: bool,
    pub(crate) partitions: Vec<TopicPartition>,
    /// By group; empty where it aborted.
    pub(crate) offsets: Vec<(String, Vec<(TopicPartition, Committed)>)>,
}

/// All transactional ids, and the producer ids given so far.
#[derive(Debug, Default)]
pub(crate) struct Transactions {}

impl Transactions {
    /// From the journal.
    pub(crate) fn restore(&mut self, _image: Image, _now: Millis) {
        todo!()
    }

    /// From the journal.
    pub(crate) fn restore_producer_ids(&mut self, _next: i64) {
        todo!()
    }

    /// The state of an id, for the journal.
    pub(crate) fn image(&self, _id: &str) -> Option<Image> {
        todo!()
    }

    /// Everything, for a snapshot, and the next producer id.
    pub(crate) fn snapshot(&self) -> (Vec<Image>, i64) {
        todo!()
    }

    /// Whether this producer may write transactionally to this partition now.
    pub(crate) fn may_produce(&self, _id: &str, _producer: Producer, _partition: &TopicPartition) -> Result<(), Code> {
        todo!()
    }

    /// Whether an open transaction holds a position of this group and partition.
    pub(crate) fn holds(&self, _group: &str, _partition: &TopicPartition) -> bool {
        todo!()
    }

    /// Transactions whose time is over: they are ended here (epoch raised); `core` applies each.
    pub(crate) fn expire(&mut self, _now: Millis) -> Vec<Ended> {
        todo!()
    }

    /// A topic was deleted: open transactions forget its partitions and positions.
    pub(crate) fn forget_topic(&mut self, _topic: &str) {
        todo!()
    }
}
