//! A producer numbers its batches, so that one that comes twice is stored once.

use std::time::{SystemTime, UNIX_EPOCH};

use super::client::texts;
use crate::harness::cluster::Isolation::ReadCommitted;
use crate::harness::raw::RawBatch;
use crate::harness::room::Room;
use crate::harness::wait::{PATIENCE, wait_for};
use crate::harness::wire::{Api, Body, ask};

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
    id: i64,
    epoch: i16,
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
            (error == 0).then(|| {
                let (id, epoch) = (i64::from_be_bytes(answer.take()), i16::from_be_bytes(answer.take()));
                Numbered { address, topic, id, epoch }
            })
        })
    }

    /// The offset of the batch's first record, or the error's number.
    fn send(&self, sequence: i32, texts: [&str; 2]) -> Result<i64, i16> {
        // A broker that starts forgets producers whose latest record is old.
        let time = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_millis() as i64;
        RawBatch { time, producer: (self.id, self.epoch, sequence), texts: &texts }.append(self.address, self.topic)
    }
}
