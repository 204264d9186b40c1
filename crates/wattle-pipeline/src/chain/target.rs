//! A record as a VRL program sees it: `.` is the decoded value; `%key`, `%timestamp`, `%headers` can be read and written,
//! `%topic`, `%partition`, `%offset` can be read. What no program touches is never built.

use std::cell::OnceCell;

use chrono::{DateTime, Utc};
use vrl::compiler::{SecretTarget, Target};
use vrl::path::{OwnedSegment, OwnedTargetPath, PathPrefix};
use vrl::prelude::{Bytes, KeyString, ObjectMap, Value};
use wattle::{Header, Message, Record, StageError};

use super::json;

/// The names behind `%`.
pub(super) const METADATA: [&str; 6] = ["key", "timestamp", "headers", "topic", "partition", "offset"];
/// Those of them that no program may change.
pub(super) const READ_ONLY: [&str; 3] = ["topic", "partition", "offset"];

#[derive(Debug)]
pub(super) struct RecordTarget<'a> {
    record: &'a Record<'a>,
    /// `None` until a program needs it.
    value: Option<Value>,
    metadata: OnceCell<Value>,
    written: Written,
}

/// What programs changed. The rest is copied from the input record, byte for byte.
#[derive(Clone, Copy, Debug, Default)]
#[allow(clippy::struct_excessive_bools)]
struct Written {
    value: bool,
    key: bool,
    timestamp: bool,
    headers: bool,
}

impl<'a> RecordTarget<'a> {
    pub(super) fn new(record: &'a Record<'a>) -> Self {
        RecordTarget { record, value: None, metadata: OnceCell::new(), written: Written::default() }
    }

    /// Decodes the value, before a program that uses it. A null value is null.
    pub(super) fn decode(&mut self) -> Result<(), StageError> {
        if self.value.is_none() {
            self.value = Some(self.record.value.map(json::decode).transpose()?.unwrap_or(Value::Null));
        }
        Ok(())
    }

    /// Checks that the value is JSON. A null value is.
    pub(super) fn check(&self) -> Result<(), StageError> {
        match (&self.value, self.record.value) {
            (None, Some(value)) => Ok(json::check(value)?),
            _ => Ok(()),
        }
    }

    /// The decoded value.
    pub(super) fn value(&self) -> &Value {
        self.value.as_ref().unwrap_or(&Value::Null)
    }

    /// The decoded value, to be changed.
    pub(super) fn value_mut(&mut self) -> Option<&mut Value> {
        self.written.value = true;
        self.value.as_mut()
    }

    /// The same record with another value.
    pub(super) fn part(&self, value: Value) -> Self {
        let written = Written { value: true, ..self.written };
        RecordTarget { record: self.record, value: Some(value), metadata: self.metadata.clone(), written }
    }

    /// Writes the value to `text` where programs changed it.
    pub(super) fn encode(&self, text: &mut Vec<u8>) -> Result<(), StageError> {
        text.clear();
        match &self.value {
            Some(value) if self.written.value => Ok(json::encode(value, text)?),
            _ => Ok(()),
        }
    }

    /// The record with all changes of the value, as a message to `topic`. `text` is what [`RecordTarget::encode`] wrote.
    pub(super) fn message<'m>(&self, topic: &'m str, text: &'m [u8]) -> Message<'m>
    where
        'a: 'm,
    {
        let message = Message::copy(self.record, topic);
        match &self.value {
            _ if !self.written.value => message,
            None | Some(Value::Null) => message.value(None),
            Some(_) => message.value(Some(text)),
        }
    }

    /// Sets on `message` what programs wrote to `%`.
    pub(super) fn write_metadata<'m>(&'m self, mut message: Message<'m>) -> Result<Message<'m>, StageError> {
        let Some(Value::Object(metadata)) = self.metadata.get() else { return Ok(message) };
        if self.written.key {
            message = match metadata.get("key") {
                None | Some(Value::Null) => message.key(None),
                Some(Value::Bytes(key)) => message.key(Some(&key[..])),
                Some(other) => return Err(wrong("%key", "a string or null", other)),
            };
        }
        if self.written.timestamp {
            let time = metadata.get("timestamp").unwrap_or(&Value::Null);
            let Value::Timestamp(time) = time else { return Err(wrong("%timestamp", "a timestamp", time)) };
            if time.timestamp_millis() < 0 {
                return Err(StageError::new("%timestamp lies before 1970, which Kafka cannot store"));
            }
            message = message.timestamp(time.timestamp_millis());
        }
        if self.written.headers {
            let headers = metadata.get("headers").unwrap_or(&Value::Null);
            let Value::Array(headers) = headers else {
                return Err(wrong("%headers", "an array of {name, value}", headers));
            };
            message = message.headers(headers.iter().enumerate().map(header).collect::<Result<Vec<_>, _>>()?);
        }
        Ok(message)
    }

    /// Changes the key.
    pub(super) fn set_key(&mut self, key: Value) {
        self.written.key = true;
        if let Value::Object(metadata) = self.metadata_mut() {
            metadata.insert("key".into(), key);
        }
    }

    fn metadata(&self) -> &Value {
        self.metadata.get_or_init(|| metadata(self.record))
    }

    fn metadata_mut(&mut self) -> &mut Value {
        self.metadata();
        self.metadata.get_mut().expect("set in the line above")
    }

    fn mark(&mut self, path: &OwnedTargetPath) {
        match (path.prefix, path.path.segments.first()) {
            (PathPrefix::Event, _) => self.written.value = true,
            (PathPrefix::Metadata, Some(OwnedSegment::Field(name))) => match &**name {
                "key" => self.written.key = true,
                "timestamp" => self.written.timestamp = true,
                "headers" => self.written.headers = true,
                _ => {}
            },
            (PathPrefix::Metadata, _) => {}
        }
    }
}

fn metadata(record: &Record<'_>) -> Value {
    let bytes = |bytes: &[u8]| Value::Bytes(Bytes::copy_from_slice(bytes));
    let headers = record.headers.iter().map(|header| {
        let value = header.value.as_deref().map_or(Value::Null, bytes);
        object([("name", bytes(header.name.as_bytes())), ("value", value)])
    });
    let timestamp = record.timestamp.and_then(DateTime::<Utc>::from_timestamp_millis);
    object([
        ("headers", Value::Array(headers.collect())),
        ("key", record.key.map_or(Value::Null, bytes)),
        ("offset", Value::Integer(record.offset.0)),
        ("partition", Value::Integer(record.partition.into())),
        ("timestamp", timestamp.map_or(Value::Null, Value::Timestamp)),
        ("topic", bytes(record.topic.as_bytes())),
    ])
}

fn object<const N: usize>(members: [(&str, Value); N]) -> Value {
    Value::Object(members.into_iter().map(|(name, value)| (KeyString::from(name), value)).collect::<ObjectMap>())
}

fn header((index, value): (usize, &Value)) -> Result<Header, StageError> {
    let refused =
        || StageError::new(format!("%headers[{index}] must have a name (string) and a value (string or null)"));
    let Value::Object(members) = value else { return Err(refused()) };
    let (Some(Value::Bytes(name)), Some(value), 2) = (members.get("name"), members.get("value"), members.len()) else {
        return Err(refused());
    };
    let value = match value {
        Value::Null => None,
        Value::Bytes(value) => Some(value.to_vec()),
        _ => return Err(refused()),
    };
    Ok(Header { name: String::from_utf8(name.to_vec()).map_err(|_| refused())?, value })
}

fn wrong(what: &str, expected: &str, found: &Value) -> StageError {
    StageError::new(format!("{what} must be {expected}, not {}", found.kind_str()))
}

impl Target for RecordTarget<'_> {
    fn target_insert(&mut self, path: &OwnedTargetPath, value: Value) -> Result<(), String> {
        self.mark(path);
        match path.prefix {
            PathPrefix::Event => self.value.get_or_insert(Value::Null).insert(&path.path, value),
            PathPrefix::Metadata => self.metadata_mut().insert(&path.path, value),
        };
        Ok(())
    }

    fn target_get(&self, path: &OwnedTargetPath) -> Result<Option<&Value>, String> {
        Ok(match path.prefix {
            // The runtime asks for the root of every record, and does not look at it.
            PathPrefix::Event => self.value.as_ref().unwrap_or(&Value::Null).get(&path.path),
            PathPrefix::Metadata => self.metadata().get(&path.path),
        })
    }

    fn target_get_mut(&mut self, path: &OwnedTargetPath) -> Result<Option<&mut Value>, String> {
        self.mark(path);
        Ok(match path.prefix {
            PathPrefix::Event => self.value.get_or_insert(Value::Null).get_mut(&path.path),
            PathPrefix::Metadata => self.metadata_mut().get_mut(&path.path),
        })
    }

    fn target_remove(&mut self, path: &OwnedTargetPath, compact: bool) -> Result<Option<Value>, String> {
        let removed = match path.prefix {
            PathPrefix::Event => self.value.get_or_insert(Value::Null).remove(&path.path, compact),
            PathPrefix::Metadata => self.metadata_mut().remove(&path.path, compact),
        };
        if removed.is_some() {
            self.mark(path);
        }
        Ok(removed)
    }
}

/// Programs have no secrets here; the trait is part of [`Target`].
impl SecretTarget for RecordTarget<'_> {
    fn get_secret(&self, _key: &str) -> Option<&str> {
        None
    }

    fn insert_secret(&mut self, _key: &str, _value: &str) {}

    fn remove_secret(&mut self, _key: &str) {}
}
