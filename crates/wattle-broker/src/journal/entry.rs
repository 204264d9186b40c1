//! What the journal holds. The order of variants and fields is the file format: append at the end, or raise the version.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::group;
use crate::transaction;
use crate::types::{Committed, TopicPartition};

/// One change.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Entry {
    /// The first entry of every journal.
    Cluster {
        id: Uuid,
    },
    TopicCreated {
        name: String,
        id: Uuid,
        partitions: i32,
        config: BTreeMap<String, String>,
    },
    TopicConfigured {
        name: String,
        config: BTreeMap<String, String>,
    },
    TopicGrown {
        name: String,
        partitions: i32,
    },
    TopicDeleted {
        name: String,
    },
    /// Records before `offset` were deleted on request.
    LogStart {
        partition: TopicPartition,
        offset: i64,
    },
    /// The next producer id to give.
    ProducerIds {
        next: i64,
    },
    /// A transactional id as it is now.
    Transaction(transaction::Image),
    /// A transaction ended: the id as it is now, the markers with the offsets that they have or are going to have, and, where it committed, the
    /// groups' positions. One entry, so that a crash keeps all of it or nothing.
    TransactionEnded {
        image: transaction::Image,
        ended: transaction::Ended,
        markers: Vec<(TopicPartition, i64)>,
    },
    /// A group's members as they are now.
    Group(group::Image),
    GroupDeleted {
        name: String,
    },
    /// Positions committed outside of transactions.
    Offsets {
        group: String,
        offsets: Vec<(TopicPartition, Committed)>,
    },
    OffsetsDeleted {
        group: String,
        partitions: Vec<TopicPartition>,
    },
}
