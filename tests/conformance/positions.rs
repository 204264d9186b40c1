//! Positions of a group as part of a transaction.

use std::time::Duration;

use rdkafka::TopicPartitionList;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaResult, RDKafkaErrorCode as Code};

use super::client::{Writer, code, member, poll, share};
use crate::harness::room::Room;

/// Two partitions of nothing, and a member of the group that has both.
fn group_of_one(room: &Room) -> (String, BaseConsumer) {
    let topic = room.topic("t", 2);
    let only = member(&room.broker().address(), &room.group(), &[]);
    only.subscribe(&[&topic]).expect("subscribed");
    share(&[(&only, 2)], |_, _, _| {});
    (topic, only)
}

/// What a reader of committed records is told that the group's position in partition 0 is, within `patience`.
fn stable_position(room: &Room, topic: &str, patience: Duration) -> KafkaResult<()> {
    let asks = member(&room.broker().address(), &room.group(), &[]);
    let mut list = TopicPartitionList::new();
    list.add_partition(topic, 0);
    let answer = asks.committed_offsets(list, patience)?;
    answer.elements()[0].error()
}

pub(super) fn positions_count_when_their_transaction_commits(room: &Room) {
    let (topic, only) = group_of_one(room);
    let token = only.group_metadata().expect("a member has it");
    let group = room.cluster().group(&room.group());
    let writer = Writer::ready(&room.broker().address(), &room.name("id"));
    assert_eq!(group.committed(&topic), [None, None], "nothing is committed yet");
    writer.begin();
    assert_eq!(writer.write(&topic, &["out"]), Ok(()));
    writer.positions(&token, &topic, &[(0, 5)]).expect("pending");
    assert_eq!(group.committed(&topic), [None, None], "a pending position does not count");
    let unstable = code(stable_position(room, &topic, Duration::from_secs(1)));
    assert!(matches!(unstable, Code::UnstableOffsetCommit | Code::OperationTimedOut), "{unstable:?}");
    writer.commit().expect("committed");
    stable_position(room, &topic, super::client::TIMEOUT).expect("stable when the transaction has ended");
    assert_eq!(group.committed(&topic), [Some(5), None]);
    writer.begin();
    writer.positions(&token, &topic, &[(0, 9)]).expect("pending");
    writer.abort().expect("aborted");
    assert_eq!(group.committed(&topic), [Some(5), None], "an aborted position does not count");
    stable_position(room, &topic, super::client::TIMEOUT).expect("and holds nobody up");
    writer.begin();
    writer.positions(&token, &topic, &[(0, 6)]).expect("pending");
    writer.commit().expect("a transaction of positions alone");
    stable_position(room, &topic, super::client::TIMEOUT).expect("stable");
    assert_eq!(group.committed(&topic), [Some(6), None]);
}

/// A member that has not noticed that the group went on without it, although it is still one of its members.
pub(super) fn positions_of_a_stale_generation_are_refused(room: &Room) {
    let (topic, one) = group_of_one(room);
    let stale = one.group_metadata().expect("a member has it");
    let two = member(&room.broker().address(), &room.group(), &[]);
    two.subscribe(&[&topic]).expect("subscribed");
    share(&[(&one, 1), (&two, 1)], |_, _, _| {});
    let writer = Writer::begun(&room.broker().address(), &room.name("id"));
    let refusal = code(writer.positions(&stale, &topic, &[(0, 7)]));
    assert!(matches!(refusal, Code::IllegalGeneration | Code::FencedMemberEpoch | Code::StaleMemberEpoch), "{refusal:?}");
    code(writer.commit()); // must be an error too
    writer.abort().expect("aborted");
    assert_eq!(room.cluster().group(&room.group()).committed(&topic), [None, None]);
    let fresh = one.group_metadata().expect("a member has it");
    writer.begin();
    writer.positions(&fresh, &topic, &[(0, 7)]).expect("the same member's new generation is right");
    writer.commit().expect("committed");
}

pub(super) fn positions_of_a_member_that_left_are_refused(room: &Room) {
    let (topic, one) = group_of_one(room);
    let two = member(&room.broker().address(), &room.group(), &[]);
    two.subscribe(&[&topic]).expect("subscribed");
    share(&[(&one, 1), (&two, 1)], |_, _, _| {});
    let departed = two.group_metadata().expect("a member has it");
    drop(two);
    share(&[(&one, 2)], |_, _, _| {});
    let writer = Writer::begun(&room.broker().address(), &room.name("id"));
    let refusal = code(writer.positions(&departed, &topic, &[(0, 8)]));
    assert!(matches!(refusal, Code::UnknownMemberId | Code::IllegalGeneration | Code::FencedMemberEpoch), "{refusal:?}");
    writer.abort().expect("aborted");
    assert_eq!(room.cluster().group(&room.group()).committed(&topic), [None, None]);
}

pub(super) fn pending_positions_of_a_fenced_producer_are_dropped(room: &Room) {
    let (topic, only) = group_of_one(room);
    let address = room.broker().address();
    let token = only.group_metadata().expect("a member has it");
    let first = Writer::begun(&address, &room.name("id"));
    first.positions(&token, &topic, &[(0, 3)]).expect("pending");
    let second = Writer::ready(&address, &room.name("id"));
    code(first.commit()); // must be an error
    stable_position(room, &topic, super::client::TIMEOUT).expect("nothing is pending any more");
    assert_eq!(room.cluster().group(&room.group()).committed(&topic), [None, None]);
    poll(&only, |_, _, _| {});
    second.begin();
    second.positions(&token, &topic, &[(0, 4)]).expect("pending");
    second.commit().expect("committed");
    stable_position(room, &topic, super::client::TIMEOUT).expect("stable");
    assert_eq!(room.cluster().group(&room.group()).committed(&topic), [Some(4), None]);
}
