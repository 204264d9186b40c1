//! Words that every room uses.

use serde::{Deserialize, Serialize};

/// Milliseconds since the epoch, by the broker's clock, which tests can move forward.
pub(crate) type Millis = i64;

/// What a request is refused with.
pub(crate) use kafka_protocol::ResponseError as Code;

/// One partition of a topic.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct TopicPartition {
    pub(crate) topic: String,
    pub(crate) partition: i32,
}

/// A producer and its incarnation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Producer {
    pub(crate) id: i64,
    pub(crate) epoch: i16,
}

/// How far a reader sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Isolation {
    /// Up to the end, aborted records included.
    ReadUncommitted,
    /// Up to the last stable offset.
    ReadCommitted,
}

/// A committed position of a group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Committed {
    pub(crate) offset: i64,
    pub(crate) leader_epoch: i32,
    pub(crate) metadata: String,
    pub(crate) at: Millis,
}
