//! CreateTopics, DeleteTopics, CreatePartitions, DeleteRecords.

use std::collections::BTreeMap;

use kafka_protocol::messages::create_partitions_request::CreatePartitionsTopic;
use kafka_protocol::messages::create_partitions_response::CreatePartitionsTopicResult;
use kafka_protocol::messages::create_topics_request::CreatableTopic;
use kafka_protocol::messages::create_topics_response::{CreatableTopicConfigs, CreatableTopicResult};
use kafka_protocol::messages::delete_records_response::{DeleteRecordsPartitionResult, DeleteRecordsTopicResult};
use kafka_protocol::messages::delete_topics_response::DeletableTopicResult;
use kafka_protocol::messages::{
    ApiKey, CreatePartitionsRequest, CreatePartitionsResponse, CreateTopicsRequest, CreateTopicsResponse,
    DeleteRecordsRequest, DeleteRecordsResponse, DeleteTopicsRequest, DeleteTopicsResponse, TopicName,
};
use uuid::Uuid;

use crate::api::{Client, Dropped, NODE, configs, text};
use crate::core::{Core, State};
use crate::journal::Entry;
use crate::topic::TopicConfig;
use crate::types::{Code, TopicPartition};

pub(super) const APIS: &[(ApiKey, i16, i16)] = &[
    (ApiKey::CreateTopics, 2, 7),
    (ApiKey::DeleteTopics, 1, 6),
    (ApiKey::DeleteRecords, 0, 2),
    (ApiKey::CreatePartitions, 0, 3),
];

/// Of a topic; each costs a folder and an open file.
const MAX_PARTITIONS: i32 = 1_000;

/// What a client is told.
type Told = (Code, String);

/// Kafka's rules, including that `a.b` and `a_b` may not stand side by side.
pub(crate) fn check_name<'a>(name: &str, mut others: impl Iterator<Item = &'a str>) -> Result<(), String> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    if name.is_empty() || name.len() > 249 || name == "." || name == ".." || !name.chars().all(allowed) {
        return Err("a topic's name has 1 to 249 letters, digits, '.', '_' and '-', and is not '.' or '..'".into());
    }
    let alike = |other: &&str| other.replace('.', "_") == name.replace('.', "_");
    match others.find(alike) {
        Some(other) if other != name => Err(format!("the name collides with {other}: '.' and '_' count as the same")),
        _ => Ok(()),
    }
}

/// How many partitions a topic may have.
pub(crate) fn check_partitions(partitions: i32) -> Result<(), String> {
    if (1..=MAX_PARTITIONS).contains(&partitions) {
        return Ok(());
    }
    Err(format!("{partitions} partitions: a topic has 1 to {MAX_PARTITIONS}"))
}

pub(crate) fn create_topics(
    core: &Core,
    request: CreateTopicsRequest,
    version: i16,
    _client: &Client,
) -> Result<CreateTopicsResponse, Dropped> {
    let mut state = core.lock();
    let names: Vec<TopicName> = request.topics.iter().map(|topic| topic.name.clone()).collect();
    let mut results = Vec::with_capacity(names.len());
    for topic in request.topics {
        let twice = names.iter().filter(|name| **name == topic.name).count() > 1;
        let planned =
            if twice { Err((Code::InvalidRequest, "the topic is named twice".into())) } else { plan(&state, &topic) };
        let result = CreatableTopicResult::default().with_name(topic.name.clone());
        results.push(match planned {
            Err((code, message)) => result
                .with_error_code(code.code())
                .with_error_message(Some(text(message)))
                .with_num_partitions(-1)
                .with_replication_factor(-1),
            Ok((partitions, set)) => {
                let result = result.with_num_partitions(partitions).with_replication_factor(1);
                let result = if version >= 5 { result.with_configs(Some(shown(&set))) } else { result };
                if request.validate_only {
                    result
                } else {
                    result.with_topic_id(state.create_topic(&topic.name, partitions, set, core.clock.now())?)
                }
            }
        });
    }
    Ok(CreateTopicsResponse::default().with_topics(results))
}

/// Number of partitions and settings of a topic that can be created.
fn plan(state: &State, topic: &CreatableTopic) -> Result<(i32, BTreeMap<String, String>), Told> {
    if state.topics.contains_key(topic.name.as_str()) {
        return Err((Code::TopicAlreadyExists, format!("topic {} exists already", topic.name.as_str())));
    }
    check_name(&topic.name, state.topics.keys().map(String::as_str))
        .map_err(|message| (Code::InvalidTopicException, message))?;
    let partitions = if topic.assignments.is_empty() {
        if !matches!(topic.replication_factor, -1 | 1) {
            let message = format!("replication factor {}: there is one node", topic.replication_factor);
            return Err((Code::InvalidReplicationFactor, message));
        }
        if topic.num_partitions == -1 { 1 } else { topic.num_partitions }
    } else {
        let on_this_node = topic.assignments.iter().all(|assigned| assigned.broker_ids.iter().eq([&NODE]));
        let mut numbers: Vec<i32> = topic.assignments.iter().map(|assigned| assigned.partition_index).collect();
        numbers.sort_unstable();
        if !on_this_node || !numbers.iter().copied().eq(0..i32::try_from(numbers.len()).unwrap_or(i32::MAX)) {
            let message = format!("partitions count from 0, and every one is on node {NODE}");
            return Err((Code::InvalidReplicaAssignment, message));
        }
        i32::try_from(numbers.len()).unwrap_or(i32::MAX)
    };
    check_partitions(partitions).map_err(|message| (Code::InvalidPartitions, message))?;
    let mut set = BTreeMap::new();
    for config in &topic.configs {
        let Some(value) = &config.value else {
            return Err((Code::InvalidConfig, format!("{} has no value", config.name.as_str())));
        };
        set.insert(config.name.to_string(), value.to_string());
    }
    TopicConfig::parse(&set).map_err(|error| (Code::InvalidConfig, error.to_string()))?;
    Ok((partitions, set))
}

fn shown(set: &BTreeMap<String, String>) -> Vec<CreatableTopicConfigs> {
    let shown = configs::of_topic(set).into_iter().map(|config| {
        CreatableTopicConfigs::default()
            .with_name(text(config.name))
            .with_value(Some(text(config.value)))
            .with_config_source(config.source)
    });
    shown.collect()
}

pub(crate) fn delete_topics(
    core: &Core,
    request: DeleteTopicsRequest,
    version: i16,
    _client: &Client,
) -> Result<DeleteTopicsResponse, Dropped> {
    let mut state = core.lock();
    let asked: Vec<(Option<TopicName>, Uuid)> = if version >= 6 {
        request.topics.into_iter().map(|topic| (topic.name, topic.topic_id)).collect()
    } else {
        request.topic_names.into_iter().map(|name| (Some(name), Uuid::nil())).collect()
    };
    let mut results = Vec::with_capacity(asked.len());
    for (name, id) in asked {
        let by_id = name.is_none();
        let name = name.or_else(|| state.topic_name(id).map(|name| TopicName(text(name))));
        let id = name.as_ref().and_then(|name| state.topics.get(name.as_str())).map_or(id, |topic| topic.id);
        let deleted = match &name {
            Some(name) => state.delete_topic(name)?,
            None => false,
        };
        let unknown = if by_id { Code::UnknownTopicId } else { Code::UnknownTopicOrPartition };
        let result = DeletableTopicResult::default().with_name(name);
        let result = if version >= 6 { result.with_topic_id(id) } else { result };
        results.push(if deleted { result } else { result.with_error_code(unknown.code()) });
    }
    drop(state);
    core.wake_all();
    Ok(DeleteTopicsResponse::default().with_responses(results))
}

pub(crate) fn create_partitions(
    core: &Core,
    request: CreatePartitionsRequest,
    _version: i16,
    _client: &Client,
) -> Result<CreatePartitionsResponse, Dropped> {
    let mut state = core.lock();
    let mut results = Vec::with_capacity(request.topics.len());
    for topic in request.topics {
        let result = CreatePartitionsTopicResult::default().with_name(topic.name.clone());
        results.push(match check_growth(&state, &topic) {
            Err((code, message)) => result.with_error_code(code.code()).with_error_message(Some(text(message))),
            Ok(()) => {
                if !request.validate_only {
                    state.grow_topic(&topic.name, topic.count, core.clock.now())?;
                }
                result
            }
        });
    }
    Ok(CreatePartitionsResponse::default().with_results(results))
}

fn check_growth(state: &State, topic: &CreatePartitionsTopic) -> Result<(), Told> {
    let Some(known) = state.topics.get(topic.name.as_str()) else {
        return Err((Code::UnknownTopicOrPartition, "there is no such topic".into()));
    };
    check_partitions(topic.count).map_err(|message| (Code::InvalidPartitions, message))?;
    let now = known.partitions.len();
    let wanted = usize::try_from(topic.count).expect("it was checked to be positive");
    if wanted <= now {
        return Err((
            Code::InvalidPartitions,
            format!("the topic has {now} partitions, and they can only become more"),
        ));
    }
    match &topic.assignments {
        Some(assigned)
            if assigned.len() != wanted - now || !assigned.iter().all(|one| one.broker_ids.iter().eq([&NODE])) =>
        {
            let message = format!("every new partition is on node {NODE}, and has one assignment");
            Err((Code::InvalidReplicaAssignment, message))
        }
        _ => Ok(()),
    }
}

pub(crate) fn delete_records(
    core: &Core,
    request: DeleteRecordsRequest,
    _version: i16,
    _client: &Client,
) -> Result<DeleteRecordsResponse, Dropped> {
    let mut state = core.lock();
    let mut topics = Vec::with_capacity(request.topics.len());
    for topic in request.topics {
        let mut results = Vec::with_capacity(topic.partitions.len());
        for asked in topic.partitions {
            let at = TopicPartition { topic: topic.name.to_string(), partition: asked.partition_index };
            let result = DeleteRecordsPartitionResult::default().with_partition_index(asked.partition_index);
            results.push(match delete_before(&mut state, &at, asked.offset)? {
                Ok(start) => result.with_low_watermark(start),
                Err(code) => result.with_low_watermark(-1).with_error_code(code.code()),
            });
        }
        topics.push(DeleteRecordsTopicResult::default().with_name(topic.name).with_partitions(results));
    }
    drop(state);
    core.data_changed.notify_all();
    Ok(DeleteRecordsResponse::default().with_topics(topics))
}

/// The partition's new start. Offset −1 is the end.
fn delete_before(state: &mut State, at: &TopicPartition, offset: i64) -> Result<Result<i64, Code>, Dropped> {
    let Some(log) = state.partition(&at.topic, at.partition) else { return Ok(Err(Code::UnknownTopicOrPartition)) };
    let (start, end) = (log.start(), log.end());
    let offset = if offset == -1 { end } else { offset };
    if !state.topics[&at.topic].config.delete {
        return Ok(Err(Code::PolicyViolation));
    }
    if !(0..=end).contains(&offset) {
        return Ok(Err(Code::OffsetOutOfRange));
    }
    if offset > start {
        state.journal(&Entry::LogStart { partition: at.clone(), offset })?;
        let log = state.partition_mut(&at.topic, at.partition).expect("looked up above");
        let deleted = log.delete_before(offset);
        state.checked(deleted)?;
    }
    Ok(Ok(offset.max(start)))
}

#[cfg(test)]
mod tests {
    use super::check_name;

    #[test]
    fn names_are_kafkas() {
        let none = || std::iter::empty();
        for name in ["a", "A-1_b.c", &"x".repeat(249)] {
            assert_eq!(check_name(name, none()), Ok(()), "{name}");
        }
        for name in ["", ".", "..", "a b", "a/b", "ä", &"x".repeat(250)] {
            assert!(check_name(name, none()).is_err(), "{name}");
        }
        assert!(check_name("a.b", ["c", "a_b"].into_iter()).is_err_and(|message| message.contains("a_b")));
    }
}
