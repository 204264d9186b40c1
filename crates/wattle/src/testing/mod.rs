//! A whole stage in memory, for the unit tests of those who write one: no broker, no threads, no clock.

mod record;

use std::collections::BTreeMap;
use std::time::Duration;

pub use record::{TestMessage, TestRecord};

use crate::config::BatchLimits;
use crate::error::Error;
use crate::kafka::{Batch, Position};
use crate::stage::{Clock, Codec as _, Output, Stateful, StatefulTransformer, Transformer};
use crate::state::{Checkpoint, Ends, Memory, is_reserved};
use crate::task::aside::Aside;
use crate::task::gather::{Gather, Held};
use crate::task::process::{self, Firing, Processing, Runtime};
use crate::worker::Stop;

/// The name under which state changes are gathered; no stage can write to it.
const CHANGELOG: &str = "\0changelog";
const MEMORY: &str = "memory takes what it is told";

/// Runs a stage as a worker would: in batches, each of which is kept as a whole or not at all.
///
/// ```
/// use wattle::testing::{StageDriver, TestRecord};
/// # use wattle::{Message, Next, Output, Record, StageError, StatefulTransformer};
/// # struct Count;
/// # impl StatefulTransformer for Count {
/// #     type State = u64;
/// #     async fn transform(&self, record: &Record<'_>, n: Option<u64>, out: &mut Output) -> Result<Next<u64>, StageError> {
/// #         let n = n.unwrap_or(0) + 1;
/// #         out.send(Message::to("counts").key(record.key).json(&n)?);
/// #         Ok(Next::Set(n))
/// #     }
/// # }
/// let mut driver = StageDriver::stateful(Count);
/// driver.pipe(TestRecord::of("clicks").key("ada")).unwrap();
/// driver.pipe(TestRecord::of("clicks").key("ada")).unwrap();
/// let counts: Vec<u64> = driver.take_messages().iter().map(|message| message.json().unwrap()).collect();
/// assert_eq!(counts, [1, 2]);
/// assert_eq!(driver.state(0, "ada"), Some(2));
/// ```
pub struct StageDriver<S> {
    stage: S,
    runtime: Runtime,
    limits: BatchLimits,
    dead_letter_topic: Option<String>,
    skipped: u64,
    /// The wall clock, in milliseconds.
    now: i64,
    output: Output,
    messages: Vec<TestMessage>,
    changes: Vec<TestMessage>,
    /// Next to read, by topic and partition.
    positions: BTreeMap<(String, i32), Position>,
}

impl<S: Transformer> StageDriver<S> {
    /// A driver of a stage without state.
    ///
    /// # Panics
    /// Where the operating system has no timer left for a stage that waits.
    pub fn new(stage: S) -> Self {
        StageDriver {
            stage,
            runtime: Runtime::new().expect("a runtime"),
            limits: BatchLimits {
                max_bytes: Some(usize::MAX),
                max_processing_time: Duration::MAX,
                ..BatchLimits::default()
            },
            dead_letter_topic: None,
            skipped: 0,
            now: 0,
            output: Output::default(),
            messages: Vec::new(),
            changes: Vec::new(),
            positions: BTreeMap::new(),
        }
    }

    /// Records that the stage refuses go there from now on.
    #[must_use]
    pub fn dead_letter_topic(mut self, topic: impl Into<String>) -> Self {
        self.dead_letter_topic = Some(topic.into());
        self
    }

    /// Messages of a batch are gathered into groups from now on, as [`BatchLimits::gather`] says. The last ones end with their batch, as if their time were
    /// over. For stages without state.
    #[must_use]
    pub fn gather(mut self, gather: Gather) -> Self {
        self.limits.gather = Some(gather);
        self
    }

    /// Keys whose records are processed at once, where the stage waits; 64 unless set.
    ///
    /// # Panics
    /// Where it is 0.
    #[must_use]
    pub fn max_concurrent_keys(mut self, keys: usize) -> Self {
        assert!(keys > 0, "no record could be processed");
        self.limits.max_concurrent_keys = keys;
        self
    }

    /// Processes one record as a batch of its own.
    ///
    /// # Errors
    /// What stops a worker: a record that the stage refuses, with its place. Nothing of the batch is kept then.
    pub fn pipe(&mut self, record: TestRecord) -> Result<(), Error> {
        self.pipe_batch([record])
    }

    /// Processes records as one batch, in the order of a worker: by partition, then by topic in the order of their first record, then by
    /// offset. A record without an offset gets the next one of its partition.
    ///
    /// # Errors
    /// As [`StageDriver::pipe`].
    pub fn pipe_batch(&mut self, records: impl IntoIterator<Item = TestRecord>) -> Result<(), Error> {
        let records: Vec<TestRecord> = records.into_iter().collect();
        let (batch, positions) = self.batch(&records);
        self.open_states(&batch);
        self.run(&batch)?;
        self.positions.extend(positions);
        Ok(())
    }

    /// Moves the wall clock, which stands at 0 and never moves by itself, and fires what is due then, each round a batch of its own.
    ///
    /// ```
    /// use std::time::Duration;
    /// use wattle::testing::{StageDriver, TestRecord};
    /// use wattle::{Clock, Message, Next, Output, Record, StageError, StatefulTransformer, Timer};
    ///
    /// /// Says when a key has been silent for a minute.
    /// struct Silence;
    ///
    /// impl StatefulTransformer for Silence {
    ///     type State = u64;
    ///
    ///     async fn transform(&self, _: &Record<'_>, n: Option<u64>, out: &mut Output) -> Result<Next<u64>, StageError> {
    ///         let now = out.now(Clock::Wall).unwrap_or(0);
    ///         out.set_timer(Clock::Wall, "silent", now + 60_000)?;
    ///         Ok(Next::Set(n.unwrap_or(0) + 1))
    ///     }
    ///
    ///     async fn on_timer(&self, timer: &Timer<'_>, n: Option<u64>, out: &mut Output) -> Result<Next<u64>, StageError> {
    ///         out.send(Message::to("silent").key(timer.key).json(&n)?);
    ///         Ok(Next::Delete)
    ///     }
    /// }
    ///
    /// let mut driver = StageDriver::stateful(Silence);
    /// driver.pipe(TestRecord::of("clicks").key("ada")).unwrap();
    /// driver.advance(Duration::from_secs(59)).unwrap();
    /// assert!(driver.take_messages().is_empty());
    /// driver.advance(Duration::from_secs(1)).unwrap();
    /// assert_eq!(driver.take_messages()[0].json::<u64>().unwrap(), 1);
    /// assert_eq!(driver.state(0, "ada"), None);
    /// ```
    ///
    /// # Errors
    /// [`Error::Timer`] where the stage refuses one; what was fired before that batch is kept.
    pub fn advance(&mut self, time: Duration) -> Result<(), Error> {
        self.now += i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
        let is_due = |driver: &Self| {
            let states = &driver.output.states;
            states.tasks().into_iter().any(|task| states.due(task, driver.now).next().is_some())
        };
        while is_due(self) {
            self.run(&Batch::new(Vec::new()))?;
        }
        Ok(())
    }

    /// The timers that are set for a key: clock, name and time, in milliseconds since 1970.
    #[must_use]
    pub fn timers(&self, partition: i32, key: impl AsRef<[u8]>) -> Vec<(Clock, String, i64)> {
        self.output.states.timers_of(partition, key.as_ref())
    }

    /// One batch, with the timers that are due.
    fn run(&mut self, batch: &Batch) -> Result<(), Error> {
        self.output.clear();
        let (never, tasks) = (Stop::new(), self.output.states.tasks());
        let processing = Processing {
            stage: &self.stage,
            limits: &self.limits,
            dead_letter_topic: self.dead_letter_topic.as_deref(),
            cut_above: None,
            runtime: &self.runtime,
            timers: Firing { now: self.now, tasks: &tasks },
        };
        let done = match process::run(&processing, batch, 0, &mut self.output, |_| &never) {
            Ok(done) => done.expect("nobody can stop it"),
            Err(error) => {
                self.output.clear();
                return Err(error);
            }
        };
        self.skipped += done.aside.skipped.count as u64;
        self.output.log_states(CHANGELOG);
        let gathered = self.limits.gather.as_ref().map(|gather| {
            let mut held = Held::new(gather, self.dead_letter_topic.as_deref(), batch.topics());
            held.take(batch, 0..batch.len(), &self.output, Aside::default());
            held.end_all();
            held.ready.output
        });
        for message in gathered.as_ref().unwrap_or(&self.output).iter() {
            if message.topic != CHANGELOG {
                self.messages.push(TestMessage::of(&message));
            } else if !message.key.is_some_and(is_reserved) {
                self.changes.push(TestMessage::of(&message));
            }
        }
        self.output.states.commit(&Ends::new(), 0).expect(MEMORY);
        Ok(())
    }

    fn batch(&self, records: &[TestRecord]) -> (Batch, BTreeMap<(String, i32), Position>) {
        let mut topics: Vec<String> = Vec::new();
        for record in records {
            if !topics.contains(&record.topic) {
                topics.push(record.topic.clone());
            }
        }
        let mut positions = self.positions.clone();
        let mut batch = Batch::new(topics.clone());
        for record in records {
            let next = positions.entry((record.topic.clone(), record.partition)).or_insert(Position(0));
            let offset = record.offset.unwrap_or(next.0);
            *next = Position(offset + 1);
            let topic = topics.iter().position(|topic| *topic == record.topic).expect("gathered above");
            batch.push(topic, &record.view(offset));
        }
        batch.order();
        (batch, positions)
    }

    fn open_states(&mut self, batch: &Batch) {
        for index in 0..batch.len() {
            let task = batch.get(index).partition;
            if self.stage.is_stateful() && !self.output.states.is_open(task) {
                self.output.states.open(task, Box::new(Memory::default()));
            }
        }
    }

    /// The messages since the last call, dead letters included, in the order in which they would be written.
    pub fn take_messages(&mut self) -> Vec<TestMessage> {
        std::mem::take(&mut self.messages)
    }

    /// The changes of states since the last call, as the changelog would get them: one a key and batch; a null value deletes.
    /// Timers are seen by [`StageDriver::timers`].
    pub fn take_changes(&mut self) -> Vec<TestMessage> {
        std::mem::take(&mut self.changes)
    }

    /// How many invalid records were skipped so far.
    #[must_use]
    pub fn skipped(&self) -> u64 {
        self.skipped
    }

    /// The position that is committed of a partition: the offset of the record to read next.
    #[must_use]
    pub fn position(&self, topic: &str, partition: i32) -> Option<Position> {
        self.positions.get(&(topic.to_owned(), partition)).copied()
    }
}

impl<T: StatefulTransformer> StageDriver<Stateful<T>> {
    /// A driver of a stage with state.
    ///
    /// # Panics
    /// As [`StageDriver::new`].
    pub fn stateful(stage: T) -> Self {
        Self::new(Stateful(stage))
    }

    /// Gives a key a state, as if it had been committed before.
    ///
    /// # Panics
    /// Where the state has no bytes.
    #[must_use]
    pub fn with_state(mut self, partition: i32, key: impl AsRef<[u8]>, state: &T::State) -> Self {
        let mut value = Vec::new();
        state.encode(&mut value).expect("the state has bytes");
        let mut store = self.output.states.close(partition).unwrap_or_else(|| Box::new(Memory::default()));
        let checkpoint = Checkpoint { position: Position(0), owned_until: 0 };
        store.apply(&mut std::iter::once((key.as_ref(), Some(&*value))), checkpoint).expect(MEMORY);
        self.output.states.open(partition, store);
        self
    }

    /// The committed state of a key.
    ///
    /// # Panics
    /// Where what is kept is not a `T::State`.
    #[must_use]
    pub fn state(&self, partition: i32, key: impl AsRef<[u8]>) -> Option<T::State> {
        let bytes = self.output.states.committed(partition, key.as_ref()).expect(MEMORY)?;
        if T::State::is_no_state(&bytes) {
            return None;
        }
        Some(T::State::decode(&bytes).expect("the stage has written it"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stage::{Message, Next, StageError, transformer};
    use crate::{Offset, Record};

    /// Keeps the last value of a key; an empty one deletes it, and "bad" is refused.
    struct Last;

    impl StatefulTransformer for Last {
        type State = String;

        async fn transform(
            &self,
            record: &Record<'_>,
            state: Option<String>,
            out: &mut Output,
        ) -> Result<Next<String>, StageError> {
            let value = String::from_utf8_lossy(record.value.unwrap_or_default()).into_owned();
            out.send(Message::to("out").key(record.key).json(&state)?);
            match value.as_str() {
                "" => Ok(Next::Delete),
                "bad" => Err(StageError::new("refused")),
                "same" => Ok(Next::Keep),
                _ => Ok(Next::Set(value)),
            }
        }
    }

    fn record(key: &str, value: &str) -> TestRecord {
        TestRecord::of("in").key(key).value(value)
    }

    #[test]
    fn a_batch_sees_its_own_states_and_writes_the_last_of_each_key() {
        let mut driver = StageDriver::stateful(Last).with_state(0, "k", &"before".to_owned());
        driver.pipe_batch([record("k", "1"), record("k", "2"), record("l", "same")]).expect("good records");
        let seen: Vec<Option<String>> = driver.take_messages().iter().map(|m| m.json().expect("JSON")).collect();
        assert_eq!(seen, [Some("before".to_owned()), Some("1".to_owned()), None]);
        let changes = driver.take_changes();
        assert_eq!((changes.len(), changes[0].value.as_deref()), (1, Some(br#""2""#.as_slice())));
        driver.pipe(record("k", "")).expect("a good record");
        assert_eq!((driver.state(0, "k"), driver.take_changes()[0].value.as_deref()), (None, None));
        assert_eq!(driver.position("in", 0), Some(Position(4)));
    }

    #[test]
    fn a_batch_that_fails_leaves_nothing() {
        let mut driver = StageDriver::stateful(Last);
        let error = driver.pipe_batch([record("k", "1"), record("k", "bad")]).expect_err("it is refused");
        assert!(matches!(error, Error::Record { offset: Offset(1), .. }), "{error}");
        assert_eq!((driver.state(0, "k"), driver.take_messages().len(), driver.position("in", 0)), (None, 0, None));
        let mut driver = StageDriver::stateful(Last).dead_letter_topic("dead");
        driver.pipe_batch([record("k", "1"), record("k", "bad"), record("k", "same")]).expect("moved aside");
        let topics: Vec<String> = driver.take_messages().into_iter().map(|message| message.topic).collect();
        assert_eq!(topics, ["out", "dead", "out"]);
        assert_eq!(driver.state(0, "k"), Some("1".to_owned()));
    }

    #[test]
    fn a_record_without_a_key_has_no_state() {
        let mut driver = StageDriver::stateful(Last);
        let error = driver.pipe(TestRecord::of("in").value("1")).expect_err("no key");
        assert!(error.to_string().contains("invalid key: it is null"), "{error}");
        let mut copy = StageDriver::new(transformer(|record, out| {
            out.send(Message::copy(record, "out"));
            Ok(())
        }));
        copy.pipe(TestRecord::of("in").value("1").header("h", "x").timestamp(7)).expect("needs no key");
        let message = &copy.take_messages()[0];
        assert_eq!((message.timestamp, message.headers[0].name.as_str(), message.key.as_deref()), (Some(7), "h", None));
    }

    #[test]
    fn partitions_have_states_of_their_own() {
        let mut driver = StageDriver::stateful(Last);
        driver.pipe_batch([record("k", "a"), record("k", "b").partition(1)]).expect("good records");
        assert_eq!((driver.state(0, "k"), driver.state(1, "k")), (Some("a".to_owned()), Some("b".to_owned())));
    }
}
