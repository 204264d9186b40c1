//! What the streams have counted, in the text format of Prometheus (version 0.0.4).

use std::fmt::{self, Write};

use wattle::Snapshot;

use super::health::{Report, Watched};

/// A stream as its metrics are made from it.
struct Sample<'a> {
    /// Escaped.
    id: String,
    stream: &'a Watched,
    snapshot: Snapshot,
    is_ready: bool,
}

/// All metrics of all streams: of each metric first what it is, then a value for each stream.
pub(super) fn render(streams: &[Watched], reports: &[Report]) -> String {
    let samples: Vec<_> = streams
        .iter()
        .zip(reports)
        .map(|(stream, report)| Sample {
            id: escaped(stream.handle.id()),
            stream,
            snapshot: stream.handle.snapshot(),
            is_ready: report.is_ready(),
        })
        .collect();
    let mut text = String::new();
    write(&mut text, &samples).expect("writing to memory does not fail");
    text
}

/// A counter of a sample.
type Count = fn(&Sample) -> u64;

fn write(text: &mut String, samples: &[Sample<'_>]) -> fmt::Result {
    head(text, "wattle_build_info", "gauge", "The version that runs; always 1.")?;
    writeln!(text, "wattle_build_info{{version=\"{}\"}} 1", env!("CARGO_PKG_VERSION"))?;
    let gauge = "gauge";
    values(text, samples, "wattle_ready", gauge, "Whether the stream is well (1) or has a problem (0).", |s| {
        Some(f64::from(u8::from(s.is_ready)))
    })?;
    let counters: [(&str, &str, Count); 8] = [
        ("records", "Input records whose position is committed.", |s| s.snapshot.records),
        ("messages", "Records written, without dead letters.", |s| s.snapshot.messages),
        ("dead_letters", "Records moved to the error output.", |s| s.snapshot.dead_letters),
        ("skipped", "Invalid records that were passed over.", |s| s.snapshot.skipped),
        ("batches", "Batches committed.", |s| s.snapshot.batches),
        ("transactions", "Kafka transactions committed.", |s| s.transactions()),
        ("aborts", "Batches that were aborted and ran again.", |s| s.snapshot.aborts),
        ("restarts", "Starts with a new producer after a failure.", |s| s.snapshot.restarts),
    ];
    for (name, help, value) in counters {
        values(text, samples, &format!("wattle_{name}_total"), "counter", help, |s| Some(value(s) as f64))?;
    }
    let name = "wattle_commit_duration_seconds";
    head(text, name, "histogram", "Time of a commit, from the first write to the commit's answer.")?;
    for sample in samples {
        commits(text, name, sample)?;
    }
    let help = "Offsets between the group's committed positions and the ends of its topics; missing while the brokers do not tell.";
    values(text, samples, "wattle_lag", gauge, help, |s| s.stream.lag().map(|lag| lag as f64))?;
    let help = "Time since the oldest record was taken that is not committed, also of those that a batch processor holds; 0 where there is none.";
    values(text, samples, "wattle_frontier_age_seconds", gauge, help, |s| {
        Some(s.snapshot.oldest_open.max(s.snapshot.oldest_held).unwrap_or_default().as_secs_f64())
    })?;
    head(text, "wattle_tasks", gauge, "Input partitions that this process has.")?;
    for Sample { id, snapshot, .. } in samples {
        writeln!(text, "wattle_tasks{{stream=\"{id}\",state=\"running\"}} {}", snapshot.running)?;
        writeln!(text, "wattle_tasks{{stream=\"{id}\",state=\"starting\"}} {}", snapshot.starting.len())?;
    }
    parts(text, samples)
}

impl Sample<'_> {
    fn transactions(&self) -> u64 {
        if self.stream.handle.is_transactional() { self.snapshot.batches } else { 0 }
    }
}

/// Metrics of outputs, logs and the like, which not every stream has.
fn parts(text: &mut String, samples: &[Sample<'_>]) -> fmt::Result {
    let gauges =
        samples.iter().flat_map(|s| s.stream.handle.parts().flat_map(|part| part.gauges()).map(move |g| (s, g)));
    let mut gauges: Vec<_> = gauges.collect();
    gauges.sort_by_key(|(_, gauge)| gauge.name);
    let mut last = "";
    for (sample, gauge) in gauges {
        let (kind, end) = if gauge.is_counter { ("counter", "_total") } else { ("gauge", "") };
        let name = format!("wattle_{}{end}", gauge.name);
        if gauge.name != last {
            head(text, &name, kind, gauge.help)?;
            last = gauge.name;
        }
        writeln!(text, "{name}{{stream=\"{}\"}} {}", sample.id, gauge.value)?;
    }
    Ok(())
}

fn commits(text: &mut String, name: &str, Sample { id, snapshot, .. }: &Sample<'_>) -> fmt::Result {
    for (time, count) in &snapshot.commit_times {
        writeln!(text, "{name}_bucket{{stream=\"{id}\",le=\"{}\"}} {count}", time.as_secs_f64())?;
    }
    writeln!(text, "{name}_bucket{{stream=\"{id}\",le=\"+Inf\"}} {}", snapshot.batches)?;
    writeln!(text, "{name}_sum{{stream=\"{id}\"}} {}", snapshot.commit_sum.as_secs_f64())?;
    writeln!(text, "{name}_count{{stream=\"{id}\"}} {}", snapshot.batches)
}

fn values(
    text: &mut String,
    samples: &[Sample<'_>],
    name: &str,
    kind: &str,
    help: &str,
    value: impl Fn(&Sample<'_>) -> Option<f64>,
) -> fmt::Result {
    head(text, name, kind, help)?;
    for sample in samples {
        if let Some(value) = value(sample) {
            writeln!(text, "{name}{{stream=\"{}\"}} {value}", sample.id)?;
        }
    }
    Ok(())
}

fn head(text: &mut String, name: &str, kind: &str, help: &str) -> fmt::Result {
    writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}")
}

/// As a label's value.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;
    use std::time::Duration;

    use wattle::Metrics;

    use super::*;
    use crate::run::retry::Condition;
    use crate::run::{StreamHandle, Watch};

    /// Labels without `le`, and a value.
    type Line = (BTreeMap<String, String>, f64);

    /// Type and samples of each metric: name, labels, value.
    type Parsed = BTreeMap<String, (String, Vec<(String, BTreeMap<String, String>, f64)>)>;

    /// Reads the format strictly: of each metric its HELP, its TYPE, then all its samples in one piece.
    fn parse(text: &str) -> Parsed {
        assert!(text.ends_with('\n'));
        let mut metrics: BTreeMap<String, (String, Vec<_>)> = BTreeMap::new();
        let (mut current, mut helped) = (String::new(), String::new());
        for line in text.lines() {
            if let Some(help) = line.strip_prefix("# HELP ") {
                helped = help.split_once(' ').unwrap().0.to_owned();
            } else if let Some(kind) = line.strip_prefix("# TYPE ") {
                let (name, kind) = kind.split_once(' ').unwrap();
                assert_eq!(name, helped, "HELP comes before TYPE");
                assert!(matches!(kind, "counter" | "gauge" | "histogram"), "{line}");
                assert_eq!(kind == "counter", name.ends_with("_total"), "{line}");
                assert!(
                    metrics.insert(name.to_owned(), (kind.to_owned(), Vec::new())).is_none(),
                    "{name} in one piece"
                );
                current = name.to_owned();
            } else {
                let (name, labels, value) = sample(line);
                let base = ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end));
                let histogram = metrics[&current].0 == "histogram";
                assert_eq!(if histogram { base.unwrap_or(&name) } else { &name }, current, "{line}");
                metrics.get_mut(&current).unwrap().1.push((name, labels, value));
            }
        }
        metrics
    }

    fn sample(line: &str) -> (String, BTreeMap<String, String>, f64) {
        let legal = |name: &str| name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
        let (name, rest) = line.split_once('{').unwrap();
        assert!(legal(name), "{line}");
        let (mut rest, mut labels) = (rest, BTreeMap::new());
        loop {
            let (label, tail) = rest.split_once("=\"").unwrap();
            assert!(legal(label), "{line}");
            let (mut value, mut chars) = (String::new(), tail.char_indices());
            let end = loop {
                match chars.next().expect("a quote ends the value") {
                    (end, '"') => break end,
                    (_, '\\') => match chars.next().unwrap().1 {
                        'n' => value.push('\n'),
                        escaped @ ('\\' | '"') => value.push(escaped),
                        other => panic!("\\{other} in {line}"),
                    },
                    (_, other) => value.push(other),
                }
            };
            assert!(labels.insert(label.to_owned(), value).is_none(), "{line}");
            rest = &tail[end + 1..];
            match rest.strip_prefix(',') {
                Some(more) => rest = more,
                None => break,
            }
        }
        (name.to_owned(), labels, rest.strip_prefix("} ").unwrap().parse().unwrap())
    }

    #[test]
    fn the_text_is_what_prometheus_reads() {
        let streams = ["plain", "o\"d\\d\n"].map(|id| {
            let metrics = Arc::<Metrics>::default();
            metrics.batch(10, 8, 2, Duration::from_millis(4));
            metrics.batch(1, 1, 0, Duration::from_secs(40));
            metrics.abort();
            let condition = Condition::new(id, "out".to_owned());
            condition.refused(1);
            Watched::new(&StreamHandle::new(id.to_owned(), Watch::Source(metrics), condition, id == "plain"))
        });
        let reports = streams.each_ref().map(|stream| stream.report(Duration::from_secs(60)));
        let metrics = parse(&render(&streams, &reports));
        let of = |name: &str, id: &str| -> Vec<Line> {
            let (_, samples) = &metrics[name];
            let mine = samples.iter().filter(|(_, labels, _)| labels["stream"] == id);
            mine.map(|(_, labels, value)| (labels.clone(), *value)).collect()
        };
        for (name, value) in [
            ("wattle_ready", 1.0),
            ("wattle_records_total", 11.0),
            ("wattle_messages_total", 8.0),
            ("wattle_dead_letters_total", 3.0),
            ("wattle_batches_total", 2.0),
            ("wattle_transactions_total", 2.0),
            ("wattle_aborts_total", 1.0),
            ("wattle_frontier_age_seconds", 0.0),
            ("wattle_output_retries_total", 0.0),
        ] {
            assert_eq!(of(name, "plain").iter().map(|(_, value)| *value).collect::<Vec<_>>(), [value], "{name}");
        }
        assert_eq!(of("wattle_transactions_total", "o\"d\\d\n")[0].1, 0.0, "at least once");
        assert!(metrics["wattle_lag"].1.is_empty(), "a generator has none");
        let name = "wattle_commit_duration_seconds";
        let mine = metrics[name].1.iter().filter(|(_, labels, _)| labels["stream"] == "plain");
        let (buckets, ends): (Vec<_>, Vec<_>) = mine.partition(|(name, ..)| name.ends_with("_bucket"));
        let bounds = buckets.iter().map(|(_, labels, _)| labels["le"].parse::<f64>().unwrap()).collect::<Vec<_>>();
        assert!(bounds.is_sorted() && bounds.last() == Some(&f64::INFINITY), "{bounds:?}");
        let counts: Vec<_> = buckets.iter().map(|(.., count)| *count).collect();
        assert!(counts.is_sorted() && counts[0] == 0.0 && counts[counts.len() - 2..] == [1.0, 2.0], "{counts:?}");
        assert_eq!(ends.iter().map(|(.., value)| *value).collect::<Vec<_>>(), [40.004, 2.0]);
    }
}
