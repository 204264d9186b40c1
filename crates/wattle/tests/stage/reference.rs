//! What a product before this one promised of a stage, in its order.

use std::borrow::Cow;

use wattle::testing::{StageDriver, TestRecord};
use wattle::{
    Error, Message, Next, Offset, Output, Position, Record, StageError, Stateful, StatefulTransformer, transformer,
};

/// Counts the records of each key. The record's value says what to do with the count.
struct Counter;

impl StatefulTransformer for Counter {
    type State = u64;

    /// The part of the key before a slash.
    fn state_key<'a>(&self, record: &Record<'a>) -> Result<Cow<'a, [u8]>, StageError> {
        let key = record.key_text()?;
        Ok(Cow::Borrowed(key.split('/').next().unwrap_or(key).as_bytes()))
    }

    async fn transform(
        &self,
        record: &Record<'_>,
        count: Option<u64>,
        out: &mut Output,
    ) -> Result<Next<u64>, StageError> {
        let mut count = count.unwrap_or(0);
        count += 1;
        out.send(Message::to("out").key(record.key).json(&count)?);
        match record.value {
            Some(b"forget") => Ok(Next::Keep),
            Some(b"delete") => Ok(Next::Delete),
            Some(b"fail") => Err(StageError::new("user code")),
            _ => Ok(Next::Set(count)),
        }
    }
}

fn record(key: &str) -> TestRecord {
    TestRecord::of("in").key(key)
}

fn counts(driver: &mut StageDriver<Stateful<Counter>>) -> Vec<u64> {
    driver.take_messages().iter().map(|message| message.json().expect("a count")).collect()
}

#[test]
fn a_batch_of_five_records_sends_five_messages_and_commits_behind_the_last() {
    let mut driver = StageDriver::stateful(Counter);
    driver.pipe_batch((0..5).map(|n| record(&format!("k{n}")))).expect("good records");
    assert_eq!((counts(&mut driver).len(), driver.position("in", 0)), (5, Some(Position(5))));
    driver.pipe_batch([10, 11, 12].map(|offset| record("k").offset(offset))).expect("good records");
    assert_eq!(driver.position("in", 0), Some(Position(13)));
}

#[test]
fn a_key_twice_in_a_batch_sees_its_first_state_and_is_written_once() {
    let mut driver = StageDriver::stateful(Counter);
    driver.pipe_batch([record("k"), record("k")]).expect("good records");
    assert_eq!(counts(&mut driver), [1, 2]);
    let changes = driver.take_changes();
    assert_eq!((changes.len(), changes[0].json::<u64>().expect("a count"), changes[0].partition), (1, 2, Some(0)));
}

#[test]
fn a_key_on_two_partitions_has_two_counts_and_two_positions() {
    let mut driver = StageDriver::stateful(Counter);
    driver.pipe_batch([record("k").offset(5), record("k").partition(1).offset(9)]).expect("good records");
    assert_eq!((driver.state(0, "k"), driver.state(1, "k")), (Some(1), Some(1)));
    assert_eq!((driver.position("in", 0), driver.position("in", 1)), (Some(Position(6)), Some(Position(10))));
}

#[test]
fn what_is_changed_and_not_returned_is_forgotten() {
    let mut driver = StageDriver::stateful(Counter).with_state(0, "k", &1);
    driver.pipe_batch([record("k").value("forget"), record("k").value("forget")]).expect("good records");
    assert_eq!((counts(&mut driver), driver.state(0, "k"), driver.take_changes().len()), (vec![2, 2], Some(1), 0));
    driver.pipe(record("k")).expect("a good record");
    assert_eq!(driver.state(0, "k"), Some(2), "what is returned is kept");
}

#[test]
fn a_deleted_state_is_a_tombstone_and_one_that_was_never_there_is_nothing() {
    let mut driver = StageDriver::stateful(Counter).with_state(0, "k", &1);
    driver.pipe_batch([record("k").value("delete"), record("absent").value("delete")]).expect("good records");
    let changes = driver.take_changes();
    assert_eq!((changes.len(), changes[0].key.as_deref(), changes[0].value.as_deref()), (1, Some(&b"k"[..]), None));
}

#[test]
fn a_stage_without_state_writes_none() {
    let mut driver = StageDriver::new(transformer(|record, out| {
        out.send(Message::copy(record, "out"));
        Ok(())
    }));
    driver.pipe(record("k")).expect("a good record");
    assert_eq!((driver.take_messages().len(), driver.take_changes().len()), (1, 0));
}

#[test]
fn a_state_key_of_ones_own_says_whose_state_it_is() {
    let mut driver = StageDriver::stateful(Counter);
    driver.pipe_batch(["f1/a", "f1/b", "f2/a"].map(record)).expect("good records");
    assert_eq!((counts(&mut driver), driver.state(0, "f1"), driver.state(0, "f2")), (vec![1, 2, 1], Some(2), Some(1)));
}

#[test]
fn an_error_of_user_code_leaves_the_run_with_its_record() {
    let mut driver = StageDriver::stateful(Counter);
    let error = driver.pipe_batch([record("k"), record("k").value("fail")]).expect_err("it fails");
    assert!(matches!(&error, Error::Record { offset: Offset(1), reason, .. } if reason == "user code"), "{error}");
}
