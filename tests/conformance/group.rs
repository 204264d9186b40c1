//! Members of a group come, leave and die; what was committed is not read again.

use std::collections::{BTreeMap, BTreeSet};

use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};

use super::client::{member, poll, share};
use super::worker;
use crate::harness::load::Load;
use crate::harness::room::Room;
use crate::harness::wait::{PATIENCE, wait_until};

const PARTITIONS: i32 = 4;
const RECORDS: u64 = 200;

pub(super) fn members_share_the_partitions_eagerly(room: &Room) {
    come_leave_and_die(room, "range");
}

pub(super) fn members_share_the_partitions_cooperatively(room: &Room) {
    come_leave_and_die(room, "cooperative-sticky");
}

fn come_leave_and_die(room: &Room, strategy: &str) {
    let (topic, address) = (room.topic("t", PARTITIONS), room.broker().address());
    Load { address: address.clone(), topics: vec![topic.clone()], partitions: PARTITIONS }.send(0..RECORDS);
    let member = || {
        let member = member(&address, &room.group(), &[("partition.assignment.strategy", strategy)]);
        member.subscribe(&[&topic]).expect("subscribed");
        member
    };
    let mut read = BTreeMap::new();
    let one = member();
    share(&[(&one, 4)], |_, partition, offset| *read.entry((partition, offset)).or_insert(0) += 1);
    wait_until("one member reads everything", PATIENCE, || {
        poll(&one, |_, partition, offset| *read.entry((partition, offset)).or_insert(0) += 1);
        read.len() as u64 == RECORDS
    });
    one.commit_consumer_state(CommitMode::Sync).expect("committed");
    let two = member();
    share(&[(&one, 2), (&two, 2)], |_, partition, offset| *read.entry((partition, offset)).or_insert(0) += 1);
    let (first, second) = (partitions(&one), partitions(&two));
    assert!(first.is_disjoint(&second), "{first:?} and {second:?}");
    drop(one);
    share(&[(&two, 4)], |_, partition, offset| *read.entry((partition, offset)).or_insert(0) += 1);
    let mut third = room.client(&worker::member(&address, &room.group(), strategy, &topic));
    share(&[(&two, 2)], |_, partition, offset| *read.entry((partition, offset)).or_insert(0) += 1);
    assert!(third.kill(), "it was there to be killed");
    share(&[(&two, 4)], |_, partition, offset| *read.entry((partition, offset)).or_insert(0) += 1);
    assert!(read.values().all(|times| *times == 1), "what is committed is not read again");
}

fn partitions(member: &BaseConsumer) -> BTreeSet<i32> {
    member.assignment().expect("known here").elements().iter().map(|element| element.partition()).collect()
}
