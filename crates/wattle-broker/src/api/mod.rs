//! One file for each family of requests. A handler takes the decoded request and returns the answer, or `Dropped` where no answer may be sent.

mod cluster;
mod configs;
mod fetch;
mod groups;
mod list_offsets;
mod metadata;
mod names;
mod offsets;
mod produce;
mod refusal;
mod topics;
mod transactions;
mod versions;

use kafka_protocol::messages::{RequestKind, ResponseKind};
use kafka_protocol::protocol::StrBytes;

use crate::core::Core;
use crate::error::Error;
use crate::server::Address;

pub(crate) use names::mentions;
pub(crate) use produce::refused_something;
pub(crate) use refusal::refused;
pub(crate) use topics::{check_name, check_partitions};
pub(crate) use versions::{accepts, unsupported_api_versions, versions};

/// The id of the only node.
const NODE: i32 = 1;

/// The request is not answered: the broker stops, or a write failed.
#[derive(Debug)]
pub(crate) struct Dropped;

impl From<Error> for Dropped {
    fn from(_: Error) -> Self {
        Dropped
    }
}

/// Who asks.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    /// From the request's header.
    pub(crate) id: String,
    /// Address.
    pub(crate) host: String,
}

/// Handles a request of an offered kind and version. `address` is where clients of this listener are told to connect to.
pub(crate) fn handle(
    core: &Core,
    request: RequestKind,
    version: i16,
    client: &Client,
    address: &Address,
) -> Result<ResponseKind, Dropped> {
    macro_rules! by_kind {
        ($($kind:ident => $handler:path,)*) => {
            match request {
                RequestKind::ApiVersions(_) => ResponseKind::ApiVersions(versions::api_versions()),
                RequestKind::DescribeCluster(asked) => ResponseKind::DescribeCluster(cluster::describe_cluster(core, asked, version, address)),
                RequestKind::FindCoordinator(asked) => ResponseKind::FindCoordinator(cluster::find_coordinator(asked, version, address)),
                RequestKind::Metadata(asked) => ResponseKind::Metadata(metadata::metadata(core, asked, version, address)?),
                $(RequestKind::$kind(asked) => ResponseKind::$kind($handler(core, asked, version, client)?),)*
                _ => unreachable!("only what `versions` offers is handled"),
            }
        };
    }
    Ok(by_kind! {
        AddOffsetsToTxn => transactions::add_offsets_to_txn,
        AddPartitionsToTxn => transactions::add_partitions_to_txn,
        ConsumerGroupHeartbeat => groups::consumer_group_heartbeat,
        CreatePartitions => topics::create_partitions,
        CreateTopics => topics::create_topics,
        DeleteGroups => groups::delete_groups,
        DeleteRecords => topics::delete_records,
        DeleteTopics => topics::delete_topics,
        DescribeConfigs => configs::describe_configs,
        DescribeGroups => groups::describe_groups,
        DescribeTransactions => transactions::describe_transactions,
        EndTxn => transactions::end_txn,
        Fetch => fetch::fetch,
        Heartbeat => groups::heartbeat,
        IncrementalAlterConfigs => configs::incremental_alter_configs,
        InitProducerId => transactions::init_producer_id,
        JoinGroup => groups::join_group,
        LeaveGroup => groups::leave_group,
        ListGroups => groups::list_groups,
        ListOffsets => list_offsets::list_offsets,
        ListTransactions => transactions::list_transactions,
        OffsetCommit => offsets::offset_commit,
        OffsetDelete => offsets::offset_delete,
        OffsetFetch => offsets::offset_fetch,
        Produce => produce::produce,
        SyncGroup => groups::sync_group,
        TxnOffsetCommit => transactions::txn_offset_commit,
    })
}

/// A protocol string.
fn text(text: impl Into<String>) -> StrBytes {
    StrBytes::from_string(text.into())
}
