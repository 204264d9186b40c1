//! DescribeConfigs and IncrementalAlterConfigs: settings of topics, and what the broker itself says about its own.

use std::collections::BTreeMap;

use kafka_protocol::messages::describe_configs_request::DescribeConfigsResource;
use kafka_protocol::messages::describe_configs_response::{
    DescribeConfigsResourceResult, DescribeConfigsResult, DescribeConfigsSynonym,
};
use kafka_protocol::messages::incremental_alter_configs_request::{AlterConfigsResource, AlterableConfig};
use kafka_protocol::messages::incremental_alter_configs_response::AlterConfigsResourceResponse;
use kafka_protocol::messages::{
    ApiKey, DescribeConfigsRequest, DescribeConfigsResponse, IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
};

use crate::api::{Client, Dropped, NODE, text};
use crate::core::{Core, State};
use crate::journal::Entry;
use crate::topic::TopicConfig;
use crate::types::Code;

pub(super) const APIS: &[(ApiKey, i16, i16)] =
    &[(ApiKey::DescribeConfigs, 1, 4), (ApiKey::IncrementalAlterConfigs, 0, 1)];

const TOPIC: i8 = 2;
const BROKER: i8 = 4;

const SET_ON_TOPIC: i8 = 1;
const SET_AT_START: i8 = 4;
const DEFAULT: i8 = 5;

/// Settings that are lists: values can be appended and taken away.
const LISTS: &[&str] =
    &["cleanup.policy", "follower.replication.throttled.replicas", "leader.replication.throttled.replicas"];

/// What a client is told.
type Told = (Code, String);

/// One setting as it is shown.
pub(super) struct Shown {
    pub(super) name: String,
    pub(super) value: String,
    pub(super) source: i8,
    default: Option<String>,
}

/// All settings of a topic for which these were set.
pub(super) fn of_topic(set: &BTreeMap<String, String>) -> Vec<Shown> {
    let shown = TopicConfig::defaults().iter().map(|(name, default)| {
        let (value, source) = set.get(*name).map_or((*default, DEFAULT), |value| (value.as_str(), SET_ON_TOPIC));
        Shown { name: (*name).into(), value: value.into(), source, default: Some((*default).into()) }
    });
    shown.collect()
}

fn of_broker(core: &Core, state: &State) -> Vec<Shown> {
    let settings = &core.settings;
    let sessions = state.groups.session_timeouts();
    let at_start = [
        ("auto.create.topics.enable", settings.auto_create.is_some().to_string()),
        ("broker.id", NODE.to_string()),
        ("default.replication.factor", "1".into()),
        ("group.coordinator.rebalance.protocols", "classic".into()),
        ("group.initial.rebalance.delay.ms", "0".into()),
        ("group.max.session.timeout.ms", sessions.end().to_string()),
        ("group.min.session.timeout.ms", sessions.start().to_string()),
        ("node.id", NODE.to_string()),
        ("num.partitions", settings.auto_create.unwrap_or(1).to_string()),
        ("socket.request.max.bytes", crate::server::MAX_REQUEST_BYTES.to_string()),
        ("transaction.max.timeout.ms", state.transactions.max_timeout().to_string()),
    ];
    let shown = at_start.map(|(name, value)| Shown { name: name.into(), value, source: SET_AT_START, default: None });
    shown.into()
}

pub(super) fn describe_configs(
    core: &Core,
    request: DescribeConfigsRequest,
    _version: i16,
    _client: &Client,
) -> Result<DescribeConfigsResponse, Dropped> {
    let state = core.lock();
    let synonyms = request.include_synonyms;
    let results = request.resources.into_iter().map(|resource| {
        let found = settings_of(core, &state, &resource);
        let result = DescribeConfigsResult::default()
            .with_resource_type(resource.resource_type)
            .with_resource_name(resource.resource_name);
        match found {
            Err((code, message)) => result.with_error_code(code.code()).with_error_message(Some(text(message))),
            Ok(shown) => {
                let wanted = |shown: &Shown| {
                    let keys = resource.configuration_keys.as_ref();
                    keys.is_none_or(|keys| keys.is_empty() || keys.iter().any(|key| key.as_str() == shown.name))
                };
                let shown = shown.into_iter().filter(wanted).map(|one| one.answer(synonyms));
                result.with_configs(shown.collect())
            }
        }
    });
    Ok(DescribeConfigsResponse::default().with_results(results.collect()))
}

fn settings_of(core: &Core, state: &State, resource: &DescribeConfigsResource) -> Result<Vec<Shown>, Told> {
    let name = resource.resource_name.as_str();
    match resource.resource_type {
        TOPIC => match state.topics.get(name) {
            Some(topic) => Ok(of_topic(&topic.set)),
            None => Err((Code::UnknownTopicOrPartition, format!("there is no topic {name}"))),
        },
        BROKER if name.is_empty() || name == NODE.to_string() => Ok(of_broker(core, state)),
        BROKER => Err((Code::InvalidRequest, format!("there is no broker {name}, only {NODE}"))),
        other => Err((Code::InvalidRequest, format!("resources of type {other} have no settings here"))),
    }
}

impl Shown {
    fn answer(self, synonyms: bool) -> DescribeConfigsResourceResult {
        let synonym = |value: &str, source| {
            DescribeConfigsSynonym::default()
                .with_name(text(self.name.as_str()))
                .with_value(Some(text(value)))
                .with_source(source)
        };
        let mut all = Vec::new();
        if synonyms {
            all.push(synonym(&self.value, self.source));
            all.extend(self.default.as_ref().filter(|_| self.source != DEFAULT).map(|value| synonym(value, DEFAULT)));
        }
        DescribeConfigsResourceResult::default()
            .with_read_only(self.source == SET_AT_START)
            .with_synonyms(all)
            .with_name(text(self.name))
            .with_value(Some(text(self.value)))
            .with_config_source(self.source)
    }
}

pub(super) fn incremental_alter_configs(
    core: &Core,
    request: IncrementalAlterConfigsRequest,
    _version: i16,
    _client: &Client,
) -> Result<IncrementalAlterConfigsResponse, Dropped> {
    let mut state = core.lock();
    let mut responses = Vec::with_capacity(request.resources.len());
    for resource in request.resources {
        let altered = altered(&state, &resource);
        let response = AlterConfigsResourceResponse::default()
            .with_resource_type(resource.resource_type)
            .with_resource_name(resource.resource_name.clone());
        responses.push(match altered {
            Err((code, message)) => response.with_error_code(code.code()).with_error_message(Some(text(message))),
            Ok((set, config)) => {
                if !request.validate_only {
                    let name = resource.resource_name.to_string();
                    state.journal(&Entry::TopicConfigured { name: name.clone(), config: set.clone() })?;
                    let topic = state.topics.get_mut(&name).expect("it was found above, under the same lock");
                    (topic.set, topic.config) = (set, config);
                }
                response
            }
        });
    }
    Ok(IncrementalAlterConfigsResponse::default().with_responses(responses))
}

/// A topic's settings as they are to be.
fn altered(state: &State, resource: &AlterConfigsResource) -> Result<(BTreeMap<String, String>, TopicConfig), Told> {
    let name = resource.resource_name.as_str();
    if resource.resource_type != TOPIC {
        return Err((
            Code::InvalidRequest,
            "only settings of topics can be altered; the broker's are given at its start".into(),
        ));
    }
    let Some(topic) = state.topics.get(name) else {
        return Err((Code::UnknownTopicOrPartition, format!("there is no topic {name}")));
    };
    let mut set = topic.set.clone();
    for config in &resource.configs {
        alter(&mut set, config)?;
    }
    let config = TopicConfig::parse(&set).map_err(|error| (Code::InvalidConfig, error.to_string()))?;
    Ok((set, config))
}

fn alter(set: &mut BTreeMap<String, String>, config: &AlterableConfig) -> Result<(), Told> {
    let name = config.name.to_string();
    let value = config.value.as_ref().map(|value| value.to_string());
    if config.config_operation == 1 {
        set.remove(&name);
        return Ok(());
    }
    let Some(value) = value else { return Err((Code::InvalidRequest, format!("{name} has no value"))) };
    if config.config_operation == 0 {
        set.insert(name, value);
        return Ok(());
    }
    if !LISTS.contains(&name.as_str()) {
        return Err((Code::InvalidConfig, format!("{name} is not a list: nothing can be appended or taken away")));
    }
    let default = TopicConfig::defaults().iter().find(|(known, _)| *known == name).map_or("", |(_, default)| default);
    let now = set.get(&name).map_or(default, String::as_str);
    let mut items: Vec<&str> = now.split(',').map(str::trim).filter(|item| !item.is_empty()).collect();
    let given = value.split(',').map(str::trim).filter(|item| !item.is_empty());
    match config.config_operation {
        2 => given.for_each(|item| {
            if !items.contains(&item) {
                items.push(item);
            }
        }),
        3 => given.for_each(|item| items.retain(|known| *known != item)),
        other => return Err((Code::InvalidRequest, format!("operation {other} is not known"))),
    }
    let list = items.join(",");
    set.insert(name, list);
    Ok(())
}
