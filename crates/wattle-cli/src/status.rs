//! What a run tells about itself on stderr: plain lines, or JSON events.

use std::fmt::Arguments;
use std::io::{IsTerminal, Write};
use std::time::Duration;

use wattle_pipeline::{Outcome, Plan, StreamEnd, StreamHandle};

use crate::args::LogFormat;
use crate::embedded::Embedded;
use crate::failure::{Cause, Failure};
use crate::log::Settings;
use crate::text::{Style, counted, duration, grouped};

/// The target of status events, which no log level hides.
pub(crate) const TARGET: &str = "wattle::status";

/// Where status lines go, and how they look.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Status {
    json: bool,
    style: Style,
    /// Whether somebody watches.
    live: bool,
    /// Columns of the longest stream id.
    width: usize,
}

/// One status event: in JSON its fields and text, for people its text alone.
macro_rules! event {
    ($status:expr, $text:expr, $event:literal $(, $key:ident = $value:expr)* $(,)?) => {
        if $status.json {
            tracing::info!(target: TARGET, event = $event, $($key = $value,)*);
        } else {
            line(format_args!("{}", $text));
        }
    };
}

impl Status {
    pub(crate) fn new(log: &Settings) -> Self {
        let json = log.format == LogFormat::Json;
        Status { json, style: Style::for_stderr(), live: !json && std::io::stderr().is_terminal(), width: 0 }
    }

    /// Whether lines that only a watching person can use are welcome.
    pub(crate) fn is_live(&self) -> bool {
        self.live
    }

    /// The version, and where the embedded broker is; then one line a stream.
    pub(crate) fn planned(&mut self, plan: &Plan, embedded: Option<&Embedded>) {
        let version = self.style.bold(concat!("wattle ", env!("CARGO_PKG_VERSION")));
        let embedded = embedded.map(Embedded::notice);
        let text = embedded.iter().fold(version, |text, notice| format!("{text} · {notice}"));
        event!(self, text, "started", version = env!("CARGO_PKG_VERSION"), embedded = embedded);
        let width = |text: &str| text.chars().count();
        self.width = plan.streams.iter().map(|stream| width(stream.id())).max().unwrap_or(0);
        let route_width = plan.streams.iter().map(|stream| width(&stream.route())).max().unwrap_or(0);
        for stream in &plan.streams {
            let (route, guarantee) = (stream.route(), stream.guarantee());
            let text = format!("{}  {route:route_width$}  {}", self.id(stream.id()), self.style.dim(&guarantee));
            event!(self, text, "stream", stream = stream.id(), route = route, guarantee = guarantee);
        }
        plan.notes.iter().for_each(|note| self.note(&format!("note: {note}")));
    }

    /// What a stream did since the last call for it.
    pub(crate) fn rate(&self, stream: &StreamHandle, records: u64, time: Duration, lag: Option<i64>) {
        let rate = records as f64 / time.as_secs_f64().max(0.001);
        let rate = if rate < 10.0 { format!("{rate:.1}") } else { grouped(rate.round() as u64) };
        let mut parts = vec![format!("{rate} records/s")];
        parts.extend(lag.map(|lag| format!("lag {}", grouped(lag))));
        parts.push(format!("commit p50 {}", duration(stream.snapshot().commit_p50)));
        line(format_args!("{}  {}", self.id(stream.id()), parts.join(" · ")));
    }

    /// How a stream ended, with its counts.
    pub(crate) fn ended(&self, end: &StreamEnd, transactional: bool) {
        let (word, painted) = match end.outcome {
            Outcome::Done => ("done", self.style.green("done    ")),
            Outcome::Drained => ("drained", self.style.green("drained ")),
            Outcome::Stopped => ("stopped", self.style.yellow("stopped ")),
            Outcome::Failed(_) => ("failed", self.style.red("failed  ")),
        };
        let text = format!("{}  {painted} {}", self.id(&end.id), summary(end, transactional));
        let counts = &end.snapshot;
        event!(
            self,
            text,
            "ended",
            stream = end.id,
            outcome = word,
            records = counts.records,
            messages = counts.messages,
            dead_letters = counts.dead_letters,
            batches = counts.batches,
            aborts = counts.aborts,
            restarts = counts.restarts,
            commit_p50_ms = millis(counts.commit_p50),
            commit_p99_ms = millis(counts.commit_p99),
            lag = end.lag,
            seconds = end.elapsed.as_secs_f64(),
        );
    }

    /// Something that everybody should know.
    pub(crate) fn note(&self, text: &str) {
        event!(self, text, "note", message = text);
    }

    /// Why the program ends with a code other than 0.
    pub(crate) fn failure(&self, failure: &Failure) {
        let exit = failure.exit as u8;
        for cause in &failure.causes {
            match cause {
                Cause::Error { code, text } if self.json => {
                    tracing::error!(target: TARGET, event = "failure", exit, code, message = text);
                }
                Cause::Report(text) if self.json => {
                    tracing::error!(target: TARGET, event = "failure", exit, message = text);
                }
                Cause::Error { code, text } => {
                    let label = code.map_or("error:".to_owned(), |code| format!("error {code}:"));
                    line(format_args!("{} {text}", self.style.red(&label)));
                }
                Cause::Report(text) => line(format_args!("{text}")),
            }
        }
    }

    fn id(&self, id: &str) -> String {
        self.style.bold(&format!("{id:width$}", width = self.width))
    }
}

/// The counts of a stream that ended.
fn summary(end: &StreamEnd, transactional: bool) -> String {
    let counts = &end.snapshot;
    if counts.records == 0 {
        let failed = matches!(end.outcome, Outcome::Failed(_));
        let none = if failed { "nothing was committed" } else { "0 new records" };
        return std::iter::once(none.to_owned()).chain(lag(end)).collect::<Vec<_>>().join(" · ");
    }
    let plain = counts.messages == counts.records && counts.dead_letters == 0;
    if matches!(end.outcome, Outcome::Done) && plain {
        return format!("{} in {}", counted(counts.records, "record", "records"), duration(end.elapsed));
    }
    let (one, many) = if transactional { ("transaction", "transactions") } else { ("batch", "batches") };
    let mut parts = vec![
        format!("{} in", grouped(counts.records)),
        format!("{} out", grouped(counts.messages)),
        format!("{} dead", grouped(counts.dead_letters)),
        counted(counts.batches, one, many),
    ];
    if counts.aborts > 0 {
        parts.push(format!("{} and repeated", counted(counts.aborts, "abort", "aborts")));
    }
    if counts.restarts > 0 {
        parts.push(counted(counts.restarts, "restart", "restarts"));
    }
    if counts.batches > 0 {
        parts.push(format!("commit p50 {}", duration(counts.commit_p50)));
    }
    parts.extend(lag(end));
    parts.join(" · ")
}

fn lag(end: &StreamEnd) -> Option<String> {
    end.lag.map(|lag| format!("lag {}", grouped(lag)))
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// Writes a line to stderr. Where stderr is closed nobody reads it, and the run must not end for that.
fn line(text: Arguments<'_>) {
    writeln!(std::io::stderr().lock(), "{text}").unwrap_or_default();
}

#[cfg(test)]
mod tests {
    use wattle::Metrics;

    use super::*;

    fn end(outcome: Outcome, records: usize, messages: usize, lag: Option<i64>) -> StreamEnd {
        let metrics = Metrics::default();
        if records > 0 {
            metrics.batch(records, messages, 0, Duration::from_micros(3_000));
        }
        let elapsed = Duration::from_millis(410);
        StreamEnd { id: "load".into(), outcome, snapshot: metrics.snapshot(), elapsed, lag }
    }

    #[test]
    fn a_finite_input_tells_records_and_time() {
        assert_eq!(summary(&end(Outcome::Done, 1_707, 1_707, None), false), "1 707 records in 0.4 s");
    }

    #[test]
    fn a_drained_stream_tells_its_transactions_and_lag() {
        let text = summary(&end(Outcome::Drained, 1_707, 214, Some(0)), true);
        assert_eq!(text, "1 707 in · 214 out · 0 dead · 1 transaction · commit p50 3 ms · lag 0");
        assert!(summary(&end(Outcome::Drained, 9, 9, Some(0)), false).contains("1 batch"));
    }

    #[test]
    fn nothing_new_says_so() {
        assert_eq!(summary(&end(Outcome::Drained, 0, 0, Some(0)), true), "0 new records · lag 0");
    }

    #[test]
    fn aborts_and_restarts_are_told_only_where_there_were_some() {
        let metrics = Metrics::default();
        metrics.batch(5, 5, 0, Duration::from_millis(3));
        metrics.abort();
        metrics.restart();
        let end = StreamEnd { snapshot: metrics.snapshot(), ..end(Outcome::Stopped, 0, 0, None) };
        assert!(summary(&end, true).contains("1 abort and repeated · 1 restart"), "{}", summary(&end, true));
    }
}
