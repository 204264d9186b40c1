//! The stage that turns records into messages.

use std::borrow::Cow;
use std::error::Error as StdError;
use std::fmt;
use std::future::{Future, ready};

use super::emit::Output;
use super::invalid::{Invalid, OnInvalid, Part};
use super::timer::Timer;
use crate::kafka::Record;

/// A stage: takes records one after another, emits messages.
///
/// One value serves all tasks at once, from several threads. Records of one key and partition come one at a time, in order.
/// A future that never waits costs nothing, and records come in order whatever their keys; while one waits, records of other keys are
/// begun, as many as [`BatchLimits::max_concurrent_keys`](crate::BatchLimits::max_concurrent_keys). What they emit is written in the order of the
/// records all the same. A future that waits may use Tokio's timers and sockets, and is dropped at its
/// waiting point when the partition moves to another process, or another record fails: nothing of its batch is then committed.
pub trait Transformer: Send + Sync + 'static {
    /// Processes one record. What it sends to `out` becomes visible with the record's position, or not at all.
    ///
    /// # Errors
    /// An error means that the record cannot be processed: it stops the worker with the record's coordinates, or moves
    /// the record to the dead-letter topic where one is set. Nothing sent to `out` for this record is then kept.
    fn transform(&self, record: &Record<'_>, out: &mut Output) -> impl Future<Output = Result<(), StageError>> + Send;

    /// What becomes of a record that the stage has called invalid ([`StageError::invalid`]); by default it fails. Asked again about a substitute
    /// that is invalid in its turn, for which there is no other. The same record must have the same answer: a batch may run again.
    fn on_invalid(&self, invalid: &Invalid<'_>) -> OnInvalid {
        let _ = invalid;
        OnInvalid::Fail
    }

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

    /// Processes a timer that is due.
    #[doc(hidden)]
    fn timer(&self, timer: &Timer<'_>, out: &mut Output) -> impl Future<Output = Result<(), StageError>> + Send {
        let _ = (timer, out);
        ready(Err(StageError::new("a stage without state has no timers")))
    }

    /// Records of one key are processed one after another.
    ///
    /// # Errors
    /// As those of [`Transformer::transform`].
    #[doc(hidden)]
    fn key<'a>(&self, record: &Record<'a>) -> Result<Option<Cow<'a, [u8]>>, StageError> {
        Ok(record.key.map(Cow::Borrowed))
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
pub struct StageError {
    reason: Box<dyn StdError + Send + Sync>,
    fault: Fault,
    /// The part of a stage that failed, where it has several.
    stage: Option<Box<str>>,
}

/// What is at fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    Unknown,
    Record(Part),
    /// The state that is kept. Whatever the record is, it is innocent.
    State,
}

impl StageError {
    /// An error with a text of its own. Leave record contents out: it is logged.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        StageError { reason: text.into().into(), fault: Fault::Unknown, stage: None }
    }

    /// The record itself is at fault: a part of it is not what the stage expects, and never will be. [`Transformer::on_invalid`] decides what
    /// becomes of the record.
    #[must_use]
    pub fn invalid(part: Part, text: impl Into<String>) -> Self {
        StageError { reason: text.into().into(), fault: Fault::Record(part), stage: None }
    }

    /// The part of the record that is at fault.
    #[must_use]
    pub fn invalid_part(&self) -> Option<Part> {
        match self.fault {
            Fault::Record(part) => Some(part),
            Fault::Unknown | Fault::State => None,
        }
    }

    /// Names the part of a stage that has failed, for stages of several parts: the text begins with it, and a dead letter has it in a header.
    #[must_use]
    pub fn in_stage(self, stage: &str) -> Self {
        StageError { stage: Some(stage.into()), ..self }
    }

    /// The part of the stage that failed, where it was named.
    #[must_use]
    pub fn stage(&self) -> Option<&str> {
        self.stage.as_deref()
    }

    /// The state of the record's key is not what the stage reads.
    pub(crate) fn unreadable_state(reason: &str) -> Self {
        let text = format!("the state of its key cannot be read: {reason}");
        StageError { reason: text.into(), fault: Fault::State, stage: None }
    }

    pub(crate) fn is_about_state(&self) -> bool {
        self.fault == Fault::State
    }

    /// The error that was the reason.
    #[must_use]
    pub fn reason(&self) -> &(dyn StdError + Send + Sync + 'static) {
        &*self.reason
    }
}

impl fmt::Display for StageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(stage) = &self.stage {
            write!(f, "{stage}: ")?;
        }
        match self.fault {
            Fault::Record(Part::Key) => write!(f, "invalid key: {}", self.reason),
            Fault::Record(Part::Value) => write!(f, "invalid value: {}", self.reason),
            Fault::Unknown | Fault::State => self.reason.fmt(f),
        }
    }
}

impl<E: StdError + Send + Sync + 'static> From<E> for StageError {
    fn from(error: E) -> Self {
        StageError { reason: Box::new(error), fault: Fault::Unknown, stage: None }
    }
}
