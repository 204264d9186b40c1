//! The one policy by which outputs try again whose clients do not: after 0.1 s, 0.2 s, 0.4 s … up to 10 s, until it works, until the time or the
//! number of the policy is over, or until the task is not ours any more. Whoever watches the stream sees it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use wattle::{Batch, Output, Place, RefusedRecord, SinkFailure, Stop, TransactionalSink, TransactionalSinkFactory};

use super::part::{Gauge, Part};
use crate::spec::RetryPolicy;

const FIRST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(10);
/// What an output asks for by itself (`Retry-After`) is not waited for longer.
const LONGEST_ASKED: Duration = Duration::from_secs(120);
/// Between two log lines about one failure.
const REMIND: Duration = Duration::from_secs(60);

/// Why a write has failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// It may work later, `after` this time at the earliest.
    Later { reason: String, after: Option<Duration> },
    /// It never will.
    Never { reason: String },
}

/// What became of a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Written {
    Yes,
    /// It was refused, with the reason.
    Refused(String),
    /// It has failed for as long as the policy allows; with the reason.
    GivenUp(String),
    /// Nobody wants it any more.
    Stopped,
}

/// Tries again, for one task's output.
pub(super) struct Retry {
    policy: RetryPolicy,
    condition: Arc<Condition>,
    id: u64,
}

/// What a stream's output goes through right now.
pub(super) struct Condition {
    stream: String,
    /// What it is called.
    output: String,
    failing: Mutex<BTreeMap<u64, Failing>>,
    next: AtomicU64,
    retries: AtomicU64,
    refused: AtomicU64,
}

struct Failing {
    since: Instant,
    times: u64,
    reason: String,
}

impl Condition {
    pub(super) fn new(stream: &str, output: String) -> Arc<Self> {
        Arc::new(Condition {
            stream: stream.to_owned(),
            output,
            failing: Mutex::default(),
            next: AtomicU64::new(0),
            retries: AtomicU64::new(0),
            refused: AtomicU64::new(0),
        })
    }

    /// What the output is called.
    pub(super) fn output(&self) -> &str {
        &self.output
    }

    /// For the output of one more task.
    pub(super) fn retry(self: &Arc<Self>, policy: RetryPolicy) -> Retry {
        Retry { policy, condition: self.clone(), id: self.next.fetch_add(1, Relaxed) }
    }

    /// Records that the output has not taken, and that went to the error output.
    pub(super) fn refused(&self, records: usize) {
        self.refused.fetch_add(records as u64, Relaxed);
    }

    /// How many of them so far.
    pub(super) fn refused_records(&self) -> u64 {
        self.refused.load(Relaxed)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<u64, Failing>> {
        self.failing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Part for Condition {
    fn problem(&self) -> Option<String> {
        let failing = self.lock();
        let worst = failing.values().min_by_key(|failing| failing.since)?;
        let Failing { since, times, reason } = worst;
        Some(format!("{} fails since {} s, {times} attempts: {reason}", self.output, since.elapsed().as_secs()))
    }

    fn gauges(&self) -> Vec<Gauge> {
        let retries = self.retries.load(Relaxed);
        let failing = self.lock().values().map(|failing| failing.since.elapsed()).max().unwrap_or_default();
        let help = "Time since the output began to fail; 0 while it works.";
        vec![
            Gauge::counter("output_retries", "Writes to the output that had failed and were tried again.", retries),
            Gauge::now("output_failing_seconds", help, failing.as_secs_f64()),
        ]
    }
}

impl Retry {
    /// Calls `attempt` until it succeeds or is given up.
    pub(super) fn run(&self, stop: &Stop, mut attempt: impl FnMut() -> Result<(), Refusal>) -> Written {
        let begin = Instant::now();
        let (mut pause, mut times, mut said) = (FIRST, 0, None::<Instant>);
        let written = loop {
            let (reason, after) = match attempt() {
                Ok(()) => break Written::Yes,
                Err(Refusal::Never { reason }) => break Written::Refused(reason),
                Err(Refusal::Later { reason, after }) => (reason, after),
            };
            times += 1;
            let left = self.policy.timeout.saturating_sub(begin.elapsed());
            // Asked for more time than is left, it gets what is left, and one more attempt.
            let wait = after.map_or(pause, |after| after.clamp(FIRST, LONGEST_ASKED).min(left.max(FIRST)));
            if self.policy.count.is_some_and(|count| times > count) || wait > left {
                break Written::GivenUp(format!(
                    "{reason}; given up after {times} attempts in {:.1} s",
                    begin.elapsed().as_secs_f64()
                ));
            }
            if said.is_none_or(|said| said.elapsed() >= REMIND) {
                let (stream, output) = (&self.condition.stream, &self.condition.output);
                tracing::warn!(%stream, attempts = times, "{output} failed and is tried again: {reason}");
                said = Some(Instant::now());
            }
            self.condition.retries.fetch_add(1, Relaxed);
            self.condition.lock().insert(self.id, Failing { since: begin, times, reason });
            stop.wait(wait);
            if stop.is_stopped() {
                break Written::Stopped;
            }
            pause = (pause * 2).min(LONGEST);
        };
        if times > 0 {
            self.condition.lock().remove(&self.id);
        }
        if let (Written::Yes, Some(_)) = (&written, said) {
            let (stream, output) = (&self.condition.stream, &self.condition.output);
            tracing::info!(%stream, attempts = times + 1, seconds = begin.elapsed().as_secs(), "{output} works again");
        }
        written
    }
}

/// Sinks with transactions of their own, which are tried again by who has them: so that it is seen.
pub(super) fn seen(make: TransactionalSinkFactory, condition: &Arc<Condition>) -> TransactionalSinkFactory {
    let condition = condition.clone();
    Box::new(move || {
        let (sink, condition) = (make()?, condition.clone());
        let id = condition.next.fetch_add(1, Relaxed);
        Ok(Box::new(Seen { sink, condition, id }))
    })
}

struct Seen {
    sink: Box<dyn TransactionalSink>,
    condition: Arc<Condition>,
    id: u64,
}

impl Seen {
    fn note<T>(&self, result: &Result<T, SinkFailure>) {
        let mut failing = self.condition.lock();
        let Err(SinkFailure::Again(reason) | SinkFailure::Unknown(reason)) = result else {
            failing.remove(&self.id);
            return;
        };
        self.condition.retries.fetch_add(1, Relaxed);
        let new = || Failing { since: Instant::now(), times: 0, reason: String::new() };
        let known = failing.entry(self.id).or_insert_with(new);
        known.times += 1;
        known.reason.clone_from(reason);
    }
}

impl TransactionalSink for Seen {
    fn open(&mut self, places: &[Place]) -> Result<Vec<Option<String>>, SinkFailure> {
        let result = self.sink.open(places);
        self.note(&result);
        result
    }

    fn commit(
        &mut self,
        batch: &Batch,
        output: &mut Output,
        moves: &[(Place, String)],
    ) -> Result<Vec<RefusedRecord>, SinkFailure> {
        let result = self.sink.commit(batch, output, moves);
        self.note(&result);
        result
    }

    fn patience(&self) -> Duration {
        self.sink.patience()
    }
}

impl Drop for Seen {
    fn drop(&mut self) {
        self.condition.lock().remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn later() -> Result<(), Refusal> {
        Err(Refusal::Later { reason: "503".to_owned(), after: None })
    }

    fn policy(count: Option<u64>, timeout: Duration) -> (Arc<Condition>, Retry) {
        let condition = Condition::new("s", "http there".to_owned());
        let retry = condition.retry(RetryPolicy { count, timeout });
        (condition, retry)
    }

    #[test]
    fn a_failure_is_seen_until_it_works_again() {
        let (condition, retry) = policy(None, Duration::from_secs(60));
        let mut attempts = 0;
        let written = retry.run(&Stop::new(), || {
            attempts += 1;
            match attempts {
                3 => {
                    let problem = condition.problem().expect("it has failed twice");
                    assert!(problem.starts_with("http there fails since 0 s, 2 attempts: 503"), "{problem}");
                    Ok(())
                }
                _ => later(),
            }
        });
        assert_eq!((written, attempts), (Written::Yes, 3));
        assert_eq!(condition.problem(), None);
    }

    #[test]
    fn it_is_given_up_after_the_number_or_the_time_or_where_nobody_wants_it() {
        let (condition, retry) = policy(Some(2), Duration::from_secs(60));
        let mut attempts = 0;
        let written = retry.run(&Stop::new(), || {
            attempts += 1;
            later()
        });
        assert!(
            matches!(&written, Written::GivenUp(reason) if reason.starts_with("503; given up after 3 attempts")),
            "{written:?}"
        );
        assert_eq!((attempts, condition.problem()), (3, None));
        let (_, retry) = policy(None, Duration::from_millis(150));
        assert!(matches!(retry.run(&Stop::new(), later), Written::GivenUp(_)));
        let (_, retry) = policy(None, Duration::from_secs(60));
        let never = || Err(Refusal::Never { reason: "404".to_owned() });
        assert_eq!(retry.run(&Stop::new(), never), Written::Refused("404".to_owned()));
        let stop = Stop::new();
        let written = retry.run(&stop, || {
            stop.stop();
            later()
        });
        assert_eq!(written, Written::Stopped);
    }

    #[test]
    fn an_output_that_asks_for_time_gets_it() {
        let (_, retry) = policy(None, Duration::from_millis(300));
        let mut attempts = 0;
        let begin = Instant::now();
        let asked = || {
            attempts += 1;
            Err(Refusal::Later { reason: "429".to_owned(), after: Some(Duration::from_secs(60)) })
        };
        assert!(matches!(retry.run(&Stop::new(), asked), Written::GivenUp(_)), "that is longer than the policy allows");
        assert!(attempts == 2 && begin.elapsed() >= Duration::from_millis(290), "it gets the time that is left");
    }
}
