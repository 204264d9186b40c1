//! Positions of groups: OffsetCommit, OffsetFetch, OffsetDelete.

use std::collections::BTreeMap;

use kafka_protocol::messages::offset_commit_response::{OffsetCommitResponsePartition, OffsetCommitResponseTopic};
use kafka_protocol::messages::offset_delete_response::{OffsetDeleteResponsePartition, OffsetDeleteResponseTopic};
use kafka_protocol::messages::offset_fetch_response::{
    OffsetFetchResponseGroup, OffsetFetchResponsePartition, OffsetFetchResponsePartitions, OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
};
use kafka_protocol::messages::{
    ApiKey, OffsetCommitRequest, OffsetCommitResponse, OffsetDeleteRequest, OffsetDeleteResponse, OffsetFetchRequest,
    OffsetFetchResponse, TopicName,
};

use crate::core::{Core, State};
use crate::group::{Group, Phase};
use crate::journal::Entry;
use crate::types::{Code, Committed, TopicPartition};

use super::{Client, Dropped};

/// Versions offered.
pub(crate) const APIS: &[(ApiKey, i16, i16)] =
    &[(ApiKey::OffsetCommit, 2, 9), (ApiKey::OffsetFetch, 1, 9), (ApiKey::OffsetDelete, 0, 0)];

/// The longest metadata of a position, in bytes: Kafka's `offset.metadata.max.bytes`.
const METADATA_MAX: usize = 4096;

/// Whether the partition is there.
pub(super) fn exists(state: &State, partition: &TopicPartition) -> bool {
    let count = state.topics.get(&partition.topic).map_or(0, |topic| topic.partitions.len());
    usize::try_from(partition.partition).is_ok_and(|number| number < count)
}

/// Takes a position of a commit, in a transaction or not, into `positions`. `refused` is what the group says of the whole commit. Returns the
/// answer's code.
pub(super) fn take(
    state: &State,
    refused: Option<Code>,
    place: TopicPartition,
    committed: Committed,
    positions: &mut Vec<(TopicPartition, Committed)>,
) -> i16 {
    match refused {
        Some(code) => code.code(),
        None if !exists(state, &place) => Code::UnknownTopicOrPartition.code(),
        None if committed.metadata.len() > METADATA_MAX => Code::OffsetMetadataTooLarge.code(),
        None => {
            positions.push((place, committed));
            0
        }
    }
}

/// Positions outside of transactions.
pub(crate) fn offset_commit(
    core: &Core,
    request: OffsetCommitRequest,
    _version: i16,
    _client: &Client,
) -> Result<OffsetCommitResponse, Dropped> {
    let now = core.clock.now();
    let mut state = core.lock();
    let instance = request.group_instance_id.as_deref();
    let (group, generation) = (&request.group_id, request.generation_id_or_member_epoch);
    let refused = state.groups.may_commit(group, &request.member_id, instance, generation, false, now).err();
    let mut positions = Vec::new();
    let mut topics = Vec::new();
    for topic in request.topics {
        let mut partitions = Vec::new();
        for partition in topic.partitions {
            let index = partition.partition_index;
            let place = TopicPartition { topic: topic.name.to_string(), partition: index };
            let metadata = partition.committed_metadata.map(|metadata| metadata.to_string()).unwrap_or_default();
            let (offset, leader_epoch) = (partition.committed_offset, partition.committed_leader_epoch);
            let committed = Committed { offset, leader_epoch, metadata, at: now };
            let code = take(&state, refused, place, committed, &mut positions);
            partitions.push(OffsetCommitResponsePartition::default().with_partition_index(index).with_error_code(code));
        }
        topics.push(OffsetCommitResponseTopic::default().with_name(topic.name).with_partitions(partitions));
    }
    if !positions.is_empty() {
        let entry = Entry::Offsets { group: group.to_string(), offsets: positions };
        state.journal(&entry)?;
        if let Entry::Offsets { group, offsets } = entry {
            state.groups.commit(&group, offsets);
        }
    }
    Ok(OffsetCommitResponse::default().with_topics(topics))
}

/// The positions of one group, or, from version 8 on, of several.
pub(crate) fn offset_fetch(
    core: &Core,
    request: OffsetFetchRequest,
    version: i16,
    _client: &Client,
) -> Result<OffsetFetchResponse, Dropped> {
    let state = core.lock();
    let stable = request.require_stable;
    if version < 8 {
        let wanted = request.topics.map(|topics| topics.into_iter().map(|t| (t.name, t.partition_indexes)).collect());
        let topics = positions(&state, &request.group_id, wanted, stable).into_iter().map(|(name, found)| {
            let partitions = found.into_iter().map(|(partition, found)| {
                let (position, code) = split(found);
                OffsetFetchResponsePartition::default()
                    .with_partition_index(partition)
                    .with_committed_offset(position.offset)
                    .with_committed_leader_epoch(if version >= 5 { position.leader_epoch } else { -1 })
                    .with_metadata(Some(position.metadata.into()))
                    .with_error_code(code)
            });
            OffsetFetchResponseTopic::default().with_name(name).with_partitions(partitions.collect())
        });
        return Ok(OffsetFetchResponse::default().with_topics(topics.collect()));
    }
    let groups = request.groups.into_iter().map(|group| {
        let wanted = group.topics.map(|topics| topics.into_iter().map(|t| (t.name, t.partition_indexes)).collect());
        let topics = positions(&state, &group.group_id, wanted, stable).into_iter().map(|(name, found)| {
            let partitions = found.into_iter().map(|(partition, found)| {
                let (position, code) = split(found);
                OffsetFetchResponsePartitions::default()
                    .with_partition_index(partition)
                    .with_committed_offset(position.offset)
                    .with_committed_leader_epoch(position.leader_epoch)
                    .with_metadata(Some(position.metadata.into()))
                    .with_error_code(code)
            });
            OffsetFetchResponseTopics::default().with_name(name).with_partitions(partitions.collect())
        });
        OffsetFetchResponseGroup::default().with_topics(topics.collect()).with_group_id(group.group_id)
    });
    Ok(OffsetFetchResponse::default().with_groups(groups.collect()))
}

/// Forgets positions, of topics that no member reads.
pub(crate) fn offset_delete(
    core: &Core,
    request: OffsetDeleteRequest,
    _version: i16,
    _client: &Client,
) -> Result<OffsetDeleteResponse, Dropped> {
    let mut state = core.lock();
    let refused = |code: Code| Ok(OffsetDeleteResponse::default().with_error_code(code.code()));
    let subscribed = match state.groups.get(&request.group_id) {
        None => return refused(Code::GroupIdNotFound),
        Some(group) if group.phase != Phase::Empty && group.protocol_type != "consumer" => {
            return refused(Code::NonEmptyGroup);
        }
        Some(group) => group.members.values().flat_map(|member| member.is.topics()).collect::<Vec<_>>(),
    };
    let mut gone = Vec::new();
    let mut topics = Vec::new();
    for topic in request.topics {
        let mut partitions = Vec::new();
        for partition in topic.partitions {
            let place = TopicPartition { topic: topic.name.to_string(), partition: partition.partition_index };
            let code = if subscribed.contains(&place.topic) {
                Code::GroupSubscribedToTopic.code()
            } else if !exists(&state, &place) {
                Code::UnknownTopicOrPartition.code()
            } else {
                gone.push(place);
                0
            };
            let result = OffsetDeleteResponsePartition::default().with_partition_index(partition.partition_index);
            partitions.push(result.with_error_code(code));
        }
        topics.push(OffsetDeleteResponseTopic::default().with_name(topic.name).with_partitions(partitions));
    }
    if !gone.is_empty() {
        state.groups.forget(&request.group_id, &gone);
        state.journal(&Entry::OffsetsDeleted { group: request.group_id.to_string(), partitions: gone })?;
    }
    Ok(OffsetDeleteResponse::default().with_topics(topics))
}

type Found = Vec<(TopicName, Vec<(i32, Result<Committed, Code>)>)>;

/// Positions of a group: those that are wanted, or all. A partition without one has −1.
fn positions(state: &State, name: &str, wanted: Option<Vec<(TopicName, Vec<i32>)>>, stable: bool) -> Found {
    let group = state.groups.get(name);
    let wanted = wanted.unwrap_or_else(|| group.map(all).unwrap_or_default());
    let find = |topic: &TopicName, partition: i32| {
        let place = TopicPartition { topic: topic.to_string(), partition };
        if stable && state.transactions.holds(name, &place) {
            return Err(Code::UnstableOffsetCommit);
        }
        Ok(group.and_then(|group| group.positions.get(&place)).cloned().unwrap_or_else(none))
    };
    let topics = wanted.into_iter().map(|(topic, partitions)| {
        let found = partitions.into_iter().map(|partition| (partition, find(&topic, partition))).collect();
        (topic, found)
    });
    topics.collect()
}

fn all(group: &Group) -> Vec<(TopicName, Vec<i32>)> {
    let mut topics: BTreeMap<&str, Vec<i32>> = BTreeMap::new();
    for place in group.positions.keys() {
        topics.entry(&place.topic).or_default().push(place.partition);
    }
    topics.into_iter().map(|(topic, partitions)| (TopicName(topic.to_owned().into()), partitions)).collect()
}

fn none() -> Committed {
    Committed { offset: -1, leader_epoch: -1, metadata: String::new(), at: 0 }
}

fn split(found: Result<Committed, Code>) -> (Committed, i16) {
    match found {
        Ok(position) => (position, 0),
        Err(code) => (none(), code.code()),
    }
}
