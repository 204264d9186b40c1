//! Faults on demand: each kind of hook does what it says, and a hook that did nothing fails its test.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;
use std::time::{Duration, Instant};

use rdkafka::error::RDKafkaErrorCode;
use rdkafka::producer::Producer;
use wattle_broker::{ApiKey, Broker, Code};

use crate::support::{
    LONG, all_values, commit_one, committed_values, read, send, send_all, sender, sender_with, transactional,
    with_topic,
};

#[test]
fn observe_counts_what_matches_and_changes_nothing() {
    let broker = Broker::builder().topic("t", 1).topic("other", 1).start().expect("a broker");
    let all = broker.on(ApiKey::Produce).observe();
    let topic = broker.on(ApiKey::Produce).matching("t").observe();
    let client = broker.on(ApiKey::Produce).client("me").observe();
    let later = broker.on(ApiKey::Produce).after(1).times(1).observe();
    let (me, somebody) = (sender_with(&broker, &[("client.id", "me")]), sender(&broker));
    for (sender, topic) in [(&me, "t"), (&somebody, "t"), (&somebody, "other")] {
        send(sender, topic, 0, "x").expect("delivered");
    }
    assert_eq!([all.fired(), topic.fired(), client.fired(), later.fired()], [3, 2, 1, 1]);
    assert_eq!(all_values(&broker), ["x", "x"]);
}

#[test]
fn a_delay_comes_before_or_after_the_handling() {
    let broker = with_topic(1);
    let sender = sender(&broker);
    let time = Duration::from_millis(150);
    let kinds = [broker.on(ApiKey::Produce).delay(time), broker.on(ApiKey::Produce).delay_answer(time)];
    let begun = Instant::now();
    send(&sender, "t", 0, "a").expect("delivered");
    assert!(begun.elapsed() >= time * 2, "both waited");
    assert_eq!(kinds.map(|hook| hook.remove()), [1, 1]);
}

#[test]
fn a_held_request_is_not_handled_and_a_held_answer_is() {
    let broker = with_topic(1);
    let sender = sender(&broker);
    for (is_handled, seen) in [(false, 0), (true, 2)] {
        let on = broker.on(ApiKey::Produce);
        let held = if is_handled { on.hold_answer() } else { on.hold() };
        thread::scope(|scope| {
            let sending = scope.spawn(|| send(&sender, "t", 0, "a"));
            assert!(held.wait_fired(1, LONG));
            assert_eq!(all_values(&broker).len(), seen);
            assert!(!sending.is_finished());
            held.release();
            sending.join().expect("it ends").expect("delivered");
        });
    }
}

#[test]
fn a_dropped_request_is_lost_and_a_dropped_answer_is_not() {
    let broker = with_topic(1);
    // Without idempotence a retry of what was handled is written twice.
    let sender = sender(&broker);
    let lost = broker.on(ApiKey::Produce).drop_request();
    send(&sender, "t", 0, "a").expect("sent again");
    drop(lost);
    assert_eq!(all_values(&broker), ["a"]);
    let unanswered = broker.on(ApiKey::Produce).drop_answer();
    send(&sender, "t", 0, "b").expect("sent again");
    drop(unanswered);
    assert_eq!(all_values(&broker), ["a", "b", "b"]);
}

#[test]
fn a_refusal_comes_instead_of_the_handling_or_after_it() {
    let broker = with_topic(1);
    let sender = sender(&broker);
    let code = Code::InvalidRecord;
    let instead = broker.on(ApiKey::Produce).refuse(code);
    assert_eq!(send(&sender, "t", 0, "a"), Err(RDKafkaErrorCode::InvalidRecord));
    let after = broker.on(ApiKey::Produce).refuse_afterwards(code);
    assert_eq!(send(&sender, "t", 0, "b"), Err(RDKafkaErrorCode::InvalidRecord));
    assert_eq!(all_values(&broker), ["b"]);
    assert_eq!([instead.remove(), after.remove()], [1, 1]);
}

#[test]
fn a_produce_request_can_be_refused_in_part() {
    let broker = with_topic(2);
    let sender = sender_with(&broker, &[("linger.ms", "100"), ("partitioner", "consistent")]);
    let refused = broker.on(ApiKey::Produce).refuse_partition("t", 1, Code::InvalidRecord);
    let first = send_all(&sender, "t", 0, ["a"]);
    let second = send_all(&sender, "t", 1, ["b"]);
    assert_eq!((first, second), (vec![Ok(0)], vec![Err(RDKafkaErrorCode::InvalidRecord)]));
    assert_eq!(read(&broker, "t", 2, "read_uncommitted"), ["a"]);
    drop(refused);
}

#[test]
fn a_coordinator_that_loads_is_asked_again() {
    let broker = with_topic(1);
    let loads = broker.on(ApiKey::InitProducerId).matching("id").times(3).refuse(Code::CoordinatorLoadInProgress);
    let sender = transactional(&broker, "id");
    assert_eq!(loads.fired(), 3);
    let ends = broker.on(ApiKey::EndTxn).matching("id").times(2).refuse(Code::CoordinatorLoadInProgress);
    commit_one(&sender, "t", "a");
    assert_eq!(ends.fired(), 2);
    assert_eq!(committed_values(&broker), ["a"]);
}

#[test]
fn a_commit_whose_answer_is_lost_is_committed_once() {
    let broker = with_topic(1);
    let sender = transactional(&broker, "id");
    let lost = broker.on(ApiKey::EndTxn).drop_answer();
    commit_one(&sender, "t", "a");
    drop(lost);
    assert_eq!(committed_values(&broker), ["a"]);
    sender.begin_transaction().expect("the next one can begin");
}

#[test]
fn a_hook_that_was_never_reached_fails_its_test() {
    let broker = with_topic(1);
    let hook = broker.on(ApiKey::EndTxn).drop_answer();
    let dropped = catch_unwind(AssertUnwindSafe(|| drop(hook)));
    assert!(dropped.is_err(), "dropping it panics");
    assert_eq!(broker.on(ApiKey::EndTxn).drop_answer().remove(), 0, "removing it does not");
    let never = catch_unwind(AssertUnwindSafe(|| broker.on(ApiKey::SaslHandshake)));
    assert!(never.is_err(), "what is not offered could never fire");
}
