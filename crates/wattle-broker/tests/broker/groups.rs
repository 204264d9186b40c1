//! Consumer groups: partitions are shared, positions kept, the dead replaced.

use std::collections::BTreeSet;
use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::topic_partition_list::Offset;
use wattle_broker::{ApiKey, Broker};

use crate::support::{assigned, at, consumer_with, member, poll_until, position, with_topic};

fn partitions(member: &BaseConsumer) -> BTreeSet<i32> {
    member.assignment().expect("an assignment").elements().iter().map(|element| element.partition()).collect()
}

#[test]
fn two_members_share_and_the_last_has_all() {
    let broker = with_topic(4);
    let first = member(&broker, "g", "first");
    poll_until(&[&first], || assigned(&first) == 4);
    let second = member(&broker, "g", "second");
    poll_until(&[&first, &second], || assigned(&first) == 2 && assigned(&second) == 2);
    assert!(partitions(&first).is_disjoint(&partitions(&second)));
    drop(first);
    poll_until(&[&second], || assigned(&second) == 4);
}

#[test]
fn cooperative_members_share_as_well() {
    let broker = with_topic(4);
    let settings = [("partition.assignment.strategy", "cooperative-sticky")];
    let [first, second] = ["first", "second"].map(|_| consumer_with(&broker, "g", &settings));
    first.subscribe(&["t"]).expect("subscribed");
    poll_until(&[&first], || assigned(&first) == 4);
    second.subscribe(&["t"]).expect("subscribed");
    poll_until(&[&first, &second], || assigned(&first) == 2 && assigned(&second) == 2);
    assert!(partitions(&first).is_disjoint(&partitions(&second)));
}

#[test]
fn a_member_that_falls_silent_is_replaced_when_its_session_is_over() {
    let broker = with_topic(2);
    let (silent, other) = (member(&broker, "g", "silent"), member(&broker, "g", "other"));
    poll_until(&[&silent, &other], || assigned(&silent) == 1 && assigned(&other) == 1);
    let held = broker.on(ApiKey::Heartbeat).client("silent").times(u64::MAX).hold();
    assert!(held.wait_fired(1, crate::support::LONG));
    broker.advance(Duration::from_secs(46));
    poll_until(&[&other], || assigned(&other) == 2);
    held.release();
}

#[test]
fn members_that_a_broker_has_moved_away_from_are_not_waited_for() {
    let folder = tempfile::TempDir::new().expect("a folder");
    let start = || Broker::builder().folder(folder.path()).topic("t", 2).start().expect("a broker");
    let broker = start();
    let forever = [("session.timeout.ms", "1800000"), ("max.poll.interval.ms", "1800000")];
    let gone = consumer_with(&broker, "g", &forever);
    gone.subscribe(&["t"]).expect("subscribed");
    poll_until(&[&gone], || assigned(&gone) == 2);
    let former = broker.address();
    broker.kill();
    let moved = start();
    assert_ne!(moved.address(), former);
    let other = member(&moved, "g", "other");
    poll_until(&[&other], || assigned(&other) == 2);
}

#[test]
fn positions_are_kept() {
    let broker = with_topic(1);
    assert_eq!(position(&broker, "g"), Offset::Invalid);
    let consumer = member(&broker, "g", "c");
    poll_until(&[&consumer], || assigned(&consumer) == 1);
    consumer.commit(&at(7), CommitMode::Sync).expect("committed");
    assert_eq!(position(&broker, "g"), Offset::Offset(7));
    assert_eq!(position(&broker, "another"), Offset::Invalid);
}

#[test]
fn a_static_member_comes_back_without_a_rebalance() {
    let broker = with_topic(2);
    let of = |name: &str| {
        let consumer = consumer_with(&broker, "g", &[("group.instance.id", name), ("client.id", name)]);
        consumer.subscribe(&["t"]).expect("subscribed");
        consumer
    };
    let (first, second) = (of("first"), of("second"));
    poll_until(&[&first, &second], || assigned(&first) == 1 && assigned(&second) == 1);
    let before = partitions(&second);
    let joins = broker.on(ApiKey::JoinGroup).client("first").observe();
    drop(second);
    let second = of("second");
    poll_until(&[&first, &second], || assigned(&second) == 1);
    assert_eq!(partitions(&second), before);
    assert_eq!(joins.remove(), 0, "the other member did not have to join again");
}
