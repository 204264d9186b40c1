//! The answer to a request that carries one code in all its parts: what a hook refuses with.

use kafka_protocol::messages::{
    AddOffsetsToTxnResponse, AddPartitionsToTxnResponse, ApiVersionsResponse, CreatePartitionsResponse,
    CreateTopicsResponse, DeleteGroupsResponse, DeleteRecordsResponse, DeleteTopicsResponse, DescribeClusterResponse,
    DescribeConfigsResponse, DescribeGroupsResponse, DescribeTransactionsResponse, EndTxnResponse, FetchResponse,
    FindCoordinatorResponse, HeartbeatResponse, IncrementalAlterConfigsResponse, InitProducerIdResponse,
    JoinGroupResponse, LeaveGroupResponse, ListGroupsResponse, ListOffsetsResponse, ListTransactionsResponse,
    MetadataResponse, OffsetCommitResponse, OffsetDeleteResponse, OffsetFetchResponse, ProduceResponse, ProducerId,
    RequestKind, ResponseKind, SyncGroupResponse, TxnOffsetCommitResponse,
};
use kafka_protocol::messages::{
    add_partitions_to_txn_response as add_partitions, create_partitions_response as create_partitions,
    create_topics_response as create_topics, delete_groups_response as delete_groups,
    delete_records_response as delete_records, delete_topics_response as delete_topics,
    describe_configs_response as describe_configs, describe_groups_response as describe_groups,
    describe_transactions_response as describe_transactions, fetch_response as fetch,
    find_coordinator_response as find_coordinator, incremental_alter_configs_response as alter_configs,
    leave_group_response as leave_group, list_offsets_response as list_offsets, metadata_response as metadata,
    offset_commit_response as offset_commit, offset_fetch_response as offset_fetch, produce_response as produce,
    txn_offset_commit_response as txn_offset_commit,
};

use crate::types::Code;

/// A list with one refused element for each element that was asked for.
fn each<'a, Asked: 'a, Answer>(
    asked: impl IntoIterator<Item = &'a Asked>,
    answer: impl Fn(&Asked) -> Answer,
) -> Vec<Answer> {
    asked.into_iter().map(answer).collect()
}

/// The answer to any request that is offered.
pub(crate) fn refused(request: &RequestKind, version: i16, code: Code) -> ResponseKind {
    let code = code.code();
    records(request, version, code)
        .or_else(|| groups(request, version, code))
        .or_else(|| transactions(request, code))
        .or_else(|| administration(request, version, code))
        .expect("every request that is offered can be refused, as the test below shows")
}

fn records(request: &RequestKind, version: i16, code: i16) -> Option<ResponseKind> {
    Some(match request {
        RequestKind::Produce(asked) => {
            ResponseKind::Produce(ProduceResponse::default().with_responses(each(&asked.topic_data, |topic| {
                produce::TopicProduceResponse::default().with_name(topic.name.clone()).with_partition_responses(each(
                    &topic.partition_data,
                    |data| {
                        let refused = produce::PartitionProduceResponse::default().with_index(data.index);
                        refused.with_error_code(code).with_base_offset(-1)
                    },
                ))
            })))
        }
        RequestKind::Fetch(asked) => {
            let topics = each(&asked.topics, |topic| {
                let partitions = each(&topic.partitions, |partition| {
                    let refused = fetch::PartitionData::default().with_partition_index(partition.partition);
                    refused.with_error_code(code).with_high_watermark(-1).with_records(Some(bytes::Bytes::new()))
                });
                let refused = fetch::FetchableTopicResponse::default().with_partitions(partitions);
                refused.with_topic(topic.topic.clone()).with_topic_id(topic.topic_id)
            });
            ResponseKind::Fetch(FetchResponse::default().with_responses(topics))
        }
        RequestKind::ListOffsets(asked) => {
            ResponseKind::ListOffsets(ListOffsetsResponse::default().with_topics(each(&asked.topics, |topic| {
                let partitions = each(&topic.partitions, |partition| {
                    list_offsets::ListOffsetsPartitionResponse::default()
                        .with_partition_index(partition.partition_index)
                        .with_error_code(code)
                });
                list_offsets::ListOffsetsTopicResponse::default()
                    .with_name(topic.name.clone())
                    .with_partitions(partitions)
            })))
        }
        RequestKind::Metadata(asked) => {
            let topics = each(asked.topics.iter().flatten(), |topic| {
                let refused = metadata::MetadataResponseTopic::default().with_name(topic.name.clone());
                refused.with_topic_id(topic.topic_id).with_error_code(code)
            });
            let whole = if version >= 13 { code } else { 0 };
            ResponseKind::Metadata(MetadataResponse::default().with_topics(topics).with_error_code(whole))
        }
        _ => return None,
    })
}

fn groups(request: &RequestKind, version: i16, code: i16) -> Option<ResponseKind> {
    Some(match request {
        RequestKind::JoinGroup(asked) => ResponseKind::JoinGroup(
            JoinGroupResponse::default()
                .with_error_code(code)
                .with_generation_id(-1)
                .with_protocol_name(Some(Default::default()))
                .with_member_id(asked.member_id.clone()),
        ),
        RequestKind::SyncGroup(_) => ResponseKind::SyncGroup(SyncGroupResponse::default().with_error_code(code)),
        RequestKind::Heartbeat(_) => ResponseKind::Heartbeat(HeartbeatResponse::default().with_error_code(code)),
        RequestKind::LeaveGroup(asked) => {
            let members = each(&asked.members, |member| {
                leave_group::MemberResponse::default()
                    .with_member_id(member.member_id.clone())
                    .with_group_instance_id(member.group_instance_id.clone())
                    .with_error_code(code)
            });
            ResponseKind::LeaveGroup(LeaveGroupResponse::default().with_error_code(code).with_members(members))
        }
        RequestKind::ListGroups(_) => ResponseKind::ListGroups(ListGroupsResponse::default().with_error_code(code)),
        RequestKind::DescribeGroups(asked) => {
            ResponseKind::DescribeGroups(DescribeGroupsResponse::default().with_groups(each(&asked.groups, |group| {
                describe_groups::DescribedGroup::default().with_group_id(group.clone()).with_error_code(code)
            })))
        }
        RequestKind::DeleteGroups(asked) => ResponseKind::DeleteGroups(DeleteGroupsResponse::default().with_results(
            each(&asked.groups_names, |group| {
                delete_groups::DeletableGroupResult::default().with_group_id(group.clone()).with_error_code(code)
            }),
        )),
        RequestKind::OffsetCommit(asked) => {
            ResponseKind::OffsetCommit(OffsetCommitResponse::default().with_topics(each(&asked.topics, |topic| {
                let partitions = each(&topic.partitions, |partition| {
                    let refused = offset_commit::OffsetCommitResponsePartition::default();
                    refused.with_partition_index(partition.partition_index).with_error_code(code)
                });
                let refused = offset_commit::OffsetCommitResponseTopic::default().with_name(topic.name.clone());
                refused.with_partitions(partitions)
            })))
        }
        RequestKind::OffsetFetch(asked) if version >= 8 => {
            ResponseKind::OffsetFetch(OffsetFetchResponse::default().with_groups(each(&asked.groups, |group| {
                let refused = offset_fetch::OffsetFetchResponseGroup::default();
                refused.with_group_id(group.group_id.clone()).with_error_code(code)
            })))
        }
        RequestKind::OffsetFetch(asked) => {
            let topics = each(asked.topics.iter().flatten(), |topic| {
                let partitions = each(&topic.partition_indexes, |partition| {
                    offset_fetch::OffsetFetchResponsePartition::default()
                        .with_partition_index(*partition)
                        .with_committed_offset(-1)
                        .with_metadata(Some(Default::default()))
                        .with_error_code(code)
                });
                let refused = offset_fetch::OffsetFetchResponseTopic::default().with_name(topic.name.clone());
                refused.with_partitions(partitions)
            });
            let whole = if version >= 2 { code } else { 0 };
            ResponseKind::OffsetFetch(OffsetFetchResponse::default().with_error_code(whole).with_topics(topics))
        }
        RequestKind::OffsetDelete(_) => {
            ResponseKind::OffsetDelete(OffsetDeleteResponse::default().with_error_code(code))
        }
        RequestKind::FindCoordinator(asked) if version >= 4 => {
            let coordinators = each(&asked.coordinator_keys, |key| {
                let refused = find_coordinator::Coordinator::default().with_key(key.clone());
                refused.with_error_code(code).with_node_id((-1).into())
            });
            ResponseKind::FindCoordinator(FindCoordinatorResponse::default().with_coordinators(coordinators))
        }
        RequestKind::FindCoordinator(_) => ResponseKind::FindCoordinator(
            FindCoordinatorResponse::default().with_error_code(code).with_node_id((-1).into()),
        ),
        _ => return None,
    })
}

fn transactions(request: &RequestKind, code: i16) -> Option<ResponseKind> {
    Some(match request {
        RequestKind::InitProducerId(_) => ResponseKind::InitProducerId(
            InitProducerIdResponse::default()
                .with_error_code(code)
                .with_producer_id(ProducerId(-1))
                .with_producer_epoch(-1),
        ),
        RequestKind::AddPartitionsToTxn(asked) => {
            let topics = each(&asked.v3_and_below_topics, |topic| {
                let partitions = each(&topic.partitions, |partition| {
                    let refused = add_partitions::AddPartitionsToTxnPartitionResult::default();
                    refused.with_partition_index(*partition).with_partition_error_code(code)
                });
                let refused = add_partitions::AddPartitionsToTxnTopicResult::default().with_name(topic.name.clone());
                refused.with_results_by_partition(partitions)
            });
            let response = AddPartitionsToTxnResponse::default().with_results_by_topic_v3_and_below(topics);
            ResponseKind::AddPartitionsToTxn(response)
        }
        RequestKind::AddOffsetsToTxn(_) => {
            ResponseKind::AddOffsetsToTxn(AddOffsetsToTxnResponse::default().with_error_code(code))
        }
        RequestKind::TxnOffsetCommit(asked) => ResponseKind::TxnOffsetCommit(
            TxnOffsetCommitResponse::default().with_topics(each(&asked.topics, |topic| {
                let partitions = each(&topic.partitions, |partition| {
                    let refused = txn_offset_commit::TxnOffsetCommitResponsePartition::default();
                    refused.with_partition_index(partition.partition_index).with_error_code(code)
                });
                let refused = txn_offset_commit::TxnOffsetCommitResponseTopic::default().with_name(topic.name.clone());
                refused.with_partitions(partitions)
            })),
        ),
        RequestKind::EndTxn(_) => ResponseKind::EndTxn(EndTxnResponse::default().with_error_code(code)),
        RequestKind::DescribeTransactions(asked) => {
            let states = each(&asked.transactional_ids, |id| {
                let refused = describe_transactions::TransactionState::default();
                refused.with_transactional_id(id.clone()).with_error_code(code)
            });
            let response = DescribeTransactionsResponse::default().with_transaction_states(states);
            ResponseKind::DescribeTransactions(response)
        }
        RequestKind::ListTransactions(_) => {
            ResponseKind::ListTransactions(ListTransactionsResponse::default().with_error_code(code))
        }
        _ => return None,
    })
}

fn administration(request: &RequestKind, version: i16, code: i16) -> Option<ResponseKind> {
    Some(match request {
        RequestKind::ApiVersions(_) => ResponseKind::ApiVersions(ApiVersionsResponse::default().with_error_code(code)),
        RequestKind::DescribeCluster(_) => {
            ResponseKind::DescribeCluster(DescribeClusterResponse::default().with_error_code(code))
        }
        RequestKind::CreateTopics(asked) => {
            ResponseKind::CreateTopics(CreateTopicsResponse::default().with_topics(each(&asked.topics, |topic| {
                create_topics::CreatableTopicResult::default().with_name(topic.name.clone()).with_error_code(code)
            })))
        }
        RequestKind::DeleteTopics(asked) => {
            let result = |name| delete_topics::DeletableTopicResult::default().with_name(name).with_error_code(code);
            let results = if version >= 6 {
                each(&asked.topics, |topic| result(topic.name.clone()).with_topic_id(topic.topic_id))
            } else {
                each(&asked.topic_names, |name| result(Some(name.clone())))
            };
            ResponseKind::DeleteTopics(DeleteTopicsResponse::default().with_responses(results))
        }
        RequestKind::CreatePartitions(asked) => {
            let results = each(&asked.topics, |topic| {
                let refused = create_partitions::CreatePartitionsTopicResult::default();
                refused.with_name(topic.name.clone()).with_error_code(code)
            });
            ResponseKind::CreatePartitions(CreatePartitionsResponse::default().with_results(results))
        }
        RequestKind::DeleteRecords(asked) => {
            ResponseKind::DeleteRecords(DeleteRecordsResponse::default().with_topics(each(&asked.topics, |topic| {
                let partitions = each(&topic.partitions, |partition| {
                    delete_records::DeleteRecordsPartitionResult::default()
                        .with_partition_index(partition.partition_index)
                        .with_low_watermark(-1)
                        .with_error_code(code)
                });
                let refused = delete_records::DeleteRecordsTopicResult::default().with_name(topic.name.clone());
                refused.with_partitions(partitions)
            })))
        }
        RequestKind::DescribeConfigs(asked) => {
            let results = each(&asked.resources, |resource| {
                describe_configs::DescribeConfigsResult::default()
                    .with_resource_type(resource.resource_type)
                    .with_resource_name(resource.resource_name.clone())
                    .with_error_code(code)
            });
            ResponseKind::DescribeConfigs(DescribeConfigsResponse::default().with_results(results))
        }
        RequestKind::IncrementalAlterConfigs(asked) => {
            let results = each(&asked.resources, |resource| {
                alter_configs::AlterConfigsResourceResponse::default()
                    .with_resource_type(resource.resource_type)
                    .with_resource_name(resource.resource_name.clone())
                    .with_error_code(code)
            });
            let response = IncrementalAlterConfigsResponse::default().with_responses(results);
            ResponseKind::IncrementalAlterConfigs(response)
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::versions;
    use crate::server::encode;
    use kafka_protocol::messages::ApiKey;

    /// An empty request of each kind that is offered.
    fn requests() -> Vec<(ApiKey, RequestKind)> {
        macro_rules! empty {
            ($($kind:ident)*) => { vec![$((ApiKey::$kind, RequestKind::$kind(Default::default())),)*] };
        }
        empty!(
            AddOffsetsToTxn AddPartitionsToTxn ApiVersions CreatePartitions CreateTopics DeleteGroups DeleteRecords DeleteTopics
            DescribeCluster DescribeConfigs DescribeGroups DescribeTransactions EndTxn Fetch FindCoordinator Heartbeat
            IncrementalAlterConfigs InitProducerId JoinGroup LeaveGroup ListGroups ListOffsets ListTransactions Metadata
            OffsetCommit OffsetDelete OffsetFetch Produce SyncGroup TxnOffsetCommit
        )
    }

    #[test]
    fn every_request_that_is_offered_can_be_refused_in_every_version() {
        let requests = requests();
        let offered = ApiKey::iter().filter(|key| versions(*key).is_some());
        for key in offered {
            let (_, request) =
                requests.iter().find(|(of, _)| *of == key).unwrap_or_else(|| panic!("{key:?} is missing"));
            let (min, max) = versions(key).expect("offered");
            for version in min..=max {
                let response = refused(request, version, Code::NotController);
                encode(&response, key, version, 1).unwrap_or_else(|error| panic!("{key:?} {version}: {error}"));
            }
        }
    }
}
