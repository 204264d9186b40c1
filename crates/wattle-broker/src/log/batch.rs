//! The header of a record batch (message format 2), read and patched in place: the produce path never looks at single records.

use crate::types::{Millis, Producer};

/// Bytes before the records.
pub(crate) const HEADER: usize = 61;
/// Bytes before what the length field counts.
const PREFIX: usize = 12;
const CRC_FROM: usize = 21;

const COMPRESSION: i16 = 0x07;
const LOG_APPEND_TIME: i16 = 0x08;
const TRANSACTIONAL: i16 = 0x10;
const CONTROL: i16 = 0x20;
const DELETE_HORIZON: i16 = 0x40;

/// The fields of a batch's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) base: i64,
    /// Of the whole batch, in bytes.
    pub(crate) size: usize,
    pub(crate) crc: u32,
    pub(crate) attributes: i16,
    pub(crate) last_delta: i32,
    pub(crate) base_timestamp: Millis,
    pub(crate) max_timestamp: Millis,
    pub(crate) producer: Producer,
    pub(crate) sequence: i32,
    pub(crate) count: i32,
}

impl Header {
    /// Of the batch at the beginning of `bytes`, which need not hold all of it. Errors say what does not fit.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, &'static str> {
        let Some(bytes) = bytes.first_chunk::<HEADER>() else { return Err("shorter than a batch's header") };
        let length = int32(bytes, 8);
        if bytes[16] != 2 {
            return Err("not of message format 2");
        }
        if length < (HEADER - PREFIX) as i32 {
            return Err("a batch shorter than its header");
        }
        let header = Self {
            base: int64(bytes, 0),
            size: length as usize + PREFIX,
            crc: int32(bytes, 17) as u32,
            attributes: int16(bytes, 21),
            last_delta: int32(bytes, 23),
            base_timestamp: int64(bytes, 27),
            max_timestamp: int64(bytes, 35),
            producer: Producer { id: int64(bytes, 43), epoch: int16(bytes, 51) },
            sequence: int32(bytes, 53),
            count: int32(bytes, 57),
        };
        if header.last_delta < 0 || header.count < 0 {
            return Err("a batch with a negative number of records");
        }
        Ok(header)
    }

    /// Offset of the last record (which compaction may have removed).
    pub(crate) fn last(&self) -> i64 {
        self.base.saturating_add(i64::from(self.last_delta))
    }

    /// Sequence of the last record; sequences start again at 0 after `i32::MAX`.
    pub(crate) fn last_sequence(&self) -> i32 {
        self.sequence.wrapping_add(self.last_delta) & i32::MAX
    }

    pub(crate) fn is_transactional(&self) -> bool {
        self.attributes & TRANSACTIONAL != 0
    }

    pub(crate) fn is_control(&self) -> bool {
        self.attributes & CONTROL != 0
    }

    pub(crate) fn has_log_append_time(&self) -> bool {
        self.attributes & LOG_APPEND_TIME != 0
    }

    /// When its tombstones, or the marker that it is, may be forgotten: set by the first compaction that saw it.
    pub(crate) fn delete_horizon(&self) -> Option<Millis> {
        (self.attributes & DELETE_HORIZON != 0).then_some(self.base_timestamp)
    }

    pub(crate) fn codec(&self) -> i16 {
        self.attributes & COMPRESSION
    }

    /// The same batch with a delete horizon, which takes the place of the base timestamp.
    pub(crate) fn with_delete_horizon(mut self, at: Millis) -> Self {
        self.attributes |= DELETE_HORIZON;
        self.base_timestamp = at;
        self
    }

    /// The same batch with all records removed: it only says which sequences its producer has used.
    pub(crate) fn without_records(mut self) -> Self {
        self.attributes &= !COMPRESSION;
        self.count = 0;
        self
    }

    /// The whole batch with this header and these records, which are compressed already. Size, checksum and the leader epoch are set here.
    pub(crate) fn encode(&self, records: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(HEADER + records.len());
        out.extend(self.base.to_be_bytes());
        out.extend(((HEADER - PREFIX + records.len()) as i32).to_be_bytes());
        out.extend(0i32.to_be_bytes());
        out.push(2);
        out.extend(0u32.to_be_bytes());
        out.extend(self.attributes.to_be_bytes());
        out.extend(self.last_delta.to_be_bytes());
        out.extend(self.base_timestamp.to_be_bytes());
        out.extend(self.max_timestamp.to_be_bytes());
        out.extend(self.producer.id.to_be_bytes());
        out.extend(self.producer.epoch.to_be_bytes());
        out.extend(self.sequence.to_be_bytes());
        out.extend(self.count.to_be_bytes());
        out.extend(records);
        seal(&mut out);
        out
    }
}

/// Whether the checksum of a whole batch is right.
pub(crate) fn is_intact(batch: &[u8]) -> bool {
    batch.len() >= HEADER && int32(batch, 17) as u32 == crc32c::crc32c(&batch[CRC_FROM..])
}

/// Gives a batch its place; the checksum does not cover it.
pub(crate) fn set_place(batch: &mut [u8], base: i64) {
    batch[..8].copy_from_slice(&base.to_be_bytes());
    batch[12..16].copy_from_slice(&0i32.to_be_bytes());
}

/// Gives all records of a batch the broker's time.
pub(crate) fn set_log_append_time(batch: &mut [u8], now: Millis) {
    let attributes = int16(batch, 21) | LOG_APPEND_TIME;
    batch[21..23].copy_from_slice(&attributes.to_be_bytes());
    batch[35..43].copy_from_slice(&now.to_be_bytes());
    seal(batch);
}

/// The batch that ends a transaction.
pub(crate) fn marker(base: i64, producer: Producer, commit: bool, now: Millis) -> Vec<u8> {
    // length; attributes, timestamp and offset deltas; key: version, type; value: version, coordinator epoch; no headers
    let record = [32, 0, 0, 0, 8, 0, 0, 0, u8::from(commit), 12, 0, 0, 0, 0, 0, 0, 0];
    let header = Header {
        base,
        size: HEADER + record.len(),
        crc: 0,
        attributes: TRANSACTIONAL | CONTROL,
        last_delta: 0,
        base_timestamp: now,
        max_timestamp: now,
        producer,
        sequence: -1,
        count: 1,
    };
    header.encode(&record)
}

fn seal(batch: &mut [u8]) {
    let crc = crc32c::crc32c(&batch[CRC_FROM..]);
    batch[17..21].copy_from_slice(&crc.to_be_bytes());
}

fn int16(bytes: &[u8], at: usize) -> i16 {
    i16::from_be_bytes([bytes[at], bytes[at + 1]])
}

fn int32(bytes: &[u8], at: usize) -> i32 {
    i32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn int64(bytes: &[u8], at: usize) -> i64 {
    i64::from(int32(bytes, at)) << 32 | i64::from(int32(bytes, at + 4) as u32)
}
