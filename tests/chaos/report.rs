//! What a storm has cost.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// By kind of fault.
#[derive(Debug, Default)]
pub(super) struct Report(BTreeMap<&'static str, Line>);

#[derive(Debug, Default)]
struct Line {
    faults: usize,
    /// From the end of each to the first newly committed output of every partition, where nothing else struck meanwhile.
    recoveries: Vec<Duration>,
    ended: usize,
}

impl Report {
    /// A fault has struck.
    pub(super) fn fault(&mut self, kind: &'static str) {
        self.0.entry(kind).or_default().faults += 1;
    }

    /// Everybody works again.
    pub(super) fn recovered(&mut self, kind: &'static str, took: Duration) {
        self.0.entry(kind).or_default().recoveries.push(took);
    }

    /// A process has ended over it and was started again.
    pub(super) fn ended(&mut self, kind: &'static str) {
        self.0.entry(kind).or_default().ended += 1;
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "| fault | times | recovery measured | median s | worst s | processes that ended over it |")?;
        writeln!(f, "|---|---|---|---|---|---|")?;
        let all = self.0.values().flat_map(|line| &line.recoveries).copied().collect();
        let total = |of: fn(&Line) -> usize| self.0.values().map(of).sum();
        let total = Line { faults: total(|line| line.faults), recoveries: all, ended: total(|line| line.ended) };
        for (kind, line) in self.0.iter().map(|(kind, line)| (*kind, line)).chain([("all", &total)]) {
            let mut times = line.recoveries.clone();
            times.sort();
            let shown =
                |at: Option<&Duration>| at.map_or_else(|| "–".to_owned(), |time| format!("{:.1}", time.as_secs_f32()));
            let (median, worst) = (shown(times.get(times.len() / 2)), shown(times.last()));
            writeln!(f, "| {kind} | {} | {} | {median} | {worst} | {} |", line.faults, times.len(), line.ended)?;
        }
        Ok(())
    }
}
