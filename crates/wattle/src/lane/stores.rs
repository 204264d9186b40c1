//! What a lane does about its tasks' stores beside batches.

use std::time::{Duration, Instant};

use super::Lane;
use crate::error::{Error, Unanswered};
use crate::kafka;
use crate::stage::Transformer;
use crate::state::{StoreFailed, now_ms};
use crate::task::Lifecycle;
use crate::worker::Question;

/// How often a store is told that it is still ours, where no commit does so; less often where that would be a burden.
const OWN: Duration = Duration::from_secs(120);
const OWN_LEAST: Duration = Duration::from_secs(1);

impl<S: Transformer> Lane<S> {
    /// Answers a question from another thread. No batch is under way here: what a store has is what is committed, also after a batch whose
    /// outcome is not known, since its task starts anew then.
    pub(super) fn answer(&self, Question { task, key, reply }: &Question) {
        let (shared, states) = (&self.shared, &self.output.states);
        let runs = |known: &crate::task::Task<_>| {
            known.lifecycle() == Lifecycle::Running && shared.assignment.is_current(*task, known.incarnation)
        };
        let answer = if !shared.assignment.owns(*task) {
            Err(Unanswered::NotOurs)
        } else if self.tasks.get(task).is_some_and(runs) {
            let state = states.committed(*task, key);
            let state = state.map(|state| state.map(|bytes| bytes.to_vec()));
            state.map_err(|reason| Unanswered::Unreadable { reason: reason.to_string() })
        } else {
            Err(Unanswered::Starting)
        };
        // Who has asked may have given up.
        drop(reply.send(answer));
    }

    /// Says to the stores of running tasks that nobody else has written to their changelogs.
    pub(super) fn own_stores(&mut self) -> Result<(), Error> {
        let shared = self.shared.clone();
        let Some(facts) = &shared.topology.changelog else { return Ok(()) };
        let often = OWN.min(facts.delete_retention / 8).max(OWN_LEAST);
        if self.owned.elapsed() < often {
            return Ok(());
        }
        self.owned = Instant::now();
        let now = now_ms();
        for number in self.in_state(Lifecycle::Running) {
            // A process that was stopped for so long does not know what others have written meanwhile.
            let ours = shared.assignment.is_current(number, self.tasks[&number].incarnation);
            let stale = |checkpoint: crate::state::Checkpoint| checkpoint.is_stale(facts.delete_retention, now);
            if ours && let Err(failures) = self.output.states.own(number, often, stale, now) {
                return self.reopen(&failures);
            }
        }
        Ok(())
    }

    /// Stores did not take what is committed, and are closed: the lane starts again, which opens them and reads what they miss. If the disk does
    /// not take that either, the worker ends.
    pub(super) fn reopen(&mut self, failures: &[StoreFailed]) -> Result<(), Error> {
        for StoreFailed { task, reason } in failures {
            let stream = &self.shared.config.name;
            tracing::warn!(%stream, "task {task}: its local state could not be written, and is read again: {reason}");
        }
        self.restart(&kafka::Error::text("a local state could not be written")).map(drop)
    }

    /// Wipes a store that could not be read while the batch was processed, drops the batch, and starts again. Returns whether there was one.
    pub(super) fn wipe_unread(&mut self) -> Result<bool, Error> {
        let Some(StoreFailed { task, reason }) = self.output.states.take_unread() else { return Ok(false) };
        let stream = &self.shared.config.name;
        tracing::warn!(%stream, "task {task}: its local state is wiped and built anew: it cannot be read: {reason}");
        if let Some(store) = self.output.states.close(task) {
            let wiped = store.wipe();
            wiped.map_err(|reason| Error::State { task, what: "removed", reason: reason.to_string() })?;
        }
        self.restart(&kafka::Error::text("a local state could not be read"))?;
        Ok(true)
    }
}
