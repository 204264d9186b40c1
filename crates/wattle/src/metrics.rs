//! Counters of one stream, kept from its start. The one place that an exporter reads.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use hdrhistogram::Histogram;

/// Counts what a stream did. Every method may be called from any thread.
#[derive(Debug)]
pub struct Metrics {
    records: AtomicU64,
    messages: AtomicU64,
    dead_letters: AtomicU64,
    skipped: AtomicU64,
    batches: AtomicU64,
    aborts: AtomicU64,
    restarts: AtomicU64,
    /// Microseconds of a commit, from the first send to the commit's answer.
    commit: Mutex<Histogram<u64>>,
}

/// The counters at one moment.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Snapshot {
    /// Input records whose position is committed.
    pub records: u64,
    /// Messages committed, without dead letters.
    pub messages: u64,
    /// Records moved to the dead-letter topic.
    pub dead_letters: u64,
    /// Records passed over, since the stage wanted it so of what is invalid.
    pub skipped: u64,
    /// Batches committed; with exactly-once delivery each is a transaction.
    pub batches: u64,
    /// Batches aborted; each ran again from memory.
    pub aborts: u64,
    /// Lanes that started again with a new producer.
    pub restarts: u64,
    /// Median time of a commit, from the first send to the commit's answer; zero without commits.
    pub commit_p50: Duration,
    /// 99th percentile of the same.
    pub commit_p99: Duration,
}

/// In microseconds; a commit that takes longer counts as this long.
const HOUR: u64 = 3_600_000_000;

impl Default for Metrics {
    fn default() -> Self {
        Metrics {
            records: AtomicU64::new(0),
            messages: AtomicU64::new(0),
            dead_letters: AtomicU64::new(0),
            skipped: AtomicU64::new(0),
            batches: AtomicU64::new(0),
            aborts: AtomicU64::new(0),
            restarts: AtomicU64::new(0),
            commit: Mutex::new(Histogram::new_with_bounds(1, HOUR, 2).expect("legal bounds and number of digits")),
        }
    }
}

impl Metrics {
    /// A batch was committed.
    pub fn batch(&self, records: usize, messages: usize, dead_letters: usize, took: Duration) {
        self.records.fetch_add(records as u64, Relaxed);
        self.messages.fetch_add(messages as u64, Relaxed);
        self.dead_letters.fetch_add(dead_letters as u64, Relaxed);
        self.batches.fetch_add(1, Relaxed);
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.commit.lock().unwrap_or_else(PoisonError::into_inner).saturating_record(micros);
    }

    /// Records of a committed batch were passed over.
    pub fn skipped(&self, records: usize) {
        self.skipped.fetch_add(records as u64, Relaxed);
    }

    /// A batch was aborted and will run again.
    pub fn abort(&self) {
        self.aborts.fetch_add(1, Relaxed);
    }

    /// A lane starts again with a new producer.
    pub fn restart(&self) {
        self.restarts.fetch_add(1, Relaxed);
    }

    /// The counters now.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        let commit = self.commit.lock().unwrap_or_else(PoisonError::into_inner);
        Snapshot {
            records: self.records.load(Relaxed),
            messages: self.messages.load(Relaxed),
            dead_letters: self.dead_letters.load(Relaxed),
            skipped: self.skipped.load(Relaxed),
            batches: self.batches.load(Relaxed),
            aborts: self.aborts.load(Relaxed),
            restarts: self.restarts.load(Relaxed),
            commit_p50: Duration::from_micros(commit.value_at_quantile(0.5)),
            commit_p99: Duration::from_micros(commit.value_at_quantile(0.99)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commits_are_counted_and_timed() {
        let metrics = Metrics::default();
        metrics.batch(10, 8, 2, Duration::from_millis(4));
        metrics.batch(5, 5, 0, Duration::from_millis(6));
        let snapshot = metrics.snapshot();
        assert_eq!((snapshot.records, snapshot.messages, snapshot.dead_letters, snapshot.batches), (15, 13, 2, 2));
        assert!((3900..=4100).contains(&snapshot.commit_p50.as_micros()), "{:?}", snapshot.commit_p50);
    }
}
