//! Writes the first inputs of the targets whose inputs are no text: `cargo run --features seeds --bin seeds`, in this folder. Fuzzing makes more of them.

use std::error::Error;
use std::fs;
use std::path::Path;

use bytes::{Bytes, BytesMut};
use kafka_protocol::indexmap::IndexMap;
use kafka_protocol::messages::add_partitions_to_txn_request::AddPartitionsToTxnTopic;
use kafka_protocol::messages::create_partitions_request::CreatePartitionsTopic;
use kafka_protocol::messages::create_topics_request::{CreatableTopic, CreatableTopicConfig};
use kafka_protocol::messages::delete_records_request::{DeleteRecordsPartition, DeleteRecordsTopic};
use kafka_protocol::messages::describe_configs_request::DescribeConfigsResource;
use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use kafka_protocol::messages::incremental_alter_configs_request::{AlterConfigsResource, AlterableConfig};
use kafka_protocol::messages::join_group_request::JoinGroupRequestProtocol;
use kafka_protocol::messages::leave_group_request::MemberIdentity;
use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::offset_commit_request::{OffsetCommitRequestPartition, OffsetCommitRequestTopic};
use kafka_protocol::messages::offset_fetch_request::{OffsetFetchRequestGroup, OffsetFetchRequestTopic};
use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kafka_protocol::messages::sync_group_request::SyncGroupRequestAssignment;
use kafka_protocol::messages::txn_offset_commit_request::{
    TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic,
};
use kafka_protocol::messages::*;
use kafka_protocol::protocol::StrBytes;
use kafka_protocol::protocol::encode_request_header_into_buffer;
use kafka_protocol::records::{Compression, Record, RecordBatchEncoder, RecordEncodeOptions, TimestampType};

type Outcome<T> = Result<T, Box<dyn Error>>;

/// As `wattle_broker::fuzzing` has them.
const TIME: i16 = i16::MAX;
const MEMBER: &str = "c-MMMMMMMM-MMMM-MMMM-MMMM-MMMMMMMMMMMM";

fn main() -> Outcome<()> {
    requests(Path::new("corpus/requests"))?;
    segments(Path::new("corpus/segment"))?;
    changelog(Path::new("corpus/changelog"))
}

/// A few requests of the client `c`, as the target reads them.
#[derive(Default)]
struct Frames(Vec<u8>);

impl Frames {
    fn frame(mut self, frame: &[u8]) -> Self {
        self.0.extend(u16::try_from(frame.len()).expect("a small frame").to_le_bytes());
        self.0.extend(frame);
        self
    }

    fn ask(self, key: ApiKey, version: i16, request: impl Into<RequestKind>) -> Self {
        let header = RequestHeader::default()
            .with_request_api_key(key as i16)
            .with_request_api_version(version)
            .with_client_id(Some("c".into()));
        let mut frame = BytesMut::new();
        encode_request_header_into_buffer(&mut frame, &header).expect("a header");
        request.into().encode(&mut frame, version).expect("a request of this version");
        self.frame(&frame)
    }

    fn wait(self, millis: i32) -> Self {
        self.frame(&[&TIME.to_be_bytes()[..], &[0, 0], &millis.to_be_bytes()].concat())
    }
}

fn text(text: &'static str) -> StrBytes {
    StrBytes::from_static_str(text)
}

fn topic(name: &'static str) -> TopicName {
    TopicName(text(name))
}

fn group() -> GroupId {
    GroupId(text("g"))
}

fn id() -> TransactionalId {
    TransactionalId(text("x"))
}

/// Records with these keys, as one batch.
fn batch(keys: &[&'static str], producer: i64, sequence: i32, transactional: bool) -> Bytes {
    let record = |(at, key): (usize, &&'static str)| Record {
        transactional,
        control: false,
        delete_horizon: false,
        partition_leader_epoch: -1,
        producer_id: producer,
        producer_epoch: if producer < 0 { -1 } else { 0 },
        timestamp_type: TimestampType::Creation,
        offset: at as i64,
        sequence: sequence + at as i32,
        timestamp: 1_600_000_000_000 + at as i64,
        key: Some(Bytes::from_static(key.as_bytes())),
        value: (!key.ends_with('-')).then(|| Bytes::from_static(b"value")),
        headers: IndexMap::from([(text("h"), Some(Bytes::from_static(b"w")))]),
    };
    let records: Vec<_> = keys.iter().enumerate().map(record).collect();
    let mut bytes = BytesMut::new();
    let options = RecordEncodeOptions { version: 2, compression: Compression::None };
    RecordBatchEncoder::encode(&mut bytes, &records, &options).expect("a batch");
    bytes.freeze()
}

fn produce(name: &'static str, batch: Bytes, transactional: bool) -> ProduceRequest {
    let data = PartitionProduceData::default().with_records(Some(batch));
    let data = TopicProduceData::default().with_name(topic(name)).with_partition_data(vec![data]);
    ProduceRequest::default()
        .with_acks(-1)
        .with_timeout_ms(1000)
        .with_transactional_id(transactional.then(id))
        .with_topic_data(vec![data])
}

fn fetch(name: &'static str) -> FetchRequest {
    let partition = FetchPartition::default().with_partition_max_bytes(1 << 20);
    FetchRequest::default()
        .with_max_wait_ms(100)
        .with_min_bytes(1)
        .with_max_bytes(1 << 20)
        .with_isolation_level(1)
        .with_topics(vec![FetchTopic::default().with_topic(topic(name)).with_partitions(vec![partition])])
}

fn list(name: &'static str, timestamp: i64) -> ListOffsetsRequest {
    let partition = ListOffsetsPartition::default().with_timestamp(timestamp);
    ListOffsetsRequest::default()
        .with_topics(vec![ListOffsetsTopic::default().with_name(topic(name)).with_partitions(vec![partition])])
}

fn requests(folder: &Path) -> Outcome<()> {
    let metadata = MetadataRequest::default()
        .with_allow_auto_topic_creation(true)
        .with_topics(Some(vec![MetadataRequestTopic::default().with_name(Some(topic("new")))]));
    let first = Frames::default()
        .ask(ApiKey::ApiVersions, 3, ApiVersionsRequest::default().with_client_software_name(text("librdkafka")))
        .ask(ApiKey::Metadata, 12, metadata.clone())
        .ask(ApiKey::Metadata, 1, metadata.with_topics(None))
        .ask(ApiKey::FindCoordinator, 2, FindCoordinatorRequest::default().with_key(text("g")))
        .ask(ApiKey::FindCoordinator, 4, FindCoordinatorRequest::default().with_coordinator_keys(vec![text("g")]))
        .ask(ApiKey::DescribeCluster, 0, DescribeClusterRequest::default());
    fs::write(folder.join("first"), first.0)?;
    fs::write(folder.join("transaction"), transaction().0)?;
    fs::write(folder.join("member"), member().0)?;
    fs::write(folder.join("compaction"), compaction().0)?;
    fs::write(folder.join("topics"), topics().0)?;
    Ok(())
}

fn transaction() -> Frames {
    let init = InitProducerIdRequest::default().with_transactional_id(Some(id())).with_transaction_timeout_ms(60_000);
    let partitions = AddPartitionsToTxnTopic::default().with_name(topic("t")).with_partitions(vec![0]);
    let add = AddPartitionsToTxnRequest::default()
        .with_v3_and_below_transactional_id(id())
        .with_v3_and_below_topics(vec![partitions]);
    let position = TxnOffsetCommitRequestPartition::default().with_committed_offset(7);
    let position = TxnOffsetCommitRequestTopic::default().with_name(topic("t")).with_partitions(vec![position]);
    let hold = TxnOffsetCommitRequest::default().with_transactional_id(id()).with_group_id(group());
    let positions = OffsetFetchRequestGroup::default().with_group_id(group());
    let end = EndTxnRequest::default().with_transactional_id(id());
    Frames::default()
        .ask(ApiKey::InitProducerId, 4, init.clone())
        .ask(ApiKey::AddPartitionsToTxn, 3, add)
        .ask(ApiKey::Produce, 10, produce("t", batch(&["a", "b"], 0, 0, true), true))
        .ask(ApiKey::Produce, 8, produce("t", batch(&["c"], 0, 2, true), true))
        .ask(
            ApiKey::AddOffsetsToTxn,
            3,
            AddOffsetsToTxnRequest::default().with_transactional_id(id()).with_group_id(group()),
        )
        .ask(ApiKey::TxnOffsetCommit, 3, hold.with_topics(vec![position]))
        .ask(ApiKey::DescribeTransactions, 0, DescribeTransactionsRequest::default().with_transactional_ids(vec![id()]))
        .ask(ApiKey::Fetch, 11, fetch("t"))
        .ask(ApiKey::EndTxn, 3, end.with_committed(true))
        .ask(
            ApiKey::OffsetFetch,
            8,
            OffsetFetchRequest::default().with_groups(vec![positions]).with_require_stable(true),
        )
        .ask(ApiKey::InitProducerId, 4, init)
        .ask(ApiKey::ListTransactions, 1, ListTransactionsRequest::default())
        .wait(120_000)
        .ask(ApiKey::Fetch, 12, fetch("t"))
}

fn member() -> Frames {
    let protocol = JoinGroupRequestProtocol::default().with_name(text("range"));
    let protocol = protocol.with_metadata(Bytes::from_static(b"\0\x01\0\0\0\x01\0\x01t\0\0\0\0"));
    let join = JoinGroupRequest::default()
        .with_group_id(group())
        .with_session_timeout_ms(6_000)
        .with_rebalance_timeout_ms(60_000)
        .with_protocol_type(text("consumer"))
        .with_protocols(vec![protocol]);
    let assignment = SyncGroupRequestAssignment::default().with_member_id(text(MEMBER));
    let sync = SyncGroupRequest::default()
        .with_group_id(group())
        .with_generation_id(1)
        .with_member_id(text(MEMBER))
        .with_assignments(vec![assignment.with_assignment(Bytes::from_static(b"assigned"))]);
    let heartbeat = HeartbeatRequest::default().with_group_id(group()).with_generation_id(1);
    let position = OffsetCommitRequestPartition::default().with_committed_offset(5);
    let position = OffsetCommitRequestTopic::default().with_name(topic("t")).with_partitions(vec![position]);
    let commit = OffsetCommitRequest::default().with_group_id(group()).with_generation_id_or_member_epoch(1);
    let wanted = OffsetFetchRequestTopic::default().with_name(topic("t")).with_partition_indexes(vec![0, 1]);
    let wanted = OffsetFetchRequest::default().with_group_id(group()).with_topics(Some(vec![wanted]));
    let leave = LeaveGroupRequest::default().with_group_id(group());
    Frames::default()
        .ask(ApiKey::JoinGroup, 5, join.clone())
        .ask(ApiKey::JoinGroup, 5, join.clone().with_member_id(text(MEMBER)))
        .ask(ApiKey::SyncGroup, 3, sync)
        .ask(ApiKey::Heartbeat, 3, heartbeat.with_member_id(text(MEMBER)))
        .ask(ApiKey::OffsetCommit, 7, commit.with_member_id(text(MEMBER)).with_topics(vec![position]))
        .ask(ApiKey::OffsetFetch, 5, wanted)
        .ask(ApiKey::DescribeGroups, 5, DescribeGroupsRequest::default().with_groups(vec![group()]))
        .ask(ApiKey::ListGroups, 4, ListGroupsRequest::default())
        .ask(ApiKey::JoinGroup, 9, join.with_group_instance_id(Some(text("i"))))
        .wait(3_000)
        .ask(ApiKey::LeaveGroup, 4, leave.with_members(vec![MemberIdentity::default().with_member_id(text(MEMBER))]))
        .wait(60_000)
        .ask(ApiKey::DeleteGroups, 2, DeleteGroupsRequest::default().with_groups_names(vec![group()]))
}

fn compaction() -> Frames {
    let mut frames = Frames::default();
    for keys in [&["a", "b", "a"][..], &["b", "a-"], &["c"]] {
        frames = frames.ask(ApiKey::Produce, 7, produce("c", batch(keys, -1, -1, false), false)).wait(1_000);
    }
    frames
        .ask(ApiKey::ListOffsets, 5, list("c", -3))
        .ask(ApiKey::ListOffsets, 7, list("c", 1_600_000_000_001))
        .wait(200_000_000)
        .ask(ApiKey::Fetch, 4, fetch("c"))
}

fn topics() -> Frames {
    let setting = CreatableTopicConfig::default().with_name(text("segment.bytes")).with_value(Some(text("100")));
    let create = CreatableTopic::default().with_name(topic("n")).with_num_partitions(2).with_replication_factor(1);
    let create = CreateTopicsRequest::default().with_topics(vec![create.with_configs(vec![setting])]);
    let grow = CreatePartitionsTopic::default().with_name(topic("n")).with_count(3);
    let describe = DescribeConfigsResource::default().with_resource_type(2).with_resource_name(text("n"));
    let alter = AlterConfigsResource::default().with_resource_type(2).with_resource_name(text("n"));
    let alter = alter.with_configs(vec![
        AlterableConfig::default().with_name(text("cleanup.policy")).with_value(Some(text("compact"))),
    ]);
    let before = DeleteRecordsPartition::default().with_offset(1);
    let before = DeleteRecordsTopic::default().with_name(topic("n")).with_partitions(vec![before]);
    Frames::default()
        .ask(ApiKey::CreateTopics, 5, create)
        .ask(ApiKey::CreatePartitions, 3, CreatePartitionsRequest::default().with_topics(vec![grow]))
        .ask(ApiKey::Produce, 9, produce("n", batch(&["a", "b"], -1, -1, false), false))
        .ask(ApiKey::DescribeConfigs, 1, DescribeConfigsRequest::default().with_resources(vec![describe]))
        .ask(ApiKey::IncrementalAlterConfigs, 1, IncrementalAlterConfigsRequest::default().with_resources(vec![alter]))
        .ask(ApiKey::DeleteRecords, 1, DeleteRecordsRequest::default().with_topics(vec![before]))
        .wait(1_000)
        .ask(ApiKey::DeleteTopics, 4, DeleteTopicsRequest::default().with_topic_names(vec![topic("n")]))
}

fn segments(folder: &Path) -> Outcome<()> {
    let log = tempfile::tempdir()?;
    let open = wattle_wal::Log::open(log.path(), "seeds", wattle_wal::Options::default())?;
    for entry in [&b"one"[..], &[0; 600], b""] {
        open.try_append(entry.to_vec())?.wait()?;
    }
    open.close()?;
    let written = fs::read(log.path().join("00000000000000000000.wal"))?;
    fs::write(folder.join("written"), [&[0][..], &written].concat())?;
    // Kind, number, two bytes of a place, length, bytes.
    let pieces = [&[3, 0, 48, 0, 3, b'o', b'n', b'e'][..], &[3, 1, 75, 0, 0], &[0, 0, 0, 0, 2, 1, 2], &[1, 2, 0, 0, 0]];
    for base in 0..4 {
        fs::write(folder.join(format!("pieces-{base}")), [&[1, base][..], &pieces.concat()].concat())?;
    }
    for synced in [2, 3] {
        fs::write(folder.join(format!("as-it-was-{synced}")), [synced])?;
        for change in 0..5 {
            // A file, two bytes of a place, a byte.
            fs::write(folder.join(format!("changed-{synced}-{change}")), [synced, change, 2, 100, 1, 2, 9, 9])?;
        }
    }
    Ok(())
}

fn changelog(folder: &Path) -> Outcome<()> {
    let record = |key: &[u8], value: Option<&[u8]>| {
        let length = value.map_or(u8::MAX, |value| value.len() as u8);
        [&[key.len() as u8, length][..], key, value.unwrap_or_default()].concat()
    };
    let cursor = br#"{"version":1,"offset":3,"lines":1,"records":1,"xxh64":"7d441b099c11d3ba","unended":false}"#;
    let checkpoint = [0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 1, 0x9a, 0, 0, 0, 0];
    let states: &[(&[u8], Option<&[u8]>)] = &[
        (b"k", Some(b"1")),
        (b"k", Some(br#"{"a":1.5,"b":[null,true,"x"]}"#)),
        (b"", Some(b"18446744073709551615")),
        (b"gone", Some(b"2")),
        (b"gone", None),
        (b"k", Some(b"")),
    ];
    let timers: &[(&[u8], Option<&[u8]>)] = &[
        (b"\0wattle.timer\0sfirst\0k", Some(b"1517363399650")),
        (b"\0wattle.timer\0wfirst\0k", Some(b"-7")),
        (b"\0wattle.timer\0w\0", Some(b"5")),
        (b"\0wattle.timer\0n", Some(b"1517363399650")),
        (b"\0wattle.timer\0wfirst\0k", None),
    ];
    let others: &[(&[u8], Option<&[u8]>)] = &[
        (b"\0wattle.cursor\0file\0a/b c.jsonl\x000", Some(cursor)),
        (b"\0wattle.checkpoint", Some(&checkpoint)),
        (b"holder", Some(b"wattle/1\tapp-7\tc-1\tone")),
    ];
    for (name, records) in [("states", states), ("timers", timers), ("others", others)] {
        let records: Vec<_> = records.iter().map(|(key, value)| record(key, *value)).collect();
        fs::write(folder.join(name), records.concat())?;
    }
    Ok(())
}
