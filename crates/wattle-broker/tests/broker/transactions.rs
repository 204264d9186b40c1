//! Transactions: all or nothing, one producer an id, and an end by time.

use std::time::Duration;

use rdkafka::consumer::Consumer;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::producer::Producer;
use rdkafka::topic_partition_list::Offset;
use wattle_broker::Broker;

use crate::support::{
    LONG, all_values, at, commit_one, committed_values, config, consumer_with, member, poll_until, position, read,
    send, sender, sender_with, transactional, with_topic,
};

fn code(error: &KafkaError) -> RDKafkaErrorCode {
    error.rdkafka_error_code().expect("a broker's or librdkafka's code")
}

#[test]
fn only_what_was_committed_is_seen() {
    let broker = with_topic(1);
    let sender = transactional(&broker, "id");
    commit_one(&sender, "t", "a");
    sender.begin_transaction().expect("begun");
    send(&sender, "t", 0, "b").expect("delivered");
    sender.abort_transaction(LONG).expect("aborted");
    commit_one(&sender, "t", "c");
    assert_eq!(committed_values(&broker), ["a", "c"]);
    assert_eq!(all_values(&broker), ["a", "b", "c"]);
}

#[test]
fn an_open_transaction_holds_back_what_comes_after_it() {
    let broker = with_topic(1);
    let (first, second) = (transactional(&broker, "id"), sender(&broker));
    first.begin_transaction().expect("begun");
    send(&first, "t", 0, "a").expect("delivered");
    send(&second, "t", 0, "b").expect("delivered");
    assert_eq!(committed_values(&broker), [""; 0]);
    first.commit_transaction(LONG).expect("committed");
    assert_eq!(committed_values(&broker), ["a", "b"]);
}

#[test]
fn a_second_producer_with_the_id_ends_the_first() {
    let broker = with_topic(1);
    let first = transactional(&broker, "id");
    first.begin_transaction().expect("begun");
    send(&first, "t", 0, "zombie").expect("delivered");
    let second = transactional(&broker, "id");
    let refused = first.commit_transaction(LONG).expect_err("it is fenced");
    assert_eq!(code(&refused), RDKafkaErrorCode::Fenced);
    commit_one(&second, "t", "ours");
    assert_eq!(committed_values(&broker), ["ours"]);
}

#[test]
fn a_transaction_ends_by_time_when_the_clock_is_moved() {
    let broker = with_topic(1);
    let sender = transactional(&broker, "id");
    sender.begin_transaction().expect("begun");
    send(&sender, "t", 0, "late").expect("delivered");
    broker.advance(Duration::from_secs(59));
    assert_eq!(read(&broker, "t", 1, "read_uncommitted"), ["late"]);
    send(&sender, "t", 0, "still open").expect("delivered");
    broker.advance(Duration::from_secs(2));
    let refused = sender.commit_transaction(LONG).expect_err("it was aborted");
    assert_eq!(code(&refused), RDKafkaErrorCode::Fenced);
    commit_one(&transactional(&broker, "id"), "t", "next");
    assert_eq!(committed_values(&broker), ["next"]);
}

#[test]
fn a_timeout_beyond_the_brokers_is_refused() {
    let broker = Broker::builder().transaction_max_timeout(Duration::from_secs(30)).start().expect("a broker");
    let sender = sender_with(&broker, &[("transactional.id", "id"), ("transaction.timeout.ms", "30001")]);
    let refused = sender.init_transactions(LONG).expect_err("too long");
    assert_eq!(code(&refused), RDKafkaErrorCode::InvalidTransactionTimeout);
    let sender = sender_with(&broker, &[("transactional.id", "id"), ("transaction.timeout.ms", "30000")]);
    sender.init_transactions(LONG).expect("the longest is allowed");
}

#[test]
fn positions_are_committed_with_the_transaction_or_not_at_all() {
    let broker = with_topic(1);
    let consumer = member(&broker, "g", "c");
    poll_until(&[&consumer], || consumer.assignment().expect("an assignment").count() == 1);
    let sender = transactional(&broker, "id");
    for (offset, commit) in [(5, true), (9, false)] {
        sender.begin_transaction().expect("begun");
        let token = consumer.group_metadata().expect("a member");
        sender.send_offsets_to_transaction(&at(offset), &token, LONG).expect("sent");
        let ended = if commit { sender.commit_transaction(LONG) } else { sender.abort_transaction(LONG) };
        ended.expect("ended");
        assert_eq!(position(&broker, "g"), Offset::Offset(5));
    }
}

#[test]
fn positions_of_an_open_transaction_are_unstable() {
    let broker = with_topic(1);
    let consumer = member(&broker, "g", "c");
    poll_until(&[&consumer], || consumer.assignment().expect("an assignment").count() == 1);
    let sender = transactional(&broker, "id");
    sender.begin_transaction().expect("begun");
    let token = consumer.group_metadata().expect("a member");
    sender.send_offsets_to_transaction(&at(5), &token, LONG).expect("sent");
    let stable = consumer_with(&broker, "g", &[]);
    let refused = stable.committed_offsets(at(0), Duration::from_millis(300)).expect_err("they are pending");
    assert_eq!(code(&refused), RDKafkaErrorCode::OperationTimedOut);
    let mut unstable = config(&broker);
    unstable.set("group.id", "g").set("isolation.level", "read_uncommitted");
    let unstable: rdkafka::consumer::BaseConsumer = unstable.create().expect("a consumer");
    let committed = unstable.committed_offsets(at(0), LONG).expect("positions");
    assert_eq!(committed.elements()[0].offset(), Offset::Invalid);
}
