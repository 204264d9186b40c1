//! The records of a batch by key: one key after another where the stage never waits; where it does, several keys at once.
//!
//! Each future is polled once where it is made, which is all that most stages need. One that waits joins [`Buckets::waiting`], and the next
//! records of its key queue up behind it. Outputs are written in *segments*: what comes behind a record that waits goes into a segment of its
//! own, so that they end in the order of the records, whatever the order in which they are made.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use tokio::runtime::EnterGuard;

use super::failure::{dead_letter, failed_record, printable_key, timer_failed, unreadable_state};
use super::item::{Bucket, Ended, Item, NO_RECORD, Work};
use super::process::{Done, Firing, Processing};
use crate::error::Error;
use crate::invariant::w6_records_of_a_key_run_serially;
use crate::kafka::{Batch, Record, Refused};
use crate::stage::{Invalid, Mark, Next, OnInvalid, Output, Part, SetTimer, StageError, Transformer};
use crate::state::{Due, TaskStates, timer_time};
use crate::worker::Stop;

/// Records that may queue up, for each that may wait.
const QUEUED: usize = 16;
/// Why timers of a key that set each other are refused.
const ENDLESS: &str = "timers of its key have fired as often as a batch has records before a single one: each sets another that is due at once. Set the next \
                       one by what Output::now says, and not by the time that this one was set to";

type Stopped = Pin<Box<dyn Future<Output = ()> + Send>>;
/// Room for a future, used again when the future has ended without waiting.
type Slot<F> = Pin<Box<Option<F>>>;

/// A future that waits.
struct Waiting<'r, F> {
    item: Item<'r>,
    mark: Mark,
    slot: Slot<F>,
}

/// Whether an item is through.
enum Settled {
    Yes,
    /// It is to be processed with a substitute.
    Again,
}

pub(super) struct Buckets<'r, S, F, M> {
    processing: &'r Processing<'r, S>,
    batch: &'r Batch,
    /// So that a future may create timers and sockets at its first poll.
    _entered: EnterGuard<'r>,
    make: M,
    states: TaskStates,
    /// Outputs in the order of the records. The last one is open; one that is with a call of the stage is not here.
    segments: Vec<Option<Box<Output>>>,
    /// Of all segments but the open one.
    bytes: usize,
    spare: Option<Slot<F>>,
    /// In the order in which they were begun.
    waiting: Vec<Waiting<'r, F>>,
    /// Keys of which a record waits, and those of its records that come behind.
    queues: HashMap<Bucket, VecDeque<Item<'r>>>,
    queued: usize,
    stopped: Option<Vec<Stopped>>,
    /// The record that the stage was called with last, and its task.
    current: (usize, i32),
    done: Done,
}

impl<'r, S: Transformer, F: Future<Output = Ended>, M: Fn(Work<'r>, Box<Output>) -> F> Buckets<'r, S, F, M> {
    pub(super) fn new(processing: &'r Processing<'r, S>, batch: &'r Batch, output: &mut Output, make: M) -> Self {
        let mut output = std::mem::take(output);
        Buckets {
            processing,
            batch,
            _entered: processing.runtime.0.enter(),
            make,
            states: std::mem::take(&mut output.states),
            segments: vec![Some(Box::new(output))],
            bytes: 0,
            spare: None,
            waiting: Vec::new(),
            queues: HashMap::new(),
            queued: 0,
            stopped: None,
            current: (NO_RECORD, 0),
            done: Done::default(),
        }
    }

    /// Bytes of what is sent so far.
    pub(super) fn byte_len(&self) -> usize {
        self.bytes + self.segments.last().and_then(Option::as_ref).map_or(0, |open| open.byte_len())
    }

    /// Begins a record, or puts it behind one of its key that waits.
    pub(super) fn admit(&mut self, index: usize) -> Result<(), Error> {
        let segment = self.segments.len() - 1;
        let record = self.batch.get(index);
        let time = self.advance(&record);
        let mut item = Item { index, record, key: None, substitute: None, timer: None, time, segment, fired: 0 };
        if let Some(Refused { reason, stage }) = &self.batch.mark(index).refused {
            let error = StageError::new(&**reason);
            let error = if let Some(stage) = stage { error.in_stage(stage) } else { error };
            return self.refuse(&mut item, error).map(drop);
        }
        while let Err(reason) = self.find_key(&mut item) {
            if let Settled::Yes = self.refuse(&mut item, reason)? {
                return Ok(());
            }
        }
        if !self.queues.is_empty()
            && let Some(queue) = self.queues.get_mut(&item.bucket())
        {
            queue.push_back(item);
            self.queued += 1;
            self.open_segment();
            return Ok(());
        }
        self.begin(item).map(drop)
    }

    fn advance(&mut self, record: &Record<'_>) -> Option<i64> {
        if !self.processing.stage.is_stateful() {
            return None;
        }
        self.states.set_current(record.partition);
        self.states.advance(record.timestamp)
    }

    /// Does what is to be done about a record that the stage is not called with.
    fn refuse(&mut self, item: &mut Item<'r>, reason: StageError) -> Result<Settled, Error> {
        let mut out = self.take(item.segment);
        out.begin_record(item.index, &item.record);
        let mark = out.mark();
        self.settle(item, mark, (out, Err(reason)))
    }

    fn take(&mut self, segment: usize) -> Box<Output> {
        self.segments[segment].take().unwrap_or_default()
    }

    fn find_key(&self, item: &mut Item<'r>) -> Result<(), StageError> {
        item.key = match &item.substitute {
            None => self.processing.stage.key(&item.record)?,
            Some(value) => {
                let record = Record { value: (**value).as_deref(), ..item.record };
                self.processing.stage.key(&record)?.map(|key| Cow::Owned(key.into_owned()))
            }
        };
        Ok(())
    }

    fn open_segment(&mut self) {
        self.bytes += self.segments.last().and_then(Option::as_ref).map_or(0, |open| open.byte_len());
        self.segments.push(None);
    }

    /// Begins a record behind the timers of its key that are due by then. Returns whether it is through; otherwise its key waits.
    fn begin(&mut self, mut item: Item<'r>) -> Result<bool, Error> {
        while let Some(due) = self.due_before(&item) {
            item.fired += 1;
            if item.fired > self.processing.limits.records() {
                return Err(timer_failed(item.record.partition, &due, &StageError::new(ENDLESS)));
            }
            let timer = Item::of_timer(item.record.partition, due, item.time, item.segment);
            if !self.call(timer)? {
                self.queues.entry(item.bucket()).or_default().push_front(item);
                self.queued += 1;
                return Ok(false);
            }
        }
        self.call(item)
    }

    fn due_before(&mut self, item: &Item<'_>) -> Option<Due> {
        if item.timer.is_some() || !self.processing.stage.is_stateful() {
            return None;
        }
        self.states.set_current(item.record.partition);
        self.states.due_of(item.key.as_deref()?, item.time)
    }

    /// Calls the stage. Returns whether the item is through; otherwise it waits.
    fn call(&mut self, mut item: Item<'r>) -> Result<bool, Error> {
        let running = self.waiting.iter().map(|waiting| waiting.item.place());
        w6_records_of_a_key_run_serially(&item.place(), running);
        loop {
            let mut out = self.take(item.segment);
            out.begin_record(item.index, &item.record);
            if self.processing.stage.is_stateful() {
                let key = item.key.as_deref().expect("a stage with state has a key for every record");
                self.states.set_current(item.record.partition);
                out.load_state(self.states.get(key).as_deref(), (item.time, self.processing.timers.now));
                if let Some(due) = &item.timer {
                    self.states.set(&due.stored(), None, item.index);
                    self.done.fired.insert(item.record.partition);
                }
            }
            let mark = out.mark();
            self.current = (item.index, item.record.partition);
            let mut slot = self.spare.take().unwrap_or_else(|| Box::pin(None));
            let (substitute, timer) = (item.substitute.clone(), item.timer.clone());
            slot.set(Some((self.make)(Work { record: item.record, substitute, timer }, out)));
            let future = slot.as_mut().as_pin_mut().expect("set in the line above");
            let Poll::Ready(ended) = future.poll(&mut Context::from_waker(Waker::noop())) else {
                if item.segment + 1 == self.segments.len() {
                    self.open_segment();
                }
                self.queues.entry(item.bucket()).or_default();
                self.waiting.push(Waiting { item, mark, slot });
                return Ok(false);
            };
            slot.set(None);
            self.spare = Some(slot);
            if let Settled::Yes = self.settle(&mut item, mark, ended)? {
                return Ok(true);
            }
        }
    }

    /// Keeps what a call has left, or does what is to be done about its failure.
    fn settle(&mut self, item: &mut Item<'r>, mark: Mark, (mut out, result): Ended) -> Result<Settled, Error> {
        let timers = out.take_timers();
        let settled = match result.and_then(|()| item.check_timers(&timers)) {
            Ok(()) => {
                self.keep_state(item, out.take_state(), &timers);
                Settled::Yes
            }
            Err(reason) => {
                out.rewind(mark);
                self.judge(item, &mut out, reason)?
            }
        };
        if item.segment + 1 < self.segments.len() {
            self.bytes += out.byte_len();
        }
        self.segments[item.segment] = Some(out);
        Ok(settled)
    }

    fn keep_state(&mut self, item: &Item<'r>, next: Next<Vec<u8>>, timers: &[SetTimer]) {
        if timers.is_empty() && next == Next::Keep {
            return;
        }
        let key = item.key.as_deref().expect("a stage with state has a key for every record");
        self.states.set_current(item.record.partition);
        for timer in timers {
            self.states.set_timer(key, timer, item.index);
        }
        let value = match next {
            Next::Keep => return,
            Next::Set(value) => Some(value),
            Next::Delete => None,
        };
        self.states.set(key, value, item.index);
    }

    fn judge(&mut self, item: &mut Item<'r>, out: &mut Output, reason: StageError) -> Result<Settled, Error> {
        let record = item.record;
        if let Some(due) = &item.timer {
            return Err(timer_failed(record.partition, due, &reason));
        }
        if reason.is_about_state() {
            return Err(unreadable_state(&record, item.key.as_deref(), &reason));
        }
        let Some(part) = reason.invalid_part() else { return self.fail(item.index, out, &reason) };
        match self.processing.stage.on_invalid(&Invalid { record, part, reason: &reason }) {
            OnInvalid::Fail => self.fail(item.index, out, &reason),
            OnInvalid::Skip => {
                self.done.aside.skipped.add(&record, &reason);
                Ok(Settled::Yes)
            }
            OnInvalid::Substitute(_) if part == Part::Key => {
                let text = format!("{reason}; a key has no substitute, since it says whose state the record is about");
                self.fail(item.index, out, &StageError::new(text))
            }
            OnInvalid::Substitute(_) if item.substitute.is_some() => {
                self.fail(item.index, out, &StageError::new(format!("also its substitute: {reason}")))
            }
            OnInvalid::Substitute(value) => {
                let before = item.key.clone();
                item.substitute = Some(Box::new(value));
                // A record that has its place among those of a key cannot move to another one.
                if before.is_some() {
                    let moved = self.find_key(item).map(|()| item.key != before);
                    if !matches!(moved, Ok(false)) {
                        return self.fail(item.index, out, &StageError::new("its substitute has another state key"));
                    }
                }
                Ok(Settled::Again)
            }
        }
    }

    fn fail(&mut self, index: usize, out: &mut Output, reason: &StageError) -> Result<Settled, Error> {
        let record = self.batch.get(index);
        let Some(topic) = self.processing.dead_letter_topic else { return Err(failed_record(&record, reason)) };
        out.send(dead_letter(&record, topic, reason));
        if self.batch.mark(index).is_cut {
            out.shorten(out.len() - 1);
        }
        self.done.aside.dead_letters.add(&record, reason);
        Ok(Settled::Yes)
    }

    /// Whether as many wait, or queue up, as may.
    pub(super) fn is_full(&self) -> bool {
        let most = self.processing.limits.max_concurrent_keys;
        self.waiting.len() >= most || self.queued >= most * QUEUED
    }

    /// Waits until one more may begin. Returns false if it was stopped.
    pub(super) fn make_room<'a>(&mut self, stop: &impl Fn(i32) -> &'a Stop) -> Result<bool, Error> {
        while self.is_full() {
            if !self.wait(stop)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Waits until every record that was begun is through. Returns false if it was stopped.
    pub(super) fn finish<'a>(&mut self, stop: &impl Fn(i32) -> &'a Stop) -> Result<bool, Error> {
        while !self.waiting.is_empty() {
            if !self.wait(stop)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Waits for one of those that wait, and goes on with its key.
    fn wait<'a>(&mut self, stop: &impl Fn(i32) -> &'a Stop) -> Result<bool, Error> {
        let stopped = self.stopped.get_or_insert_with(|| {
            let of_records = (0..self.batch.len()).map(|index| self.batch.get(index).partition);
            let tasks: BTreeSet<i32> = of_records.chain(self.processing.timers.tasks.iter().copied()).collect();
            tasks.into_iter().map(|task| Box::pin(stop(task).clone().into_stopped()) as Stopped).collect()
        });
        let (waiting, current) = (&mut self.waiting, &mut self.current);
        // Every one is polled, not only those that were woken: the runtime forgets a wake-up that it has put off to its next turn (of a
        // future that has yielded) when this call of it ends.
        let ended = self.processing.runtime.0.block_on(poll_fn(|context| {
            for (index, Waiting { slot, item, .. }) in waiting.iter_mut().enumerate() {
                *current = (item.index, item.record.partition);
                let future = slot.as_mut().as_pin_mut().expect("it waits");
                if let Poll::Ready(ended) = future.poll(context) {
                    return Poll::Ready(Some((index, ended)));
                }
            }
            let stopped = stopped.iter_mut().any(|stopped| stopped.as_mut().poll(context).is_ready());
            if stopped { Poll::Ready(None) } else { Poll::Pending }
        }));
        let Some((index, ended)) = ended else { return Ok(false) };
        let Waiting { mut item, mark, mut slot } = self.waiting.remove(index);
        slot.set(None);
        self.spare = Some(slot);
        let bucket = item.bucket();
        let through = match self.settle(&mut item, mark, ended)? {
            Settled::Yes => true,
            Settled::Again => self.begin(item)?,
        };
        if through {
            self.go_on(bucket)?;
        }
        Ok(true)
    }

    /// Begins the records of a key that queue up, until one waits.
    fn go_on(&mut self, bucket: Bucket) -> Result<(), Error> {
        loop {
            let Some(item) = self.queues.get_mut(&bucket).and_then(VecDeque::pop_front) else {
                self.queues.remove(&bucket);
                return Ok(());
            };
            self.queued -= 1;
            if !self.begin(item)? {
                return Ok(());
            }
        }
    }

    /// Begins the timers that are due, as far as the limits of a batch allow; the others are due again behind it. Returns false if it was
    /// stopped.
    pub(super) fn fire<'a>(&mut self, stop: &impl Fn(i32) -> &'a Stop) -> Result<bool, Error> {
        let (Firing { now, tasks }, limits, started) = (self.processing.timers, self.processing.limits, Instant::now());
        let most = limits.records();
        let due = tasks.iter().flat_map(|task| self.states.due(*task, now).map(move |(due, time)| (*task, due, time)));
        let due: Vec<_> = due.take(most).collect();
        for (count, (task, due, time)) in due.into_iter().enumerate() {
            if stop(task).is_stopped() {
                return Ok(false);
            }
            let full = self.byte_len() >= limits.bytes() || started.elapsed() >= limits.max_processing_time;
            if count > 0 && full {
                break;
            }
            // One of its key that came before it may clear it, or move it.
            let key_waits = self.queues.contains_key(&(task, Some(due.key.clone())));
            if (key_waits && !self.finish(stop)?) || !self.make_room(stop)? {
                return Ok(false);
            }
            self.states.set_current(task);
            if self.states.get(&due.stored()).and_then(|at| timer_time(&at)) == Some(due.at) {
                self.call(Item::of_timer(task, due, time, self.segments.len() - 1))?;
            }
        }
        self.finish(stop)
    }

    /// Keeps the times of the streams by which timers go.
    pub(super) fn keep_times(&mut self) {
        for task in self.states.tasks() {
            self.states.keep_time(task, NO_RECORD);
        }
    }

    /// What was done, up to the record at `until`.
    pub(super) fn done(&mut self, until: usize) -> Done {
        Done { until, ..std::mem::take(&mut self.done) }
    }

    /// Where the stage was when it panicked.
    pub(super) fn panicked(&self, message: String) -> Error {
        let (index, task) = self.current;
        let what = if index < self.batch.len() {
            let Record { topic, partition, offset, key, .. } = self.batch.get(index);
            let key = printable_key(key).map(|key| format!(" (key {key})")).unwrap_or_default();
            format!("the stage, at {topic}/{partition} offset {offset}{key},")
        } else {
            format!("the stage, at a timer of task {task},")
        };
        Error::Panic { what, message }
    }

    /// Gives the outputs back, in the order of the records, with the states.
    pub(super) fn hand_back(self, output: &mut Output) {
        let mut segments = self.segments.into_iter().flatten();
        *output = segments.next().map(|first| *first).unwrap_or_default();
        segments.for_each(|segment| output.append(*segment));
        output.states = self.states;
    }
}
