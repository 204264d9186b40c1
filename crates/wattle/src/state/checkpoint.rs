//! How far in its changelog a store reaches, and when it is not to be trusted any more.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::kafka::Position;

/// What a store knows of its changelog partition: everything below `position` is in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Checkpoint {
    /// Of the changelog: the next record to read.
    pub(crate) position: Position,
    /// Nobody else had written to the changelog partition behind `position` at this time, in milliseconds since 1970. What has been written since may have
    /// been compacted away, tombstones too, once it is older than the topic's `delete.retention.ms`.
    pub(crate) owned_until: i64,
}

/// Positions behind the last records of a transaction in the changelog, by partition, as the broker has told them.
pub(crate) type Ends = BTreeMap<i32, Position>;

impl Checkpoint {
    /// Why a store with this checkpoint does not lead to the state by reading on from there; `None` where it does. `low` and `high` are the
    /// ends of the changelog partition now.
    pub(crate) fn distrust(self, low: i64, high: i64, delete_retention: Duration, now: i64) -> Option<String> {
        let Checkpoint { position, owned_until } = self;
        if position.0 < low {
            return Some(format!("it reaches to {position} of the changelog, whose first record is {low} now"));
        }
        if position.0 > high {
            return Some(format!("it reaches to {position} of the changelog, which ends at {high}"));
        }
        let age = now.saturating_sub(owned_until);
        self.is_stale(delete_retention, now).then(|| {
            format!(
                "it was left {} s ago, longer than half of the changelog's delete.retention.ms ({} ms): deletes may have been compacted away",
                age / 1000,
                delete_retention.as_millis()
            )
        })
    }

    /// Whether a delete that was written since may be gone together with what it deletes. Half of the time, since reading takes time too.
    pub(crate) fn is_stale(self, delete_retention: Duration, now: i64) -> bool {
        let age = i128::from(now) - i128::from(self.owned_until);
        age > i128::try_from(delete_retention.as_millis() / 2).unwrap_or(i128::MAX)
    }
}

/// Milliseconds since 1970.
pub(crate) fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_secs(24 * 3600);
    const CHECKPOINT: Checkpoint = Checkpoint { position: Position(10), owned_until: 1_000 };

    #[test]
    fn a_checkpoint_within_the_log_is_trusted() {
        for (low, high) in [(0, 10), (10, 10), (3, 99)] {
            assert_eq!(CHECKPOINT.distrust(low, high, DAY, 2_000), None);
        }
    }

    #[test]
    fn a_log_that_begins_behind_the_checkpoint_has_lost_records_of_it() {
        assert!(CHECKPOINT.distrust(11, 20, DAY, 2_000).is_some_and(|why| why.contains("first record is 11")));
    }

    #[test]
    fn a_log_that_ends_before_the_checkpoint_is_another_one() {
        assert!(CHECKPOINT.distrust(0, 9, DAY, 2_000).is_some_and(|why| why.contains("ends at 9")));
    }

    #[test]
    fn a_store_that_was_left_for_half_of_the_delete_retention_may_miss_deletes() {
        let half = 12 * 3600 * 1000;
        assert_eq!(CHECKPOINT.distrust(0, 20, DAY, 1_000 + half), None);
        assert!(CHECKPOINT.distrust(0, 20, DAY, 1_001 + half).is_some_and(|why| why.contains("delete.retention.ms")));
    }
}
