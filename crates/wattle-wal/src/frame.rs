//! What a segment is made of: frames, each an entry with its number, or the seal behind the last.
//!
//! ```text
//!  0  u32  checksum of the 20 bytes behind it
//!  4  u32  bytes of the entry; all ones: a seal, which has none
//!  8  u64  the entry's number; of a seal, the first number of the next segment
//! 16  u32  bytes of the segment that were on the disk for sure when this was written
//! 20  u32  checksum of the entry
//! 24       the entry
//! ```
//! Little-endian; the checksums are CRC-32C. The header has one of its own: with a damaged length nobody could tell where the frame ends.

use crc32c::crc32c;

/// Bytes of a frame without its entry.
pub(crate) const HEADER: usize = 24;
const SEAL: u32 = u32::MAX;

/// A frame's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    length: u32,
    /// The entry's number, or the first of the next segment.
    pub(crate) sequence: u64,
    /// Up to where the segment was on the disk for sure.
    pub(crate) durable: u32,
    sum: u32,
}

impl Frame {
    /// `None` where the bytes are no header.
    pub(crate) fn parse(header: &[u8]) -> Option<Self> {
        let header: &[u8; HEADER] = header.get(..HEADER)?.try_into().ok()?;
        let u32_at = |at: usize| u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
        if crc32c(&header[4..]) != u32_at(0) {
            return None;
        }
        let sequence = u64::from(u32_at(8)) | u64::from(u32_at(12)) << 32;
        Some(Frame { length: u32_at(4), sequence, durable: u32_at(16), sum: u32_at(20) })
    }

    pub(crate) fn is_seal(&self) -> bool {
        self.length == SEAL
    }

    /// Bytes of the entry.
    pub(crate) fn length(&self) -> usize {
        if self.is_seal() { 0 } else { self.length as usize }
    }

    /// Bytes of the whole frame.
    pub(crate) fn size(&self) -> u64 {
        (HEADER + self.length()) as u64
    }

    /// Whether this is the entry that was written.
    pub(crate) fn holds(&self, entry: &[u8]) -> bool {
        crc32c(entry) == self.sum
    }

    fn put(&self, bytes: &mut Vec<u8>) {
        let mut header = [0; HEADER];
        header[4..8].copy_from_slice(&self.length.to_le_bytes());
        header[8..16].copy_from_slice(&self.sequence.to_le_bytes());
        header[16..20].copy_from_slice(&self.durable.to_le_bytes());
        header[20..].copy_from_slice(&self.sum.to_le_bytes());
        let sum = crc32c(&header[4..]);
        header[..4].copy_from_slice(&sum.to_le_bytes());
        bytes.extend_from_slice(&header);
    }
}

/// Bytes that an entry takes in a segment.
pub(crate) fn size(entry: usize) -> u64 {
    (HEADER + entry) as u64
}

/// Adds an entry. `entry` is no longer than a segment, `durable` a place in one.
pub(crate) fn put_entry(bytes: &mut Vec<u8>, sequence: u64, durable: u64, entry: &[u8]) {
    Frame { length: entry.len() as u32, sequence, durable: durable as u32, sum: crc32c(entry) }.put(bytes);
    bytes.extend_from_slice(entry);
}

/// A seal: the segment is complete, and the next one begins with number `next`.
pub(crate) fn seal(next: u64, durable: u64) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEADER);
    Frame { length: SEAL, sequence: next, durable: durable as u32, sum: crc32c(&[]) }.put(&mut bytes);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_read_as_it_was_written() {
        let mut bytes = Vec::new();
        put_entry(&mut bytes, 1 << 40, 77, b"entry");
        let frame = Frame::parse(&bytes).unwrap();
        assert_eq!((frame.sequence, frame.durable, frame.length(), frame.is_seal()), (1 << 40, 77, 5, false));
        assert_eq!((frame.size(), frame.holds(b"entry"), frame.holds(b"entrz")), (bytes.len() as u64, true, false));
        let seal = Frame::parse(&seal(9, 1)).unwrap();
        assert_eq!((seal.is_seal(), seal.sequence, seal.size()), (true, 9, HEADER as u64));
    }

    #[test]
    fn no_changed_bit_of_a_header_is_believed() {
        let mut bytes = Vec::new();
        put_entry(&mut bytes, 3, 0, b"");
        for bit in 0..HEADER * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Frame::parse(&bytes), None, "bit {bit}");
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
        assert_eq!(Frame::parse(&[0; HEADER]), None, "what was never written");
    }
}
