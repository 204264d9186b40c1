//! Record batches by hand: with numbers and times that no client writes.

use super::wire::{Api, Body, ask};

/// A record batch of version 2, without keys and headers.
pub(crate) struct RawBatch<'a> {
    /// Milliseconds since 1970 of all records; -1 is none.
    pub(crate) time: i64,
    /// Id and epoch of the producer, and the number of the first record; -1 is none.
    pub(crate) producer: (i64, i16, i32),
    /// The values, each shorter than 58 bytes, so that one byte holds its length.
    pub(crate) texts: &'a [&'a str],
}

impl RawBatch<'_> {
    /// Appends it to partition 0 of a topic. Returns the offset of the first record, or the error's number.
    pub(crate) fn append(&self, address: &str, topic: &str) -> Result<i64, i16> {
        let partition = Body::new().length(1).put([0; 4]).bytes(self.encode()).end();
        let topic = Body::new().length(1).bytes(topic).then(partition).end();
        // No transactional id, confirmed by all, within ten seconds.
        let body = Body::new().put([0]).put([255, 255]).put(10_000_i32.to_be_bytes()).then(topic).end();
        let mut answer = ask(address, Api::Produce, body);
        assert_eq!(answer.take_length(), 1, "one topic");
        answer.take_text(); // its name
        assert_eq!(answer.take_length(), 1, "one partition");
        assert_eq!(answer.take(), [0; 4], "partition 0");
        let error = i16::from_be_bytes(answer.take());
        let offset = i64::from_be_bytes(answer.take());
        if error == 0 { Ok(offset) } else { Err(error) }
    }

    fn encode(&self) -> Body {
        let mut records = Body::new();
        for (delta, text) in (0..).zip(self.texts) {
            let length = u8::try_from(text.len()).expect("short");
            // Attributes, time and offset from the batch's, no key, the value, no headers; signed numbers are zigzag.
            records = records.put([2 * (length + 6), 0, 0, 2 * delta, 1, 2 * length]);
            records = text.bytes().fold(records, |records, byte| records.put([byte])).put([0]);
        }
        let count = i32::try_from(self.texts.len()).expect("few");
        let (id, epoch, sequence) = self.producer;
        let counted = Body::new()
            .put([0; 2]) // attributes
            .put((count - 1).to_be_bytes()) // the last record's offset from the first
            .put(self.time.to_be_bytes())
            .put(self.time.to_be_bytes())
            .put(id.to_be_bytes())
            .put(epoch.to_be_bytes())
            .put(sequence.to_be_bytes())
            .put(count.to_be_bytes())
            .then(records);
        let length = i32::try_from(counted.as_ref().len() + 9).expect("short");
        let head = Body::new().put([0; 8]).put(length.to_be_bytes()).put([255; 4]).put([2]);
        head.put(crc32c(counted.as_ref()).to_be_bytes()).then(counted)
    }
}

fn crc32c(bytes: &[u8]) -> u32 {
    let bit = |crc: u32| (crc >> 1) ^ ((crc & 1) * 0x82F6_3B78);
    !bytes.iter().fold(!0, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), |crc, _| bit(crc)))
}
