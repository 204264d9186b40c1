//! Fetch: whole batches from the logs; waits for the wanted bytes. Sessions are not kept: every request names all its partitions.

use std::time::{Duration, Instant};

use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use kafka_protocol::messages::fetch_response::{AbortedTransaction, FetchableTopicResponse, PartitionData};
use kafka_protocol::messages::{ApiKey, FetchRequest, FetchResponse, ProducerId};

use crate::api::{Client, Dropped};
use crate::core::{Core, State};
use crate::log::{PartitionLog, Refused};
use crate::types::{Code, Isolation};

pub(super) const APIS: &[(ApiKey, i16, i16)] = &[(ApiKey::Fetch, 4, 16)];

/// Whatever the client says, so much at most in one answer.
const MAX_BYTES: usize = 50 * 1024 * 1024;

/// One round over all partitions.
struct Round {
    isolation: Isolation,
    left: usize,
    got: usize,
    /// A refused partition is answered without waiting.
    refused: bool,
}

pub(super) fn fetch(
    core: &Core,
    request: FetchRequest,
    version: i16,
    _client: &Client,
) -> Result<FetchResponse, Dropped> {
    if request.session_id != 0 && request.session_epoch > 0 {
        return Ok(FetchResponse::default().with_error_code(Code::FetchSessionIdNotFound.code()));
    }
    let wait = Duration::from_millis(u64::try_from(request.max_wait_ms).unwrap_or(0));
    let until = Instant::now() + wait;
    let enough = usize::try_from(request.min_bytes).unwrap_or(0);
    let mut state = core.lock();
    loop {
        let mut round = Round {
            isolation: isolation(request.isolation_level),
            left: usize::try_from(request.max_bytes).unwrap_or(0).min(MAX_BYTES),
            got: 0,
            refused: false,
        };
        let topics = request.topics.iter().map(|topic| round.topic(&mut state, topic, version));
        let responses = topics.collect::<Result<Vec<_>, Dropped>>()?;
        let left = until.saturating_duration_since(Instant::now());
        if round.got >= enough || round.refused || left.is_zero() {
            return Ok(FetchResponse::default().with_responses(responses));
        }
        state = core.wait(&core.data_changed, state, left).ok_or(Dropped)?;
    }
}

/// As requests say it.
pub(super) fn isolation(level: i8) -> Isolation {
    if level == 1 { Isolation::ReadCommitted } else { Isolation::ReadUncommitted }
}

impl Round {
    fn topic(
        &mut self,
        state: &mut State,
        topic: &FetchTopic,
        version: i16,
    ) -> Result<FetchableTopicResponse, Dropped> {
        let by_id = version >= 13;
        let name =
            if by_id { state.topic_name(topic.topic_id).map(str::to_owned) } else { Some(topic.topic.to_string()) };
        let unknown = if by_id { Code::UnknownTopicId } else { Code::UnknownTopicOrPartition };
        let answers = topic.partitions.iter().map(|asked| {
            let log = name.as_ref().and_then(|name| state.partition(name, asked.partition));
            match log {
                Some(log) => self.partition(log, asked).map_err(|error| {
                    state.break_down(&error);
                    Dropped
                }),
                // The topic is there: only the partition is not.
                None if name.is_some() => Ok(self.refuse(asked, Code::UnknownTopicOrPartition)),
                None => Ok(self.refuse(asked, unknown)),
            }
        });
        let answers = answers.collect::<Result<Vec<_>, Dropped>>()?;
        let response = FetchableTopicResponse::default().with_partitions(answers);
        Ok(if by_id { response.with_topic_id(topic.topic_id) } else { response.with_topic(topic.topic.clone()) })
    }

    fn partition(&mut self, log: &PartitionLog, asked: &FetchPartition) -> Result<PartitionData, crate::error::Error> {
        let most = usize::try_from(asked.partition_max_bytes).unwrap_or(0).min(self.left);
        let read = match log.read(asked.fetch_offset, most, self.got == 0, self.isolation) {
            Ok(read) => read,
            Err(Refused::Code(code, _)) => {
                return Ok(self.refuse(asked, code).with_high_watermark(log.end()).with_log_start_offset(log.start()));
            }
            Err(Refused::Broken(error)) => return Err(error),
        };
        self.got += read.records.len();
        self.left = self.left.saturating_sub(read.records.len());
        let aborted = read.aborted.into_iter().map(|(producer, first)| {
            AbortedTransaction::default().with_producer_id(ProducerId(producer)).with_first_offset(first)
        });
        let aborted = (self.isolation == Isolation::ReadCommitted).then(|| aborted.collect());
        Ok(PartitionData::default()
            .with_partition_index(asked.partition)
            .with_high_watermark(log.end())
            .with_last_stable_offset(log.last_stable())
            .with_log_start_offset(log.start())
            .with_aborted_transactions(aborted)
            .with_records(Some(read.records)))
    }

    fn refuse(&mut self, asked: &FetchPartition, code: Code) -> PartitionData {
        self.refused = true;
        PartitionData::default()
            .with_partition_index(asked.partition)
            .with_error_code(code.code())
            .with_high_watermark(-1)
            .with_records(Some(bytes::Bytes::new()))
    }
}
