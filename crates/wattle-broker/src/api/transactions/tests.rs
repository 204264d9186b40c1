//! The requests of transactional producers, with the positions that they carry.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::BytesMut;
use kafka_protocol::messages::add_partitions_to_txn_request::AddPartitionsToTxnTopic;
use kafka_protocol::messages::offset_commit_request::{OffsetCommitRequestPartition, OffsetCommitRequestTopic};
use kafka_protocol::messages::offset_fetch_request::{
    OffsetFetchRequestGroup, OffsetFetchRequestTopic, OffsetFetchRequestTopics,
};
use kafka_protocol::messages::txn_offset_commit_request::{
    TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic,
};
use kafka_protocol::messages::{GroupId, OffsetCommitRequest, OffsetFetchRequest};
use kafka_protocol::protocol::{Encodable, StrBytes};

use crate::api::offsets::{self, offset_commit, offset_fetch};
use crate::clock::Clock;
use crate::core::Settings;
use crate::recovery::recover;

use super::*;

/// A broker with a topic `t` of one partition.
fn core() -> Core {
    let (mut state, _) = recover(None, 0).expect("memory has no errors");
    state.create_topic("t", 1, BTreeMap::new(), 0).expect("memory has no errors");
    Core::new(state, Arc::new(Clock::default()), Settings { auto_create: None, waits: true })
}

fn client() -> Client {
    Client { id: "client".to_owned(), host: "/127.0.0.1".to_owned() }
}

fn encodes(answer: &impl Encodable, version: i16) {
    answer.encode(&mut BytesMut::new(), version).unwrap_or_else(|e| panic!("version {version}: {e}"));
}

fn topic() -> TopicName {
    TopicName("t".into())
}

fn id() -> TransactionalId {
    TransactionalId("x".into())
}

fn group() -> GroupId {
    GroupId("g".into())
}

fn init(core: &Core, known: Producer, version: i16) -> (Producer, i16) {
    let request = InitProducerIdRequest::default()
        .with_transactional_id(Some(id()))
        .with_transaction_timeout_ms(60_000)
        .with_producer_id(known.id.into())
        .with_producer_epoch(known.epoch);
    let answer = init_producer_id(core, request, version, &client()).expect("it is answered");
    encodes(&answer, version);
    (Producer { id: answer.producer_id.0, epoch: answer.producer_epoch }, answer.error_code)
}

const NOBODY: Producer = Producer { id: -1, epoch: -1 };

fn start(core: &Core) -> Producer {
    let (producer, code) = init(core, NOBODY, 4);
    assert_eq!(code, 0);
    producer
}

fn add(core: &Core, producer: Producer, partitions: Vec<i32>, version: i16) -> Vec<i16> {
    let request = AddPartitionsToTxnRequest::default()
        .with_v3_and_below_transactional_id(id())
        .with_v3_and_below_producer_id(producer.id.into())
        .with_v3_and_below_producer_epoch(producer.epoch)
        .with_v3_and_below_topics(vec![
            AddPartitionsToTxnTopic::default().with_name(topic()).with_partitions(partitions),
        ]);
    let answer = add_partitions_to_txn(core, request, version, &client()).expect("it is answered");
    encodes(&answer, version);
    answer.results_by_topic_v3_and_below[0].results_by_partition.iter().map(|p| p.partition_error_code).collect()
}

fn add_group(core: &Core, producer: Producer, version: i16) -> i16 {
    let request = AddOffsetsToTxnRequest::default()
        .with_transactional_id(id())
        .with_producer_id(producer.id.into())
        .with_producer_epoch(producer.epoch)
        .with_group_id(group());
    let answer = add_offsets_to_txn(core, request, version, &client()).expect("it is answered");
    encodes(&answer, version);
    answer.error_code
}

fn send(core: &Core, producer: Producer, partition: i32, metadata: String, version: i16) -> i16 {
    let partition = TxnOffsetCommitRequestPartition::default()
        .with_partition_index(partition)
        .with_committed_offset(7)
        .with_committed_metadata(Some(metadata.into()));
    let request = TxnOffsetCommitRequest::default()
        .with_transactional_id(id())
        .with_group_id(group())
        .with_producer_id(producer.id.into())
        .with_producer_epoch(producer.epoch)
        .with_generation_id(-1)
        .with_topics(vec![TxnOffsetCommitRequestTopic::default().with_name(topic()).with_partitions(vec![partition])]);
    let answer = txn_offset_commit(core, request, version, &client()).expect("it is answered");
    encodes(&answer, version);
    answer.topics[0].partitions[0].error_code
}

fn end(core: &Core, producer: Producer, commit: bool, version: i16) -> i16 {
    let request = EndTxnRequest::default()
        .with_transactional_id(id())
        .with_producer_id(producer.id.into())
        .with_producer_epoch(producer.epoch)
        .with_committed(commit);
    let answer = end_txn(core, request, version, &client()).expect("it is answered");
    encodes(&answer, version);
    answer.error_code
}

/// The position of partition 0 as this version fetches it: offset, metadata, code.
fn fetch(core: &Core, stable: bool, all: bool, version: i16) -> Vec<(i64, StrBytes, i16)> {
    let request = OffsetFetchRequest::default().with_require_stable(stable);
    let request = if version < 8 {
        let topics = vec![OffsetFetchRequestTopic::default().with_name(topic()).with_partition_indexes(vec![0])];
        request.with_group_id(group()).with_topics((!all).then_some(topics))
    } else {
        let topics = vec![OffsetFetchRequestTopics::default().with_name(topic()).with_partition_indexes(vec![0])];
        let wanted = OffsetFetchRequestGroup::default().with_group_id(group()).with_topics((!all).then_some(topics));
        request.with_groups(vec![wanted])
    };
    let answer = offset_fetch(core, request, version, &client()).expect("it is answered");
    encodes(&answer, version);
    let found = answer.topics.iter().flat_map(|t| &t.partitions);
    let grouped = answer.groups.iter().flat_map(|g| &g.topics).flat_map(|t| &t.partitions);
    let found = found.map(|p| (p.committed_offset, p.metadata.clone().unwrap_or_default(), p.error_code));
    found.chain(grouped.map(|p| (p.committed_offset, p.metadata.clone().unwrap_or_default(), p.error_code))).collect()
}

#[test]
fn a_transaction_carries_positions_in_every_version() {
    for version in 0..=5 {
        let core = core();
        let (producer, code) = init(&core, NOBODY, version);
        assert_eq!(code, 0);
        let older = version.min(4);
        assert_eq!(add(&core, producer, vec![0], version.min(3)), [0]);
        assert_eq!(add_group(&core, producer, older), 0);
        assert_eq!(send(&core, producer, 0, "m".to_owned(), older), 0);
        for fetched in 1..=9 {
            assert_eq!(fetch(&core, false, false, fetched), [(-1, StrBytes::new(), 0)]);
        }
        assert_eq!(fetch(&core, true, false, 7)[0].2, Code::UnstableOffsetCommit.code());
        assert_eq!(fetch(&core, true, false, 8)[0].2, Code::UnstableOffsetCommit.code());
        assert_eq!(end(&core, producer, true, older), 0);
        for fetched in 1..=9 {
            assert_eq!(fetch(&core, true, false, fetched), [(7, "m".into(), 0)]);
            assert_eq!(fetch(&core, true, true, fetched), [(7, "m".into(), 0)]);
        }
        let log = core.lock();
        let log = log.partition("t", 0).expect("it is there");
        assert_eq!((log.end(), log.last_stable()), (1, 1), "one marker");
    }
}

#[test]
fn an_unknown_partition_keeps_all_out() {
    let core = core();
    let producer = start(&core);
    let unknown = Code::UnknownTopicOrPartition.code();
    assert_eq!(add(&core, producer, vec![0, 1], 3), [Code::OperationNotAttempted.code(), unknown]);
    assert_eq!(end(&core, producer, true, 3), Code::InvalidTxnState.code());
    assert_eq!(add_group(&core, producer, 3), 0);
    assert_eq!(send(&core, producer, 1, String::new(), 3), unknown);
    assert_eq!(send(&core, producer, 0, "m".repeat(4097), 3), Code::OffsetMetadataTooLarge.code());
    assert_eq!(send(&core, producer, 0, "m".repeat(4096), 3), 0);
}

#[test]
fn a_fence_has_the_name_that_the_version_knows() {
    let core = core();
    let old = start(&core);
    assert_eq!(add(&core, old, vec![0], 3), [0]);
    let new = start(&core);
    assert_eq!(new.epoch, old.epoch + 2);
    let (epoch, fenced) = (Code::InvalidProducerEpoch.code(), Code::ProducerFenced.code());
    assert_eq!((add(&core, old, vec![0], 1), add(&core, old, vec![0], 2)), (vec![epoch], vec![fenced]));
    assert_eq!((add_group(&core, old, 1), add_group(&core, old, 2)), (epoch, fenced));
    assert_eq!((end(&core, old, true, 1), end(&core, old, true, 2)), (epoch, fenced));
    assert_eq!((init(&core, old, 3).1, init(&core, old, 4).1), (epoch, fenced));
    assert_eq!(send(&core, old, 0, String::new(), 3), epoch);
    assert_eq!(send(&core, new, 0, String::new(), 3), Code::InvalidTxnState.code());
    assert_eq!(send(&core, new, 0, String::new(), 4), Code::TransactionAbortable.code());
    assert_eq!(init(&core, Producer { id: 1, epoch: -1 }, 4).1, Code::InvalidRequest.code());
}

#[test]
fn idempotent_producers_get_fresh_ids() {
    let core = core();
    let fresh = || {
        let request = InitProducerIdRequest::default()
            .with_transactional_id(None)
            .with_producer_id((-1).into())
            .with_producer_epoch(-1);
        init_producer_id(&core, request, 4, &client()).expect("it is answered")
    };
    let (first, second) = (fresh(), fresh());
    assert_ne!(first.producer_id, second.producer_id);
    assert_eq!((first.producer_epoch, second.producer_epoch), (0, 0));
}

#[test]
fn tools_see_transactions() {
    let core = core();
    let producer = start(&core);
    add(&core, producer, vec![0], 3);
    let request =
        DescribeTransactionsRequest::default().with_transactional_ids(vec![id(), TransactionalId("none".into())]);
    let answer = describe_transactions(&core, request, 0, &client()).expect("it is answered");
    encodes(&answer, 0);
    let (there, none) = (&answer.transaction_states[0], &answer.transaction_states[1]);
    assert_eq!((&*there.transaction_state, there.topics.len()), ("Ongoing", 1));
    assert_eq!(none.error_code, Code::TransactionalIdNotFound.code());
    let list = |states: &[&'static str], duration: i64, version: i16| {
        let request = ListTransactionsRequest::default()
            .with_state_filters(states.iter().map(|name| (*name).into()).collect())
            .with_duration_filter(duration);
        let answer = list_transactions(&core, request, version, &client()).expect("it is answered");
        encodes(&answer, version);
        (answer.transaction_states.len(), answer.unknown_state_filters.len())
    };
    assert_eq!((list(&[], -1, 0), list(&["Ongoing"], -1, 1)), ((1, 0), (1, 0)));
    assert_eq!((list(&["Empty"], -1, 1), list(&["Odd"], -1, 1)), ((0, 0), (0, 1)));
    assert_eq!(list(&[], 3_600_000, 1), (0, 0));
}

#[test]
fn plain_commits_are_checked_and_kept_in_every_version() {
    let core = core();
    let commit = |partition: i32, generation: i32, metadata: String, version: i16| {
        let partition = OffsetCommitRequestPartition::default()
            .with_partition_index(partition)
            .with_committed_offset(3)
            .with_committed_metadata(Some(metadata.into()));
        let request = OffsetCommitRequest::default()
            .with_group_id(group())
            .with_generation_id_or_member_epoch(generation)
            .with_topics(vec![OffsetCommitRequestTopic::default().with_name(topic()).with_partitions(vec![partition])]);
        let answer = offset_commit(&core, request, version, &client()).expect("it is answered");
        encodes(&answer, version);
        answer.topics[0].partitions[0].error_code
    };
    assert_eq!(commit(0, 1, String::new(), 9), Code::IllegalGeneration.code());
    assert!(core.lock().groups.get("g").is_none());
    let (_, first, last) = offsets::APIS[0];
    for version in first..=last {
        assert_eq!(commit(0, -1, "m".to_owned(), version), 0);
    }
    assert_eq!(fetch(&core, false, false, 9), [(3, "m".into(), 0)]);
    assert_eq!(commit(1, -1, String::new(), 9), Code::UnknownTopicOrPartition.code());
    assert_eq!(commit(0, -1, "m".repeat(4097), 9), Code::OffsetMetadataTooLarge.code());
}
