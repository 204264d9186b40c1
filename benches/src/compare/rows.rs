//! What was measured of each contender, and the table of it.

use crate::args::LoadArgs;
use crate::contender::{Commits, Kind};
use crate::latency::Latency;
use crate::report::{Table, grouped, number};
use crate::stats::median;
use crate::throughput::Throughput;

/// One contender.
pub(super) struct Row {
    pub(super) kind: Kind,
    pub(super) runs: Vec<Run>,
    /// Why there is nothing, or nothing more.
    pub(super) error: Option<String>,
}

/// One round of a contender.
pub(super) struct Run {
    pub(super) throughput: Throughput,
    /// Over all partitions.
    pub(super) all: Option<Latency>,
    /// Over one partition.
    pub(super) one: Option<Latency>,
}

/// Every number is the median of the rounds; `None` where it was not measured, or the row is an error.
impl Row {
    pub(super) fn new(kind: Kind) -> Self {
        Row { kind, runs: Vec::new(), error: None }
    }

    fn median(&self, value: impl Fn(&Run) -> Option<f64>) -> Option<f64> {
        let values = self.runs.iter().filter_map(value);
        median(values).filter(|_| self.error.is_none())
    }

    pub(super) fn rate(&self) -> Option<f64> {
        self.median(|run| Some(run.throughput.rate))
    }

    pub(super) fn cpu(&self) -> Option<f64> {
        self.median(|run| Some(run.throughput.usage.cpu.as_secs_f64()))
    }

    fn peak_megabytes(&self) -> Option<f64> {
        self.median(|run| Some(run.throughput.usage.peak as f64 / 1e6))
    }

    /// p50 and p99 over all partitions.
    pub(super) fn all(&self) -> [Option<f64>; 2] {
        [self.median(|run| Some(run.all?.p50)), self.median(|run| Some(run.all?.p99))]
    }

    /// p50 and p99 over one partition.
    pub(super) fn one(&self) -> [Option<f64>; 2] {
        [self.median(|run| Some(run.one?.p50)), self.median(|run| Some(run.one?.p99))]
    }

    /// Medians of a commit at full load, at the steady rate over all partitions, and over one.
    pub(super) fn commits(&self) -> [Option<f64>; 3] {
        let p50 = |commits: Option<Commits>| Some(commits?.p50);
        [
            self.median(|run| p50(run.throughput.commits)),
            self.median(|run| p50(run.all?.commits)),
            self.median(|run| p50(run.one?.commits)),
        ]
    }
}

/// The row of a contender, if it was measured.
pub(super) fn find(rows: &[Row], kind: Kind) -> Option<&Row> {
    rows.iter().find(|row| row.kind == kind)
}

/// The ratio of two numbers.
pub(super) fn ratio(value: Option<f64>, base: Option<f64>) -> Option<f64> {
    Some(value? / base?)
}

/// A row for each contender.
pub(super) fn table(rows: &[Row], load: &LoadArgs) -> Table {
    let partitions = load.partitions;
    let mut table = Table::new([
        "contender".to_owned(),
        "records/s".to_owned(),
        "of loop".to_owned(),
        "CPU-s".to_owned(),
        "of Streams".to_owned(),
        "peak MB".to_owned(),
        format!("p50 / p99 ms, {partitions} partitions"),
        "p50 / p99 ms, 1 partition".to_owned(),
        format!("commit p50 ms: full load / {partitions} / 1"),
    ]);
    let loop_rate = find(rows, Kind::Raw).and_then(Row::rate);
    let streams_cpu = find(rows, Kind::Kstreams).and_then(Row::cpu);
    let joined = |values: &[Option<f64>]| values.iter().map(|v| number(*v, 1)).collect::<Vec<_>>().join(" / ");
    for row in rows {
        let mut cells = vec![row.kind.title().to_owned()];
        if row.error.is_some() {
            cells.push("error".to_owned());
        } else {
            cells.extend([
                row.rate().map_or_else(|| number(None, 0), grouped),
                number(ratio(row.rate(), loop_rate), 2),
                number(row.cpu(), 2),
                number(ratio(row.cpu(), streams_cpu), 2),
                number(row.peak_megabytes(), 0),
                joined(&row.all()),
                joined(&row.one()),
                joined(&row.commits()),
            ]);
        }
        table.row(cells);
    }
    table
}
