//! A topic's settings, by Kafka's names.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::str::FromStr;

use crate::error::Error;

/// Parsed and checked. Defaults are Kafka's, except that segments are 16 MiB instead of 1 GiB: what is compacted or retained is whole segments, and a
/// development node should show it with little data.
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
    pub(crate) max_compaction_lag_ms: i64,
    /// Of the log, as millionths.
    pub(crate) min_cleanable_dirty_ratio: u32,
    pub(crate) max_message_bytes: usize,
    pub(crate) log_append_time: bool,
    /// How far before and after the broker's time a record's may be.
    pub(crate) timestamp_before_max_ms: i64,
    pub(crate) timestamp_after_max_ms: i64,
}

const CLEANUP_POLICY: &str = "cleanup.policy";
const DELETE_RETENTION_MS: &str = "delete.retention.ms";
const MAX_COMPACTION_LAG_MS: &str = "max.compaction.lag.ms";
const MAX_MESSAGE_BYTES: &str = "max.message.bytes";
const TIMESTAMP_AFTER_MAX_MS: &str = "message.timestamp.after.max.ms";
const TIMESTAMP_BEFORE_MAX_MS: &str = "message.timestamp.before.max.ms";
const TIMESTAMP_TYPE: &str = "message.timestamp.type";
const MIN_CLEANABLE_DIRTY_RATIO: &str = "min.cleanable.dirty.ratio";
const MIN_COMPACTION_LAG_MS: &str = "min.compaction.lag.ms";
const RETENTION_BYTES: &str = "retention.bytes";
const RETENTION_MS: &str = "retention.ms";
const SEGMENT_BYTES: &str = "segment.bytes";
const SEGMENT_MS: &str = "segment.ms";

/// Name, default, and the values that mean something here.
const SETTINGS: &[(&str, &str, Values)] = &[
    (CLEANUP_POLICY, "delete", Values::Listed(&["compact", "delete"])),
    ("compression.gzip.level", "-1", Values::Any),
    ("compression.lz4.level", "9", Values::Any),
    ("compression.type", "producer", Values::OneOf(&["producer", "uncompressed", "gzip", "snappy", "lz4", "zstd"])),
    ("compression.zstd.level", "3", Values::Any),
    (DELETE_RETENTION_MS, "86400000", Values::Within(0..=i64::MAX)),
    ("file.delete.delay.ms", "60000", Values::Within(0..=i64::MAX)),
    ("flush.messages", "9223372036854775807", Values::Within(1..=i64::MAX)),
    ("flush.ms", "9223372036854775807", Values::Within(0..=i64::MAX)),
    ("follower.replication.throttled.replicas", "", Values::Any),
    ("index.interval.bytes", "4096", Values::Within(0..=i32::MAX as i64)),
    ("leader.replication.throttled.replicas", "", Values::Any),
    ("local.retention.bytes", "-2", Values::Within(-2..=i64::MAX)),
    ("local.retention.ms", "-2", Values::Within(-2..=i64::MAX)),
    (MAX_COMPACTION_LAG_MS, "9223372036854775807", Values::Within(1..=i64::MAX)),
    (MAX_MESSAGE_BYTES, "1048588", Values::Within(0..=i32::MAX as i64)),
    (TIMESTAMP_AFTER_MAX_MS, "3600000", Values::Within(0..=i64::MAX)),
    (TIMESTAMP_BEFORE_MAX_MS, "9223372036854775807", Values::Within(0..=i64::MAX)),
    (TIMESTAMP_TYPE, "CreateTime", Values::OneOf(&["CreateTime", "LogAppendTime"])),
    (MIN_CLEANABLE_DIRTY_RATIO, "0.5", Values::Ratio),
    (MIN_COMPACTION_LAG_MS, "0", Values::Within(0..=i64::MAX)),
    ("min.insync.replicas", "1", Values::Within(1..=i32::MAX as i64)),
    ("preallocate", "false", Values::OneOf(&["false", "true"])),
    ("remote.log.copy.disable", "false", Values::OneOf(&["false", "true"])),
    ("remote.log.delete.on.disable", "false", Values::OneOf(&["false", "true"])),
    ("remote.storage.enable", "false", Values::OneOf(&["false"])),
    (RETENTION_BYTES, "-1", Values::Within(-1..=i64::MAX)),
    (RETENTION_MS, "604800000", Values::Within(-1..=i64::MAX)),
    (SEGMENT_BYTES, "16777216", Values::Within(1..=i32::MAX as i64)),
    ("segment.index.bytes", "10485760", Values::Within(4..=i32::MAX as i64)),
    ("segment.jitter.ms", "0", Values::Within(0..=i64::MAX)),
    (SEGMENT_MS, "604800000", Values::Within(1..=i64::MAX)),
    ("unclean.leader.election.enable", "false", Values::OneOf(&["false", "true"])),
];

const DEFAULTS: [(&str, &str); SETTINGS.len()] = {
    let mut defaults = [("", ""); SETTINGS.len()];
    let mut at = 0;
    while at < SETTINGS.len() {
        defaults[at] = (SETTINGS[at].0, SETTINGS[at].1);
        at += 1;
    }
    defaults
};

enum Values {
    Any,
    OneOf(&'static [&'static str]),
    /// At least one of them, separated by commas.
    Listed(&'static [&'static str]),
    Within(RangeInclusive<i64>),
    /// From 0 to 1.
    Ratio,
}

impl TopicConfig {
    /// From what was set, by Kafka's names (`cleanup.policy`, `retention.ms` …). A name or value that means nothing here is refused, or, where it
    /// cannot matter on one node (`min.insync.replicas` …), kept and shown.
    pub(crate) fn parse(set: &BTreeMap<String, String>) -> Result<Self, Error> {
        for (name, value) in set {
            check(name, value)?;
        }
        let policy = get(set, CLEANUP_POLICY);
        let has = |wanted| policy.split(',').any(|one| one.trim() == wanted);
        let limit = |name| u64::try_from(number::<i64>(set, name)).ok();
        Ok(Self {
            compact: has("compact"),
            delete: has("delete"),
            retention_ms: limit(RETENTION_MS).and_then(|value| value.try_into().ok()),
            retention_bytes: limit(RETENTION_BYTES),
            segment_bytes: number(set, SEGMENT_BYTES),
            segment_ms: number(set, SEGMENT_MS),
            delete_retention_ms: number(set, DELETE_RETENTION_MS),
            min_compaction_lag_ms: number(set, MIN_COMPACTION_LAG_MS),
            max_compaction_lag_ms: number(set, MAX_COMPACTION_LAG_MS),
            min_cleanable_dirty_ratio: (number::<f64>(set, MIN_CLEANABLE_DIRTY_RATIO) * 1e6) as u32,
            max_message_bytes: number(set, MAX_MESSAGE_BYTES),
            log_append_time: get(set, TIMESTAMP_TYPE) == "LogAppendTime",
            timestamp_before_max_ms: number(set, TIMESTAMP_BEFORE_MAX_MS),
            timestamp_after_max_ms: number(set, TIMESTAMP_AFTER_MAX_MS),
        })
    }

    /// Every known setting with its default, by name, for DescribeConfigs.
    pub(crate) fn defaults() -> &'static [(&'static str, &'static str)] {
        &DEFAULTS
    }
}

fn check(name: &str, value: &str) -> Result<(), Error> {
    let refused = |reason| Error::Setting { name: name.to_owned(), value: value.to_owned(), reason };
    let Some((_, _, values)) = SETTINGS.iter().find(|(known, ..)| *known == name) else {
        return Err(refused(match nearest(name) {
            Some(known) => format!("no topic setting has this name; {known} is near"),
            None => {
                format!("no topic setting has this name; known are {}", DEFAULTS.map(|(known, _)| known).join(", "))
            }
        }));
    };
    let (fits, wanted) = match values {
        Values::Any => (true, String::new()),
        Values::OneOf(words) => (words.contains(&value), format!("one of {}", words.join(", "))),
        Values::Listed(words) => (
            value.split(',').all(|one| words.contains(&one.trim())),
            format!("some of {}, with commas", words.join(", ")),
        ),
        Values::Within(range) => (
            value.parse().is_ok_and(|number| range.contains(&number)),
            format!("a whole number from {} to {}", range.start(), range.end()),
        ),
        Values::Ratio => (value.parse().is_ok_and(|ratio| (0.0..=1.0).contains(&ratio)), "a number from 0 to 1".into()),
    };
    if fits { Ok(()) } else { Err(refused(format!("the value has to be {wanted}"))) }
}

fn get<'a>(set: &'a BTreeMap<String, String>, name: &str) -> &'a str {
    let default = || SETTINGS.iter().find(|(known, ..)| *known == name).map_or("", |(_, default, _)| *default);
    set.get(name).map_or_else(default, |value| value)
}

fn number<T: FromStr<Err: std::fmt::Debug>>(set: &BTreeMap<String, String>, name: &str) -> T {
    get(set, name).parse().expect("values and defaults were checked")
}

/// The known name that a few typing errors could have made of.
fn nearest(name: &str) -> Option<&'static str> {
    let near = SETTINGS.iter().map(|(known, ..)| (distance(name, known), *known)).min()?;
    (near.0 <= 1 + near.1.len() / 5).then_some(near.1)
}

/// How many characters have to be inserted, removed or replaced.
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.chars().count()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, to) in b.chars().enumerate() {
            let replaced = diagonal + usize::from(from != to);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[row.len() - 1]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(set: &[(&str, &str)]) -> Result<TopicConfig, Error> {
        TopicConfig::parse(&set.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect())
    }

    #[test]
    fn every_default_is_a_value_that_may_be_set() {
        let defaults = TopicConfig::defaults();
        assert_eq!(parse(defaults).unwrap(), parse(&[]).unwrap());
        assert!(defaults.is_sorted());
    }

    #[test]
    fn what_is_set_acts() {
        let config = parse(&[
            ("cleanup.policy", "compact, delete"),
            ("retention.ms", "-1"),
            ("retention.bytes", "7"),
            ("min.cleanable.dirty.ratio", "0.01"),
            ("message.timestamp.type", "LogAppendTime"),
            ("min.insync.replicas", "2"),
        ]);
        let config = config.unwrap();
        assert!(config.compact && config.delete && config.log_append_time);
        assert_eq!((config.retention_ms, config.retention_bytes), (None, Some(7)));
        assert_eq!(config.min_cleanable_dirty_ratio, 10_000);
    }

    #[test]
    fn what_means_nothing_is_refused_with_what_would() {
        for (name, value, said) in [
            ("retention.m", "1", "retention.ms is near"),
            ("cleanup.polcy", "compact", "cleanup.policy is near"),
            ("colour", "blue", "known are cleanup.policy, "),
            ("cleanup.policy", "", "some of compact, delete"),
            ("cleanup.policy", "compact,x", "some of compact, delete"),
            ("retention.ms", "-2", "from -1 to"),
            ("segment.bytes", "1e6", "a whole number from 1 to 2147483647"),
            ("min.cleanable.dirty.ratio", "1.1", "a number from 0 to 1"),
            ("min.cleanable.dirty.ratio", "NaN", "a number from 0 to 1"),
            ("message.timestamp.type", "createtime", "one of CreateTime, LogAppendTime"),
            ("remote.storage.enable", "true", "one of false"),
        ] {
            let error = parse(&[(name, value)]).unwrap_err().to_string();
            assert!(error.contains(said) && error.contains(name), "{error}");
        }
    }
}
