//! The broker's one lock: topics with their logs, groups, transactions, the journal. Requests are handled by `api/` under it.

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use uuid::Uuid;

use crate::clock::Clock;
use crate::error::Error;
use crate::group::Groups;
use crate::journal::{Entry, Journal};
use crate::log::PartitionLog;
use crate::topic::TopicConfig;
use crate::transaction::{Ended, Transactions};
use crate::types::Millis;

/// A topic and its partitions, by number.
#[derive(Debug)]
pub(crate) struct Topic {
    pub(crate) id: Uuid,
    /// As set; `config` is the same, parsed.
    pub(crate) set: BTreeMap<String, String>,
    pub(crate) config: TopicConfig,
    pub(crate) partitions: Vec<PartitionLog>,
}

/// What the lock guards.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) cluster_id: Uuid,
    pub(crate) topics: BTreeMap<String, Topic>,
    pub(crate) groups: Groups,
    pub(crate) transactions: Transactions,
    pub(crate) journal: Journal,
    /// Set when a write failed: nothing is answered any more.
    pub(crate) broken: bool,
}

impl State {
    /// Writes an entry; a failure breaks the broker: the caller's request is dropped unanswered, and so is everything after it.
    pub(crate) fn journal(&mut self, _entry: &Entry) -> Result<(), Error> {
        todo!()
    }

    /// Ends a transaction that the coordinator decided to end: journal entry first, then markers, then positions.
    pub(crate) fn end_transaction(&mut self, _ended: Ended, _now: Millis) -> Result<(), Error> {
        todo!()
    }
}

/// Shared by all connections.
#[derive(Debug)]
pub(crate) struct Core {
    state: Mutex<State>,
    /// Records were appended, or a last stable offset moved: waiting fetches look again.
    pub(crate) data_changed: Condvar,
    /// A group moved on: waiting joins and syncs look again.
    pub(crate) groups_changed: Condvar,
    pub(crate) clock: Clock,
}

impl Core {
    /// The state. A panic under the lock has broken its promises: the broker is broken, not poisoned.
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for `condvar`, at most a short while of real time (the clock may be moved meanwhile). Returns `None` when the broker stops or is broken: the request is dropped.
    pub(crate) fn wait<'a>(
        &'a self,
        _condvar: &Condvar,
        _state: MutexGuard<'a, State>,
        _at_most: Duration,
    ) -> Option<MutexGuard<'a, State>> {
        todo!()
    }
}
