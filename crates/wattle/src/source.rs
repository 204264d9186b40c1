//! Sources that are not Kafka topics: records from a file or a generator, through a stage, into a sink.

use std::time::{Duration, Instant};

use crate::config::BatchLimits;
use crate::error::Error;
use crate::kafka::Batch;
use crate::lane::Sink;
use crate::metrics::Metrics;
use crate::stage::{Output, Transformer};
use crate::task::process::{self, Done};
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

/// Runs a source to its end, or until `stop`: fill, process, deliver, and again. Without a position that is committed with
/// the outputs this is at least once: a restart begins at the source's beginning.
///
/// Returns whether the source came to its end with everything delivered; after a stop, what was read and not processed yet
/// (at most a batch) is not delivered.
///
/// # Errors
/// Those of the source, the stage and the sink.
pub fn run_source<S: Transformer>(
    source: &mut dyn Source,
    stage: &S,
    sink: &mut dyn Sink,
    dead_letter_topic: Option<&str>,
    limits: &BatchLimits,
    metrics: &Metrics,
    stop: &Stop,
) -> Result<bool, Error> {
    let runtime = process::Runtime::new()?;
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
                return Ok(false);
            }
            output.clear();
            let done = process::run(stage, &batch, from, &mut output, limits, dead_letter_topic, &runtime, &never)?;
            let Done { until, dead_letters } = done.expect("nobody can stop it");
            let started = Instant::now();
            sink.deliver(&batch, &output)?;
            metrics.batch(until - from, output.len() - dead_letters, dead_letters, started.elapsed());
            from = until;
        }
        match fill {
            Fill::More => {}
            Fill::Wait(time) => stop.wait(time),
            Fill::End => return Ok(true),
        }
    }
    Ok(false)
}
