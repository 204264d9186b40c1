//! Makes a batch durable: the one transaction path, and what follows from its failures.

use std::collections::BTreeSet;
use std::thread;
use std::time::{Duration, Instant};

use rdkafka::error::RDKafkaErrorCode as Code;

use super::reaction::{AFTER_FENCE, FENCE_WINDOW, Patience, Reaction, reaction};
use super::refusal::refusal;
use super::{Committer, Lane, transactional};
use crate::error::Error;
use crate::invariant;
use crate::kafka::{self, Failure, Ownership, Position, TopicPartition};
use crate::stage::Transformer;
use crate::state::{Ends, now_ms};
use crate::task::Lifecycle;

/// A transaction and its abort each end within the transaction's timeout. A call that has not returned this long after that never will:
/// librdkafka can hang past the timeouts of its transactional calls where the broker was away.
const BLOCKED: Duration = Duration::from_secs(20);

/// Longest pause between two attempts.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// For the group's coordinator to say whose partitions are whose.
const ASK: Duration = Duration::from_secs(5);

/// What became of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Committed,
    /// A task is not ours any more: nothing was committed, and nothing will be.
    Dropped,
    /// The lane starts its tasks again from the committed positions.
    Restarted,
}

impl<S: Transformer> Lane<S> {
    /// Commits the gathered outputs with the positions, again and again from memory while the broker only asks to abort.
    pub(super) fn commit(&mut self, positions: &[(TopicPartition, Position)]) -> Result<Outcome, Error> {
        let mut patience = match &self.committer {
            Committer::Sink(state) => Patience::begin(state.patience(), LONGEST_PAUSE),
            _ => Patience::begin(self.shared.config.patience(), LONGEST_PAUSE),
        };
        let (ends, now) = loop {
            // Before the transaction: its commit proves that nobody else has written until then.
            let now = now_ms();
            let failure = match self.attempt(positions)? {
                Attempt::Committed(ends) => break (ends, now),
                Attempt::Dropped => return Ok(Outcome::Dropped),
                Attempt::Failed(failure) => failure,
            };
            match reaction(&failure, self.may_have_sent_twice(), patience.is_left()) {
                Reaction::Restart => return self.restart(&failure.error),
                Reaction::Repeat => {
                    self.shared.metrics.abort();
                    let (stream, lane) = (&self.shared.config.name, self.name());
                    if !matches!(self.committer, Committer::Sink(_)) || patience.is_to_be_said() {
                        tracing::warn!(%stream, transactional_id = %lane, "a batch was aborted and runs again: {}", failure.error);
                    }
                }
                Reaction::Fail => return Err(self.explain(failure, &patience)),
            }
            patience.rest();
        };
        self.applied(positions);
        self.show_positions(&[]);
        if let Err(failures) = self.output.states.commit(&ends, now) {
            // Committed is committed: the changes are read again from the changelog.
            self.reopen(&failures)?;
        } else if self.may_have_sent_twice() {
            self.restart(&kafka::Error::text("the last commit was slow and may have been sent twice"))?;
        }
        Ok(Outcome::Committed)
    }

    /// One transaction, or one delivery and one commit of positions.
    fn attempt(&mut self, positions: &[(TopicPartition, Position)]) -> Result<Attempt, Error> {
        let shared = self.shared.clone();
        invariant::w3_a_transaction_has_positions(positions);
        // Taken before the permit, which then says that the tasks were ours when it was: with the eager protocol the next generation
        // begins only after they are taken away here, so this token is of the generation in which the batch was taken, however
        // late it is sent. One that is taken later can be of the next generation, and would commit positions that are another's.
        let token = match &self.committer {
            Committer::Transactions { .. } => shared.consumer.token(),
            Committer::AtLeastOnce { .. } | Committer::Sink(_) => None,
        };
        let numbers: BTreeSet<i32> = positions.iter().map(|((_, number), _)| *number).collect();
        let tasks = numbers.into_iter().map(|number| (number, self.tasks[&number].incarnation));
        let Some(permit) = shared.assignment.permit(self.number, tasks) else { return Ok(Attempt::Dropped) };
        let result = match &mut self.committer {
            Committer::Transactions { producer, .. } => {
                let Some(token) = token else {
                    drop(permit);
                    return Ok(Attempt::Failed(no_member()));
                };
                let producer = invariant::w1_nothing_is_produced_before_the_fence(producer.as_mut());
                let timeout = shared.config.transaction_timeout();
                let _watched = shared.watchdog.watch(self.number, "a transaction", timeout * 2 + BLOCKED);
                producer.transact(&self.output, Some(shared.group_positions(positions, &token)), timeout)
            }
            Committer::AtLeastOnce { sink } => {
                let sink = sink.as_mut().expect("a task that runs has a sink");
                let cancel = &self.tasks[&self.number].cancel;
                if !self.output.is_empty() && !sink.deliver(&self.batch, &self.output, cancel)? {
                    return Ok(Attempt::Dropped);
                }
                // Delivered once: only the positions are tried again.
                self.output.clear();
                // The delivery may have outlasted the wait of a revocation; the positions are the next owner's then.
                if !permit.holds() {
                    return Ok(Attempt::Dropped);
                }
                shared.consumer.commit(positions).map(|()| Ends::new()).map_err(Failure::from)
            }
            Committer::Sink(state) => {
                let _watched = shared.watchdog.watch(self.number, "a transaction", transactional::BLOCKED);
                return state.attempt(&self.batch, &mut self.output, positions);
            }
        };
        drop(permit);
        Ok(match result {
            Ok(ends) => Attempt::Committed(ends),
            Err(failure) => Attempt::Failed(failure),
        })
    }

    fn may_have_sent_twice(&self) -> bool {
        match &self.committer {
            Committer::Transactions { producer: Some(producer), .. } => producer.may_have_sent_twice(),
            _ => false,
        }
    }

    fn applied(&mut self, positions: &[(TopicPartition, Position)]) {
        for (partition, position) in positions {
            let Some(task) = self.tasks.get_mut(&partition.1) else { continue };
            let topic = task.partitions.iter().position(|own| own == partition);
            if let (Some(topic), Some(committed)) = (topic, &mut task.committed) {
                invariant::w4_positions_never_go_back(committed[topic], *position);
                committed[topic] = *position;
            }
        }
    }

    /// A new producer and new incarnations for the tasks that are still ours; what they had taken is dropped and read again.
    pub(super) fn restart(&mut self, reason: &kafka::Error) -> Result<Outcome, Error> {
        let name = self.name();
        let again = match &mut self.committer {
            Committer::Transactions { producer, .. } => {
                *producer = None;
                "starts again with a new producer"
            }
            Committer::Sink(_) => "starts again from the positions that the output has",
            Committer::AtLeastOnce { .. } => {
                return Err(Error::Kafka { what: format!("{name}: commit"), source: reason.clone() });
            }
        };
        self.shared.metrics.restart();
        if !self.still_ours(reason)? {
            return Ok(Outcome::Dropped);
        }
        let shared = self.shared.clone();
        let stream = &shared.config.name;
        tracing::warn!(%stream, transactional_id = %name, "{again}: {reason}");
        for (number, task) in &mut self.tasks {
            if task.lifecycle() == Lifecycle::Suspended {
                continue;
            }
            let Some(next) = shared.assignment.renew(*number, task.incarnation) else {
                task.queues.clear();
                task.become_(Lifecycle::Suspended);
                continue;
            };
            let paused = shared.consumer.pause(&task.partitions);
            paused.map_err(|source| Error::Kafka { what: format!("{name}: pause"), source })?;
            task.incarnation = next;
            task.queues.clear();
            task.become_(Lifecycle::Starting);
        }
        Ok(Outcome::Restarted)
    }

    /// Whether to fence anew. A process that was stopped for long believes that its partitions are still its own; if it fenced at
    /// once, it would throw out the rightful owner. So the coordinator is asked first.
    fn still_ours(&mut self, reason: &kafka::Error) -> Result<bool, Error> {
        let name = self.name();
        let started = Instant::now();
        let numbers = |lane: &Self| lane.awake().map(|(number, _)| *number).collect::<Vec<i32>>();
        let before = numbers(self);
        loop {
            self.suspend_lost();
            let awake = numbers(self);
            if awake.is_empty() {
                break;
            }
            let group = self.shared.view.group(ASK);
            match group.map(|group| self.shared.consumer.ownership(&group, &awake)) {
                Ok(Ownership::Ours) if reason.is_fenced() => {
                    let counted = self.fences.count(&name);
                    counted.map_err(|error| match &self.committer {
                        Committer::Sink(_) => transactional::taken(&name, &reason.to_string()),
                        _ => error,
                    })?;
                    if let Some((_, task)) = self.awake().next() {
                        task.cancel.wait(AFTER_FENCE);
                    }
                    return Ok(true);
                }
                Ok(Ownership::Ours) => return Ok(true),
                Ok(Ownership::NotOurs) => break,
                Ok(Ownership::Undecided) => {}
                Err(error) => tracing::debug!("{name}: ask who owns the partitions: {error}"),
            }
            if started.elapsed() > FENCE_WINDOW {
                let what = format!("{name}: {reason}; asking the group who owns the partitions");
                return Err(Error::Stuck { what, within: FENCE_WINDOW });
            }
            thread::sleep(Duration::from_millis(100));
        }
        let why = if reason.is_fenced() {
            format!(
                "was fenced ({reason}): another process uses its id, or this one was paused for longer than its session or its transaction_timeout"
            )
        } else {
            format!("lost its producer or its connection ({reason})")
        };
        tracing::warn!(
            stream = %self.shared.config.name,
            "{name} {why}. Of partitions {before:?} some or all were given to another member; closed"
        );
        for task in self.tasks.values_mut() {
            task.queues.clear();
            task.become_(Lifecycle::Suspended);
        }
        Ok(false)
    }

    fn explain(&self, failure: Failure, patience: &Patience) -> Error {
        if let Committer::Sink(_) = &self.committer {
            return transactional::gave_up(&format!("task {}: commit", self.number), &failure.error, patience);
        }
        refusal(&failure, &self.output, &self.batch, |topic| self.shared.topic_limit(topic)).unwrap_or_else(|| {
            let topics: BTreeSet<&str> = self.output.iter().map(|message| message.topic).collect();
            let topics = if topics.is_empty() { "no outputs".to_owned() } else { Vec::from_iter(topics).join(", ") };
            Error::Kafka { what: format!("{}: commit ({topics})", self.name()), source: failure.error }
        })
    }
}

pub(super) enum Attempt {
    /// So far do the changes of states reach in the changelog.
    Committed(Ends),
    Dropped,
    Failed(Failure),
}

/// The consumer is between two memberships: like a stale token, to be tried again while the task is ours.
fn no_member() -> Failure {
    kafka::Error::of(Code::UnknownMemberId).into()
}
