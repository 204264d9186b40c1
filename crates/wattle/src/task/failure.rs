//! What becomes of a record that cannot be processed.

use crate::error::Error;
use crate::kafka::{Header, Record};
use crate::stage::{Message, StageError};
use crate::state::Due;

/// What stops a stream at a record for which there is no dead-letter topic.
pub fn failed_record(record: &Record<'_>, reason: &StageError) -> Error {
    Error::Record {
        task: record.partition,
        topic: record.topic.to_owned(),
        partition: record.partition,
        offset: record.offset,
        key: printable_key(record.key),
        reason: reason.to_string(),
    }
}

pub(super) fn unreadable_state(record: &Record<'_>, key: Option<&[u8]>, reason: &StageError) -> Error {
    Error::UnreadableState {
        task: record.partition,
        topic: record.topic.to_owned(),
        partition: record.partition,
        offset: record.offset,
        key: printable_key(key),
        reason: reason.to_string(),
    }
}

pub(super) fn timer_failed(task: i32, due: &Due, reason: &StageError) -> Error {
    let key = printable_key(Some(&due.key));
    Error::Timer { task, name: due.name.clone(), at: due.at, key, reason: reason.to_string() }
}

/// Keys help to find a record; long or binary ones do not.
pub(super) fn printable_key(key: Option<&[u8]>) -> Option<String> {
    let key = std::str::from_utf8(key?).ok()?;
    (key.len() <= 64 && !key.chars().any(char::is_control)).then(|| format!("{key:?}"))
}

/// The original record, unchanged, with headers behind its own that say what was wrong (`wattle.error`, and `wattle.stage` where the error tells) and
/// where it was (`wattle.topic`, `wattle.partition`, `wattle.offset`).
pub fn dead_letter<'a>(record: &Record<'a>, topic: &'a str, reason: &StageError) -> Message<'a> {
    let mut headers = record.headers.to_vec();
    let notes = [
        ("wattle.error", Some(reason.to_string())),
        ("wattle.stage", reason.stage().map(str::to_owned)),
        ("wattle.topic", Some(record.topic.to_owned())),
        ("wattle.partition", Some(record.partition.to_string())),
        ("wattle.offset", Some(record.offset.to_string())),
    ];
    let notes = notes.into_iter().filter_map(|(name, value)| Some((name, value?)));
    headers.extend(notes.map(|(name, value)| Header { name: name.to_owned(), value: Some(value.into_bytes()) }));
    Message::copy(record, topic).headers(headers)
}
