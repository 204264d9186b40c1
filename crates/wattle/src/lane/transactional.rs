//! Where outputs go when what takes them has transactions of its own, a database: it keeps the positions beside the outputs, and changes both
//! in one transaction. It is the fence too: who has opened the positions last is the only one that can move them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::commit::Attempt;
use super::reaction::Patience;
use super::{Committer, Lane};
use crate::config::Delivery;
use crate::error::Error;
use crate::invariant::w1_nothing_is_produced_before_the_fence;
use crate::kafka::{self, Batch, Failure, Position, TopicPartition};
use crate::stage::{Output, StageError, Transformer};
use crate::state::Ends;
use crate::task::positions;

/// What a position belongs to: an input topic and its partition, or the name of another source and 0.
pub type Place = (Arc<str>, i32);

/// Takes the outputs of one task or of one source, and keeps its positions. It belongs to one thread.
///
/// No call may last much longer than half a minute, whatever the database does: a failure that may pass is [`SinkFailure::Again`].
pub trait TransactionalSink: Send {
    /// Takes these positions over, in one transaction: from now on whoever has opened one of them before commits nothing more. Returns where each
    /// of them is, if it is anywhere yet. Called again whenever it is not certain what is committed.
    ///
    /// # Errors
    /// [`SinkFailure::Again`] and [`SinkFailure::Fatal`].
    fn open(&mut self, places: &[Place]) -> Result<Vec<Option<String>>, SinkFailure>;

    /// Writes the outputs in their order and moves the positions, in one transaction; leaves `output` as it was. `batch` is what the outputs were made from; all of `moves` were
    /// opened together. Returns the records that the database refuses and that went elsewhere as dead letters, with the reasons.
    ///
    /// # Errors
    /// See [`SinkFailure`]: in each case nothing is committed, except that it is not known for [`SinkFailure::Unknown`].
    fn commit(
        &mut self,
        batch: &Batch,
        output: &mut Output,
        moves: &[(Place, String)],
    ) -> Result<Vec<RefusedRecord>, SinkFailure>;

    /// How long what fails with [`SinkFailure::Again`] is tried again.
    fn patience(&self) -> Duration;
}

/// A record of a batch that could not be written.
#[derive(Debug)]
pub struct RefusedRecord {
    /// Its index in the batch.
    pub source: usize,
    /// Why.
    pub reason: StageError,
}

/// Why a [`TransactionalSink`] has not done what it was told.
#[derive(Debug)]
pub enum SinkFailure {
    /// Somebody else has opened one of the positions since.
    Fenced(String),
    /// The connection was lost while the transaction committed: the positions tell what became of it.
    Unknown(String),
    /// Not now; the same may be tried again.
    Again(String),
    /// For good.
    Fatal(Error),
}

/// Makes the sink of a task.
pub type TransactionalSinkFactory = Box<dyn Fn() -> Result<Box<dyn TransactionalSink>, Error> + Send + Sync>;

impl SinkFailure {
    /// In the terms of transactions, so that one set of reactions is enough.
    pub(crate) fn into_failure(self) -> Result<Failure, Error> {
        let (error, outcome_unknown) = match self {
            SinkFailure::Fenced(text) => (kafka::Error::fenced(text), false),
            SinkFailure::Unknown(text) => (kafka::Error::text(text), true),
            SinkFailure::Again(text) => (kafka::Error::abortable(text), false),
            SinkFailure::Fatal(error) => return Err(error),
        };
        Ok(Failure { error, refused: Vec::new(), outcome_unknown })
    }
}

/// Longest time of one call of a sink.
pub(super) const BLOCKED: Duration = Duration::from_secs(120);
/// After a failure that may pass the next attempt comes after at most this time.
pub(crate) const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// Opens the positions, again and again while that may help and `wanted`; `None` where it is not any more.
pub(crate) fn open(
    sink: &mut dyn TransactionalSink,
    name: &str,
    places: &[Place],
    wanted: impl Fn() -> bool,
) -> Result<Option<Vec<Option<String>>>, Error> {
    let mut patience = Patience::begin(sink.patience(), LONGEST_PAUSE);
    while wanted() {
        let failure = match sink.open(places) {
            Ok(found) => return Ok(Some(found)),
            Err(failure) => failure.into_failure()?,
        };
        if !patience.is_left() {
            return Err(gave_up("open its positions", &failure.error, &patience));
        }
        if patience.is_to_be_said() {
            tracing::warn!(stream = %name, "the output cannot be reached, and is tried again: {}", failure.error);
        }
        patience.rest();
    }
    Ok(None)
}

/// What was tried for so long in vain.
pub(crate) fn gave_up(what: &str, reason: &kafka::Error, patience: &Patience) -> Error {
    Error::Sink { what: what.to_owned(), reason: reason.to_string(), within: patience.started.elapsed() }
}

/// What is to be done where others keep taking the positions.
pub(crate) fn taken(name: &str, reason: &str) -> Error {
    let text = format!(
        "{name}: {reason}. Another process keeps the same positions in the same place, in another consumer group, or it was started later: give every \
         pipeline an id of its own for its positions (a transactional_id, or that of an sql output), or stop one of the two. Nothing of the batch is \
         committed by this one"
    );
    Error::PositionsTaken { text }
}

/// The sink of a lane, and what goes with it.
pub(super) struct SinkState {
    /// From the first start of a task on.
    sink: Option<Box<dyn TransactionalSink>>,
    /// Positions that are committed and that the group does not show yet.
    unshown: BTreeMap<TopicPartition, Position>,
    /// The records that the last commit has put aside.
    refused: Vec<RefusedRecord>,
}

impl SinkState {
    pub(super) fn new() -> Self {
        SinkState { sink: None, unshown: BTreeMap::new(), refused: Vec::new() }
    }

    pub(super) fn connect(&mut self, delivery: &Delivery) -> Result<(), Error> {
        if let (None, Delivery::TransactionalSink(make)) = (&self.sink, delivery) {
            self.sink = Some(make()?);
        }
        Ok(())
    }

    fn sink(&mut self) -> &mut dyn TransactionalSink {
        w1_nothing_is_produced_before_the_fence(self.sink.as_deref_mut())
    }

    pub(super) fn patience(&self) -> Duration {
        self.sink.as_ref().map_or(Duration::ZERO, |sink| sink.patience())
    }

    /// One transaction.
    pub(super) fn attempt(
        &mut self,
        batch: &Batch,
        output: &mut Output,
        positions: &[(TopicPartition, Position)],
    ) -> Result<Attempt, Error> {
        let moves: Vec<_> = positions.iter().map(|(place, position)| (place.clone(), position.to_string())).collect();
        Ok(match self.sink().commit(batch, output, &moves) {
            Ok(refused) => {
                self.refused = refused;
                self.unshown.extend(positions.iter().cloned());
                Attempt::Committed(Ends::new())
            }
            Err(failure) => Attempt::Failed(failure.into_failure()?),
        })
    }
}

impl<S: Transformer> Lane<S> {
    /// Where a task goes on: behind what the sink has, and only where that has nothing, at the group's own idea. `None` where the task is not ours any more.
    pub(super) fn positions_of_sink(
        &mut self,
        number: i32,
        partitions: &[TopicPartition],
    ) -> Result<Option<Vec<Option<Position>>>, Error> {
        let shared = self.shared.clone();
        let incarnation = self.tasks[&number].incarnation;
        let ours = || shared.assignment.is_current(number, incarnation);
        let Committer::Sink(state) = &mut self.committer else { return Ok(None) };
        let found = {
            let patience = state.patience();
            let _watched = shared.watchdog.watch(number, "opening the output's positions", patience + BLOCKED);
            open(state.sink(), &shared.config.name, partitions, ours)?
        };
        let Some(found) = found else { return Ok(None) };
        let parsed = found.into_iter().zip(partitions).map(|(position, place)| parse(position, place));
        let mut found = parsed.collect::<Result<Vec<_>, _>>()?;
        if found.iter().any(Option::is_none) {
            let task = format!("task {number}");
            let Some(of_group) = positions::stable(&shared, &task, partitions, ours)? else { return Ok(None) };
            found.iter_mut().zip(of_group).for_each(|(found, of_group)| *found = found.or(of_group));
        }
        Ok(Some(found))
    }

    /// The records of the last commit that went elsewhere.
    pub(super) fn take_refused(&mut self) -> Vec<RefusedRecord> {
        match &mut self.committer {
            Committer::Sink(state) => std::mem::take(&mut state.refused),
            _ => Vec::new(),
        }
    }

    /// Tells the group where its tasks stand, for those who look at its lag: whether it takes that changes nothing.
    pub(super) fn show_positions(&mut self, more: &[(TopicPartition, Position)]) {
        let Committer::Sink(state) = &mut self.committer else { return };
        state.unshown.extend(more.iter().cloned());
        let tasks = &self.tasks;
        let ours = |number: i32| {
            tasks.get(&number).is_some_and(|task| self.shared.assignment.is_current(number, task.incarnation))
        };
        state.unshown.retain(|(_, number), _| ours(*number));
        if state.unshown.is_empty() {
            return;
        }
        let positions: Vec<_> = state.unshown.iter().map(|(place, position)| (place.clone(), *position)).collect();
        match self.shared.consumer.commit(&positions) {
            Ok(()) => state.unshown.clear(),
            Err(error) => {
                tracing::debug!(stream = %self.shared.config.name, "the group does not show the positions yet: {error}");
            }
        }
    }
}

fn parse(position: Option<String>, (topic, partition): &TopicPartition) -> Result<Option<Position>, Error> {
    let Some(text) = position else { return Ok(None) };
    let number = text.parse().ok().filter(|number| *number >= 0);
    let Some(number) = number else {
        let text = format!(
            "the position of {topic}/{partition} that the output keeps is {text:?}, and no offset: somebody has changed it. Set it to the offset of the \
             next record to process"
        );
        return Err(Error::Cursor { text });
    };
    Ok(Some(Position(number)))
}
