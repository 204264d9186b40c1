//! A stage that remembers: typed state by key.

use std::borrow::Cow;
use std::future::{Future, ready};

use super::{Codec, Invalid, OnInvalid, Output, Part, StageError, TimeToLive, Timer, Transformer};
use crate::kafka::Record;
use crate::state::{MAX_KEY, is_reserved};

/// A stage with a state for each key: takes records one after another, emits messages, and says what the state of the record's key is from now
/// on. Outputs, state and position commit together, or not at all.
///
/// A key belongs to the partition of its record: two partitions with the same key have two states. So a topic's records must be
/// partitioned by what [`StatefulTransformer::state_key`] returns, as they are if it is the record's key.
///
/// ```
/// use wattle::{Message, Next, Output, Record, StageError, StatefulTransformer};
///
/// /// Counts the records of each key.
/// struct Count;
///
/// impl StatefulTransformer for Count {
///     type State = u64;
///
///     async fn transform(
///         &self,
///         record: &Record<'_>,
///         count: Option<u64>,
///         out: &mut Output,
///     ) -> Result<Next<u64>, StageError> {
///         let count = count.unwrap_or(0) + 1;
///         out.send(Message::to("counts").key(record.key).json(&count)?);
///         Ok(Next::Set(count))
///     }
/// }
/// ```
pub trait StatefulTransformer: Send + Sync + 'static {
    /// What is remembered of a key. It is kept as JSON, unless it has a [`Codec`] of its own.
    type State: Codec + Send;

    /// As [`Transformer::open`].
    ///
    /// # Errors
    /// As those of [`Transformer::open`].
    fn open(&mut self) -> impl Future<Output = Result<(), StageError>> + Send {
        ready(Ok(()))
    }

    /// As [`Transformer::close`].
    ///
    /// # Errors
    /// As those of [`Transformer::close`].
    fn close(&self) -> impl Future<Output = Result<(), StageError>> + Send {
        ready(Ok(()))
    }

    /// The key whose state a record has; by default its own.
    ///
    /// # Errors
    /// As those of [`Transformer::transform`]; by default for a null key.
    fn state_key<'a>(&self, record: &Record<'a>) -> Result<Cow<'a, [u8]>, StageError> {
        record.key.map(Cow::Borrowed).ok_or_else(|| StageError::invalid(Part::Key, "it is null, and state needs one"))
    }

    /// As [`Transformer::on_invalid`].
    fn on_invalid(&self, invalid: &Invalid<'_>) -> OnInvalid {
        let _ = invalid;
        OnInvalid::Fail
    }

    /// Processes one record. `state` is a copy: nothing but what is returned changes what is kept. A state that is there and cannot be read as
    /// [`StatefulTransformer::State`] stops the worker, also where a dead-letter topic is set: the record is not at fault.
    ///
    /// # Errors
    /// As those of [`Transformer::transform`]. The state stays as it was.
    fn transform(
        &self,
        record: &Record<'_>,
        state: Option<Self::State>,
        out: &mut Output,
    ) -> impl Future<Output = Result<Next<Self::State>, StageError>> + Send;

    /// Processes a timer that is due ([`Output::set_timer`]). It is not set any more; to repeat it, set it again, later than it was.
    /// A timer by the stream's time fires before the record of its key that has reached that time, others behind the records of a batch.
    ///
    /// # Errors
    /// An error stops the worker.
    fn on_timer(
        &self,
        timer: &Timer<'_>,
        state: Option<Self::State>,
        out: &mut Output,
    ) -> impl Future<Output = Result<Next<Self::State>, StageError>> + Send {
        let _ = (timer, state, out);
        ready(Err(StageError::new("a timer is due, and the stage has no on_timer")))
    }

    /// How long a state is kept that is not set again; for ever, unless it says so. It is deleted as by [`Next::Delete`].
    fn time_to_live(&self) -> Option<TimeToLive> {
        None
    }
}

/// The state of a key after a record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Next<S> {
    /// As it was.
    #[default]
    Keep,
    /// This.
    Set(S),
    /// None any more.
    Delete,
}

/// Runs a [`StatefulTransformer`] on the bytes of states.
#[derive(Debug)]
pub struct Stateful<T>(pub(crate) T);

impl<T: StatefulTransformer> Transformer for Stateful<T> {
    async fn transform(&self, record: &Record<'_>, out: &mut Output) -> Result<(), StageError> {
        let state = read_state::<T>(out)?;
        let next = self.0.transform(record, state, out).await?;
        self.keep(next, out)
    }

    async fn timer(&self, timer: &Timer<'_>, out: &mut Output) -> Result<(), StageError> {
        // Without a name it ends the time to live. That of an earlier version, which went by another clock or is none any more, says nothing.
        if timer.name.is_empty() {
            if self.0.time_to_live().is_some_and(|live| live.clock == timer.clock) {
                out.set_state(Next::Delete);
            }
            return Ok(());
        }
        let state = read_state::<T>(out)?;
        let next = self.0.on_timer(timer, state, out).await?;
        self.keep(next, out)
    }

    fn key<'a>(&self, record: &Record<'a>) -> Result<Option<Cow<'a, [u8]>>, StageError> {
        let key = self.0.state_key(record)?;
        if key.len() > MAX_KEY {
            let text = format!("it has {} bytes, and the longest state key has {MAX_KEY}", key.len());
            return Err(StageError::invalid(Part::Key, text));
        }
        if !is_reserved(&key) {
            return Ok(Some(key));
        }
        Err(StageError::invalid(Part::Key, "it begins with a zero byte and \"wattle.\", which is reserved"))
    }

    fn on_invalid(&self, invalid: &Invalid<'_>) -> OnInvalid {
        self.0.on_invalid(invalid)
    }

    fn open(&mut self) -> impl Future<Output = Result<(), StageError>> + Send {
        self.0.open()
    }

    fn close(&self) -> impl Future<Output = Result<(), StageError>> + Send {
        self.0.close()
    }

    fn is_stateful(&self) -> bool {
        true
    }
}

fn read_state<T: StatefulTransformer>(out: &Output) -> Result<Option<T::State>, StageError> {
    let state = out.state().filter(|bytes| !T::State::is_no_state(bytes)).map(T::State::decode).transpose();
    state.map_err(|reason| StageError::unreadable_state(&reason.to_string()))
}

impl<T: StatefulTransformer> Stateful<T> {
    fn keep(&self, next: Next<T::State>, out: &mut Output) -> Result<(), StageError> {
        let expires = self.0.time_to_live();
        match next {
            Next::Keep => {}
            Next::Set(state) => {
                let mut bytes = Vec::new();
                state.encode(&mut bytes)?;
                if T::State::is_no_state(&bytes) {
                    return self.keep(Next::Delete, out);
                }
                if bytes.is_empty() {
                    return Err(StageError::new(
                        "the new state of its key has no bytes, which means that there is none",
                    ));
                }
                out.set_state(Next::Set(bytes));
                if let Some(TimeToLive { after, clock }) = expires {
                    let after = i64::try_from(after.as_millis()).unwrap_or(i64::MAX);
                    out.expire(clock, out.now(clock).map(|now| now.saturating_add(after)));
                }
            }
            Next::Delete => {
                out.set_state(Next::Delete);
                if let Some(TimeToLive { clock, .. }) = expires {
                    out.expire(clock, None);
                }
            }
        }
        Ok(())
    }
}
