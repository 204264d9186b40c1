//! Transactions: InitProducerId, AddPartitionsToTxn, AddOffsetsToTxn, TxnOffsetCommit, EndTxn, and what tools ask about them.

use std::collections::BTreeMap;

use kafka_protocol::messages::add_partitions_to_txn_response::{
    AddPartitionsToTxnPartitionResult, AddPartitionsToTxnTopicResult,
};
use kafka_protocol::messages::describe_transactions_response::{TopicData, TransactionState};
use kafka_protocol::messages::list_transactions_response::TransactionState as ListedTransaction;
use kafka_protocol::messages::txn_offset_commit_response::{
    TxnOffsetCommitResponsePartition, TxnOffsetCommitResponseTopic,
};
use kafka_protocol::messages::{
    AddOffsetsToTxnRequest, AddOffsetsToTxnResponse, AddPartitionsToTxnRequest, AddPartitionsToTxnResponse, ApiKey,
    DescribeTransactionsRequest, DescribeTransactionsResponse, EndTxnRequest, EndTxnResponse, InitProducerIdRequest,
    InitProducerIdResponse, ListTransactionsRequest, ListTransactionsResponse, TopicName, TransactionalId,
    TxnOffsetCommitRequest, TxnOffsetCommitResponse,
};

use crate::core::{Core, State};
use crate::error::Error;
use crate::journal::Entry;
use crate::transaction::{Phase, Transaction};
use crate::types::{Code, Committed, Millis, Producer, TopicPartition};

use super::offsets::{exists, take};
use super::{Client, Dropped};

/// Versions offered. From version 4 of AddPartitionsToTxn and 5 of EndTxn and TxnOffsetCommit on, clients would expect the epoch to be
/// raised after every transaction.
pub(crate) const APIS: &[(ApiKey, i16, i16)] = &[
    (ApiKey::InitProducerId, 0, 5),
    (ApiKey::AddPartitionsToTxn, 0, 3),
    (ApiKey::AddOffsetsToTxn, 0, 4),
    (ApiKey::EndTxn, 0, 4),
    (ApiKey::TxnOffsetCommit, 0, 4),
    (ApiKey::DescribeTransactions, 0, 0),
    (ApiKey::ListTransactions, 0, 1),
];

/// A producer id: fresh for an idempotent producer, fenced for a transactional one.
pub(crate) fn init_producer_id(
    core: &Core,
    request: InitProducerIdRequest,
    version: i16,
    _client: &Client,
) -> Result<InitProducerIdResponse, Dropped> {
    let now = core.clock.now();
    let mut state = core.lock();
    let given = |producer: Producer| {
        InitProducerIdResponse::default().with_producer_id(producer.id.into()).with_producer_epoch(producer.epoch)
    };
    let refused = |code: Code| given(Producer { id: -1, epoch: -1 }).with_error_code(code.code());
    let known = Producer { id: request.producer_id.0, epoch: request.producer_epoch };
    if (known.id < 0) != (known.epoch < 0) {
        return Ok(refused(Code::InvalidRequest));
    }
    let Some(id) = request.transactional_id else {
        let producer = Producer { id: state.transactions.new_producer_id(), epoch: 0 };
        state.journal(&Entry::ProducerIds { next: producer.id + 1 })?;
        return Ok(given(producer));
    };
    let known = (known.id >= 0).then_some(known);
    let timeout = Millis::from(request.transaction_timeout_ms);
    let (producer, ended) = match state.transactions.initialise(&id, known, timeout, now) {
        Ok(given) => given,
        Err(Code::ProducerFenced) if version < 4 => return Ok(refused(Code::InvalidProducerEpoch)),
        Err(code) => return Ok(refused(code)),
    };
    match ended {
        Some(ended) => {
            state.end_transaction(ended, now)?;
            drop(state);
            core.data_changed.notify_all();
        }
        None => journal_transaction(&mut state, &id)?,
    }
    Ok(given(producer))
}

/// Partitions that the transaction is going to write to: all of them, or, if one is unknown, none.
pub(crate) fn add_partitions_to_txn(
    core: &Core,
    request: AddPartitionsToTxnRequest,
    version: i16,
    _client: &Client,
) -> Result<AddPartitionsToTxnResponse, Dropped> {
    let now = core.clock.now();
    let mut state = core.lock();
    let id = request.v3_and_below_transactional_id;
    let producer = Producer { id: request.v3_and_below_producer_id.0, epoch: request.v3_and_below_producer_epoch };
    let named: Vec<TopicPartition> = (request.v3_and_below_topics.iter())
        .flat_map(|topic| topic.partitions.iter().map(|&partition| at(&topic.name, partition)))
        .collect();
    let all_exist = named.iter().all(|partition| exists(&state, partition));
    let code = if all_exist {
        match state.transactions.add_partitions(&id, producer, named, now) {
            Ok(changed) => {
                if changed {
                    journal_transaction(&mut state, &id)?;
                }
                0
            }
            Err(code) => by_version(code, version),
        }
    } else {
        Code::OperationNotAttempted.code()
    };
    let result = |name: &TopicName, partition: i32| {
        let code = if exists(&state, &at(name, partition)) { code } else { Code::UnknownTopicOrPartition.code() };
        AddPartitionsToTxnPartitionResult::default().with_partition_index(partition).with_partition_error_code(code)
    };
    let results = request.v3_and_below_topics.into_iter().map(|topic| {
        let partitions = topic.partitions.iter().map(|&partition| result(&topic.name, partition)).collect();
        AddPartitionsToTxnTopicResult::default().with_name(topic.name).with_results_by_partition(partitions)
    });
    Ok(AddPartitionsToTxnResponse::default().with_results_by_topic_v3_and_below(results.collect()))
}

/// A group whose positions the transaction is going to carry.
pub(crate) fn add_offsets_to_txn(
    core: &Core,
    request: AddOffsetsToTxnRequest,
    version: i16,
    _client: &Client,
) -> Result<AddOffsetsToTxnResponse, Dropped> {
    let now = core.clock.now();
    let mut state = core.lock();
    let id = request.transactional_id;
    let producer = Producer { id: request.producer_id.0, epoch: request.producer_epoch };
    let answer = AddOffsetsToTxnResponse::default();
    if request.group_id.is_empty() {
        return Ok(answer.with_error_code(Code::InvalidGroupId.code()));
    }
    match state.transactions.add_group(&id, producer, &request.group_id, now) {
        Ok(changed) => {
            if changed {
                journal_transaction(&mut state, &id)?;
            }
            Ok(answer)
        }
        Err(code) => Ok(answer.with_error_code(by_version(code, version))),
    }
}

/// Positions that are committed with the transaction, if the group accepts them from this member.
pub(crate) fn txn_offset_commit(
    core: &Core,
    request: TxnOffsetCommitRequest,
    version: i16,
    _client: &Client,
) -> Result<TxnOffsetCommitResponse, Dropped> {
    let now = core.clock.now();
    let mut state = core.lock();
    let refused = may_commit(&mut state, &request, version, now).err();
    let mut positions = Vec::new();
    let mut topics = Vec::new();
    for topic in request.topics {
        let mut partitions = Vec::new();
        for partition in topic.partitions {
            let place = at(&topic.name, partition.partition_index);
            let metadata = partition.committed_metadata.map(|metadata| metadata.to_string()).unwrap_or_default();
            let (offset, leader_epoch) = (partition.committed_offset, partition.committed_leader_epoch);
            let committed = Committed { offset, leader_epoch, metadata, at: now };
            let code = take(&state, refused, place, committed, &mut positions);
            partitions.push(
                TxnOffsetCommitResponsePartition::default()
                    .with_partition_index(partition.partition_index)
                    .with_error_code(code),
            );
        }
        topics.push(TxnOffsetCommitResponseTopic::default().with_name(topic.name).with_partitions(partitions));
    }
    if !positions.is_empty() {
        state.transactions.hold(&request.transactional_id, &request.group_id, positions);
        journal_transaction(&mut state, &request.transactional_id)?;
    }
    Ok(TxnOffsetCommitResponse::default().with_topics(topics))
}

/// Commits or aborts.
pub(crate) fn end_txn(
    core: &Core,
    request: EndTxnRequest,
    version: i16,
    _client: &Client,
) -> Result<EndTxnResponse, Dropped> {
    let now = core.clock.now();
    let mut state = core.lock();
    let producer = Producer { id: request.producer_id.0, epoch: request.producer_epoch };
    let answer = EndTxnResponse::default();
    match state.transactions.end(&request.transactional_id, producer, request.committed, now) {
        Ok(Some(ended)) => {
            state.end_transaction(ended, now)?;
            drop(state);
            core.data_changed.notify_all();
            Ok(answer)
        }
        Ok(None) => Ok(answer),
        Err(code) => Ok(answer.with_error_code(by_version(code, version))),
    }
}

/// What transactional ids are doing.
pub(crate) fn describe_transactions(
    core: &Core,
    request: DescribeTransactionsRequest,
    _version: i16,
    _client: &Client,
) -> Result<DescribeTransactionsResponse, Dropped> {
    let state = core.lock();
    let states = request.transactional_ids.into_iter().map(|id| match state.transactions.get(&id) {
        Some(transaction) => described(id, transaction),
        None => {
            TransactionState::default().with_transactional_id(id).with_error_code(Code::TransactionalIdNotFound.code())
        }
    });
    Ok(DescribeTransactionsResponse::default().with_transaction_states(states.collect()))
}

/// Which transactional ids there are.
pub(crate) fn list_transactions(
    core: &Core,
    request: ListTransactionsRequest,
    version: i16,
    _client: &Client,
) -> Result<ListTransactionsResponse, Dropped> {
    const NAMES: [&str; 8] = [
        "Empty",
        "Ongoing",
        "PrepareCommit",
        "PrepareAbort",
        "CompleteCommit",
        "CompleteAbort",
        "Dead",
        "PrepareEpochFence",
    ];
    let now = core.clock.now();
    let state = core.lock();
    let long_enough = |transaction: &Transaction| {
        version < 1
            || request.duration_filter < 0
            || matches!(&transaction.phase, Phase::Ongoing(open) if now - open.since > request.duration_filter)
    };
    let wanted = |transaction: &Transaction| {
        let (states, producers) = (&request.state_filters, &request.producer_id_filters);
        (states.is_empty() || states.iter().any(|name| &**name == transaction.phase.name()))
            && (producers.is_empty() || producers.iter().any(|id| id.0 == transaction.producer.id))
            && long_enough(transaction)
    };
    let listed = state.transactions.iter().filter(|(_, transaction)| wanted(transaction)).map(|(id, transaction)| {
        ListedTransaction::default()
            .with_transactional_id(TransactionalId(id.clone().into()))
            .with_producer_id(transaction.producer.id.into())
            .with_transaction_state(transaction.phase.name().into())
    });
    let unknown = request.state_filters.iter().filter(|name| !NAMES.contains(&&***name)).cloned();
    Ok(ListTransactionsResponse::default()
        .with_unknown_state_filters(unknown.collect())
        .with_transaction_states(listed.collect()))
}

fn described(id: TransactionalId, transaction: &Transaction) -> TransactionState {
    let mut topics: BTreeMap<&str, Vec<i32>> = BTreeMap::new();
    let mut since = -1;
    if let Phase::Ongoing(open) = &transaction.phase {
        since = open.since;
        for partition in &open.partitions {
            topics.entry(&partition.topic).or_default().push(partition.partition);
        }
    }
    let topics = topics.into_iter().map(|(topic, partitions)| {
        TopicData::default().with_topic(TopicName(topic.to_owned().into())).with_partitions(partitions)
    });
    TransactionState::default()
        .with_transactional_id(id)
        .with_transaction_state(transaction.phase.name().into())
        .with_transaction_timeout_ms(i32::try_from(transaction.timeout).unwrap_or(i32::MAX))
        .with_transaction_start_time_ms(since)
        .with_producer_id(transaction.producer.id.into())
        .with_producer_epoch(transaction.producer.epoch)
        .with_topics(topics.collect())
}

fn may_commit(state: &mut State, request: &TxnOffsetCommitRequest, version: i16, now: Millis) -> Result<(), Code> {
    if request.group_id.is_empty() {
        return Err(Code::InvalidGroupId);
    }
    let (group, member, generation) = (&request.group_id, &request.member_id, request.generation_id);
    let producer = Producer { id: request.producer_id.0, epoch: request.producer_epoch };
    state.transactions.may_hold(&request.transactional_id, producer, group).map_err(|code| match code {
        // Clients of this version know a code that asks for an abort.
        Code::InvalidTxnState if version >= 4 => Code::TransactionAbortable,
        code => code,
    })?;
    state.groups.may_commit(group, member, request.group_instance_id.as_deref(), generation, true, now)
}

/// Old clients know no fence.
fn by_version(code: Code, version: i16) -> i16 {
    match code {
        Code::ProducerFenced if version < 2 => Code::InvalidProducerEpoch.code(),
        code => code.code(),
    }
}

fn journal_transaction(state: &mut State, id: &str) -> Result<(), Error> {
    match state.transactions.image(id) {
        Some(image) => state.journal(&Entry::Transaction(image)),
        None => Ok(()),
    }
}

fn at(topic: &TopicName, partition: i32) -> TopicPartition {
    TopicPartition { topic: topic.to_string(), partition }
}

#[cfg(test)]
mod tests;
