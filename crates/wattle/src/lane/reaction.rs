//! What follows from a failed transaction: the same for every lane.

use std::collections::VecDeque;
use std::thread;
use std::time::{Duration, Instant};

use crate::error::Error;
use crate::kafka::{Failure, Verdict};

/// What a lane does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reaction {
    /// The same outputs again, from memory.
    Repeat,
    /// A new producer, fenced anew, from the committed positions on.
    Restart,
    /// End.
    Fail,
}

/// `sent_twice`: the handle is not good for another transaction. `in_time`: repeating has not taken too long yet.
pub(crate) fn reaction(failure: &Failure, sent_twice: bool, in_time: bool) -> Reaction {
    match failure.error.verdict() {
        _ if failure.outcome_unknown => Reaction::Restart,
        Verdict::RestartLane => Reaction::Restart,
        Verdict::AbortBatch | Verdict::Retry if sent_twice => Reaction::Restart,
        Verdict::AbortBatch | Verdict::Retry if in_time => Reaction::Repeat,
        _ => Reaction::Fail,
    }
}

/// How long something that fails is tried again, with pauses that grow.
pub(crate) struct Patience {
    pub(crate) started: Instant,
    limit: Duration,
    pause: Duration,
    longest: Duration,
    said: Option<Instant>,
}

/// Failures that go on are said this often.
const REMIND: Duration = Duration::from_secs(5);

impl Patience {
    pub(crate) fn begin(limit: Duration, longest: Duration) -> Self {
        Patience { started: Instant::now(), limit, pause: Duration::from_millis(5), longest, said: None }
    }

    pub(crate) fn is_left(&self) -> bool {
        self.started.elapsed() < self.limit
    }

    /// The first failure is, and then one now and then.
    pub(crate) fn is_to_be_said(&mut self) -> bool {
        let due = self.said.is_none_or(|at| at.elapsed() >= REMIND);
        if due {
            self.said = Some(Instant::now());
        }
        due
    }

    pub(crate) fn rest(&mut self) {
        thread::sleep(self.pause);
        self.pause = (self.pause * 2).min(self.longest);
    }
}

/// An intruder whose call met our open transaction repeats it every 500 ms until it finds none. Beginning anew at once, we would be
/// fenced by the same intruder again and again.
pub(crate) const AFTER_FENCE: Duration = Duration::from_secs(1);

/// A lane may be fenced this often in [`FENCE_WINDOW`] and begin again: an intruder that came once is survived, one that stays
/// is a configuration error, and two that fence each other for ever help nobody.
const FENCES: usize = 2;
pub(super) const FENCE_WINDOW: Duration = Duration::from_secs(60);

/// When a lane had to begin again because of a fence.
#[derive(Debug, Default)]
pub(crate) struct Fences(VecDeque<Instant>);

impl Fences {
    /// Counts one more; an error once they are too many.
    pub(crate) fn count(&mut self, transactional_id: &str) -> Result<(), Error> {
        while self.0.front().is_some_and(|at| at.elapsed() > FENCE_WINDOW) {
            self.0.pop_front();
        }
        self.0.push_back(Instant::now());
        if self.0.len() > FENCES {
            let (transactional_id, times) = (transactional_id.to_owned(), self.0.len());
            return Err(Error::Fenced { transactional_id, times, within: FENCE_WINDOW });
        }
        Ok(())
    }
}
