//! Sources that are not Kafka topics: records from a file or a generator, through a stage, into a sink.

use std::time::{Duration, Instant};

use crate::config::BatchLimits;
use crate::error::Error;
use crate::extract::{SourceConfig, SourceLane};
use crate::kafka::Batch;
use crate::lane::Sink;
use crate::metrics::Metrics;
use crate::stage::{Opened, Output, Transformer};
use crate::task::aside::AsideLog;
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

    /// The cursor behind the first `records` records of the batch that was filled last.
    fn cursor(&self, records: usize) -> Vec<u8>;
}

/// Runs a source to its end, or until `stop`: fill, process, deliver, and again. Without a position that is committed with
/// the outputs this is at least once: a restart begins at the source's beginning.
///
/// Returns whether the source came to its end with everything delivered; after a stop, what was read and not processed yet
/// (at most a batch) is not delivered.
///
/// # Errors
/// Those of the source, the stage and the sink.
pub fn run_source<T: Source + ?Sized, S: Transformer>(
    source: &mut T,
    stage: &mut S,
    sink: &mut dyn Sink,
    dead_letter_topic: Option<&str>,
    limits: &BatchLimits,
    metrics: &Metrics,
    stop: &Stop,
) -> Result<bool, Error> {
    let deliver = |_: &T, batch: &Batch, output: &mut Output, _| sink.deliver(batch, output, stop);
    while_open(stage, stop, |stage| {
        let ended = pump(source, stage, dead_letter_topic, limits, metrics, stop, deliver)?;
        Ok(ended == Ended::AtEnd)
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
    while_open(stage, stop, |stage| {
        let mut lane = SourceLane::connect(config, metrics)?;
        while lane.start(stop)? {
            source.resume(lane.cursor())?;
            let commit = |source: &T, batch: &Batch, output: &mut Output, done| {
                lane.commit(batch, output, source.cursor(done), stop)
            };
            match pump(source, stage, dead_letter_topic, limits, metrics, stop, commit)? {
                Ended::AtEnd => return Ok(true),
                Ended::Stopped => return Ok(false),
                Ended::Undelivered => {}
            }
        }
        Ok(false)
    })
}

/// Its name where there is no other.
const SOURCE: &str = "the source";
/// Longest time for a stage to close.
const CLOSE: Duration = Duration::from_secs(10);

fn while_open<S: Transformer>(
    stage: &mut S,
    stop: &Stop,
    work: impl FnOnce(&S) -> Result<bool, Error>,
) -> Result<bool, Error> {
    let Some(opened) = Opened::open(SOURCE, stage, stop)? else { return Ok(false) };
    let outcome = work(stage);
    let closed = opened.close(SOURCE, stage, CLOSE);
    outcome.and_then(|ended| closed.map(|()| ended))
}

/// Why [`pump`] has returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    AtEnd,
    Stopped,
    /// `deliver` has returned false.
    Undelivered,
}

/// `deliver` makes outputs durable; its last argument is how many records of the batch are done with them.
fn pump<T: Source + ?Sized, S: Transformer>(
    source: &mut T,
    stage: &S,
    dead_letter_topic: Option<&str>,
    limits: &BatchLimits,
    metrics: &Metrics,
    stop: &Stop,
    mut deliver: impl FnMut(&T, &Batch, &mut Output, usize) -> Result<bool, Error>,
) -> Result<Ended, Error> {
    let runtime = process::Runtime::new()?;
    let processing = Processing { stage, limits, dead_letter_topic, runtime: &runtime, timers: Firing::default() };
    let mut log = AsideLog::default();
    // What was processed is worth delivering: a stop takes effect where a batch is cut.
    let never = Stop::new();
    let mut batch = Batch::new(source.topics());
    let mut output = Output::default();
    while !stop.is_stopped() {
        batch.clear();
        let fill = source.fill(&mut batch, limits)?;
        let mut from = 0;
        while from < batch.len() {
            if stop.is_stopped() {
                return Ok(Ended::Stopped);
            }
            output.clear();
            let _open = metrics.open();
            let done = process::run(&processing, &batch, from, &mut output, |_| &never)?;
            let Done { until, aside, .. } = done.expect("nobody can stop it");
            let dead_letters = aside.dead_letters.count;
            let messages = output.len() - dead_letters;
            let started = Instant::now();
            if !deliver(source, &batch, &mut output, until)? {
                return Ok(Ended::Undelivered);
            }
            metrics.batch(until - from, messages, dead_letters, started.elapsed());
            metrics.skipped(aside.skipped.count);
            log.note(SOURCE, aside);
            from = until;
        }
        match fill {
            Fill::More => {}
            Fill::Wait(time) => stop.wait(time),
            Fill::End => return Ok(Ended::AtEnd),
        }
    }
    Ok(Ended::Stopped)
}
