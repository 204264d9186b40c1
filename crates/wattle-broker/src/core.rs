//! The broker's one lock: topics with their logs, groups, transactions, the journal. Requests are handled by `api/` under it.
//!
//! What must never happen here: an answer before its journal entry is written, or any answer after a write failed.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use uuid::Uuid;

use crate::clock::Clock;
use crate::error::Error;
use crate::folder::Folder;
use crate::group::Groups;
use crate::journal::{Entry, Journal};
use crate::log::{PartitionLog, Place};
use crate::topic::TopicConfig;
use crate::transaction::{Ended, Transactions};
use crate::types::{Millis, TopicPartition};

/// Waiting requests look again at least this often, whatever the broker's clock does.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

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
    /// Why nothing is answered any more: a write failed.
    pub(crate) broken: Option<String>,
    /// The data folder; none in memory.
    pub(crate) folder: Option<Arc<Folder>>,
}

impl State {
    /// Writes an entry; a failure breaks the broker: the caller's request is dropped unanswered, and so is everything after it.
    pub(crate) fn journal(&mut self, entry: &Entry) -> Result<(), Error> {
        let written = self.journal.append(entry);
        self.checked(written)
    }

    /// Breaks the broker if `done` failed. For every write that is not the journal's.
    pub(crate) fn checked<T>(&mut self, done: Result<T, Error>) -> Result<T, Error> {
        done.inspect_err(|error| self.break_down(error))
    }

    /// Nothing is answered from now on: what is on disk may be less than what is in memory.
    pub(crate) fn break_down(&mut self, error: &Error) {
        if self.broken.is_none() {
            let cause = std::error::Error::source(error).map(ToString::to_string).unwrap_or_default();
            tracing::error!(%error, cause, "the broker stops answering; free the disk or mend the folder, then start it again");
            self.broken = Some(if cause.is_empty() { error.to_string() } else { format!("{error}: {cause}") });
        }
    }

    /// Ends a transaction that the coordinator decided to end: journal entry first, then markers, then positions.
    pub(crate) fn end_transaction(&mut self, ended: Ended, now: Millis) -> Result<(), Error> {
        let markers: Vec<(TopicPartition, i64)> = ended
            .partitions
            .iter()
            .filter_map(|at| self.partition(&at.topic, at.partition).map(|log| (at.clone(), log.end())))
            .collect();
        let image = self.transactions.image(&ended.id).expect("an id whose transaction ends is known");
        self.journal(&Entry::TransactionEnded { image, ended: ended.clone(), markers: markers.clone() })?;
        for (at, offset) in &markers {
            let log = self.partition_mut(&at.topic, at.partition).expect("looked up above, under the same lock");
            let written = log.append_marker(ended.producer, ended.commit, now);
            let written = self.checked(written)?;
            debug_assert_eq!(written, *offset, "the marker is where the journal says");
        }
        if ended.commit {
            for (group, offsets) in ended.offsets {
                self.groups.commit(&group, offsets);
            }
        }
        Ok(())
    }

    /// One partition's log.
    pub(crate) fn partition(&self, topic: &str, partition: i32) -> Option<&PartitionLog> {
        self.topics.get(topic)?.partitions.get(usize::try_from(partition).ok()?)
    }

    /// One partition's log, to write to.
    pub(crate) fn partition_mut(&mut self, topic: &str, partition: i32) -> Option<&mut PartitionLog> {
        self.topics.get_mut(topic)?.partitions.get_mut(usize::try_from(partition).ok()?)
    }

    /// The cluster's id as clients see it.
    pub(crate) fn cluster_name(&self) -> String {
        self.cluster_id.to_string()
    }

    /// The name of the topic with this id.
    pub(crate) fn topic_name(&self, id: Uuid) -> Option<&str> {
        self.topics.iter().find(|(_, topic)| topic.id == id).map(|(name, _)| name.as_str())
    }

    /// Adds a topic whose name, number of partitions and settings were checked.
    pub(crate) fn create_topic(
        &mut self,
        name: &str,
        partitions: i32,
        set: BTreeMap<String, String>,
        now: Millis,
    ) -> Result<Uuid, Error> {
        let config = TopicConfig::parse(&set)?;
        let id = Uuid::new_v4();
        self.journal(&Entry::TopicCreated { name: name.to_owned(), id, partitions, config: set.clone() })?;
        self.topics.insert(name.to_owned(), Topic { id, set, config, partitions: Vec::new() });
        self.open_partitions(name, partitions, now)?;
        tracing::info!(topic = name, partitions, "created topic");
        Ok(id)
    }

    /// Raises a topic's number of partitions.
    pub(crate) fn grow_topic(&mut self, name: &str, partitions: i32, now: Millis) -> Result<(), Error> {
        self.journal(&Entry::TopicGrown { name: name.to_owned(), partitions })?;
        self.open_partitions(name, partitions, now)
    }

    /// Removes a topic with everything that refers to it. Returns false if there is none.
    pub(crate) fn delete_topic(&mut self, name: &str) -> Result<bool, Error> {
        if !self.topics.contains_key(name) {
            return Ok(false);
        }
        self.journal(&Entry::TopicDeleted { name: name.to_owned() })?;
        let topic = self.topics.remove(name).expect("looked up above");
        self.groups.forget_topic(name);
        self.transactions.forget_topic(name);
        for log in topic.partitions {
            let removed = log.remove();
            self.checked(removed)?;
        }
        if let Some(folder) = self.folder.clone() {
            let removed = folder.remove_topic(name, topic.id);
            self.checked(removed)?;
        }
        tracing::info!(topic = name, "deleted topic");
        Ok(true)
    }

    /// Opens the logs of a topic up to this number of partitions.
    pub(crate) fn open_partitions(&mut self, name: &str, partitions: i32, now: Millis) -> Result<(), Error> {
        let topic = self.topics.get(name).expect("the caller has added the topic");
        let (id, opened) = (topic.id, i32::try_from(topic.partitions.len()).unwrap_or(i32::MAX));
        for number in opened..partitions {
            let place = match &self.folder {
                Some(folder) => Place::Folder(folder.partition(name, id, number)),
                None => Place::Memory,
            };
            let log = PartitionLog::open(&place, now);
            let log = self.checked(log)?;
            self.topics.get_mut(name).expect("added by the caller").partitions.push(log);
        }
        Ok(())
    }
}

/// What the broker was started with, as far as requests depend on it.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// Partitions of topics that come into being by being asked for; none: they do not.
    pub(crate) auto_create: Option<i32>,
    /// Whether a request may wait for others; without, one that would is dropped.
    pub(crate) waits: bool,
}

/// Shared by all connections.
#[derive(Debug)]
pub(crate) struct Core {
    state: Mutex<State>,
    /// Records were appended, or a last stable offset moved: waiting fetches look again.
    pub(crate) data_changed: Condvar,
    /// A group moved on: waiting joins and syncs look again.
    pub(crate) groups_changed: Condvar,
    pub(crate) clock: Arc<Clock>,
    pub(crate) settings: Settings,
    stopping: AtomicBool,
}

impl Core {
    pub(crate) fn new(state: State, clock: Arc<Clock>, settings: Settings) -> Self {
        Self {
            state: Mutex::new(state),
            data_changed: Condvar::new(),
            groups_changed: Condvar::new(),
            clock,
            settings,
            stopping: AtomicBool::new(false),
        }
    }

    /// The state. A panic under the lock has broken its promises: the broker is broken, not poisoned.
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| {
            let mut state = poisoned.into_inner();
            if state.broken.is_none() {
                tracing::error!("a request panicked; the broker stops answering, start it again");
                state.broken = Some("a request panicked".into());
            }
            state
        })
    }

    /// Waits for `condvar`, at most a short while of real time (the clock may be moved meanwhile). Returns `None` when the broker stops or is broken:
    /// the request is dropped.
    pub(crate) fn wait<'a>(
        &'a self,
        condvar: &Condvar,
        state: MutexGuard<'a, State>,
        at_most: Duration,
    ) -> Option<MutexGuard<'a, State>> {
        if self.is_stopping() || state.broken.is_some() || !self.settings.waits {
            return None;
        }
        let (state, _) = condvar.wait_timeout(state, at_most.min(LOOK_AGAIN)).unwrap_or_else(PoisonError::into_inner);
        (!self.is_stopping() && state.broken.is_none()).then_some(state)
    }

    /// Whether requests are answered no more.
    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::SeqCst)
    }

    /// Ends all waiting; from now on nothing is answered.
    pub(crate) fn stop(&self) {
        let state = self.lock();
        self.stopping.store(true, Ordering::SeqCst);
        drop(state);
        self.wake_all();
    }

    /// Everybody who waits looks again.
    pub(crate) fn wake_all(&self) {
        self.data_changed.notify_all();
        self.groups_changed.notify_all();
    }
}
