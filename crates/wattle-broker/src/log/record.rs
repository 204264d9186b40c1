//! Single records of a batch, for what has to look at them: keys on compacted topics, timestamps, markers, compaction.

use super::batch::Header;
use super::compression;
use crate::types::Millis;

/// A record in an uncompressed batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record<'a> {
    attributes: u8,
    timestamp_delta: i64,
    pub(crate) offset_delta: i32,
    pub(crate) key: Option<&'a [u8]>,
    pub(crate) value: Option<&'a [u8]>,
    /// Key, value and headers, as they are.
    body: &'a [u8],
}

impl Record<'_> {
    pub(crate) fn is_tombstone(&self) -> bool {
        self.value.is_none()
    }

    /// Its time, by the batch that it came in.
    pub(crate) fn timestamp(&self, header: &Header) -> Millis {
        match header.has_log_append_time() {
            true => header.max_timestamp,
            false => header.base_timestamp.saturating_add(self.timestamp_delta),
        }
    }

    /// Appends it to a batch whose base timestamp is `base_timestamp` instead of `old`'s.
    pub(crate) fn write(&self, old: &Header, base_timestamp: Millis, out: &mut Vec<u8>) {
        let mut start = Vec::with_capacity(24);
        start.push(self.attributes);
        let delta = old.base_timestamp.wrapping_add(self.timestamp_delta).wrapping_sub(base_timestamp);
        put_varint(&mut start, delta);
        put_varint(&mut start, i64::from(self.offset_delta));
        put_varint(out, (start.len() + self.body.len()) as i64);
        out.extend(start);
        out.extend(self.body);
    }
}

/// The uncompressed records of a whole batch.
#[derive(Debug)]
pub(crate) struct Records<'a> {
    bytes: std::borrow::Cow<'a, [u8]>,
    count: i32,
}

impl<'a> Records<'a> {
    /// Uncompresses. `batch` is the whole batch of `header`.
    pub(crate) fn open(header: &Header, batch: &'a [u8]) -> Result<Self, String> {
        Ok(Self { bytes: compression::expand(header.codec(), &batch[super::batch::HEADER..])?, count: header.count })
    }

    /// In order. The first that cannot be read, or a wrong number of them, ends it with an error.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Result<Record<'_>, &'static str>> {
        let mut rest = &self.bytes[..];
        let mut left = self.count;
        std::iter::from_fn(move || {
            if left == 0 {
                let trailing = !std::mem::take(&mut rest).is_empty();
                return trailing.then_some(Err("bytes after the last record"));
            }
            let record = take_record(&mut rest);
            match record {
                Some(_) => left -= 1,
                None => (left, rest) = (0, &[]),
            }
            Some(record.ok_or("a record that cannot be read"))
        })
    }
}

/// Whether a control batch is the end of a transaction, and if so, whether it committed.
pub(crate) fn marker_commits(header: &Header, batch: &[u8]) -> Option<bool> {
    let records = Records::open(header, batch).ok()?;
    let record = records.iter().next()?.ok()?;
    match record.key? {
        [0, 0, 0, 0, ..] => Some(false),
        [0, 0, 0, 1, ..] => Some(true),
        _ => None,
    }
}

fn take_record<'a>(rest: &mut &'a [u8]) -> Option<Record<'a>> {
    let length = usize::try_from(take_varint(rest)?).ok()?;
    let mut one = take(rest, length)?;
    let attributes = *take(&mut one, 1)?.first()?;
    let timestamp_delta = take_varint(&mut one)?;
    let offset_delta = i32::try_from(take_varint(&mut one)?).ok()?;
    let body = one;
    let key = take_bytes(&mut one)?;
    let value = take_bytes(&mut one)?;
    Some(Record { attributes, timestamp_delta, offset_delta, key, value, body })
}

/// Bytes with their length before them; −1 is null.
fn take_bytes<'a>(rest: &mut &'a [u8]) -> Option<Option<&'a [u8]>> {
    match take_varint(rest)? {
        -1 => Some(None),
        length => take(rest, usize::try_from(length).ok()?).map(Some),
    }
}

fn take<'a>(rest: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (taken, left) = rest.split_at_checked(length)?;
    *rest = left;
    Some(taken)
}

fn take_varint(rest: &mut &[u8]) -> Option<i64> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let byte = *take(rest, 1)?.first()?;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some((value >> 1) as i64 ^ -((value & 1) as i64));
        }
    }
    None
}

fn put_varint(out: &mut Vec<u8>, value: i64) {
    let mut value = ((value << 1) ^ (value >> 63)) as u64;
    while value > 0x7f {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

#[cfg(test)]
pub(super) mod testing {
    use super::*;
    use crate::log::batch::HEADER;
    use crate::types::Producer;

    /// A record to encode: key, value (`None` is null), timestamp.
    pub(crate) type Plain<'a> = (Option<&'a str>, Option<&'a str>, Millis);

    /// Who writes a batch in a test.
    #[derive(Clone, Copy, Debug)]
    pub(crate) struct Writer {
        pub(crate) producer: Producer,
        pub(crate) sequence: i32,
        pub(crate) transactional: bool,
        pub(crate) codec: i16,
    }

    /// Without a producer id.
    pub(crate) const ANYONE: Writer =
        Writer { producer: Producer { id: -1, epoch: -1 }, sequence: -1, transactional: false, codec: 0 };

    /// A batch as a client sends it.
    pub(crate) fn batch(writer: Writer, records: &[Plain<'_>]) -> bytes::Bytes {
        let base_timestamp = records[0].2;
        let mut body = vec![];
        for (delta, (key, value, timestamp)) in records.iter().enumerate() {
            let mut one = vec![0];
            put_varint(&mut one, timestamp - base_timestamp);
            put_varint(&mut one, delta as i64);
            for bytes in [key, value] {
                put_varint(&mut one, bytes.map_or(-1, |bytes| bytes.len() as i64));
                one.extend(bytes.unwrap_or_default().as_bytes());
            }
            one.push(0);
            put_varint(&mut body, one.len() as i64);
            body.extend(one);
        }
        let body = compression::compress(writer.codec, &body).unwrap();
        let header = Header {
            base: 0,
            size: HEADER + body.len(),
            crc: 0,
            attributes: writer.codec | if writer.transactional { 0x10 } else { 0 },
            last_delta: records.len() as i32 - 1,
            base_timestamp,
            max_timestamp: records.iter().map(|record| record.2).max().unwrap(),
            producer: writer.producer,
            sequence: writer.sequence,
            count: records.len() as i32,
        };
        header.encode(&body).into()
    }

    #[test]
    fn varints_come_back() {
        for value in [0, -1, 1, 63, 64, -64, -65, i64::from(i32::MAX), i64::from(i32::MIN), i64::MAX, i64::MIN] {
            let mut bytes = vec![];
            put_varint(&mut bytes, value);
            let mut rest = &bytes[..];
            assert_eq!(take_varint(&mut rest), Some(value));
            assert!(rest.is_empty());
            assert_eq!(take_varint(&mut &bytes[..bytes.len() - 1]), None);
        }
    }

    #[test]
    fn a_batch_cut_anywhere_is_an_error_and_never_a_panic() {
        let whole = batch(ANYONE, &[(Some("k"), Some("v"), 5), (None, None, 7)]);
        let header = Header::parse(&whole).unwrap();
        for end in HEADER..whole.len() {
            let records = Records::open(&header, &whole[..end]).unwrap();
            assert!(records.iter().any(|record| record.is_err()), "{end}");
        }
        let records = Records::open(&header, &whole).unwrap();
        let records: Vec<_> = records.iter().map(Result::unwrap).collect();
        assert_eq!(records.iter().map(|record| record.timestamp(&header)).collect::<Vec<_>>(), [5, 7]);
        assert_eq!((records[0].key, records[0].value), (Some(&b"k"[..]), Some(&b"v"[..])));
        assert_eq!((records[1].key, records[1].is_tombstone()), (None, true));
    }
}
