//! Produce: batches go to the logs as they came. Nothing of a batch is decoded here but its header.

use std::sync::MutexGuard;

use bytes::Bytes;
use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kafka_protocol::messages::produce_response::{PartitionProduceResponse, TopicProduceResponse};
use kafka_protocol::messages::{ApiKey, ProduceRequest, ProduceResponse, ResponseKind};

use crate::api::metadata::create_on_demand;
use crate::api::{Client, Dropped, text};
use crate::core::{Core, State};
use crate::log::{Appended, Header, Refused};
use crate::types::{Code, Millis, TopicPartition};

/// Version 12 belongs to the newer transaction protocol, which is not offered.
pub(super) const APIS: &[(ApiKey, i16, i16)] = &[(ApiKey::Produce, 3, 11)];

/// A refusal that the client is told.
type Told = (Code, Option<String>);

pub(super) fn produce(
    core: &Core,
    request: ProduceRequest,
    _version: i16,
    _client: &Client,
) -> Result<ProduceResponse, Dropped> {
    let acks_known = matches!(request.acks, -1..=1);
    let id = request.transactional_id.as_ref().map(|id| id.as_str());
    let now = core.clock.now();
    let mut state = core.lock();
    let mut responses = Vec::with_capacity(request.topic_data.len());
    for topic in request.topic_data {
        let created = create_if_missing(core, &mut state, &topic)?;
        let mut answers = Vec::with_capacity(topic.partition_data.len());
        for data in topic.partition_data {
            let index = data.index;
            let appended = match (acks_known, created) {
                (false, _) => Err((Code::InvalidRequiredAcks, None)),
                (true, Err(code)) => Err((code, None)),
                (true, Ok(())) => append(&mut state, id, &topic.name, data, now)?,
            };
            answers.push(answer(&state, &topic.name, index, appended));
        }
        responses.push(TopicProduceResponse::default().with_name(topic.name).with_partition_responses(answers));
    }
    drop(state);
    core.data_changed.notify_all();
    Ok(ProduceResponse::default().with_responses(responses))
}

/// Whether any partition was refused.
pub(crate) fn refused_something(response: &ResponseKind) -> bool {
    let ResponseKind::Produce(response) = response else { return false };
    response.responses.iter().flat_map(|topic| &topic.partition_responses).any(|partition| partition.error_code != 0)
}

fn create_if_missing(
    core: &Core,
    state: &mut MutexGuard<'_, State>,
    topic: &TopicProduceData,
) -> Result<Result<(), Code>, Dropped> {
    if state.topics.contains_key(topic.name.as_str()) {
        return Ok(Ok(()));
    }
    Ok(match create_on_demand(core, state, &topic.name)? {
        Ok(true) => Ok(()),
        Ok(false) => Err(Code::UnknownTopicOrPartition),
        Err(code) => Err(code),
    })
}

fn append(
    state: &mut State,
    id: Option<&str>,
    topic: &str,
    data: PartitionProduceData,
    now: Millis,
) -> Result<Result<Appended, Told>, Dropped> {
    let Some(batches) = data.records.filter(|batches| !batches.is_empty()) else {
        return Ok(Err((Code::InvalidRecord, Some("no record batch".into()))));
    };
    let at = TopicPartition { topic: topic.to_owned(), partition: data.index };
    if state.partition(topic, data.index).is_none() {
        return Ok(Err((Code::UnknownTopicOrPartition, None)));
    }
    if let Err(code) = check_transaction(state, id, &at, &batches) {
        return Ok(Err((code, None)));
    }
    let topic = state.topics.get_mut(topic).expect("looked up above");
    let log = usize::try_from(data.index).ok().and_then(|index| topic.partitions.get_mut(index));
    match log.expect("looked up above").append(batches, &topic.config, now) {
        Ok(appended) => Ok(Ok(appended)),
        Err(Refused::Code(code, message)) => Ok(Err((code, message))),
        Err(Refused::Broken(error)) => {
            state.break_down(&error);
            Err(Dropped)
        }
    }
}

/// Transactional batches need an open transaction that knows the partition.
fn check_transaction(state: &State, id: Option<&str>, at: &TopicPartition, batches: &Bytes) -> Result<(), Code> {
    let mut rest = &batches[..];
    // What is no batch is refused by the log.
    while let Ok(header) = Header::parse(rest) {
        if header.is_transactional() {
            let id = id.ok_or(Code::InvalidTxnState)?;
            state.transactions.may_produce(id, header.producer, at)?;
        }
        rest = rest.get(header.size..).unwrap_or_default();
    }
    Ok(())
}

fn answer(state: &State, topic: &str, index: i32, appended: Result<Appended, Told>) -> PartitionProduceResponse {
    let answer = PartitionProduceResponse::default().with_index(index);
    match appended {
        Ok(appended) => answer
            .with_base_offset(appended.base_offset)
            .with_log_append_time_ms(appended.log_append_time)
            .with_log_start_offset(state.partition(topic, index).map_or(-1, |log| log.start())),
        Err((code, message)) => {
            answer.with_error_code(code.code()).with_base_offset(-1).with_error_message(message.map(text))
        }
    }
}
