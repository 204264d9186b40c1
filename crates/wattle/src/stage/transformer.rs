//! The stage that turns records into messages.

use std::error::Error as StdError;
use std::fmt;
use std::future::{Future, ready};

use super::emit::Output;
use crate::kafka::Record;

/// A stage: takes records one after another, emits messages.
///
/// One value serves all tasks at once, from several threads. Records of one partition come one at a time, in order.
/// A future that never waits costs nothing; one that waits may use Tokio's timers and sockets, and is dropped at its
/// waiting point when the partition moves to another process: nothing of its batch is then committed.
pub trait Transformer: Send + Sync + 'static {
    /// Processes one record. What it sends to `out` becomes visible with the record's position, or not at all.
    ///
    /// # Errors
    /// An error means that the record cannot be processed: it stops the worker with the record's coordinates, or moves
    /// the record to the dead-letter topic where one is set. Nothing sent to `out` for this record is then kept.
    fn transform(&self, record: &Record<'_>, out: &mut Output) -> impl Future<Output = Result<(), StageError>> + Send;

    /// Called once in a process, before it joins the group: to connect to what the stage needs. One value serves all tasks, so it is opened
    /// once for all of them, and no task that moves waits for it. What it starts goes on running beside the stage.
    ///
    /// # Errors
    /// An error ends the run before any record is read.
    fn open(&mut self) -> impl Future<Output = Result<(), StageError>> + Send {
        ready(Ok(()))
    }

    /// Called once when all tasks have ended, also after an error of the run; not if [`Transformer::open`] has failed, and not after
    /// `kill -9`.
    ///
    /// # Errors
    /// An error is the run's, unless the run has failed already.
    fn close(&self) -> impl Future<Output = Result<(), StageError>> + Send {
        ready(Ok(()))
    }

    /// Whether it keeps state, so that a task needs what the changelog holds before it runs.
    #[doc(hidden)]
    fn is_stateful(&self) -> bool {
        false
    }
}

/// A [`Transformer`] made of a function that does not wait; see [`transformer`].
pub struct FnTransformer<F>(F);

/// Makes a stage of a function.
///
/// ```
/// use wattle::{Message, transformer};
/// let copy = transformer(|record, out| {
///     out.send(Message::copy(record, "orders-copy"));
///     Ok(())
/// });
/// ```
pub fn transformer<F>(f: F) -> FnTransformer<F>
where
    F: Fn(&Record<'_>, &mut Output) -> Result<(), StageError> + Send + Sync + 'static,
{
    FnTransformer(f)
}

impl<F> Transformer for FnTransformer<F>
where
    F: Fn(&Record<'_>, &mut Output) -> Result<(), StageError> + Send + Sync + 'static,
{
    fn transform(&self, record: &Record<'_>, out: &mut Output) -> impl Future<Output = Result<(), StageError>> + Send {
        ready((self.0)(record, out))
    }
}

/// Why a record could not be processed. The task adds the record's topic, partition and offset.
#[derive(Debug)]
pub struct StageError(Box<dyn StdError + Send + Sync>);

impl StageError {
    /// An error with a text of its own. Leave record contents out: it is logged.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        StageError(text.into().into())
    }

    /// The error that was the reason.
    #[must_use]
    pub fn reason(&self) -> &(dyn StdError + Send + Sync + 'static) {
        &*self.0
    }
}

impl fmt::Display for StageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<E: StdError + Send + Sync + 'static> From<E> for StageError {
    fn from(error: E) -> Self {
        StageError(Box::new(error))
    }
}
