//! ListOffsets: the ends of a partition, and offsets by time.

use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use kafka_protocol::messages::list_offsets_response::{ListOffsetsPartitionResponse, ListOffsetsTopicResponse};
use kafka_protocol::messages::{ApiKey, ListOffsetsRequest, ListOffsetsResponse};

use crate::api::fetch::isolation;
use crate::api::metadata::LEADER_EPOCH;
use crate::api::{Client, Dropped};
use crate::core::{Core, State};
use crate::error::Error;
use crate::log::PartitionLog;
use crate::types::{Code, Isolation, Millis};

pub(super) const APIS: &[(ApiKey, i16, i16)] = &[(ApiKey::ListOffsets, 1, 10)];

const LATEST: Millis = -1;
const EARLIEST: Millis = -2;
const MAX_TIMESTAMP: Millis = -3;
const EARLIEST_LOCAL: Millis = -4;
const LATEST_TIERED: Millis = -5;

pub(super) fn list_offsets(
    core: &Core,
    request: ListOffsetsRequest,
    version: i16,
    _client: &Client,
) -> Result<ListOffsetsResponse, Dropped> {
    let isolation = isolation(request.isolation_level);
    let mut state = core.lock();
    let topics = request.topics.into_iter().map(|topic| one_topic(&mut state, topic, isolation, version));
    Ok(ListOffsetsResponse::default().with_topics(topics.collect::<Result<_, Dropped>>()?))
}

fn one_topic(
    state: &mut State,
    topic: ListOffsetsTopic,
    isolation: Isolation,
    version: i16,
) -> Result<ListOffsetsTopicResponse, Dropped> {
    let answers = topic.partitions.iter().map(|asked| {
        let answer = ListOffsetsPartitionResponse::default().with_partition_index(asked.partition_index);
        let Some(log) = state.partition(&topic.name, asked.partition_index) else {
            return Ok(answer.with_error_code(Code::UnknownTopicOrPartition.code()));
        };
        let found = find(log, asked, isolation);
        match state.checked(found)? {
            Err(code) => Ok(answer.with_error_code(code.code())),
            Ok(None) => Ok(answer),
            Ok(Some((offset, timestamp))) => {
                let answer = answer.with_offset(offset).with_timestamp(timestamp);
                Ok(if version >= 4 { answer.with_leader_epoch(LEADER_EPOCH) } else { answer })
            }
        }
    });
    let answers = answers.collect::<Result<Vec<_>, Dropped>>()?;
    Ok(ListOffsetsTopicResponse::default().with_name(topic.name.clone()).with_partitions(answers))
}

/// Offset and timestamp; `Ok(Ok(None))`: there is no such record.
fn find(
    log: &PartitionLog,
    asked: &ListOffsetsPartition,
    isolation: Isolation,
) -> Result<Result<Option<(i64, Millis)>, Code>, Error> {
    let limit = match isolation {
        Isolation::ReadCommitted => log.last_stable(),
        Isolation::ReadUncommitted => log.end(),
    };
    let found = match asked.timestamp {
        LATEST => Some((limit, -1)),
        EARLIEST | EARLIEST_LOCAL => Some((log.start(), -1)),
        MAX_TIMESTAMP => log.max_timestamp()?.filter(|(offset, _)| *offset < limit),
        LATEST_TIERED => None,
        time if time >= 0 => log.offset_for_time(time)?.filter(|(offset, _)| *offset < limit),
        _ => return Ok(Err(Code::UnsupportedVersion)),
    };
    Ok(Ok(found))
}
