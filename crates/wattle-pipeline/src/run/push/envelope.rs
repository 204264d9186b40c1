//! The records that were accepted together, as bytes: an entry of a write-ahead log is either all there or not at all.
//!
//! ```text
//! version (1), flags (1: a timestamp follows), timestamp (8, milliseconds since 1970, little-endian)
//! for each record: flags (1: key, 2: value, 4: headers), key, headers, value
//! key, value: length, bytes        headers: count, for each: name, value with 1 + length, or 0 for null
//! ```
//! Lengths and counts are LEB128.

use std::time::{SystemTime, UNIX_EPOCH};

use wattle::{Header, Offset, Record};

const VERSION: u8 = 1;
const TIMESTAMP: u8 = 1;
const KEY: u8 = 1;
const VALUE: u8 = 2;
const HEADERS: u8 = 4;

/// Records on their way to be accepted.
#[derive(Debug)]
pub(crate) struct Envelope {
    bytes: Vec<u8>,
    records: usize,
}

impl Envelope {
    /// For records of this time, in milliseconds since 1970.
    pub(crate) fn new(timestamp: Option<i64>) -> Self {
        let mut bytes = vec![VERSION, if timestamp.is_some() { TIMESTAMP } else { 0 }];
        bytes.extend(timestamp.map(i64::to_le_bytes).into_iter().flatten());
        Envelope { bytes, records: 0 }
    }

    /// For records that come now.
    pub(crate) fn now() -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Envelope::new(i64::try_from(now.as_millis()).ok())
    }

    /// Adds a record.
    pub(crate) fn push(&mut self, key: Option<&[u8]>, value: Option<&[u8]>, headers: &[Header]) {
        let flag = |there: bool, flag| if there { flag } else { 0 };
        let flags = flag(key.is_some(), KEY) | flag(value.is_some(), VALUE) | flag(!headers.is_empty(), HEADERS);
        self.bytes.push(flags);
        if let Some(key) = key {
            self.put(key);
        }
        if !headers.is_empty() {
            self.put_number(headers.len());
        }
        for Header { name, value } in headers {
            self.put(name.as_bytes());
            self.put_number(value.as_ref().map_or(0, |value| value.len() + 1));
            self.bytes.extend_from_slice(value.as_deref().unwrap_or_default());
        }
        if let Some(value) = value {
            self.put(value);
        }
        self.records += 1;
    }

    pub(crate) fn records(&self) -> usize {
        self.records
    }

    pub(crate) fn byte_len(&self) -> usize {
        self.bytes.len()
    }

    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    fn put(&mut self, bytes: &[u8]) {
        self.put_number(bytes.len());
        self.bytes.extend_from_slice(bytes);
    }

    fn put_number(&mut self, mut number: usize) {
        while number >= 0x80 {
            self.bytes.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.bytes.push(number as u8);
    }
}

/// Bytes that are no envelope, or one of a later version.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unreadable {
    #[error("it is of version {0}: use the version of wattle that wrote it, or a newer one")]
    Version(u8),
    #[error("it is not what a stream has written")]
    Broken,
}

/// Gives each record of an envelope to `each`, with `offset` as its offset.
pub(crate) fn unpack(bytes: &[u8], offset: Offset, mut each: impl FnMut(&Record<'_>)) -> Result<(), Unreadable> {
    let mut rest = Rest(bytes);
    match rest.byte()? {
        VERSION => {}
        version => return Err(Unreadable::Version(version)),
    }
    let timestamp = match rest.byte()? & TIMESTAMP {
        0 => None,
        _ => Some(i64::from_le_bytes(rest.take(8)?.try_into().expect("8 bytes"))),
    };
    while !rest.0.is_empty() {
        let flags = rest.byte()?;
        let key = if flags & KEY == 0 { None } else { Some(rest.bytes()?) };
        let headers = if flags & HEADERS == 0 { Vec::new() } else { rest.headers()? };
        let value = if flags & VALUE == 0 { None } else { Some(rest.bytes()?) };
        each(&Record { topic: "", partition: 0, offset, timestamp, key, value, headers: &headers });
    }
    Ok(())
}

/// What is not read yet.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn take(&mut self, length: usize) -> Result<&'a [u8], Unreadable> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(Unreadable::Broken)?;
        self.0 = rest;
        Ok(taken)
    }

    fn byte(&mut self) -> Result<u8, Unreadable> {
        self.take(1).map(|bytes| bytes[0])
    }

    fn number(&mut self) -> Result<usize, Unreadable> {
        let mut number = 0;
        for shift in (0..usize::BITS).step_by(7) {
            let byte = self.byte()?;
            number |= usize::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(Unreadable::Broken)
    }

    fn bytes(&mut self) -> Result<&'a [u8], Unreadable> {
        let length = self.number()?;
        self.take(length)
    }

    fn headers(&mut self) -> Result<Vec<Header>, Unreadable> {
        let count = self.number()?;
        let mut headers = Vec::new();
        for _ in 0..count {
            let name = String::from_utf8(self.bytes()?.to_vec()).map_err(|_| Unreadable::Broken)?;
            let value = match self.number()? {
                0 => None,
                length => Some(self.take(length - 1)?.to_vec()),
            };
            headers.push(Header { name, value });
        }
        Ok(headers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Owned = (Option<i64>, Option<Vec<u8>>, Option<Vec<u8>>, Vec<Header>);

    fn unpacked(bytes: &[u8]) -> Result<Vec<Owned>, Unreadable> {
        let mut found = Vec::new();
        unpack(bytes, Offset(7), |record| {
            assert_eq!(record.offset, Offset(7));
            let (key, value) = (record.key.map(<[u8]>::to_vec), record.value.map(<[u8]>::to_vec));
            found.push((record.timestamp, key, value, record.headers.to_vec()));
        })?;
        Ok(found)
    }

    fn sample() -> Envelope {
        let header = |name: &str, value: Option<&[u8]>| Header { name: name.into(), value: value.map(<[u8]>::to_vec) };
        let headers = [header("a", None), header("a", Some(b"")), header("b", Some(&[0xff; 200]))];
        let mut envelope = Envelope::new(Some(-5));
        envelope.push(Some(b""), None, &headers);
        envelope.push(None, Some(&[b'x'; 300]), &[]);
        envelope.push(Some(b"k"), Some(b""), &[]);
        envelope
    }

    #[test]
    fn records_are_what_they_were() {
        let envelope = sample();
        assert_eq!((envelope.records(), envelope.byte_len()), (3, envelope.bytes.len()));
        let found = unpacked(&envelope.into_bytes()).unwrap();
        let [first, second, third] = &found[..] else { panic!("{found:?}") };
        assert_eq!(
            (first.0, first.1.as_deref(), first.2.as_deref(), first.3.len()),
            (Some(-5), Some(&b""[..]), None, 3)
        );
        assert_eq!(
            first.3.iter().map(|h| h.value.as_ref().map(Vec::len)).collect::<Vec<_>>(),
            [None, Some(0), Some(200)]
        );
        assert_eq!((&second.1, &second.2), (&None, &Some(vec![b'x'; 300])));
        assert_eq!((third.1.as_deref(), third.2.as_deref()), (Some(&b"k"[..]), Some(&b""[..])));
        assert_eq!(unpacked(&Envelope::new(None).into_bytes()), Ok(Vec::new()));
    }

    #[test]
    fn a_line_costs_two_bytes_more_than_itself() {
        let mut envelope = Envelope::new(Some(0));
        let before = envelope.byte_len();
        envelope.push(None, Some(b"{\"a\":1}"), &[]);
        assert_eq!(envelope.byte_len() - before, 7 + 2);
    }

    /// The form is on disks: it stays what it is.
    #[test]
    fn the_bytes_of_version_1() {
        let mut envelope = Envelope::new(Some(1));
        envelope.push(Some(b"k"), Some(b"v"), &[Header { name: "h".into(), value: Some(b"w".to_vec()) }]);
        assert_eq!(envelope.into_bytes(), b"\x01\x01\x01\0\0\0\0\0\0\0\x07\x01k\x01\x01h\x02w\x01v");
    }

    #[test]
    fn other_bytes_are_refused_and_never_read_past_their_end() {
        assert_eq!(unpacked(&[2, 0]), Err(Unreadable::Version(2)));
        let bytes = sample().into_bytes();
        for length in 0..bytes.len() {
            // A cut between two records leaves fewer of them.
            assert!(unpacked(&bytes[..length]).map_or(true, |records| records.len() < 3), "{length}");
        }
        assert_eq!(
            unpacked(&[1, 0, VALUE, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]),
            Err(Unreadable::Broken)
        );
    }
}
