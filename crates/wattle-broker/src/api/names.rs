//! The names that a request carries: what a hook's `matching` looks at.

use kafka_protocol::messages::RequestKind;

use crate::core::Core;

/// Whether the request carries this transactional id, group or topic.
pub(crate) fn mentions(core: &Core, request: &RequestKind, name: &str) -> bool {
    let is = |text: &str| text == name;
    match request {
        RequestKind::Produce(asked) => {
            asked.transactional_id.as_ref().is_some_and(|id| is(id))
                || asked.topic_data.iter().any(|topic| is(&topic.name))
        }
        RequestKind::Fetch(asked) => {
            let id = core.lock().topics.get(name).map(|topic| topic.id);
            asked.topics.iter().any(|topic| is(&topic.topic) || id == Some(topic.topic_id))
        }
        RequestKind::ListOffsets(asked) => asked.topics.iter().any(|topic| is(&topic.name)),
        RequestKind::Metadata(asked) => {
            asked.topics.iter().flatten().filter_map(|topic| topic.name.as_ref()).any(|topic| is(topic))
        }
        RequestKind::OffsetCommit(asked) => is(&asked.group_id) || asked.topics.iter().any(|topic| is(&topic.name)),
        RequestKind::OffsetFetch(asked) => {
            is(&asked.group_id)
                || asked.groups.iter().any(|group| is(&group.group_id))
                || asked.topics.iter().flatten().any(|topic| is(&topic.name))
                || asked.groups.iter().flat_map(|group| group.topics.iter().flatten()).any(|topic| is(&topic.name))
        }
        RequestKind::FindCoordinator(asked) => is(&asked.key) || asked.coordinator_keys.iter().any(|key| is(key)),
        RequestKind::JoinGroup(asked) => is(&asked.group_id),
        RequestKind::SyncGroup(asked) => is(&asked.group_id),
        RequestKind::Heartbeat(asked) => is(&asked.group_id),
        RequestKind::LeaveGroup(asked) => is(&asked.group_id),
        RequestKind::DescribeGroups(asked) => asked.groups.iter().any(|group| is(group)),
        RequestKind::DeleteGroups(asked) => asked.groups_names.iter().any(|group| is(group)),
        RequestKind::OffsetDelete(asked) => is(&asked.group_id) || asked.topics.iter().any(|topic| is(&topic.name)),
        RequestKind::InitProducerId(asked) => asked.transactional_id.as_ref().is_some_and(|id| is(id)),
        RequestKind::AddPartitionsToTxn(asked) => {
            is(&asked.v3_and_below_transactional_id) || asked.v3_and_below_topics.iter().any(|topic| is(&topic.name))
        }
        RequestKind::AddOffsetsToTxn(asked) => is(&asked.transactional_id) || is(&asked.group_id),
        RequestKind::TxnOffsetCommit(asked) => {
            is(&asked.transactional_id) || is(&asked.group_id) || asked.topics.iter().any(|topic| is(&topic.name))
        }
        RequestKind::EndTxn(asked) => is(&asked.transactional_id),
        RequestKind::DescribeTransactions(asked) => asked.transactional_ids.iter().any(|id| is(id)),
        RequestKind::DescribeProducers(asked) => asked.topics.iter().any(|topic| is(&topic.name)),
        RequestKind::CreateTopics(asked) => asked.topics.iter().any(|topic| is(&topic.name)),
        RequestKind::CreatePartitions(asked) => asked.topics.iter().any(|topic| is(&topic.name)),
        RequestKind::DeleteRecords(asked) => asked.topics.iter().any(|topic| is(&topic.name)),
        RequestKind::DeleteTopics(asked) => {
            asked.topic_names.iter().any(|topic| is(topic))
                || asked.topics.iter().filter_map(|topic| topic.name.as_ref()).any(|topic| is(topic))
        }
        RequestKind::DescribeConfigs(asked) => asked.resources.iter().any(|resource| is(&resource.resource_name)),
        RequestKind::IncrementalAlterConfigs(asked) => {
            asked.resources.iter().any(|resource| is(&resource.resource_name))
        }
        // ApiVersions, DescribeCluster, ListGroups and ListTransactions name nothing.
        _ => false,
    }
}
