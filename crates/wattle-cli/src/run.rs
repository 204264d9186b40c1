//! `wattle run`: a pipeline's streams from their start to their end.

use std::collections::HashSet;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use wattle::{Exit, Stop};
use wattle_pipeline::{Outcome, RunOptions, StreamEnd, StreamHandle, StreamPlan};

use crate::args::RunArgs;
use crate::check::load;
use crate::failure::{Failure, chain};
use crate::signals::Listener;
use crate::status::Status;

/// Time between two rate lines of a stream.
const RATE_INTERVAL: Duration = Duration::from_secs(5);

/// Runs the file's streams until they have ended, or a signal comes.
pub(crate) fn run(args: &RunArgs, status: &mut Status) -> Result<(), Failure> {
    let plan = load(&args.file, args.brokers.get())?;
    status.planned(&plan);
    let status = *status;
    let exact: HashSet<String> = plan.streams.iter().filter(|s| is_exact(s)).map(|s| s.id().to_owned()).collect();
    let stop = Stop::new();
    let listener = Listener::start(stop.clone(), args.grace_period, status)
        .map_err(|error| Failure::new(Exit::Failed, format!("cannot listen for signals: {error}")))?;
    let running = wattle_pipeline::start(plan, RunOptions { drain: args.drain, stop: stop.clone() })?;
    listener.watch(running.streams());
    let rates = status.is_live().then(|| Rates::start(running.streams(), status));
    let ends = running.wait();
    drop(rates);
    for end in &ends {
        status.ended(end, exact.contains(&end.id));
    }
    if let Some(failure) = failure(&ends) {
        return Err(failure);
    }
    if stop.is_stopped() {
        status.note("stopped cleanly: all committed");
    }
    Ok(())
}

fn is_exact(stream: &StreamPlan) -> bool {
    stream.guarantee().starts_with("exactly once")
}

/// All failures in one text, with the code that tells most: that of a failed run before a refused configuration before an
/// unreachable broker.
fn failure(ends: &[StreamEnd]) -> Option<Failure> {
    let mut failures: Vec<(&str, Exit, String)> = ends
        .iter()
        .filter_map(|end| match &end.outcome {
            Outcome::Failed(error) => Some((end.id.as_str(), error.exit(), chain(error))),
            _ => None,
        })
        .collect();
    failures.sort_by_key(|(_, exit, _)| *exit as u8);
    let exit = failures.first()?.1;
    // Streams of one file often fail for one reason, for example a broker that is down: told once, with all their names.
    let mut texts: Vec<(String, Vec<&str>)> = Vec::new();
    for (id, _, text) in failures {
        match texts.iter_mut().find(|(known, _)| *known == text) {
            Some((_, ids)) => ids.push(id),
            None => texts.push((text, vec![id])),
        }
    }
    let lines: Vec<String> = texts.into_iter().map(|(text, ids)| format!("{}: {text}", ids.join(", "))).collect();
    Some(Failure::new(exit, lines.join("\n       ")))
}

/// Prints rate lines until it is dropped.
struct Rates {
    /// Nothing is sent: the thread sees that this end is gone.
    _alive: mpsc::Sender<()>,
}

impl Rates {
    fn start(streams: &[StreamHandle], status: Status) -> Self {
        let (alive, ended) = mpsc::channel::<()>();
        let mut watched: Vec<Watched> = streams.iter().cloned().map(Watched::new).collect();
        let work = move || {
            while ended.recv_timeout(RATE_INTERVAL) == Err(RecvTimeoutError::Timeout) {
                for stream in &mut watched {
                    stream.tell(&status);
                }
            }
        };
        if let Err(error) = thread::Builder::new().name("rates".into()).spawn(work) {
            tracing::warn!(%error, "no rate lines: their thread did not start");
        }
        Rates { _alive: alive }
    }
}

/// A stream and what was told of it last.
struct Watched {
    stream: StreamHandle,
    records: u64,
    at: Instant,
    idle: bool,
}

impl Watched {
    fn new(stream: StreamHandle) -> Self {
        Watched { stream, records: 0, at: Instant::now(), idle: false }
    }

    /// A line, unless the stream has ended, or rests as it did at the last line.
    fn tell(&mut self, status: &Status) {
        if self.stream.is_done() {
            return;
        }
        let lag = self.stream.lag();
        let records = self.stream.snapshot().records;
        let (new, time) = (records - self.records, self.at.elapsed());
        (self.records, self.at) = (records, Instant::now());
        let idle = new == 0 && lag.unwrap_or(0) == 0;
        let told = idle && self.idle;
        self.idle = idle;
        // The answer about the lag may have taken long enough for the stream to end.
        if !told && !self.stream.is_done() {
            status.rate(&self.stream, new, time, lag);
        }
    }
}

#[cfg(test)]
mod tests {
    use wattle::{Error, Snapshot};

    use super::*;

    fn end(id: &str, outcome: Outcome) -> StreamEnd {
        StreamEnd { id: id.into(), outcome, snapshot: Snapshot::default(), elapsed: Duration::ZERO, lag: None }
    }

    fn failed(what: &str) -> Outcome {
        Outcome::Failed(Error::Topics { text: what.into() })
    }

    #[test]
    fn clean_ends_are_no_failure() {
        assert!(failure(&[end("a", Outcome::Done), end("b", Outcome::Stopped)]).is_none());
    }

    #[test]
    fn one_reason_is_told_once_with_all_streams() {
        let failure = failure(&[end("a", failed("no topic t")), end("b", failed("no topic t"))]).expect("both failed");
        assert_eq!(failure.text, "a, b: no topic t");
    }

    #[test]
    fn a_failed_run_decides_the_code() {
        let config = Outcome::Failed(Error::Config { problems: vec!["x".into()] });
        let failure = failure(&[end("a", config), end("b", failed("y"))]).expect("both failed");
        assert_eq!(failure.exit, Exit::Failed);
        assert!(
            failure.text.starts_with("b: y\n") && failure.text.contains("a: the configuration"),
            "{}",
            failure.text
        );
    }
}
