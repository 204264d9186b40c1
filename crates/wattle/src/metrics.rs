//! Counters of one stream, kept from its start. The one place that an exporter reads.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use crate::task::Lifecycle;

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
    /// All of them together.
    commit_sum: AtomicU64,
    /// When the batches that are not committed yet were taken.
    open: Mutex<BTreeMap<u64, Instant>>,
    opened: AtomicU64,
    /// When the oldest record was taken that a lane holds for its group.
    held: Mutex<BTreeMap<i32, Instant>>,
    /// The tasks of this process, and since when they start or run.
    tasks: Mutex<BTreeMap<i32, (Lifecycle, Instant)>>,
}

/// A batch that is not committed yet; until this is dropped.
pub(crate) struct Open<'a> {
    metrics: &'a Metrics,
    id: u64,
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
    /// How many commits took at most this long, for rising times.
    pub commit_times: Vec<(Duration, u64)>,
    /// The time of all commits together.
    pub commit_sum: Duration,
    /// How long ago the oldest batch was taken that is not committed yet.
    pub oldest_open: Option<Duration>,
    /// How long ago the oldest record was taken that waits for others of its group.
    pub oldest_held: Option<Duration>,
    /// Tasks that run in this process.
    pub running: usize,
    /// Tasks of this process that have not begun to run yet, and for how long.
    pub starting: Vec<(i32, Duration)>,
}

/// The times of [`Snapshot::commit_times`], in milliseconds.
const TIMES: [u64; 14] = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 30_000];

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
            commit_sum: AtomicU64::new(0),
            open: Mutex::default(),
            opened: AtomicU64::new(0),
            held: Mutex::default(),
            tasks: Mutex::default(),
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
        self.commit_sum.fetch_add(micros, Relaxed);
        self.commit.lock().unwrap_or_else(PoisonError::into_inner).saturating_record(micros);
    }

    /// A batch was taken.
    pub(crate) fn open(&self) -> Open<'_> {
        let id = self.opened.fetch_add(1, Relaxed);
        let open = Open { metrics: self, id };
        open.set(Some(Instant::now()));
        open
    }

    /// Since when a lane holds records for their groups.
    pub(crate) fn held(&self, lane: i32, since: Option<Instant>) {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        match since {
            Some(since) => drop(held.insert(lane, since)),
            None => drop(held.remove(&lane)),
        }
    }

    /// Where a task is.
    pub(crate) fn task(&self, number: i32, now: Lifecycle) {
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        match now {
            Lifecycle::Suspended => drop(tasks.remove(&number)),
            now => drop(tasks.insert(number, (now, Instant::now()))),
        }
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
        let oldest = self.open.lock().unwrap_or_else(PoisonError::into_inner).values().min().map(Instant::elapsed);
        let oldest_held = self.held.lock().unwrap_or_else(PoisonError::into_inner).values().min().map(Instant::elapsed);
        let tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let starting = tasks.iter().filter(|(_, (state, _))| *state == Lifecycle::Starting);
        let starting: Vec<_> = starting.map(|(number, (_, since))| (*number, since.elapsed())).collect();
        let commit = self.commit.lock().unwrap_or_else(PoisonError::into_inner);
        let times = TIMES.map(|ms| (Duration::from_millis(ms), commit.count_between(0, ms * 1000)));
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
            commit_times: times.to_vec(),
            commit_sum: Duration::from_micros(self.commit_sum.load(Relaxed)),
            oldest_open: oldest,
            oldest_held,
            running: tasks.len() - starting.len(),
            starting,
        }
    }
}

impl Open<'_> {
    /// A part of it was committed; the rest goes on from now.
    pub(crate) fn renew(&mut self) {
        self.set(Some(Instant::now()));
    }

    fn set(&self, since: Option<Instant>) {
        let mut open = self.metrics.open.lock().unwrap_or_else(PoisonError::into_inner);
        match since {
            Some(since) => drop(open.insert(self.id, since)),
            None => drop(open.remove(&self.id)),
        }
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.set(None);
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
        assert_eq!(snapshot.commit_sum, Duration::from_millis(10));
        let within =
            |ms| snapshot.commit_times.iter().find(|(time, _)| time.as_millis() == ms).map(|(_, count)| *count);
        assert_eq!((within(2), within(5), within(10), within(30_000)), (Some(0), Some(1), Some(2), Some(2)));
    }

    #[test]
    fn what_is_open_and_where_tasks_are_is_seen() {
        let metrics = Metrics::default();
        assert_eq!(metrics.snapshot().oldest_open, None);
        let (first, mut second) = (metrics.open(), metrics.open());
        let before = metrics.snapshot().oldest_open.expect("two are open");
        drop(first);
        second.renew();
        assert!(metrics.snapshot().oldest_open.expect("one is open") <= before + Duration::from_secs(60));
        drop(second);
        assert_eq!(metrics.snapshot().oldest_open, None);
        metrics.held(2, Some(Instant::now()));
        assert!(metrics.snapshot().oldest_held.is_some());
        metrics.held(2, None);
        assert_eq!(metrics.snapshot().oldest_held, None);
        metrics.task(3, Lifecycle::Starting);
        metrics.task(4, Lifecycle::Starting);
        metrics.task(4, Lifecycle::Running);
        let snapshot = metrics.snapshot();
        assert_eq!((snapshot.running, snapshot.starting.len(), snapshot.starting[0].0), (1, 1, 3));
        metrics.task(4, Lifecycle::Suspended);
        assert_eq!(metrics.snapshot().running, 0);
    }
}
