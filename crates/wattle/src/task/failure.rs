//! What becomes of a record that cannot be processed.

use crate::error::Error;
use crate::kafka::Record;
use crate::stage::StageError;
use crate::state::Due;

pub(super) fn failed(record: &Record<'_>, reason: &StageError) -> Error {
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
fn printable_key(key: Option<&[u8]>) -> Option<String> {
    let key = std::str::from_utf8(key?).ok()?;
    (key.len() <= 64 && !key.chars().any(char::is_control)).then(|| format!("{key:?}"))
}
