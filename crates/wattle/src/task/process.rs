//! Runs the stage over a batch. No transaction is open meanwhile: a slow record must not let one expire.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

use super::aside::Aside;
use super::buckets::Buckets;
use super::item::{Ended, Work, attempt};
use crate::config::BatchLimits;
use crate::error::{Error, panic_text};
use crate::kafka::Batch;
use crate::stage::{Output, Transformer};
use crate::worker::Stop;

/// How far a call of [`run`] came.
#[derive(Debug, Default)]
pub(crate) struct Done {
    /// Index behind the last record processed.
    pub(crate) until: usize,
    /// Tasks of which timers have fired.
    pub(crate) fired: BTreeSet<i32>,
    /// Records that were not processed. A dead letter is among the outputs.
    pub(crate) aside: Aside,
}

/// Drives futures that wait.
pub(crate) struct Runtime(pub(super) tokio::runtime::Runtime);

impl Runtime {
    pub(crate) fn new() -> Result<Self, Error> {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map(Runtime)
            .map_err(|source| Error::Io { what: "start the runtime for waiting stages".into(), source })
    }
}

impl Runtime {
    /// Refuses a thread of an async runtime, which may not wait.
    pub(crate) fn check() -> Result<(), Error> {
        if tokio::runtime::Handle::try_current().is_err() {
            return Ok(());
        }
        let runtime = Runtime::new()?;
        // A thread for blocking work has a handle too, and may wait. No question but this one tells them apart.
        let may_wait = catch_unwind(|| runtime.0.block_on(async {}));
        std::mem::forget(runtime); // nor may such a thread end a runtime
        may_wait.map_err(|_| {
            let problem = "run blocks its thread, and was called on one of an async runtime: call it on a thread of its own, or by \
                           tokio::task::spawn_blocking";
            Error::Config { problems: vec![problem.to_owned()] }
        })
    }
}

/// What a batch is processed by.
pub(crate) struct Processing<'a, S> {
    pub(crate) stage: &'a S,
    pub(crate) limits: &'a BatchLimits,
    pub(crate) dead_letter_topic: Option<&'a str>,
    /// A record of more bytes of outputs is the last one.
    pub(crate) cut_above: Option<usize>,
    pub(crate) runtime: &'a Runtime,
    pub(crate) timers: Firing<'a>,
}

/// Which timers may fire behind the records.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Firing<'a> {
    /// The time of the wall clock, in milliseconds since 1970.
    pub(crate) now: i64,
    pub(crate) tasks: &'a [i32],
}

/// Processes records from index `from` on, until the batch ends, a limit is reached, or the [`Stop`] of a record's partition is given;
/// `None` means that it was stopped at such a record, and that nothing may be committed.
pub(crate) fn run<'a, S: Transformer>(
    processing: &Processing<'_, S>,
    batch: &Batch,
    from: usize,
    output: &mut Output,
    stop: impl Fn(i32) -> &'a Stop,
) -> Result<Option<Done>, Error> {
    let stage = processing.stage;
    let mut buckets = Buckets::new(processing, batch, output, |work, out| attempt(stage, work, out));
    let work = AssertUnwindSafe(|| process(&mut buckets, processing, batch, from, stop));
    let done = catch_unwind(work).unwrap_or_else(|panic| Err(buckets.panicked(panic_text(panic.as_ref()))));
    // Also where it was stopped: the states stay those of the lane.
    buckets.hand_back(output);
    done
}

fn process<'a, 'r, S: Transformer, F: Future<Output = Ended>>(
    buckets: &mut Buckets<'r, S, F, impl Fn(Work<'r>, Box<Output>) -> F>,
    processing: &Processing<'_, S>,
    batch: &'r Batch,
    from: usize,
    stop: impl Fn(i32) -> &'a Stop,
) -> Result<Option<Done>, Error> {
    let (started, limits) = (Instant::now(), processing.limits);
    let mut until = batch.len();
    let mut written = 0;
    for index in from..batch.len() {
        // Looked at now and then: a batch that cannot be committed any more is not worth finishing.
        if index % 64 == 0 && stop(batch.get(index).partition).is_stopped() {
            return Ok(None);
        }
        let before = std::mem::replace(&mut written, buckets.byte_len());
        let cut = index > from
            && (written >= limits.bytes()
                || processing.cut_above.is_some_and(|bytes| written.saturating_sub(before) > bytes)
                || (index % 64 == 0 && started.elapsed() >= limits.max_processing_time));
        if cut {
            until = index;
            break;
        }
        buckets.admit(index)?;
        if buckets.is_full() && !buckets.make_room(&stop)? {
            return Ok(None);
        }
    }
    // Behind a cut come records that may be older than what is due.
    let through = buckets.finish(&stop)? && (until < batch.len() || buckets.fire(&stop)?);
    buckets.keep_times();
    Ok(through.then(|| buckets.done(until)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_on_a_thread_of_an_async_runtime_is_refused_and_one_for_blocking_work_is_not() {
        Runtime::check().expect("a thread of its own");
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        runtime.block_on(async {
            let error = Runtime::check().expect_err("it would stop the runtime");
            assert!(error.to_string().contains("spawn_blocking"), "{error}");
            tokio::task::spawn_blocking(Runtime::check).await.expect("no panic").expect("it may wait");
        });
    }
}
