//! Records that a stage calls invalid: what becomes of them is its own decision.

use std::borrow::Cow;

use serde::Deserialize;
use wattle::testing::{StageDriver, TestRecord};
use wattle::{
    Codec, Error, Invalid, Message, Next, Offset, OnInvalid, Output, Part, Position, Record, StageError,
    StatefulTransformer, transformer,
};

/// Sums the numbers of each key; decides over what is none by `policy`.
struct Sum {
    policy: fn(&Invalid<'_>) -> OnInvalid,
}

#[derive(Deserialize)]
struct Number {
    n: i64,
    #[serde(default)]
    key: Option<String>,
}

impl StatefulTransformer for Sum {
    type State = i64;

    fn state_key<'a>(&self, record: &Record<'a>) -> Result<Cow<'a, [u8]>, StageError> {
        match record.json::<Number>() {
            Ok(Number { key: Some(key), .. }) => Ok(Cow::Owned(key.into_bytes())),
            Ok(_) => record.key_text().map(|key| Cow::Borrowed(key.as_bytes())),
            Err(error) => Err(error),
        }
    }

    fn on_invalid(&self, invalid: &Invalid<'_>) -> OnInvalid {
        (self.policy)(invalid)
    }

    async fn transform(
        &self,
        record: &Record<'_>,
        sum: Option<i64>,
        out: &mut Output,
    ) -> Result<Next<i64>, StageError> {
        let Number { n, .. } = record.json()?;
        if n < 0 {
            return Err(StageError::invalid(Part::Value, "it is below 0"));
        }
        let sum = sum.unwrap_or(0) + n;
        out.send(Message::to("sums").key(record.key).json(&sum)?);
        Ok(Next::Set(sum))
    }
}

fn driver(policy: fn(&Invalid<'_>) -> OnInvalid) -> StageDriver<wattle::Stateful<Sum>> {
    StageDriver::stateful(Sum { policy })
}

fn record(key: &str, value: &str) -> TestRecord {
    TestRecord::of("in").key(key).value(value)
}

fn substitute(text: &str) -> OnInvalid {
    OnInvalid::Substitute(Some(text.as_bytes().to_vec()))
}

#[test]
fn by_default_an_invalid_record_stops_its_task_and_is_named() {
    let mut driver = driver(|_| OnInvalid::Fail);
    let batch = [record("k", r#"{"n":1}"#), record("k", r#"{"n":"secret"}"#)];
    let error = driver.pipe_batch(batch).expect_err("no number");
    assert!(matches!(error, Error::Record { offset: Offset(1), .. }), "{error}");
    let text = error.to_string();
    assert!(text.contains("invalid value") && !text.contains("secret"), "{text}");
    assert_eq!((driver.take_messages().len(), driver.position("in", 0), driver.skipped()), (0, None, 0));
}

#[test]
fn a_skipped_record_commits_its_position_and_is_counted() {
    let mut driver = driver(|_| OnInvalid::Skip);
    let good = record("k", r#"{"n":1}"#);
    let batch = [record("k", "{not json"), good, TestRecord::of("in").value(r#"{"n":1}"#), record("k", r#"{"n":-1}"#)];
    driver.pipe_batch(batch).expect("passed over");
    assert_eq!((driver.take_messages().len(), driver.state(0, "k"), driver.skipped()), (1, Some(1), 3));
    assert_eq!(driver.position("in", 0), Some(Position(4)));
    // Null is no JSON.
    driver.pipe(TestRecord::of("in").key("k").offset(7)).expect("passed over");
    assert_eq!((driver.position("in", 0), driver.take_changes().len(), driver.skipped()), (Some(Position(8)), 1, 4));
}

/// A pipeline takes the last one. No reader takes the first, so that no two act on different ones.
#[test]
fn of_members_with_one_name_a_value_has_the_last_and_a_struct_refuses_them() {
    let text = r#"{"n":1,"n":2}"#;
    let mut driver = driver(|_| OnInvalid::Skip);
    driver.pipe_batch([record("k", text), record("k", r#"{"n":4}"#)]).expect("passed over");
    assert_eq!((driver.state(0, "k"), driver.skipped()), (Some(4), 1));
    let mut driver = StageDriver::new(transformer(|record, out| {
        let value: serde_json::Value = record.json()?;
        out.send(Message::to("out").key(None::<&[u8]>).json(&value["n"])?);
        Ok(())
    }));
    driver.pipe(record("k", text)).expect("it is JSON");
    assert_eq!(driver.take_messages()[0].value.as_deref(), Some(&b"2"[..]));
}

#[test]
fn a_value_that_is_nested_without_end_is_no_crash() {
    let mut driver = driver(|_| OnInvalid::Skip);
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let (used, ignored) = (format!("{{\"n\":{deep}}}"), format!("{{\"n\":1,\"a\":{deep}}}"));
    let batch = [record("k", r#"{"n":1}"#), record("k", &used), record("k", &ignored), record("k", r#"{"n":2}"#)];
    driver.pipe_batch(batch).expect("passed over");
    assert_eq!((driver.state(0, "k"), driver.skipped()), (Some(4), 1));
}

#[test]
fn a_substitute_is_processed_instead_and_says_whose_state_it_is() {
    let mut driver = driver(|invalid| match invalid.record.value {
        Some(b"twice") => substitute("{still not json"),
        Some(b"") => OnInvalid::Substitute(Some(Vec::new())),
        _ => substitute(r#"{"n":5,"key":"other"}"#),
    });
    driver.pipe_batch([record("k", "{not json"), record("k", r#"{"n":1}"#)]).expect("substituted");
    assert_eq!((driver.state(0, "other"), driver.state(0, "k")), (Some(5), Some(1)));
    let error = driver.pipe(record("k", "twice")).expect_err("invalid in its turn").to_string();
    assert!(error.contains("also its substitute"), "{error}");
    // An empty substitute is a value, not a decision to skip.
    driver.pipe(record("k", "")).expect_err("empty text is no JSON");
    assert_eq!(driver.skipped(), 0);
    // The record has its place among those of `k` already.
    let error = driver.pipe(record("k", r#"{"n":-1}"#)).expect_err("it would move to another state").to_string();
    assert!(error.contains("another state key"), "{error}");
}

#[test]
fn a_key_has_no_substitute() {
    let mut driver = driver(|invalid| {
        assert_eq!(invalid.part, Part::Key);
        substitute(r#"{"n":5}"#)
    });
    let error = driver.pipe(TestRecord::of("in").key([0xff]).value(r#"{"n":1}"#)).expect_err("not UTF-8").to_string();
    assert!(error.contains("a key has no substitute"), "{error}");
}

#[test]
fn what_fails_goes_to_the_dead_letter_topic_with_its_place() {
    let mut driver = driver(|invalid| if invalid.part == Part::Key { OnInvalid::Skip } else { OnInvalid::Fail })
        .dead_letter_topic("dead");
    driver.pipe_batch([record("k", "{not json"), TestRecord::of("in").value(r#"{"n":1}"#)]).expect("moved aside");
    let dead = driver.take_messages();
    assert_eq!((dead.len(), dead[0].topic.as_str(), dead[0].value.as_deref()), (1, "dead", Some(&b"{not json"[..])));
    let header = |name: &str| dead[0].headers.iter().find(|header| header.name == name).expect("a header");
    assert_eq!(header("wattle.topic").value.as_deref(), Some(&b"in"[..]));
    assert_eq!(header("wattle.partition").value.as_deref(), Some(&b"0"[..]));
    assert_eq!(header("wattle.offset").value.as_deref(), Some(&b"0"[..]));
    let reason = String::from_utf8_lossy(header("wattle.error").value.as_deref().expect("a text")).into_owned();
    assert!(reason.starts_with("invalid value"), "{reason}");
    assert_eq!((driver.skipped(), driver.position("in", 0)), (1, Some(Position(2))));
}

/// A state that its type writes and does not read, as one that another version has written.
struct Former(Vec<u8>);

impl Codec for Former {
    fn encode(&self, bytes: &mut Vec<u8>) -> Result<(), StageError> {
        bytes.extend_from_slice(&self.0);
        Ok(())
    }

    fn decode(_: &[u8]) -> Result<Self, StageError> {
        Err(StageError::new("it is of a former version"))
    }
}

struct Keeper;

impl StatefulTransformer for Keeper {
    type State = Former;

    async fn transform(
        &self,
        record: &Record<'_>,
        _: Option<Former>,
        _: &mut Output,
    ) -> Result<Next<Former>, StageError> {
        Ok(Next::Set(Former(record.value.unwrap_or_default().to_vec())))
    }
}

#[test]
fn a_state_that_cannot_be_read_stops_its_task_whatever_there_is_for_dead_letters() {
    let mut driver = StageDriver::stateful(Keeper).dead_letter_topic("dead");
    driver.pipe(record("k", "1")).expect("there is no state yet");
    let error = driver.pipe(record("k", "2")).expect_err("there is one");
    assert_eq!((error.code(), driver.position("in", 0)), (Some("W0019"), Some(Position(1))));
    let text = format!("{error:?}");
    for word in ["W0019: task 0", "in/0 offset 1", "state key \"k\"", "it is of a former version", "wattle reset"] {
        assert!(text.contains(word), "{word}: {text}");
    }
    assert!(driver.take_messages().is_empty(), "the record is not at fault");
}
