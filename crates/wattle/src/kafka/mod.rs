//! The only place that touches librdkafka.

mod admin;
mod changelog;
mod client;
mod close;
mod consumer;
mod deliveries;
mod error;
mod ffi;
mod group;
mod holder;
mod murmur2;
mod ownership;
mod position;
mod producer;
mod record;
mod tail;
mod topics;

pub(crate) use admin::{Admin, Cluster};
pub(crate) use changelog::{Changelog, Until};
pub(crate) use client::{CLIENT, property_problem};
pub(crate) use consumer::{Consumer, PartitionQueue, RebalanceListener, TopicPartition};
pub(crate) use deliveries::{Failure, Refused as RefusedOutput};
pub use error::{Error, Verdict};
pub use ffi::Rights;
pub(crate) use ffi::{Group, GroupToken, Member};
pub(crate) use group::GroupView;
pub(crate) use holder::Holder;
pub(crate) use murmur2::partition_of;
pub(crate) use ownership::Ownership;
pub use position::{Offset, Position};
pub(crate) use producer::{GroupPositions, Producer, ProducerConfig};
pub(crate) use record::{ALONE, Mark, Refused, header_bytes};
pub use record::{Batch, Header, Record};
pub use tail::{OwnedRecord, Tail};
pub use topics::NewTopics;
