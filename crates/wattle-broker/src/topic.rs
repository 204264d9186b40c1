//! A topic's settings.

use std::collections::BTreeMap;

use crate::error::Error;

/// Parsed and checked. Defaults are Kafka's, where a single development node has no reason for others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TopicConfig {
    pub(crate) compact: bool,
    pub(crate) delete: bool,
    pub(crate) retention_ms: Option<i64>,
    pub(crate) retention_bytes: Option<u64>,
    pub(crate) segment_bytes: u64,
    pub(crate) segment_ms: i64,
    pub(crate) delete_retention_ms: i64,
    pub(crate) min_compaction_lag_ms: i64,
    pub(crate) max_message_bytes: usize,
    pub(crate) log_append_time: bool,
}

impl TopicConfig {
    /// From what was set, by Kafka's names (`cleanup.policy`, `retention.ms` …). A name or value that means nothing here is refused, or, where it
    /// cannot matter on one node (`min.insync.replicas` …), kept and shown.
    pub(crate) fn parse(_set: &BTreeMap<String, String>) -> Result<Self, Error> {
        todo!()
    }

    /// Every known setting with its default, by name, for DescribeConfigs.
    pub(crate) fn defaults() -> &'static [(&'static str, &'static str)] {
        todo!()
    }
}
