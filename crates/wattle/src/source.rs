//! Sources that are not Kafka topics: records from a file or a generator, through a stage, into a sink.

use std::time::{Duration, Instant};

use crate::config::BatchLimits;
use crate::error::Error;
use crate::extract::{CursorLane, CursorName, SinkLane, SourceConfig, SourceLane};
use crate::kafka::Batch;
use crate::lane::{RefusedRecord, Sink, TransactionalSink};
use crate::metrics::Metrics;
use crate::stage::{Opened, Output, Transformer};
use crate::task::aside::{Aside, AsideLog, Care, Marks, put_aside};
use crate::task::gather::{Bundle, Held};
use crate::task::process::{self, Done, Firing, Processing};
use crate::worker::Stop;

/// Gives records in order, from one thread.
pub trait Source: Send {
    /// Adds records to `batch` until a limit is reached or there are none right now.
    ///
    /// # Errors
    /// Where the source cannot be read; the error says which, and where in it.
    fn fill(&mut self, batch: &mut Batch, limits: &BatchLimits) -> Result<Fill, Error>;

    /// The names that `Record::topic` shows; `Batch::push` takes indexes into them.
    fn topics(&self) -> Vec<String>;

    /// The first `records` records of the batch that was filled last and not empty are delivered, and committed where positions are: they are done with.
    ///
    /// # Errors
    /// Where the source cannot keep that.
    fn delivered(&mut self, records: usize) -> Result<(), Error> {
        let _ = records;
        Ok(())
    }

    /// Whether a restart gives again what was read and not delivered. Where it does not, a stop is the source's business: it is filled from and
    /// delivered until it says [`Fill::End`].
    fn replays(&self) -> bool {
        true
    }
}

/// What a [`Source`] has after a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fill {
    /// More may come at once.
    More,
    /// Nothing more comes before this time has passed.
    Wait(Duration),
    /// Nothing more will ever come.
    End,
}

/// A source that can go on where a cursor says.
pub trait Resume: Source {
    /// Goes to the place behind a cursor, or to the beginning. Called before the first `fill`, and again after a failure.
    ///
    /// # Errors
    /// [`Error::Cursor`] where the source is not the one that the cursor was made from.
    fn resume(&mut self, cursor: Option<&[u8]>) -> Result<(), Error>;

    /// The cursor behind the first `records` records of the batch that was filled last and not empty.
    fn cursor(&self, records: usize) -> Vec<u8>;
}

/// Runs a source to its end, or until `stop`: fill, process, deliver, and again. Without a position that is committed with
/// the outputs this is at least once: a restart begins at the source's beginning.
///
/// `name` is the stream's, for logs. Returns whether the source came to its end with everything delivered; after a stop, what was read and not processed yet
/// (at most a batch) is not delivered.
///
/// # Errors
/// Those of the source, the stage and the sink.
#[allow(clippy::too_many_arguments, reason = "what a stream is made of")]
pub fn run_source<T: Source + ?Sized, S: Transformer>(
    name: &str,
    source: &mut T,
    stage: &mut S,
    sink: &mut dyn Sink,
    dead_letter_topic: Option<&str>,
    limits: &BatchLimits,
    metrics: &Metrics,
    stop: &Stop,
) -> Result<bool, Error> {
    let mut deliver =
        |_: &T, batch: &Batch, output: &mut Output, _| Ok(sink.deliver(batch, output, stop)?.then(Vec::new));
    while_open(name, stage, stop, |stage| {
        let flow = Flow { name, stage, dead_letter_topic, limits, metrics, stop };
        let mut held = flow.held(source);
        Ok(flow.pump(source, &mut Marks::new(), &mut Care::default(), &mut held, &mut deliver)? == Ended::AtEnd)
    })
}

/// The same exactly once: each batch is a transaction with the source's cursor in it, and a start goes on behind the cursor that it
/// finds. Another process with the same transactional id that is started later takes over.
///
/// # Errors
/// Those of the source and the stage; those of a start (topics, settings, the broker); [`Error::TakenOver`], [`Error::Fenced`], and
/// [`Error::Refused`].
pub fn run_source_exactly_once<T: Resume + ?Sized, S: Transformer>(
    source: &mut T,
    stage: &mut S,
    config: &SourceConfig,
    dead_letter_topic: Option<&str>,
    limits: &BatchLimits,
    metrics: &Metrics,
    stop: &Stop,
) -> Result<bool, Error> {
    let name = &config.sink.name;
    while_open(name, stage, stop, |stage| {
        let mut lane = SourceLane::connect(config, metrics)?;
        Flow { name, stage, dead_letter_topic, limits, metrics, stop }.follow(&mut lane, source)
    })
}

/// The same exactly once into a sink with transactions of its own, which keeps the cursor under this name. Another process that is started
/// later with the same name and the same sink takes over.
///
/// # Errors
/// Those of the source and the stage; [`Error::PositionsTaken`], [`Error::Sink`], and what the sink adds.
#[allow(clippy::too_many_arguments, reason = "as its siblings, and the name")]
pub fn run_source_into<T: Resume + ?Sized, S: Transformer>(
    source: &mut T,
    stage: &mut S,
    sink: &mut dyn TransactionalSink,
    (name, cursor): (&str, &CursorName),
    dead_letter_topic: Option<&str>,
    limits: &BatchLimits,
    metrics: &Metrics,
    stop: &Stop,
) -> Result<bool, Error> {
    let place = (format!("{}:{}", cursor.source, cursor.topic).into(), cursor.partition);
    while_open(name, stage, stop, |stage| {
        let mut lane = SinkLane::new(name, sink, place, metrics);
        Flow { name, stage, dead_letter_topic, limits, metrics, stop }.follow(&mut lane, source)
    })
}

/// Longest time for a stage to close.
const CLOSE: Duration = Duration::from_secs(10);

fn while_open<S: Transformer>(
    name: &str,
    stage: &mut S,
    stop: &Stop,
    work: impl FnOnce(&S) -> Result<bool, Error>,
) -> Result<bool, Error> {
    let Some(opened) = Opened::open(name, stage, stop)? else { return Ok(false) };
    let outcome = work(stage);
    let closed = opened.close(name, stage, CLOSE);
    outcome.and_then(|ended| closed.map(|()| ended))
}

/// Why [`Flow::pump`] has returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    AtEnd,
    Stopped,
    /// `deliver` has returned `None`.
    Undelivered,
}

/// Makes outputs durable, and returns the records that were refused there and went elsewhere; its last argument is how many records of the batch
/// are done with them. `None`: they are not durable.
type Deliver<'a, T> = dyn FnMut(&T, &Batch, &mut Output, usize) -> Result<Option<Vec<RefusedRecord>>, Error> + 'a;

/// What a stream is made of, beside its source and where its outputs go.
struct Flow<'a, S> {
    name: &'a str,
    stage: &'a S,
    dead_letter_topic: Option<&'a str>,
    limits: &'a BatchLimits,
    metrics: &'a Metrics,
    stop: &'a Stop,
}

impl<S: Transformer> Flow<'_, S> {
    /// From the cursor that the lane finds to the end of the source, or until it is stopped; once more from the cursor where the lane has to start again.
    fn follow<T: Resume + ?Sized>(&self, lane: &mut impl CursorLane, source: &mut T) -> Result<bool, Error> {
        let (mut marks, mut care, mut held) = (Marks::new(), Care::default(), self.held(source));
        let mut before = None;
        while lane.start(self.stop)? {
            // They are counted from the cursor.
            if before != Some(lane.cursor().map(<[u8]>::to_vec)) {
                marks = Marks::new();
            }
            source.resume(lane.cursor())?;
            let mut commit = |source: &T, batch: &Batch, output: &mut Output, done| {
                lane.commit(batch, output, source.cursor(done), self.stop)
            };
            let ended = self.pump(source, &mut marks, &mut care, &mut held, &mut commit)?;
            before = Some(lane.cursor().map(<[u8]>::to_vec));
            match ended {
                Ended::AtEnd => return Ok(true),
                Ended::Stopped => return Ok(false),
                Ended::Undelivered => {}
            }
        }
        Ok(false)
    }

    /// Where outputs are gathered into groups.
    fn held<T: Source + ?Sized>(&self, source: &T) -> Option<Held> {
        let gather = self.limits.gather.as_ref()?;
        Some(Held::of_source(gather, self.dead_letter_topic, &source.topics()))
    }

    /// Fills, processes and delivers, to the end of the source or until it is stopped. `marks` are on records by their number behind what is delivered.
    fn pump<T: Source + ?Sized>(
        &self,
        source: &mut T,
        marks: &mut Marks<usize>,
        care: &mut Care,
        held: &mut Option<Held>,
        deliver: &mut Deliver<'_, T>,
    ) -> Result<Ended, Error> {
        let &Flow { name, stage, dead_letter_topic, limits, metrics, stop } = self;
        let runtime = process::Runtime::new()?;
        if let Some(held) = held {
            held.keep(|_| false);
        }
        let mut writer = Writer { name, deliver, metrics, care, log: AsideLog::default(), last: 0 };
        // What was processed is worth delivering: a stop takes effect where a batch is cut.
        let never = Stop::new();
        let mut batch = Batch::new(source.topics());
        let mut output = Output::default();
        let replays = source.replays();
        let stopped = || stop.is_stopped() && replays;
        while !stopped() {
            batch.clear();
            let fill = source.fill(&mut batch, limits)?;
            marks.apply(&mut batch, |_, index| index);
            let mut from = 0;
            while from < batch.len() {
                if stopped() {
                    return Ok(Ended::Stopped);
                }
                output.clear();
                let _open = metrics.open();
                let cut_above = writer.care.cut_above(held.is_some());
                let (runtime, timers) = (&runtime, Firing::default());
                let processing = Processing { stage, limits, dead_letter_topic, cut_above, runtime, timers };
                let done = process::run(&processing, &batch, from, &mut output, |_| &never)?;
                let Done { until, aside, .. } = done.expect("nobody can stop it");
                let written = if let Some(held) = held.as_mut() {
                    let free = held.take(&batch, from..until, &output, aside);
                    writer.write_groups(source, held, free)?
                } else {
                    let (records, dead_letters) = (until - from, aside.dead_letters.count);
                    let part = Part { batch: &batch, output: &mut output, aside, records, dead_letters };
                    match writer.write(source, part, until) {
                        Err(error) if put_aside(&error, &output, &mut batch, dead_letter_topic) => {
                            tracing::debug!("{name}: runs again with a record put aside: {error}");
                            writer.care.learn(&error);
                            marks.keep(&batch, from, |index| index - from);
                            continue;
                        }
                        written => written?,
                    }
                };
                if !written {
                    return Ok(Ended::Undelivered);
                }
                marks.rename(|number: usize| number.checked_sub(until - from));
                from = until;
                writer.last = until;
            }
            if let Some(held) = held.as_mut() {
                let at_end = fill == Fill::End && !stop.is_stopped();
                if at_end {
                    held.end_all()
                } else {
                    held.end_old(usize::MAX)
                }
                if !writer.write_groups(source, held, writer.last)? {
                    return Ok(Ended::Undelivered);
                }
            }
            match fill {
                Fill::More => {}
                Fill::Wait(time) => {
                    if !writer.rest(source, held.as_mut(), time, stop)? {
                        return Ok(Ended::Undelivered);
                    }
                }
                Fill::End if !replays && stop.is_stopped() => break,
                Fill::End => return Ok(Ended::AtEnd),
            }
        }
        Ok(Ended::Stopped)
    }
}

/// The lane of a source, for the metrics.
const LANE: i32 = 0;

/// Delivers, and says so.
struct Writer<'a, T: ?Sized> {
    name: &'a str,
    deliver: &'a mut Deliver<'a, T>,
    metrics: &'a Metrics,
    care: &'a mut Care,
    log: AsideLog,
    /// How many records the last batch had that had any.
    last: usize,
}

/// What is delivered at once.
struct Part<'a> {
    batch: &'a Batch,
    output: &'a mut Output,
    aside: Aside,
    records: usize,
    dead_letters: usize,
}

impl<T: Source + ?Sized> Writer<'_, T> {
    /// Behind it the first `until` records of the batch that was filled are done with. Returns false where `deliver` has returned `None`.
    fn write(&mut self, source: &mut T, part: Part<'_>, until: usize) -> Result<bool, Error> {
        let Part { batch, output, mut aside, records, dead_letters } = part;
        let messages = output.len() - dead_letters;
        let started = Instant::now();
        let Some(refused) = (self.deliver)(source, batch, output, until)? else { return Ok(false) };
        let (withdrawn, letters) = aside.refused(refused, batch, output);
        self.metrics.batch(records, messages - withdrawn, dead_letters + letters, started.elapsed());
        self.metrics.skipped(aside.skipped.count);
        self.log.note(self.name, aside);
        self.care.committed();
        source.delivered(until)?;
        Ok(true)
    }

    /// The same for what has come out of groups.
    fn write_groups(&mut self, source: &mut T, held: &mut Held, until: usize) -> Result<bool, Error> {
        self.metrics.held(LANE, held.since());
        let records = held.records();
        if records == 0 {
            return Ok(true);
        }
        let _open = self.metrics.open();
        loop {
            let (aside, dead_letters) = (held.aside.clone(), held.dead_letters());
            let Bundle { batch, output } = &mut held.ready;
            match self.write(source, Part { batch, output, aside, records, dead_letters }, until) {
                Err(error) if held.put_aside(&error) => self.care.learn(&error),
                Ok(true) => {
                    held.committed();
                    return Ok(true);
                }
                written => return written,
            }
        }
    }

    /// Waits; groups end meanwhile.
    fn rest(&mut self, source: &mut T, held: Option<&mut Held>, time: Duration, stop: &Stop) -> Result<bool, Error> {
        let started = Instant::now();
        if let Some(held) = held {
            while let Some(due) = held.due_in().filter(|due| *due < time.saturating_sub(started.elapsed())) {
                stop.wait(due);
                if stop.is_stopped() {
                    return Ok(true);
                }
                held.end_old(usize::MAX);
                if !self.write_groups(source, held, self.last)? {
                    return Ok(false);
                }
            }
        }
        stop.wait(time.saturating_sub(started.elapsed()));
        Ok(true)
    }
}

impl<T: ?Sized> Drop for Writer<'_, T> {
    fn drop(&mut self) {
        self.metrics.held(LANE, None);
    }
}
