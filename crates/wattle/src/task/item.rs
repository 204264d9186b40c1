//! A record, or a timer, on its way through the stage.

use std::borrow::Cow;

use crate::kafka::{Offset, Record};
use crate::stage::{Output, SetTimer, StageError, Timer, Transformer};
use crate::state::Due;

/// The index of what no record has made.
pub(super) const NO_RECORD: usize = usize::MAX;

/// What a stage is called with. It is the future's own, as the outputs are: so they need no borrow that outlives a poll.
pub(super) struct Work<'r> {
    pub(super) record: Record<'r>,
    pub(super) substitute: Option<Box<Option<Vec<u8>>>>,
    pub(super) timer: Option<Box<Due>>,
}

/// What a call of the stage leaves.
pub(super) type Ended = (Box<Output>, Result<(), StageError>);

/// One call of the stage.
pub(super) async fn attempt<S: Transformer>(stage: &S, work: Work<'_>, mut out: Box<Output>) -> Ended {
    if let Some(Due { clock, name, key, at }) = work.timer.as_deref() {
        let timer = Timer { task: work.record.partition, key, name, clock: *clock, at: *at };
        let result = stage.timer(&timer, &mut out).await;
        return (out, result);
    }
    let result = match &work.substitute {
        None => stage.transform(&work.record, &mut out).await,
        Some(value) => stage.transform(&Record { value: (**value).as_deref(), ..work.record }, &mut out).await,
    };
    (out, result)
}

/// What the stage has to be called with, and where that leads.
pub(super) struct Item<'r> {
    pub(super) index: usize,
    /// Of a timer, one without contents.
    pub(super) record: Record<'r>,
    pub(super) key: Option<Cow<'r, [u8]>>,
    pub(super) substitute: Option<Box<Option<Vec<u8>>>>,
    pub(super) timer: Option<Box<Due>>,
    /// The time of the stream.
    pub(super) time: Option<i64>,
    /// Where its outputs go.
    pub(super) segment: usize,
    /// Timers of its key that have fired before it.
    pub(super) fired: usize,
}

/// A task and a state key.
pub(super) type Bucket = (i32, Option<Box<[u8]>>);

impl<'r> Item<'r> {
    /// A timer. What it sends has its time, unless it says otherwise.
    pub(super) fn of_timer(task: i32, due: Due, time: Option<i64>, segment: usize) -> Self {
        let timestamp = Some(due.at);
        let record =
            Record { topic: "", partition: task, offset: Offset(0), timestamp, key: None, value: None, headers: &[] };
        let key = Some(Cow::Owned(due.key.to_vec()));
        let timer = Some(Box::new(due));
        Item { index: NO_RECORD, record, key, substitute: None, timer, time, segment, fired: 0 }
    }

    /// A timer that set itself to the time that it had would fire for ever.
    pub(super) fn check_timers(&self, timers: &[SetTimer]) -> Result<(), StageError> {
        let Some(due) = &self.timer else { return Ok(()) };
        let same = |timer: &&SetTimer| timer.clock == due.clock && timer.name == due.name;
        if timers.iter().filter(same).any(|timer| timer.at.is_some_and(|at| at <= due.at)) {
            return Err(StageError::new("it sets itself again, and not later than it was"));
        }
        Ok(())
    }

    /// The task, and the key of its state.
    pub(super) fn place(&self) -> (i32, Option<&[u8]>) {
        (self.record.partition, self.key.as_deref())
    }

    pub(super) fn bucket(&self) -> Bucket {
        (self.record.partition, self.key.as_deref().map(Into::into))
    }
}
