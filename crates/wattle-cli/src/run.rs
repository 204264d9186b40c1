//! `wattle run`: a pipeline's streams from their start to their end.

use std::collections::HashMap;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use wattle::Stop;
use wattle_pipeline::{Outcome, Plan, RunOptions, StreamEnd, StreamHandle, StreamPlan};

use crate::args::{RunArgs, VARIABLE};
use crate::embedded::Embedded;
use crate::failure::{Cause, Failure, chain};
use crate::signals::Listener;
use crate::status::Status;

/// Time between two rate lines of a stream.
const RATE_INTERVAL: Duration = Duration::from_secs(5);

/// Runs the file's streams until they have ended, or a signal comes. An embedded broker is left in `embedded`, since others may
/// still use it.
pub(crate) fn run(
    args: &RunArgs,
    mut plan: Plan,
    status: &mut Status,
    embedded: &mut Option<Embedded>,
) -> Result<(), Failure> {
    let stop = Stop::new();
    let listener = Listener::start(stop.clone(), args.grace_period, *status)?;
    let topics = plan.embedded_topics();
    if topics.is_some() {
        let broker = embedded.insert(Embedded::open(*status)?);
        plan.set_embedded_address(broker.address());
    }
    status.planned(&plan, embedded.as_ref());
    let status = *status;
    if let (Some(broker), Some(topics)) = (embedded.as_ref(), topics) {
        broker.create_missing(&topics, &status)?;
    }
    let told: HashMap<String, Told> = plan.streams.iter().map(|s| (s.id().to_owned(), Told::of(s))).collect();
    let running = wattle_pipeline::start(plan, RunOptions { drain: args.drain, stop: stop.clone() })?;
    listener.watch(running.streams());
    let rates = status.is_live().then(|| Rates::start(running.streams(), status));
    let ends = running.wait();
    drop(rates);
    for end in &ends {
        status.ended(end, told.get(&end.id).is_some_and(|told| told.transactional));
    }
    if let Some(failure) = failure(&ends) {
        return Err(failure);
    }
    if stop.is_stopped() {
        status.note("stopped cleanly: the next start goes on behind what is committed");
    } else if status.is_live()
        && let Some(next) = next(&ends, &told, embedded.as_ref().map(Embedded::address))
    {
        status.note(&next);
    }
    Ok(())
}

/// What the end of a run needs to know of a stream's plan.
struct Told {
    transactional: bool,
    /// Where its results are, and the brokers there.
    topic: Option<(String, String)>,
}

impl Told {
    fn of(stream: &StreamPlan) -> Self {
        let topic = stream.output_topic().map(|(topic, brokers)| (topic.to_owned(), brokers.to_owned()));
        Told { transactional: stream.guarantee().starts_with("exactly once"), topic }
    }
}

/// How to look at the results of the last stream that wrote some to Kafka.
fn next(ends: &[StreamEnd], told: &HashMap<String, Told>, embedded: Option<&str>) -> Option<String> {
    let with_results = |end: &&StreamEnd| end.snapshot.messages > 0;
    let last = ends.iter().rev().filter(with_results).find_map(|end| told.get(&end.id)?.topic.as_ref());
    let (topic, brokers) = last?;
    let option = match std::env::var(VARIABLE) {
        _ if embedded == Some(brokers) => " --embedded".to_owned(),
        Ok(known) if known == *brokers => String::new(),
        _ => format!(" --brokers {brokers}"),
    };
    Some(format!("next: wattle tail {topic} --from-beginning{option}"))
}

/// All failures, with the code that tells most: that of a failed run before a refused configuration before an unreachable
/// broker. Streams of one file often fail for one reason, for example a broker that is down: it is told once, with their names.
fn failure(ends: &[StreamEnd]) -> Option<Failure> {
    let exit = ends.iter().filter_map(error).map(wattle::Error::exit).min_by_key(|exit| *exit as u8)?;
    let mut reasons: Vec<(Option<&'static str>, String, Vec<&str>)> = Vec::new();
    for end in ends {
        let Some(error) = error(end) else { continue };
        let text = chain(error);
        match reasons.iter_mut().find(|(_, known, _)| *known == text) {
            Some((.., ids)) => ids.push(&end.id),
            None => reasons.push((error.code(), text, vec![&end.id])),
        }
    }
    let cause =
        |(code, text, ids): (_, String, Vec<&str>)| Cause::Error { code, text: format!("{}: {text}", ids.join(", ")) };
    Some(Failure { exit, causes: reasons.into_iter().map(cause).collect() })
}

fn error(end: &StreamEnd) -> Option<&wattle::Error> {
    match &end.outcome {
        Outcome::Failed(error) => Some(error),
        _ => None,
    }
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
    use wattle::{Error, Exit, Snapshot};

    use super::*;

    fn end(id: &str, outcome: Outcome) -> StreamEnd {
        StreamEnd { id: id.into(), outcome, snapshot: Snapshot::default(), elapsed: Duration::ZERO, lag: None }
    }

    fn failed(what: &str) -> Outcome {
        Outcome::Failed(Error::Topics { text: what.into() })
    }

    fn texts(failure: &Failure) -> Vec<&str> {
        failure.causes.iter().map(text).collect()
    }

    fn text(cause: &Cause) -> &str {
        match cause {
            Cause::Error { text, .. } | Cause::Report(text) => text,
        }
    }

    #[test]
    fn clean_ends_are_no_failure() {
        assert!(failure(&[end("a", Outcome::Done), end("b", Outcome::Stopped)]).is_none());
    }

    #[test]
    fn the_last_results_in_kafka_are_pointed_at() {
        let metrics = wattle::Metrics::default();
        metrics.batch(1, 1, 0, Duration::ZERO);
        let results = |id: &str| StreamEnd { snapshot: metrics.snapshot(), ..end(id, Outcome::Done) };
        let topic = |topic: &str| Told { transactional: true, topic: Some((topic.to_owned(), "b:1".to_owned())) };
        let told = HashMap::from([("a".to_owned(), topic("t")), ("b".to_owned(), topic("u"))]);
        let ends = [results("a"), end("b", Outcome::Drained)];
        let text = next(&ends, &told, None).expect("a has results");
        assert_eq!(text, "next: wattle tail t --from-beginning --brokers b:1");
        let text = next(&ends, &told, Some("b:1")).expect("a has results");
        assert_eq!(text, "next: wattle tail t --from-beginning --embedded");
        assert!(next(&[end("a", Outcome::Done)], &told, None).is_none());
    }

    #[test]
    fn one_reason_is_told_once_with_all_streams() {
        let failure = failure(&[end("a", failed("no topic t")), end("b", failed("no topic t"))]).expect("both failed");
        assert_eq!(texts(&failure), ["a, b: no topic t"]);
    }

    #[test]
    fn a_failed_run_decides_the_code() {
        let config = Outcome::Failed(Error::Config { problems: vec!["x".into()] });
        let failure = failure(&[end("a", config), end("b", failed("y"))]).expect("both failed");
        assert_eq!(failure.exit, Exit::Failed);
        assert_eq!(texts(&failure), ["a: the configuration is refused: x", "b: y"]);
    }
}
