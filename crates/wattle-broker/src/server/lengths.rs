//! Whether the lengths in a request can be true. The decoder reserves memory for as many items as an array claims to have, before it looks for them, and the process
//! ends where the machine has not got that much. So a request is decoded once without that.

use bytes::{Buf, Bytes, TryGetError};
use kafka_protocol::messages::{
    AddOffsetsToTxnRequest, AddPartitionsToTxnRequest, ApiKey, ApiVersionsRequest, ConsumerGroupHeartbeatRequest,
    CreatePartitionsRequest, CreateTopicsRequest, DeleteGroupsRequest, DeleteRecordsRequest, DeleteTopicsRequest,
    DescribeClusterRequest, DescribeConfigsRequest, DescribeGroupsRequest, DescribeTransactionsRequest, EndTxnRequest,
    FetchRequest, FindCoordinatorRequest, HeartbeatRequest, IncrementalAlterConfigsRequest, InitProducerIdRequest,
    JoinGroupRequest, LeaveGroupRequest, ListGroupsRequest, ListOffsetsRequest, ListTransactionsRequest,
    MetadataRequest, OffsetCommitRequest, OffsetDeleteRequest, OffsetFetchRequest, ProduceRequest, SyncGroupRequest,
    TxnOffsetCommitRequest,
};
use kafka_protocol::protocol::buf::ByteBuf;
use kafka_protocol::protocol::{Decodable, decode_request_header_from_buffer};

/// A number up to this is no length to worry about.
const HARMLESS: u64 = 1024;

/// Fails where a length is larger than what is left of the request, or the request cannot be decoded for another reason.
pub(super) fn check(frame: &Bytes, key: ApiKey, version: i16) -> Result<(), Box<dyn std::error::Error>> {
    let mut bytes = Watched { bytes: frame.clone(), number: 0, shift: 0 };
    decode_request_header_from_buffer(&mut bytes)?;
    macro_rules! decode {
        ($($kind:ident => $request:ident,)*) => {
            match key {
                $(ApiKey::$kind => drop($request::decode(&mut bytes, version)?),)*
                _ => return Err("not offered".into()),
            }
        };
    }
    decode! {
        AddOffsetsToTxn => AddOffsetsToTxnRequest,
        AddPartitionsToTxn => AddPartitionsToTxnRequest,
        ApiVersions => ApiVersionsRequest,
        ConsumerGroupHeartbeat => ConsumerGroupHeartbeatRequest,
        CreatePartitions => CreatePartitionsRequest,
        CreateTopics => CreateTopicsRequest,
        DeleteGroups => DeleteGroupsRequest,
        DeleteRecords => DeleteRecordsRequest,
        DeleteTopics => DeleteTopicsRequest,
        DescribeCluster => DescribeClusterRequest,
        DescribeConfigs => DescribeConfigsRequest,
        DescribeGroups => DescribeGroupsRequest,
        DescribeTransactions => DescribeTransactionsRequest,
        EndTxn => EndTxnRequest,
        Fetch => FetchRequest,
        FindCoordinator => FindCoordinatorRequest,
        Heartbeat => HeartbeatRequest,
        IncrementalAlterConfigs => IncrementalAlterConfigsRequest,
        InitProducerId => InitProducerIdRequest,
        JoinGroup => JoinGroupRequest,
        LeaveGroup => LeaveGroupRequest,
        ListGroups => ListGroupsRequest,
        ListOffsets => ListOffsetsRequest,
        ListTransactions => ListTransactionsRequest,
        Metadata => MetadataRequest,
        OffsetCommit => OffsetCommitRequest,
        OffsetDelete => OffsetDeleteRequest,
        OffsetFetch => OffsetFetchRequest,
        Produce => ProduceRequest,
        SyncGroup => SyncGroupRequest,
        TxnOffsetCommit => TxnOffsetCommitRequest,
    }
    Ok(())
}

/// The bytes, with what could be a length looked at before the decoder acts on it.
struct Watched {
    bytes: Bytes,
    /// A number that takes as many bytes as it needs, as far as it is read: lengths and tags, nothing else.
    number: u64,
    shift: u32,
}

impl Watched {
    fn limit(&self) -> u64 {
        HARMLESS.max(self.bytes.remaining() as u64 + 1)
    }
}

impl Buf for Watched {
    fn remaining(&self) -> usize {
        self.bytes.remaining()
    }

    fn chunk(&self) -> &[u8] {
        self.bytes.chunk()
    }

    fn advance(&mut self, count: usize) {
        self.bytes.advance(count);
    }

    fn try_get_u8(&mut self) -> Result<u8, TryGetError> {
        let byte = self.bytes.try_get_u8()?;
        // A flag that is none, or a number without an end, joins the one behind it, which only makes that larger.
        let unit = 1u64.checked_shl(self.shift).unwrap_or(u64::MAX);
        self.number = self.number.saturating_add(u64::from(byte & 0x7f).saturating_mul(unit));
        self.shift += 7;
        if self.number > self.limit() {
            return Err(TryGetError { requested: self.number as usize, available: self.remaining() });
        }
        if byte < 0x80 {
            (self.number, self.shift) = (0, 0);
        }
        Ok(byte)
    }

    /// A length that cannot be true becomes one that the decoder refuses. What is no length, a timeout for example, nobody looks at here.
    fn try_get_i32(&mut self) -> Result<i32, TryGetError> {
        let value = self.bytes.try_get_i32()?;
        Ok(if u64::try_from(value).is_ok_and(|value| value > self.limit()) { i32::MIN } else { value })
    }
}

impl ByteBuf for Watched {
    fn peek_bytes(&mut self, range: std::ops::Range<usize>) -> Bytes {
        self.bytes.slice(range)
    }

    fn get_bytes(&mut self, size: usize) -> Bytes {
        self.bytes.split_to(size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A request without a client id; `header` is what the version's header has behind it.
    fn request(key: ApiKey, version: i16, header: &[u8], body: &[u8]) -> Result<(), String> {
        let head = [&(key as i16).to_be_bytes()[..], &version.to_be_bytes(), &[0, 0, 0, 1, 0xff, 0xff], header, body];
        check(&head.concat().into(), key, version).map_err(|error| error.to_string())
    }

    #[test]
    fn an_array_that_claims_more_items_than_there_are_bytes_is_refused_before_memory_is_reserved() {
        // Two billion topics, in the old form and in the compact one.
        let refused = request(ApiKey::Metadata, 1, &[], &i32::MAX.to_be_bytes());
        assert!(refused.is_err_and(|error| error.contains("negative")));
        assert!(request(ApiKey::Metadata, 9, &[0], &[0xff, 0xff, 0xff, 0xff, 0x0f, 1, 1, 1, 1]).is_err());
        // Behind a flag that is no flag.
        assert!(request(ApiKey::ListGroups, 4, &[0], &[0x80, 0xff, 0xff, 0xff, 0xff, 0x0f]).is_err());
    }

    #[test]
    fn a_number_that_is_no_length_may_be_large() {
        let heartbeat = |generation: i32| [&[0, 1, b'g'][..], &generation.to_be_bytes(), &[0, 1, b'm']].concat();
        for generation in [-1, 0, 1 << 20, i32::MAX] {
            assert_eq!(request(ApiKey::Heartbeat, 0, &[], &heartbeat(generation)), Ok(()));
        }
    }
}
