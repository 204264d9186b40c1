//! What goes into a driver and what comes out.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::kafka::{Header, Offset, Record};
use crate::stage::Sent;

/// A record for a [`StageDriver`](super::StageDriver): of partition 0, with null key and value, unless it says otherwise.
#[derive(Clone, Debug)]
#[must_use = "it does nothing until it is piped"]
pub struct TestRecord {
    pub(super) topic: String,
    pub(super) partition: i32,
    pub(super) offset: Option<i64>,
    timestamp: Option<i64>,
    key: Option<Vec<u8>>,
    value: Option<Vec<u8>>,
    headers: Vec<Header>,
}

impl TestRecord {
    /// A record of a topic.
    pub fn of(topic: impl Into<String>) -> Self {
        TestRecord {
            topic: topic.into(),
            partition: 0,
            offset: None,
            timestamp: None,
            key: None,
            value: None,
            headers: Vec::new(),
        }
    }

    /// Sets the key's bytes.
    pub fn key(mut self, key: impl AsRef<[u8]>) -> Self {
        self.key = Some(key.as_ref().to_vec());
        self
    }

    /// Sets the value's bytes.
    pub fn value(mut self, value: impl AsRef<[u8]>) -> Self {
        self.value = Some(value.as_ref().to_vec());
        self
    }

    /// Sets the value to the JSON text of `value`.
    ///
    /// # Panics
    /// Where `value` has no JSON form.
    pub fn json(mut self, value: &impl Serialize) -> Self {
        self.value = Some(serde_json::to_vec(value).expect("it has a JSON form"));
        self
    }

    /// Sets the partition.
    pub fn partition(mut self, partition: i32) -> Self {
        self.partition = partition;
        self
    }

    /// Sets the offset.
    pub fn offset(mut self, offset: i64) -> Self {
        self.offset = Some(offset);
        self
    }

    /// Sets the timestamp, in milliseconds since 1970-01-01T00:00:00Z.
    pub fn timestamp(mut self, millis: i64) -> Self {
        self.timestamp = Some(millis);
        self
    }

    /// Adds a header.
    pub fn header(mut self, name: impl Into<String>, value: impl AsRef<[u8]>) -> Self {
        self.headers.push(Header { name: name.into(), value: Some(value.as_ref().to_vec()) });
        self
    }

    pub(super) fn view(&self, offset: i64) -> Record<'_> {
        Record {
            topic: &self.topic,
            partition: self.partition,
            offset: Offset(offset),
            timestamp: self.timestamp,
            key: self.key.as_deref(),
            value: self.value.as_deref(),
            headers: &self.headers,
        }
    }
}

/// A message that a stage has sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TestMessage {
    /// Where it goes.
    pub topic: String,
    /// The partition, where the stage chose one.
    pub partition: Option<i32>,
    /// Milliseconds since 1970-01-01T00:00:00Z.
    pub timestamp: Option<i64>,
    /// The key's bytes; `None` is null.
    pub key: Option<Vec<u8>>,
    /// The value's bytes; `None` is a tombstone.
    pub value: Option<Vec<u8>>,
    /// The headers in their order.
    pub headers: Vec<Header>,
}

impl TestMessage {
    pub(super) fn of(sent: &Sent<'_>) -> Self {
        TestMessage {
            topic: sent.topic.to_owned(),
            partition: sent.partition,
            timestamp: sent.timestamp,
            key: sent.key.map(<[u8]>::to_vec),
            value: sent.value.map(<[u8]>::to_vec),
            headers: sent.headers.to_vec(),
        }
    }

    /// The value, read as JSON.
    ///
    /// # Errors
    /// Where it is null, or no such JSON.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_slice(self.value.as_deref().unwrap_or_default())
    }
}
