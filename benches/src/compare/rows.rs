//! What was measured of each contender, and the tables of it.

use crate::contender::{Commits, Kind};
use crate::latency::Latency;
use crate::report::{Table, grouped, number};
use crate::stats::median;
use crate::throughput::Throughput;

/// Everything that was measured with one number of partitions.
pub(super) struct Section {
    pub(super) partitions: i32,
    /// Whether the contenders copy the whole load too, and not only the steady stream.
    pub(super) full_load: bool,
    pub(super) rows: Vec<Row>,
    /// Contenders without a row, and why.
    pub(super) left_out: Vec<(Kind, String)>,
}

/// One contender.
pub(super) struct Row {
    pub(super) kind: Kind,
    pub(super) runs: Vec<Run>,
    /// Why there is nothing, or nothing more.
    pub(super) error: Option<String>,
}

/// One round of a contender.
#[derive(Default)]
pub(super) struct Run {
    pub(super) throughput: Option<Throughput>,
    pub(super) latency: Option<Latency>,
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
        self.median(|run| Some(run.throughput.as_ref()?.rate))
    }

    pub(super) fn cpu(&self) -> Option<f64> {
        self.median(|run| Some(run.throughput.as_ref()?.usage.cpu.as_secs_f64()))
    }

    fn peak_megabytes(&self) -> Option<f64> {
        self.median(|run| Some(run.throughput.as_ref()?.usage.peak as f64 / 1e6))
    }

    pub(super) fn p50(&self) -> Option<f64> {
        self.median(|run| Some(run.latency?.p50))
    }

    pub(super) fn p99(&self) -> Option<f64> {
        self.median(|run| Some(run.latency?.p99))
    }

    /// Median of a commit at full load.
    fn commit_full(&self) -> Option<f64> {
        self.median(|run| p50(run.throughput.as_ref()?.commits))
    }

    /// Median of a commit at the steady rate.
    pub(super) fn commit_steady(&self) -> Option<f64> {
        self.median(|run| p50(run.latency?.commits))
    }
}

fn p50(commits: Option<Commits>) -> Option<f64> {
    Some(commits?.p50)
}

/// The ratio of two numbers.
pub(super) fn ratio(value: Option<f64>, base: Option<f64>) -> Option<f64> {
    Some(value? / base?)
}

impl Section {
    pub(super) fn new(partitions: i32, full_load: bool) -> Self {
        Section { partitions, full_load, rows: Vec::new(), left_out: Vec::new() }
    }

    /// The row of a contender, if it was measured.
    pub(super) fn find(&self, kind: Kind) -> Option<&Row> {
        self.rows.iter().find(|row| row.kind == kind)
    }

    pub(super) fn title(&self) -> String {
        format!("{} partition{}", self.partitions, if self.partitions == 1 { "" } else { "s" })
    }

    /// What is not in the table.
    pub(super) fn notes(&self) -> Vec<String> {
        let title = |kind: Kind| format!("{}, {}", self.title(), kind.title());
        let errors = self.rows.iter().filter_map(|row| Some(format!("{}: {}", title(row.kind), row.error.as_ref()?)));
        let left_out = self.left_out.iter().map(|(kind, reason)| format!("{} is left out: {reason}", title(*kind)));
        errors.chain(left_out).collect()
    }

    /// A row for each contender.
    pub(super) fn table(&self) -> Table {
        let full_load = ["records/s", "of loop", "CPU-s", "of Streams", "peak MB", "commit p50 ms"];
        let steady = ["p50 ms at the steady rate", "p99 ms", "commit p50 ms"];
        let full_load = full_load.iter().filter(|_| self.full_load);
        let mut table = Table::new(["contender"].iter().chain(full_load).chain(&steady).copied());
        for row in &self.rows {
            let mut cells = vec![row.kind.title().to_owned()];
            if row.error.is_some() {
                cells.push("error".to_owned());
            } else {
                if self.full_load {
                    cells.extend(self.full_load_of(row));
                }
                cells.extend([row.p50(), row.p99(), row.commit_steady()].map(|value| number(value, 1)));
            }
            table.row(cells);
        }
        table
    }

    fn full_load_of(&self, row: &Row) -> [String; 6] {
        let loop_rate = self.find(Kind::Raw).and_then(Row::rate);
        let streams_cpu = self.find(Kind::Kstreams).and_then(Row::cpu);
        [
            row.rate().map_or_else(|| number(None, 0), grouped),
            number(ratio(row.rate(), loop_rate), 2),
            number(row.cpu(), 2),
            number(ratio(row.cpu(), streams_cpu), 2),
            number(row.peak_megabytes(), 0),
            number(row.commit_full(), 1),
        ]
    }
}
