//! What a folder keeps over kill and restart, and what memory does not.

use std::time::Duration;

use rdkafka::consumer::{CommitMode, Consumer};
use rdkafka::producer::Producer;
use rdkafka::topic_partition_list::Offset;
use tempfile::TempDir;
use wattle_broker::{ApiKey, Broker};

use crate::support::{
    LONG, all_values, assigned, at, commit_one, committed_values, member, poll_until, position, read, send, send_all,
    sender, sender_with, transactional, with_topic,
};

fn in_folder() -> (TempDir, Broker) {
    let folder = TempDir::new().expect("a folder");
    let broker = Broker::builder().folder(folder.path()).topic("t", 1).start().expect("a broker");
    (folder, broker)
}

#[test]
fn a_folder_keeps_what_was_acknowledged() {
    let (_folder, broker) = in_folder();
    let (id, address) = (broker.cluster_id(), broker.address());
    let sender = transactional(&broker, "id");
    commit_one(&sender, "t", "a");
    sender.begin_transaction().expect("begun");
    send(&sender, "t", 0, "aborted").expect("delivered");
    sender.abort_transaction(LONG).expect("aborted");
    let consumer = member(&broker, "g", "c");
    poll_until(&[&consumer], || assigned(&consumer) == 1);
    consumer.commit(&at(1), CommitMode::Sync).expect("committed");
    sender.begin_transaction().expect("begun");
    send(&sender, "t", 0, "open").expect("delivered");

    broker.kill();
    broker.restart().expect("started again");

    assert_eq!((broker.cluster_id(), broker.address()), (id, address));
    assert_eq!(committed_values(&broker), ["a"]);
    assert_eq!(all_values(&broker), ["a", "aborted", "open"]);
    assert_eq!(position(&broker, "g"), Offset::Offset(1));
    // The open transaction is open still: its producer can commit it, and did not notice but for the connection.
    sender.commit_transaction(LONG).expect("committed");
    assert_eq!(committed_values(&broker), ["a", "open"]);
}

#[test]
fn a_new_producer_aborts_what_was_open_before_the_kill() {
    let (_folder, broker) = in_folder();
    let sender = transactional(&broker, "id");
    sender.begin_transaction().expect("begun");
    send(&sender, "t", 0, "open").expect("delivered");
    broker.restart().expect("started again");
    let next = transactional(&broker, "id");
    commit_one(&next, "t", "next");
    assert_eq!(committed_values(&broker), ["next"]);
}

#[test]
fn an_idempotent_producer_goes_on_over_kills_without_loss_or_duplicates() {
    let (_folder, broker) = in_folder();
    let sender = sender_with(&broker, &[("enable.idempotence", "true")]);
    let mut expected = Vec::new();
    for round in 0..5 {
        // The first attempt is written and not acknowledged: the client has to send it again.
        let unanswered = broker.on(ApiKey::Produce).drop_answer();
        let values: Vec<String> = (0..100).map(|number| format!("{round}-{number}")).collect();
        let reports = send_all(&sender, "t", 0, values.iter().map(String::as_str));
        assert!(reports.iter().all(Result::is_ok));
        drop(unanswered);
        broker.restart().expect("started again");
        expected.extend(values);
    }
    assert_eq!(all_values(&broker), expected);
}

#[test]
fn members_stay_over_a_restart() {
    let (_folder, broker) = in_folder();
    let consumer = member(&broker, "g", "c");
    poll_until(&[&consumer], || assigned(&consumer) == 1);
    broker.restart().expect("started again");
    let (joins, beats) = (broker.on(ApiKey::JoinGroup).observe(), broker.on(ApiKey::Heartbeat).observe());
    poll_until(&[&consumer], || beats.fired() >= 2);
    assert_eq!(joins.remove(), 0);
}

#[test]
fn retention_goes_by_the_brokers_clock_and_deleted_records_stay_deleted() {
    let folder = TempDir::new().expect("a folder");
    let settings = [("retention.ms", "60000"), ("segment.ms", "1000")];
    let broker = Broker::builder().folder(folder.path()).topic_with("t", 1, settings).start().expect("a broker");
    let sender = sender(&broker);
    send(&sender, "t", 0, "old").expect("delivered");
    broker.advance(Duration::from_secs(30));
    send(&sender, "t", 0, "new").expect("delivered");
    assert_eq!(all_values(&broker), ["old", "new"]);
    broker.advance(Duration::from_secs(40));
    // Clients stamp with the machine's clock, which was not moved: what is old is old for the broker.
    broker.advance(Duration::from_secs(40));
    let left = all_values(&broker);
    assert!(!left.contains(&"old".to_owned()), "{left:?}");
    broker.restart().expect("started again");
    assert_eq!(all_values(&broker), left);
}

#[test]
fn memory_forgets() {
    let broker = with_topic(1);
    send(&sender(&broker), "t", 0, "a").expect("delivered");
    broker.restart().expect("started again");
    assert_eq!(read(&broker, "t", 1, "read_uncommitted"), [""; 0]);
}

#[test]
fn a_stopped_broker_answers_nothing_and_says_so() {
    let broker = with_topic(1);
    broker.stop();
    assert_eq!((broker.address(), broker.clients()), (String::new(), 0));
    broker.restart().expect("started again");
    send(&sender(&broker), "t", 0, "a").expect("delivered");
}
