//! What Wattle is held to.

use super::rows::{Row, find, ratio};
use crate::contender::Kind;

/// A bound, and what was measured.
struct Target {
    what: String,
    value: Option<f64>,
    bound: Bound,
}

enum Bound {
    AtLeast(f64),
    AtMost(f64),
}

/// A line for every target of every Wattle row: met, missed, or not measured.
pub(super) fn lines(rows: &[Row]) -> Vec<String> {
    rows.iter()
        .filter(|row| row.kind.is_wattle())
        .flat_map(|row| targets(row, rows))
        .map(|target| target.line())
        .collect()
}

fn targets(row: &Row, rows: &[Row]) -> Vec<Target> {
    let base = |kind| find(rows, kind);
    let loop_rate = base(Kind::Raw).and_then(Row::rate);
    let streams_cpu = base(Kind::Kstreams).and_then(Row::cpu);
    let [loops_p50, loops_p99] = base(Kind::RawEach).map_or([None; 2], Row::all);
    let [all_p50, all_p99] = row.all();
    let [one_p50, one_p99] = row.one();
    // At full load a commit carries a whole batch, and takes the time that its records take.
    let [_, commit_all, commit_one] = row.commits();
    let target = |what: &str, value, bound| Target { what: format!("{}: {what}", row.kind.title()), value, bound };
    vec![
        target("rate of the plain loop's", ratio(row.rate(), loop_rate), Bound::AtLeast(0.75)),
        target("CPU-seconds of Kafka Streams'", ratio(row.cpu(), streams_cpu), Bound::AtMost(1.0 / 3.0)),
        target("commit p50 at the steady rate, ms", commit_all, Bound::AtMost(6.0)),
        target("commit p50 at the steady rate, one partition, ms", commit_one, Bound::AtMost(6.0)),
        target("latency p50 with one partition, ms", one_p50, Bound::AtMost(8.0)),
        target("latency p99 with one partition, ms", one_p99, Bound::AtMost(50.0)),
        target("latency p50 of one plain loop a partition's", ratio(all_p50, loops_p50), Bound::AtMost(1.2)),
        target("latency p99 of one plain loop a partition's", ratio(all_p99, loops_p99), Bound::AtMost(1.2)),
    ]
}

impl Target {
    fn line(&self) -> String {
        let (sign, bound) = match self.bound {
            Bound::AtLeast(bound) => ("≥", bound),
            Bound::AtMost(bound) => ("≤", bound),
        };
        let what = &self.what;
        match self.value {
            None => format!("not measured  {what} (target {sign} {bound:.2})"),
            Some(value) => {
                let met = match self.bound {
                    Bound::AtLeast(bound) => value >= bound,
                    Bound::AtMost(bound) => value <= bound,
                };
                format!("{}  {what} {value:.2} (target {sign} {bound:.2})", if met { "met   " } else { "MISSED" })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_itself_meets_its_target() {
        let line = |value, bound| Target { what: "x".into(), value, bound }.line();
        assert!(line(Some(0.75), Bound::AtLeast(0.75)).starts_with("met"));
        assert!(line(Some(0.74), Bound::AtLeast(0.75)).starts_with("MISSED"));
        assert!(line(Some(6.1), Bound::AtMost(6.0)).starts_with("MISSED"));
        assert!(line(None, Bound::AtMost(6.0)).starts_with("not measured"));
    }
}
