//! Outputs that are refused in part, or whose answer is lost.

use wattle_broker::ApiKey::Produce;
use wattle_broker::{Code, Hook, On};

use super::{Copy, Ends, GoesOn, HASTY, LATE, Outcome, Refusal, StartsAgain, all, refused};
use crate::harness::room::Room;

/// What the record itself, or an operator, is to blame for ends the process, and is named.
const REFUSED: Outcome =
    Ends(&["W0006", "refused a record", ".out/1", ".in/", "offset", "the position stays before that record"]);

const PARTS: &[Refusal] = &[
    (Produce, Code::NotEnoughReplicas, 3, GoesOn),
    (Produce, Code::NotLeaderOrFollower, 3, GoesOn),
    (Produce, Code::InvalidProducerEpoch, 1, StartsAgain),
    (Produce, Code::OutOfOrderSequenceNumber, 1, StartsAgain),
    (Produce, Code::MessageTooLarge, 1, REFUSED),
    (Produce, Code::InvalidRecord, 1, REFUSED),
    (Produce, Code::TopicAuthorizationFailed, 1, REFUSED),
];

/// Of three partitions to which the batch writes, one is refused.
pub(in crate::promises) fn outputs_that_are_refused_in_part_are_neither_lost_nor_doubled(room: &Room) {
    refused(room, PARTS, |on, copy, code| on.refuse_partition(&copy.output, 1, code));
}

type Accident = (&'static str, u64, fn(On) -> Hook, &'static str);

/// The broker tells by their sequence numbers what it has already.
const ACCIDENTS: &[Accident] = &[
    ("request-lost", 3, On::drop_request, "{}"),
    ("answer-lost", 3, On::drop_answer, "{}"),
    ("answer-late", 3, |on| on.delay_answer(LATE), HASTY),
    ("not-enough-replicas", 3, |on| on.refuse_afterwards(Code::NotEnoughReplicasAfterAppend), "{}"),
    ("timed-out", 3, |on| on.refuse_afterwards(Code::RequestTimedOut), "{}"),
];

pub(in crate::promises) fn outputs_without_an_answer_are_neither_lost_nor_doubled(room: &Room) {
    let name = |(what, ..): &Accident| (*what).to_owned();
    all(ACCIDENTS, name, |&(_, times, happen, producer), name| {
        let mut copy = Copy::full(room, name);
        copy.pipeline.producer = producer;
        let hook = happen(room.broker().embedded().on(Produce).matching(copy.id()).after(2).times(times));
        copy.comes_to(GoesOn);
        assert_eq!(hook.fired(), times, "so many met it");
    });
}
