//! How long outputs without a client that tries again do so.

use std::time::Duration;

use crate::yaml::Map;

/// When to give a write up that fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RetryPolicy {
    /// After so many repetitions, where it is set.
    pub(crate) count: Option<u64>,
    /// After so long, from the first failure on.
    pub(crate) timeout: Duration,
}

/// As long as Kafka's client tries to write a record.
const TIMEOUT: Duration = Duration::from_secs(300);

impl Default for RetryPolicy {
    fn default() -> Self {
        RetryPolicy { count: None, timeout: TIMEOUT }
    }
}

/// `retry_for` and the predecessor's `retry_count`.
pub(super) fn read(map: &mut Map) -> RetryPolicy {
    let timeout = map.get("retry_for").and_then(|field| field.duration()).unwrap_or(TIMEOUT);
    let count = map.get("retry_count").and_then(|field| field.number(u64::MAX));
    RetryPolicy { count, timeout }
}
