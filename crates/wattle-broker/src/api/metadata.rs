//! Metadata: topics, their partitions and ids; creates topics that are asked for, where the broker was started so.

use std::collections::BTreeMap;

use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::metadata_response::{
    MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
};
use kafka_protocol::messages::{ApiKey, BrokerId, MetadataRequest, MetadataResponse, TopicName};

use crate::api::{Dropped, NODE, check_name, text};
use crate::core::{Core, State, Topic};
use crate::server::Address;
use crate::types::Code;

pub(super) const APIS: &[(ApiKey, i16, i16)] = &[(ApiKey::Metadata, 1, 13)];

/// The only leader epoch there is: leadership never moves.
pub(super) const LEADER_EPOCH: i32 = 0;

pub(super) fn metadata(
    core: &Core,
    request: MetadataRequest,
    version: i16,
    address: &Address,
) -> Result<MetadataResponse, Dropped> {
    let mut state = core.lock();
    let topics = match request.topics {
        None => state.topics.iter().map(|(name, topic)| described(name, topic)).collect(),
        Some(asked) => {
            // Before version 4 nobody could say no.
            let create = version < 4 || request.allow_auto_topic_creation;
            let one = |asked| one_topic(core, &mut state, asked, create);
            asked.into_iter().map(one).collect::<Result<Vec<_>, Dropped>>()?
        }
    };
    let broker = MetadataResponseBroker::default()
        .with_node_id(BrokerId(NODE))
        .with_host(text(&address.host))
        .with_port(i32::from(address.port));
    Ok(MetadataResponse::default()
        .with_brokers(vec![broker])
        .with_cluster_id(Some(text(state.cluster_name())))
        .with_controller_id(BrokerId(NODE))
        .with_topics(topics))
}

/// Creates a topic because it was asked for. `Ok(false)`: the broker was started without that.
pub(super) fn create_on_demand(core: &Core, state: &mut State, name: &str) -> Result<Result<bool, Code>, Dropped> {
    let Some(partitions) = core.settings.auto_create else { return Ok(Ok(false)) };
    if check_name(name, state.topics.keys().map(String::as_str)).is_err() {
        return Ok(Err(Code::InvalidTopicException));
    }
    state.create_topic(name, partitions, BTreeMap::new(), core.clock.now())?;
    Ok(Ok(true))
}

fn one_topic(
    core: &Core,
    state: &mut State,
    asked: MetadataRequestTopic,
    create: bool,
) -> Result<MetadataResponseTopic, Dropped> {
    let refused = |code: Code| MetadataResponseTopic::default().with_error_code(code.code());
    let Some(name) = asked.name else {
        return Ok(match state.topic_name(asked.topic_id) {
            Some(name) => described(name, &state.topics[name]),
            None => refused(Code::UnknownTopicId).with_topic_id(asked.topic_id),
        });
    };
    if let Some(topic) = state.topics.get(name.as_str()) {
        return Ok(described(&name, topic));
    }
    let created = if create { create_on_demand(core, state, &name)? } else { Ok(false) };
    let code = match created {
        Ok(true) => return Ok(described(&name, &state.topics[name.as_str()])),
        Ok(false) => Code::UnknownTopicOrPartition,
        Err(code) => code,
    };
    Ok(refused(code).with_name(Some(name)))
}

fn described(name: &str, topic: &Topic) -> MetadataResponseTopic {
    let node = || vec![BrokerId(NODE)];
    let partition = |(index, _)| {
        MetadataResponsePartition::default()
            .with_partition_index(index)
            .with_leader_id(BrokerId(NODE))
            .with_leader_epoch(LEADER_EPOCH)
            .with_replica_nodes(node())
            .with_isr_nodes(node())
    };
    MetadataResponseTopic::default()
        .with_name(Some(TopicName(text(name))))
        .with_topic_id(topic.id)
        .with_partitions((0..).zip(&topic.partitions).map(partition).collect())
}
