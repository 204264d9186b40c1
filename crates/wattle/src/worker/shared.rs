//! What the lanes of a worker share.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::Thread;
use std::time::{Duration, Instant};

use super::assignment::Assignment;
use super::desk::Desk;
use super::fatal::Fatal;
use super::orphan::Ended;
use super::restores::Restores;
use super::startup::Topology;
use super::watchdog::Watchdog;
use crate::config::{Delivery, START, StartFrom, WorkerConfig};
use crate::error::Error;
use crate::kafka::{
    Admin, Changelog, Consumer, GroupPositions, GroupToken, GroupView, Position, Producer, ProducerConfig,
    RebalanceListener, TopicPartition, Verdict,
};
use crate::metrics::Metrics;
use crate::stage::Output;
use crate::state::StateFolder;
use crate::task::positions;

/// Longest that the group is kept waiting for commits under way.
const REVOKE: Duration = Duration::from_secs(5);

pub(crate) struct Shared<S> {
    pub(crate) config: WorkerConfig,
    pub(crate) stage: Arc<S>,
    pub(crate) topics: Vec<Arc<str>>,
    pub(crate) topology: Topology,
    pub(crate) consumer: Consumer<Router>,
    pub(crate) view: Arc<GroupView>,
    pub(crate) assignment: Arc<Assignment>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) restores: Arc<Restores>,
    pub(super) desk: Arc<Desk>,
    /// Where states are on disk; `None`: in memory.
    pub(crate) states: Option<StateFolder>,
    pub(crate) fatal: Arc<Fatal>,
    pub(crate) watchdog: Watchdog,
    pub(crate) admin: Arc<Admin>,
    /// Held while the group's first positions are set.
    pub(crate) first: Mutex<()>,
    pub(super) ended: Ended,
    /// What tells this worker apart from others of its group.
    pub(crate) instance: String,
    /// Of the consumer.
    pub(crate) client_id: String,
}

impl<S> Shared<S> {
    /// A task's name in logs.
    pub(crate) fn task(&self, number: i32) -> String {
        format!("{} task {number}", self.config.name)
    }

    pub(crate) fn partitions_of(&self, task: i32) -> Vec<TopicPartition> {
        self.topics.iter().map(|topic| (topic.clone(), task)).collect()
    }

    pub(crate) fn all_partitions(&self) -> Vec<TopicPartition> {
        let numbers = 0..self.topology.partitions;
        self.topics.iter().flat_map(|topic| numbers.clone().map(|number| (topic.clone(), number))).collect()
    }

    pub(crate) fn producer_config(&self, transactional_id: &str) -> ProducerConfig {
        ProducerConfig {
            name: self.config.name.clone(),
            brokers: self.config.brokers.clone(),
            acks: "all".to_owned(),
            compression: self.config.compression,
            properties: self.config.producer_properties.clone(),
            batch_size: self.topology.limits.batch_size,
            transaction: Some((transactional_id.to_owned(), self.config.transaction_timeout())),
        }
    }

    /// Positions as a transaction commits them.
    pub(crate) fn group_positions<'a>(
        &'a self,
        positions: &'a [(TopicPartition, Position)],
        token: &'a GroupToken,
    ) -> GroupPositions<'a> {
        GroupPositions {
            positions,
            token,
            client_id: &self.client_id,
            instance_id: self.config.group_instance_id.as_deref(),
        }
    }

    /// The changelog of a stage that keeps state.
    pub(crate) fn changelog(&self) -> Option<Changelog> {
        self.config.changelog_topic.clone().map(|topic| Changelog {
            name: self.config.name.clone(),
            brokers: self.config.brokers.clone(),
            properties: self.config.consumer_properties.clone(),
            topic,
        })
    }

    /// A topic's `max.message.bytes`.
    pub(crate) fn topic_limit(&self, topic: &str) -> Option<i64> {
        self.admin.topic_setting(topic, "max.message.bytes")
    }

    /// Gives every partition of the group that has no position its first one, all in one transaction, for `start_from` latest.
    ///
    /// Two processes that start at once must not both decide what "latest" is, since a record may come in between. The transactional
    /// id of this step is one for the group: whoever fences last reads the positions after the other has committed or can never
    /// commit, and sets only what is missing then. Returns false where the caller's tasks are not ours any more.
    pub(crate) fn set_latest_positions(
        &self,
        name: &str,
        wanted: &[TopicPartition],
        still_ours: impl Fn() -> bool,
    ) -> Result<bool, Error> {
        let _one_at_a_time = self.first.lock().unwrap_or_else(PoisonError::into_inner);
        let kafka = |source| Error::Kafka { what: format!("{name}: set the group's first positions"), source };
        while still_ours() {
            let id = match &self.config.delivery {
                Delivery::ExactlyOnce { transactional_id } => format!("{transactional_id}-{START}"),
                _ => format!("wattle-{}-{START}", self.config.group),
            };
            let mut producer = Producer::new(&self.producer_config(&id))?;
            producer.init_transactions(self.config.patience()).map_err(kafka)?;
            // Partitions may have been added since this process started.
            let mut all = self.all_partitions();
            all.extend(wanted.iter().filter(|(_, number)| *number >= self.topology.partitions).cloned());
            let Some(found) = positions::stable(self, "the group", &all, &still_ours)? else {
                return Ok(false);
            };
            let first = self.first_positions(&all, &found)?;
            if first.is_empty() {
                return Ok(true);
            }
            let Some(token) = self.consumer.token() else { continue };
            let done = producer.transact(
                &Output::default(),
                Some(self.group_positions(&first, &token)),
                self.config.transaction_timeout(),
            );
            match done {
                Ok(_) => {
                    let positions = positions::places(&first);
                    tracing::info!(stream = %self.config.name, %positions, "set the group's first positions");
                }
                // Somebody else was at it at the same time, or the group has moved on: look again.
                Err(failure) if failure.error.verdict() != Verdict::Crash || failure.outcome_unknown => {
                    tracing::debug!(stream = %self.config.name, "set the first positions: {}", failure.error);
                    std::thread::sleep(Duration::from_millis(50));
                }
                Err(failure) => return Err(kafka(failure.error)),
            }
        }
        Ok(false)
    }

    fn first_positions(
        &self,
        all: &[TopicPartition],
        found: &[Option<Position>],
    ) -> Result<Vec<(TopicPartition, Position)>, Error> {
        let mut first = Vec::new();
        for ((topic, partition), _) in all.iter().zip(found).filter(|(_, found)| found.is_none()) {
            let known = all.iter().zip(found).any(|((other, _), found)| other == topic && found.is_some());
            let position = positions::resolve(&self.consumer, topic, *partition, StartFrom::Latest, known)?;
            first.push(((topic.clone(), *partition), position));
        }
        Ok(first)
    }
}

/// Takes the group's decisions to where they matter.
pub(crate) struct Router {
    pub(crate) assignment: Arc<Assignment>,
    name: String,
    held: Mutex<Held>,
    lanes: Mutex<Vec<Thread>>,
}

/// The partitions that the group says are ours: the topics by number.
#[derive(Clone, Debug, Default)]
pub(crate) struct Held {
    pub(crate) topics: BTreeMap<i32, BTreeSet<String>>,
    /// Whether something was assigned since the worker looked: the group has decided, and what is not here stays away for now.
    pub(crate) assigned: bool,
    changed: bool,
}

impl Router {
    pub(crate) fn new(name: &str) -> Self {
        Router { assignment: Arc::default(), name: name.to_owned(), held: Mutex::default(), lanes: Mutex::default() }
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is held now, if that has changed since the last call.
    pub(crate) fn take_change(&self) -> Option<Held> {
        let mut held = self.held();
        if !std::mem::take(&mut held.changed) {
            return None;
        }
        let now = held.clone();
        held.assigned = false;
        Some(now)
    }

    /// Threads to wake when tasks are taken away.
    pub(crate) fn set_lanes(&self, lanes: Vec<Thread>) {
        *self.lanes.lock().unwrap_or_else(PoisonError::into_inner) = lanes;
    }
}

/// Tasks in words.
pub(super) fn list(tasks: &[i32]) -> String {
    if tasks.is_empty() {
        return "no tasks".to_owned();
    }
    let numbers: Vec<String> = tasks.iter().map(ToString::to_string).collect();
    format!("tasks {}", numbers.join(", "))
}

impl RebalanceListener for Router {
    fn assigned(&self, partitions: Vec<(String, i32)>) {
        let mut held = self.held();
        (held.changed, held.assigned) = (true, true);
        for (topic, number) in partitions {
            held.topics.entry(number).or_default().insert(topic);
        }
    }

    /// A task is gone with the first of its partitions.
    fn revoked(&self, partitions: Vec<(String, i32)>, lost: bool) {
        let mut held = self.held();
        held.changed = true;
        for (topic, number) in &partitions {
            if let Some(topics) = held.topics.get_mut(number) {
                topics.remove(topic);
            }
        }
        held.topics.retain(|_, topics| !topics.is_empty());
        drop(held);
        let numbers: BTreeSet<i32> = partitions.iter().map(|(_, number)| *number).collect();
        let started = Instant::now();
        let (tasks, committing) = self.assignment.revoke(|task| numbers.contains(&task), REVOKE);
        let (stream, tasks) = (&self.name, list(&tasks));
        if lost {
            tracing::warn!(%stream, "lost {tasks}: we were away for too long, and the group goes on without us");
        } else {
            let took_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
            tracing::info!(%stream, took_ms, "gave back {tasks}");
        }
        if committing > 0 {
            tracing::warn!(
                %stream,
                committing,
                "commits did not end within {} s of a rebalance; they are fenced, or the next owner waits for them",
                REVOKE.as_secs()
            );
        }
        for lane in self.lanes.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            lane.unpark();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn partitions(list: &[(&str, i32)]) -> Vec<(String, i32)> {
        list.iter().map(|(topic, number)| ((*topic).to_owned(), *number)).collect()
    }

    #[test]
    fn a_task_goes_with_the_first_of_its_partitions_and_the_others_stay() {
        let router = Router::new("test");
        assert!(router.take_change().is_none());
        router.assigned(partitions(&[("a", 0), ("a", 1)]));
        router.assigned(partitions(&[("b", 0), ("b", 1)]));
        let held = router.take_change().expect("a change");
        assert!(held.assigned && held.topics.values().all(|topics| topics.len() == 2), "{held:?}");
        let (zero, one) = (router.assignment.assign(0), router.assignment.assign(1));
        router.revoked(partitions(&[("b", 1)]), false);
        assert!(router.assignment.is_current(0, zero.0) && !router.assignment.is_current(1, one.0));
        let held = router.take_change().expect("a change");
        assert!(!held.assigned && held.topics[&0].len() == 2 && held.topics[&1].len() == 1, "{held:?}");
        router.revoked(partitions(&[("a", 0), ("b", 0), ("a", 1)]), true);
        assert!(router.assignment.is_empty() && router.take_change().expect("a change").topics.is_empty());
        assert!(router.take_change().is_none());
    }
}
