//! Records whose key or value is not what a stage expects: how it says so, and what it wants to become of them.

use serde::Deserialize;

use super::StageError;
use super::codec::json_problem;
use crate::kafka::Record;

/// A part of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Part {
    Key,
    Value,
}

/// A record that a stage has called invalid.
#[derive(Clone, Copy, Debug)]
pub struct Invalid<'a> {
    /// The record, as it was read.
    pub record: Record<'a>,
    /// Which part of it.
    pub part: Part,
    /// Why.
    pub reason: &'a StageError,
}

/// What becomes of an invalid record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OnInvalid {
    /// As with every record that cannot be processed: it stops the worker, or goes to the dead-letter topic where one is set.
    Fail,
    /// It is passed over: its position commits, and it is counted and logged.
    Skip,
    /// The record is processed with this value instead. A key has no substitute: it says whose state the record is about.
    Substitute(Option<Vec<u8>>),
}

impl<'a> Record<'a> {
    /// The value, read as JSON. Null is no JSON.
    ///
    /// # Errors
    /// [`StageError::invalid`] about the value, without quoting it.
    pub fn json<T: Deserialize<'a>>(&self) -> Result<T, StageError> {
        let bytes = self.value.ok_or_else(|| StageError::invalid(Part::Value, "it is null"))?;
        serde_json::from_slice(bytes).map_err(|error| StageError::invalid(Part::Value, json_problem(&error)))
    }

    /// The key as text.
    ///
    /// # Errors
    /// [`StageError::invalid`] about a key that is null or not UTF-8.
    pub fn key_text(&self) -> Result<&'a str, StageError> {
        let bytes = self.key.ok_or_else(|| StageError::invalid(Part::Key, "it is null"))?;
        std::str::from_utf8(bytes).map_err(|_| StageError::invalid(Part::Key, "it is not UTF-8"))
    }
}
