//! What Wattle is held to.

use super::section::Section;
use crate::bound::Bound::{self, AtLeast, AtMost};
use crate::contender::Kind;
use crate::row::{Row, ratio};

/// What one contender has to reach with one number of partitions.
struct Target {
    /// Wattle's transaction scope.
    scope: &'static str,
    partitions: i32,
    what: &'static str,
    /// From the contender's row and all that was measured.
    value: fn(&Row<Kind>, &Section, &[Section]) -> Option<f64>,
    bound: Bound,
}

/// At full load a commit carries a whole batch, and takes the time that its records take; so a commit's own time is that at the steady
/// rate.
const TARGETS: &[Target] = &[
    target("task", 4, "rate of the plain loop's", of_loop, AtLeast(0.75)),
    target("task", 4, "CPU-seconds of Kafka Streams'", of_streams, AtMost(1.0 / 3.0)),
    target("task", 4, "commit p50 at the steady rate, ms", |row, _, _| row.commit_steady(), AtMost(6.0)),
    target("task", 1, "commit p50 at the steady rate, ms", |row, _, _| row.commit_steady(), AtMost(6.0)),
    target("task", 1, "latency p50, ms", |row, _, _| row.p50(), AtMost(8.0)),
    target("task", 1, "latency p99, ms", |row, _, _| row.p99(), AtMost(50.0)),
    target("task", 4, "latency p50 of one plain loop a partition's", p50_of_loops, AtMost(1.2)),
    target("task", 4, "latency p99 of one plain loop a partition's", p99_of_loops, AtMost(1.2)),
    target("worker", 4, "rate of the plain loop's", of_loop, AtLeast(0.9)),
    target("worker", 4, "CPU-seconds of Kafka Streams'", of_streams, AtMost(1.0 / 3.0)),
    target("worker", 4, "latency p50, ms", |row, _, _| row.p50(), AtMost(8.0)),
    target("worker", 4, "latency p99, ms", |row, _, _| row.p99(), AtMost(50.0)),
    target("worker", 64, "rate of its own with 4 partitions", of_four, AtLeast(0.8)),
];

const fn target(
    scope: &'static str,
    partitions: i32,
    what: &'static str,
    value: fn(&Row<Kind>, &Section, &[Section]) -> Option<f64>,
    bound: Bound,
) -> Target {
    Target { scope, partitions, what, value, bound }
}

fn of_loop(row: &Row<Kind>, section: &Section, _: &[Section]) -> Option<f64> {
    ratio(row.rate(), section.find(Kind::Raw).and_then(Row::rate))
}

fn of_streams(row: &Row<Kind>, section: &Section, _: &[Section]) -> Option<f64> {
    ratio(row.cpu(), section.find(Kind::Kstreams).and_then(Row::cpu))
}

fn p50_of_loops(row: &Row<Kind>, section: &Section, _: &[Section]) -> Option<f64> {
    ratio(row.p50(), section.find(Kind::RawEach).and_then(Row::p50))
}

fn p99_of_loops(row: &Row<Kind>, section: &Section, _: &[Section]) -> Option<f64> {
    ratio(row.p99(), section.find(Kind::RawEach).and_then(Row::p99))
}

fn of_four(row: &Row<Kind>, _: &Section, all: &[Section]) -> Option<f64> {
    let four = all.iter().find(|section| section.partitions == 4)?;
    ratio(row.rate(), four.find(row.contender).and_then(Row::rate))
}

/// A line for every target of every Wattle row: met, missed, or not measured.
pub(super) fn lines(sections: &[Section]) -> Vec<String> {
    let mut kinds: Vec<Kind> = Vec::new();
    for kind in sections.iter().flat_map(|section| &section.rows).map(|row| row.contender) {
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    let of = |kind: Kind| {
        let targets = TARGETS.iter().filter(move |target| kind.scope() == Some(target.scope));
        targets.map(move |target| target.line(kind, sections))
    };
    kinds.into_iter().flat_map(of).collect()
}

impl Target {
    fn line(&self, kind: Kind, sections: &[Section]) -> String {
        let section = sections.iter().find(|section| section.partitions == self.partitions);
        let value = section.and_then(|section| (self.value)(section.find(kind)?, section, sections));
        let partitions = if self.partitions == 1 { "partition" } else { "partitions" };
        self.bound.line(&format!("{}, {} {partitions}: {}", kind.label(), self.partitions, self.what), value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::latency::Latency;
    use crate::row::Run;

    #[test]
    fn a_target_looks_at_the_row_of_its_partitions() {
        let latency = |p50| Some(Latency { p50, p99: 2.0 * p50, commits: None });
        let sections = [(1, 7.0), (4, 9.0)].map(|(partitions, p50)| {
            let mut section = Section::new(partitions, false);
            let runs = vec![Run { throughput: None, latency: latency(p50) }];
            section.rows.push(Row { contender: Kind::PipelineWorker, runs, error: None });
            section
        });
        let lines = lines(&sections);
        let of = |what: &str| lines.iter().find(|line| line.contains(what)).expect("a line");
        assert!(of("latency p50").starts_with("MISSED  Wattle pipeline, scope worker, 4 partitions"), "{lines:?}");
        assert!(of("latency p99").starts_with("met"), "{lines:?}");
        assert!(of("64 partitions").starts_with("not measured"), "{lines:?}");
    }
}
