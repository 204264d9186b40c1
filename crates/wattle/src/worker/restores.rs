//! States that are being read from their changelogs: how far they are.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::kafka::Position;

/// How often a restore says how far it is.
const SAY: Duration = Duration::from_secs(5);

/// The restores of a worker, by task.
#[derive(Debug, Default)]
pub(crate) struct Restores(Mutex<BTreeMap<i32, Restore>>);

/// How far the state of a task is read from its changelog partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restore {
    /// The task: the partition's number.
    pub task: i32,
    /// Records read so far.
    pub records: u64,
    /// Records read in a second, on average.
    pub rate: u64,
    /// Where it is.
    pub position: Position,
    /// The end that it reads to.
    pub end: Position,
    /// How much longer it takes at this rate; `None` before the first record.
    pub remaining: Option<Duration>,
}

/// A restore under way: it is listed until this is dropped.
pub(crate) struct Restoring<'a> {
    restores: &'a Restores,
    stream: &'a str,
    from: Position,
    started: Instant,
    /// When it was last said and listed.
    noted: Instant,
    now: Restore,
}

impl Restores {
    pub(crate) fn begin<'a>(&'a self, stream: &'a str, task: i32, from: Position, end: Position) -> Restoring<'a> {
        let started = Instant::now();
        let now = Restore { task, records: 0, rate: 0, position: from, end, remaining: None };
        self.lock().insert(task, now.clone());
        Restoring { restores: self, stream, from, started, noted: started, now }
    }

    pub(crate) fn list(&self) -> Vec<Restore> {
        self.lock().values().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<i32, Restore>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Restoring<'_> {
    /// One record more; the next is at `position`.
    pub(crate) fn record(&mut self, position: Position) {
        self.now.records += 1;
        self.now.position = position;
        // The clock is not asked for every record.
        if self.now.records.is_multiple_of(1024) && self.noted.elapsed() >= SAY {
            self.note();
        }
    }

    pub(crate) fn records(&self) -> u64 {
        self.now.records
    }

    fn note(&mut self) {
        self.noted = Instant::now();
        let Restore { task, records, position, end, .. } = self.now;
        let elapsed = self.started.elapsed();
        self.now.rate = (records as f64 / elapsed.as_secs_f64()) as u64;
        self.now.remaining = remaining(elapsed, self.from, position, end);
        let left_s = self.now.remaining.map(|left| left.as_secs());
        tracing::info!(
            stream = %self.stream, records, per_second = self.now.rate, left_s,
            "task {task} restores its state: at {position} of {end}"
        );
        self.restores.lock().insert(task, self.now.clone());
    }
}

impl Drop for Restoring<'_> {
    fn drop(&mut self) {
        self.restores.lock().remove(&self.now.task);
    }
}

/// By offsets, of which some hold no record any more.
fn remaining(elapsed: Duration, from: Position, at: Position, end: Position) -> Option<Duration> {
    let done = at.0 - from.0;
    (done > 0).then(|| elapsed.mul_f64((end.0 - at.0).max(0) as f64 / done as f64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_remains_is_estimated_from_what_is_done() {
        let second = Duration::from_secs(1);
        assert_eq!(remaining(second, Position(100), Position(100), Position(400)), None);
        assert_eq!(remaining(second, Position(100), Position(200), Position(400)), Some(2 * second));
        assert_eq!(remaining(second, Position(100), Position(410), Position(400)), Some(Duration::ZERO));
    }

    #[test]
    fn a_restore_is_listed_while_it_lasts() {
        let restores = Restores::default();
        let restoring = restores.begin("s", 3, Position(0), Position(9));
        assert_eq!(restores.list().iter().map(|restore| restore.task).collect::<Vec<_>>(), [3]);
        drop(restoring);
        assert_eq!(restores.list(), []);
    }
}
