//! Runs the stage over a batch. No transaction is open meanwhile: a slow record must not let one expire.

use std::future::Future;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use crate::config::BatchLimits;
use crate::error::Error;
use crate::kafka::{Batch, Header, Record};
use crate::stage::{Message, Output, StageError, Transformer};
use crate::worker::Stop;

/// How far a call of [`run`] came.
pub(crate) struct Done {
    /// Index behind the last record processed.
    pub(crate) until: usize,
    /// How many of the outputs are dead letters.
    pub(crate) dead_letters: usize,
}

/// Drives futures that wait.
pub(crate) struct Runtime(tokio::runtime::Runtime);

impl Runtime {
    pub(crate) fn new() -> Result<Self, Error> {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map(Runtime)
            .map_err(|source| Error::Io { what: "start the runtime for waiting stages".into(), source })
    }
}

/// Processes records from index `from` on, until the batch ends, a limit is reached, or the [`Stop`] of a record's partition is given;
/// `None` means that it was stopped at such a record, and that nothing may be committed.
#[allow(clippy::too_many_arguments)]
pub(crate) fn run<'a, S: Transformer>(
    stage: &S,
    batch: &Batch,
    from: usize,
    output: &mut Output,
    limits: &BatchLimits,
    dead_letter_topic: Option<&str>,
    runtime: &Runtime,
    stop: impl Fn(i32) -> &'a Stop,
) -> Result<Option<Done>, Error> {
    let started = Instant::now();
    let mut dead_letters = 0;
    for index in from..batch.len() {
        // Looked at now and then: a batch that cannot be committed any more is not worth finishing.
        if index % 64 == 0 && stop(batch.get(index).partition).is_stopped() {
            return Ok(None);
        }
        let cut = index > from
            && (output.byte_len() >= limits.bytes()
                || (index % 64 == 0 && started.elapsed() >= limits.max_processing_time));
        if cut {
            return Ok(Some(Done { until: index, dead_letters }));
        }
        let record = batch.get(index);
        output.begin_record(index, &record);
        let mark = output.mark();
        let result = match batch.unreadable(index) {
            Some(reason) => Err(StageError::new(reason)),
            None => match drive(stage.transform(&record, output), runtime, || stop(record.partition)) {
                Some(result) => result,
                None => return Ok(None),
            },
        };
        if let Err(reason) = result {
            output.rewind(mark);
            let Some(topic) = dead_letter_topic else { return Err(failed(&record, &reason)) };
            output.send(dead_letter(&record, topic, &reason));
            dead_letters += 1;
        }
    }
    Ok(Some(Done { until: batch.len(), dead_letters }))
}

/// Polls a future once in place, which is all that most stages need; only one that waits enters the runtime.
fn drive<'a, F: Future>(future: F, runtime: &Runtime, stop: impl Fn() -> &'a Stop) -> Option<F::Output> {
    let mut future = pin!(future);
    // Entered so that the future may create timers and sockets at its first poll.
    let guard = runtime.0.enter();
    if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        return Some(output);
    }
    drop(guard);
    runtime.0.block_on(wait(future, stop()))
}

async fn wait<F: Future>(future: Pin<&mut F>, stop: &Stop) -> Option<F::Output> {
    tokio::select! {
        output = future => Some(output),
        () = stop.stopped() => None,
    }
}

fn failed(record: &Record<'_>, reason: &StageError) -> Error {
    Error::Record {
        task: record.partition,
        topic: record.topic.to_owned(),
        partition: record.partition,
        offset: record.offset,
        key: printable_key(record.key),
        reason: reason.to_string(),
    }
}

/// Keys help to find a record; long or binary ones do not.
fn printable_key(key: Option<&[u8]>) -> Option<String> {
    let key = std::str::from_utf8(key?).ok()?;
    (key.len() <= 64 && !key.chars().any(char::is_control)).then(|| format!("{key:?}"))
}

/// The original record, unchanged, with headers that say where it was and what was wrong.
fn dead_letter<'a>(record: &Record<'a>, topic: &'a str, reason: &StageError) -> Message<'a> {
    let mut headers = record.headers.to_vec();
    let notes = [
        ("wattle.error", reason.to_string()),
        ("wattle.topic", record.topic.to_owned()),
        ("wattle.partition", record.partition.to_string()),
        ("wattle.offset", record.offset.to_string()),
    ];
    headers.extend(notes.map(|(name, value)| Header { name: name.to_owned(), value: Some(value.into_bytes()) }));
    Message::copy(record, topic).headers(headers)
}
