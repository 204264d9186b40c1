//! How a log is kept.

use std::time::Duration;

use crate::error::Error;
use crate::segment;

/// When an entry is told to be accepted. With each of them it is behind the end of the process then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SyncMode {
    /// When it is on the disk, with a sync of its own.
    PerEntry,
    /// When it is on the disk; entries that come while a sync is under way share the next one.
    GroupCommit,
    /// When the system has it. It is synced to the disk after at most this time: what a loss of power may cost. Entries are processed before that.
    Periodic(Duration),
}

/// How a log is kept.
#[derive(Clone, Debug)]
pub struct Options {
    /// When an entry is accepted.
    pub sync: SyncMode,
    /// The most bytes on disk. At least two segments.
    pub max_bytes: u64,
    /// The bytes of a segment, which is what is deleted at once. An entry fits into one.
    pub segment_bytes: u64,
}

impl Default for Options {
    /// `group_commit`, 1 GiB in segments of 32 MiB.
    fn default() -> Self {
        Options { sync: SyncMode::GroupCommit, max_bytes: 1 << 30, segment_bytes: 32 << 20 }
    }
}

/// Below that a segment is mostly its own overhead.
const SMALLEST_SEGMENT: u64 = 4 << 10;
/// Places in a segment have 32 bits.
const LARGEST_SEGMENT: u64 = 1 << 30;

impl Options {
    /// Everything that is wrong with them, each with what to do; empty where they are right.
    #[must_use]
    pub fn problems(&self) -> Vec<String> {
        let Options { sync, max_bytes, segment_bytes } = self;
        let mut problems = Vec::new();
        if !(SMALLEST_SEGMENT..=LARGEST_SEGMENT).contains(segment_bytes) {
            problems.push(format!(
                "segment_bytes is {segment_bytes}: it must be between {SMALLEST_SEGMENT} and {LARGEST_SEGMENT}"
            ));
        }
        if *max_bytes < segment_bytes.saturating_mul(2) {
            problems.push(format!(
                "max_bytes is {max_bytes} with segment_bytes {segment_bytes}: it must hold two segments, since a segment is deleted as a whole"
            ));
        }
        if *sync == SyncMode::Periodic(Duration::ZERO) {
            problems.push("periodic is 0: give the time between two syncs, or use group_commit".to_owned());
        }
        problems
    }

    pub(crate) fn check(&self) -> Result<(), Error> {
        let problems = self.problems();
        if problems.is_empty() { Ok(()) } else { Err(Error::Options { problems }) }
    }

    /// The longest entry.
    pub(crate) fn longest(&self) -> u64 {
        self.segment_bytes - segment::OVERHEAD
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_problems_are_told_at_once() {
        assert_eq!(Options::default().problems(), [""; 0]);
        let options = Options { sync: SyncMode::Periodic(Duration::ZERO), max_bytes: 10, segment_bytes: 10 };
        let problems = options.problems();
        for (problem, word) in problems.iter().zip(["segment_bytes", "max_bytes", "periodic"]) {
            assert!(problem.starts_with(word), "{problem}");
        }
        assert_eq!(problems.len(), 3);
    }
}
