//! What was measured with one number of partitions, and the table of it.

use crate::contender::Kind;
use crate::report::{Table, grouped, number};
use crate::row::{Row, ratio};

/// Everything that was measured with one number of partitions.
pub(super) struct Section {
    pub(super) partitions: i32,
    /// Whether the contenders copy the whole load too, and not only the steady stream.
    pub(super) full_load: bool,
    pub(super) rows: Vec<Row<Kind>>,
    /// Contenders without a row, and why.
    pub(super) left_out: Vec<(Kind, String)>,
}

impl Section {
    pub(super) fn new(partitions: i32, full_load: bool) -> Self {
        Section { partitions, full_load, rows: Vec::new(), left_out: Vec::new() }
    }

    /// The row of a contender, if it was measured.
    pub(super) fn find(&self, kind: Kind) -> Option<&Row<Kind>> {
        self.rows.iter().find(|row| row.contender == kind)
    }

    pub(super) fn title(&self) -> String {
        format!("{} partition{}", self.partitions, if self.partitions == 1 { "" } else { "s" })
    }

    /// What is not in the table.
    pub(super) fn notes(&self) -> Vec<String> {
        let title = |kind: Kind| format!("{}, {}", self.title(), kind.label());
        let errors =
            self.rows.iter().filter_map(|row| Some(format!("{}: {}", title(row.contender), row.error.as_ref()?)));
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
            let mut cells = vec![row.contender.label().to_owned()];
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

    fn full_load_of(&self, row: &Row<Kind>) -> [String; 6] {
        let loop_rate = self.find(Kind::Raw).and_then(Row::rate);
        let streams_cpu = self.find(Kind::Kstreams).and_then(Row::cpu);
        [
            row.rate().map_or_else(|| number(None, 0), grouped),
            number(ratio(row.rate(), loop_rate), 2),
            number(row.cpu(), 2),
            number(ratio(row.cpu(), streams_cpu), 2),
            number(row.megabytes(), 0),
            number(row.commit_full(), 1),
        ]
    }
}
