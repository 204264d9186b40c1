//! A producer numbers its batches, so that one that comes twice is stored once.

use std::time::{SystemTime, UNIX_EPOCH};

use super::client::texts;
use crate::harness::wire::{Api, Body, ask};
use crate::harness::cluster::Isolation::ReadCommitted;
use crate::harness::room::Room;
use crate::harness::wait::{PATIENCE, wait_for};

/// Kafka's numbers for errors.
const NOT_LEADER: i16 = 6;
const LOADING: i16 = 14;
const OUT_OF_ORDER: i16 = 45;

/// Also across the broker's death: the answer may have got lost with it.
pub(super) fn a_batch_that_comes_twice_is_stored_once(room: &Room) {
    let broker = room.own_broker();
    let (cluster, topic) = (broker.cluster(), room.name("t"));
    cluster.create_topic(&topic, 1, &[]);
    let address = broker.address();
    let producer = Numbered::new(&address, &topic);
    assert_eq!(producer.send(0, ["a", "b"]), Ok(0));
    assert_eq!(producer.send(2, ["c", "d"]), Ok(2));
    assert_eq!(producer.send(0, ["a", "b"]), Ok(0), "told where it is already");
    assert_eq!(producer.send(2, ["c", "d"]), Ok(2));
    assert_eq!(producer.send(7, ["h", "i"]), Err(OUT_OF_ORDER), "batches between were lost");
    broker.kill();
    broker.start_again();
    assert_eq!(cluster.count(&topic), 1);
    // A broker that has just started says that it leads a partition a moment before it does.
    let again = wait_for("the partition's leader", PATIENCE, || {
        Some(producer.send(2, ["c", "d"])).filter(|answer| *answer != Err(NOT_LEADER))
    });
    assert_eq!(again, Ok(2));
    assert_eq!(producer.send(7, ["h", "i"]), Err(OUT_OF_ORDER));
    assert_eq!(producer.send(4, ["e", "f"]), Ok(4));
    assert_eq!(texts(cluster, &topic, ReadCommitted), ["a", "b", "c", "d", "e", "f"]);
}

/// An idempotent producer whose numbers are the test's.
struct Numbered<'a> {
    address: &'a str,
    topic: &'a str,
    id: [u8; 8],
    epoch: [u8; 2],
}

impl<'a> Numbered<'a> {
    fn new(address: &'a str, topic: &'a str) -> Self {
        let none = (-1_i64).to_be_bytes();
        // No transactional id, a timeout that means nothing then, no id from before.
        let body = || Body::new().put([0]).put(60_000_i32.to_be_bytes()).put(none).put([255, 255]).end();
        wait_for("an id", PATIENCE, || {
            let mut answer = ask(address, Api::InitProducerId, body());
            answer.take::<4>(); // how long to wait
            let error = i16::from_be_bytes(answer.take());
            assert!(matches!(error, 0 | LOADING), "error {error}");
            (error == 0).then(|| Numbered { address, topic, id: answer.take(), epoch: answer.take() })
        })
    }

    /// The offset of the batch's first record, or the error's number.
    fn send(&self, sequence: i32, texts: [&str; 2]) -> Result<i64, i16> {
        let partition = Body::new().length(1).put([0; 4]).bytes(self.batch(sequence, texts)).end();
        let topic = Body::new().length(1).bytes(self.topic).then(partition).end();
        // No transactional id, confirmed by all, within ten seconds.
        let body = Body::new().put([0]).put([255, 255]).put(10_000_i32.to_be_bytes()).then(topic).end();
        let mut answer = ask(self.address, Api::Produce, body);
        assert_eq!(answer.take(), [2], "one topic");
        for _ in 0..answer.take::<1>()[0] - 1 {
            answer.take::<1>(); // its name
        }
        assert_eq!(answer.take(), [2], "one partition");
        assert_eq!(answer.take(), [0; 4], "partition 0");
        let error = i16::from_be_bytes(answer.take());
        let offset = i64::from_be_bytes(answer.take());
        if error == 0 { Ok(offset) } else { Err(error) }
    }

    /// A record batch of version 2. One byte holds each length: texts are short.
    fn batch(&self, sequence: i32, texts: [&str; 2]) -> Body {
        let mut records = Body::new();
        for (delta, text) in (0..).zip(texts) {
            let length = u8::try_from(text.len()).expect("short");
            // Attributes, time and offset from the batch's, no key, the value, no headers; signed numbers are zigzag.
            records = records.put([2 * (length + 6), 0, 0, 2 * delta, 1, 2 * length]);
            records = text.bytes().fold(records, |records, byte| records.put([byte])).put([0]);
        }
        // A broker that starts forgets producers whose latest record is old.
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_millis() as i64;
        let counted = Body::new()
            .put([0; 2]) // attributes
            .put(1_i32.to_be_bytes()) // the last record's offset from the first
            .put(now.to_be_bytes())
            .put(now.to_be_bytes())
            .put(self.id)
            .put(self.epoch)
            .put(sequence.to_be_bytes())
            .put(2_i32.to_be_bytes())
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
