//! Keyed state side by side: the library's `count` example against Kafka Streams and Flechtwerk, one table for each number of keys.

mod counter;
mod tally;

use std::fs;

use crate::args::CountArgs;
use crate::bound::Bound::{self, AtLeast, AtMost};
use crate::contender::Contender;
use crate::kit::FLECHTWERK_VERSION;
use crate::latency::RATE;
use crate::report::{Table, grouped, list, number};
use crate::row::{Round, Row, ratio};
use crate::setting::Setting;
use crate::{Result, machine};
pub(crate) use counter::Counter;
use counter::Counting;

/// Everything that was measured with one number of keys.
struct Section {
    keys: u64,
    rows: Vec<Row<Counting>>,
}

/// What Wattle is held to, from its row and that of Kafka Streams.
type Value = fn(&Row<Counting>, Option<&Row<Counting>>) -> Option<f64>;

const TARGETS: [(&str, Value, Bound); 4] = [
    ("rate of Kafka Streams'", |row, streams| ratio(row.rate(), streams?.rate()), AtLeast(1.4)),
    ("CPU-seconds of Kafka Streams'", |row, streams| ratio(row.cpu(), streams?.cpu()), AtMost(1.0 / 3.0)),
    ("peak memory of Kafka Streams'", |row, streams| ratio(row.megabytes(), streams?.megabytes()), AtMost(1.0 / 3.0)),
    ("latency p50, ms", |row, _| row.p50(), AtMost(10.0)),
];

/// Measures and prints. Returns whether everybody counted every record once.
pub(crate) fn run(args: &CountArgs) -> Result<bool> {
    let before = machine::load_average();
    let of = |keys: u64| args.only.iter().map(move |counter| Counting { counter: *counter, keys });
    let setting = Setting::start(of(0), &args.load)?;
    let lacks = |counter: &Counter| Some((*counter, setting.kit.lacks(counter.program())?.to_owned()));
    let left_out: Vec<(Counter, String)> = args.only.iter().filter_map(lacks).collect();
    let there = |counting: &Counting| left_out.iter().all(|(counter, _)| *counter != counting.counter);
    let mut sections: Vec<Section> = Vec::new();
    for keys in &args.keys {
        setting.write_load(args.partitions, *keys)?;
        sections.push(Section { keys: *keys, rows: of(*keys).filter(there).map(Row::new).collect() });
    }
    warm_up(&setting, &sections, args)?;
    for number in 0..args.load.rounds as usize {
        for section in &mut sections {
            let (partitions, latency_seconds) = (args.partitions, args.latency_seconds);
            Round { number, partitions, full_load: true, latency_seconds }.measure_all(&setting, &mut section.rows);
        }
    }
    drop(setting);
    print(args, &sections, &left_out, [before, machine::load_average()])?;
    Ok(sections.iter().flat_map(|section| &section.rows).all(|row| row.error.is_none()))
}

/// The first one to count runs once more, before all others.
fn warm_up(setting: &Setting, sections: &[Section], args: &CountArgs) -> Result<()> {
    let Some(first) = sections.first().and_then(|section| section.rows.first()) else { return Ok(()) };
    setting.warm_up(first.contender, args.partitions)?;
    match args.latency_seconds {
        0 => Ok(()),
        _ => setting.warm_up_latency(first.contender, args.partitions),
    }
}

fn print(
    args: &CountArgs,
    sections: &[Section],
    left_out: &[(Counter, String)],
    [before, after]: [f64; 2],
) -> Result<()> {
    let targets: Vec<String> = sections.iter().flat_map(Section::targets).collect();
    let mut notes: Vec<String> = sections.iter().flat_map(Section::errors).collect();
    notes.extend(left_out.iter().map(|(counter, reason)| format!("{} is left out: {reason}", counter.label())));
    if args.only.contains(&Counter::Flechtwerk) && left_out.iter().all(|(counter, _)| *counter != Counter::Flechtwerk) {
        notes.push(format!("Flechtwerk {FLECHTWERK_VERSION}, Python 3.13"));
    }
    notes.push(format!(
        "load: {} records of {} bytes over {} partitions; latency at {RATE} records/s for {} s; rounds: {}",
        args.load.records, args.load.size, args.partitions, args.latency_seconds, args.load.rounds
    ));
    notes.push(format!("load average: {before:.1} before, {after:.1} at the end"));
    notes.extend(machine::lines());
    for section in sections {
        println!("\n{}\n\n{}", section.title(), section.table().text());
    }
    println!("{}\n\n{}", targets.join("\n"), notes.join("\n"));
    if let Some(file) = &args.out {
        let tables =
            sections.iter().map(|section| format!("**{}**\n\n{}\n", section.title(), section.table().markdown()));
        let text = format!("{}{}\n{}", tables.collect::<String>(), list(&targets), list(&notes));
        fs::write(file, text).map_err(|error| format!("cannot write {}: {error}", file.display()))?;
    }
    Ok(())
}

impl Section {
    fn title(&self) -> String {
        format!("{} keys", grouped(self.keys as f64))
    }

    fn streams(&self) -> Option<&Row<Counting>> {
        self.rows.iter().find(|row| row.contender.counter == Counter::Kstreams)
    }

    fn table(&self) -> Table {
        let columns = ["contender", "records/s", "of Streams", "CPU-s", "of Streams", "peak MB", "of Streams"];
        let mut table = Table::new(columns.iter().chain(&["p50 ms at the steady rate", "p99 ms"]).copied());
        let of_streams = |row, value: fn(&Row<Counting>) -> Option<f64>| {
            number(ratio(value(row), self.streams().and_then(value)), 2)
        };
        for row in &self.rows {
            let mut cells = vec![row.contender.counter.label().to_owned()];
            match row.error {
                Some(_) => cells.push("error".to_owned()),
                None => cells.extend([
                    row.rate().map_or_else(|| number(None, 0), grouped),
                    of_streams(row, Row::rate),
                    number(row.cpu(), 2),
                    of_streams(row, Row::cpu),
                    number(row.megabytes(), 0),
                    of_streams(row, Row::megabytes),
                    number(row.p50(), 1),
                    number(row.p99(), 1),
                ]),
            }
            table.row(cells);
        }
        table
    }

    /// A line for every target of every row of Wattle's.
    fn targets(&self) -> Vec<String> {
        let wattle = self.rows.iter().filter(|row| row.contender.counter.is_wattle());
        let of = |row: &Row<Counting>| {
            let line = |(what, value, bound): (&str, Value, Bound)| {
                bound.line(&format!("{}: {what}", row.contender.title()), value(row, self.streams()))
            };
            TARGETS.map(line)
        };
        wattle.flat_map(of).collect()
    }

    fn errors(&self) -> Vec<String> {
        let error = |row: &Row<Counting>| Some(format!("{}: {}", row.contender.title(), row.error.as_ref()?));
        self.rows.iter().filter_map(error).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::latency::Latency;
    use crate::process::Usage;
    use crate::row::Run;
    use crate::throughput::Throughput;

    fn row(counter: Counter, rate: f64, cpu: u64, peak: u64) -> Row<Counting> {
        let usage = Usage { cpu: Duration::from_secs(cpu), peak };
        let throughput = Some(Throughput { rate, usage, commits: None });
        let latency = Some(Latency { p50: 9.0, p99: 90.0, commits: None });
        Row { contender: Counting { counter, keys: 7 }, runs: vec![Run { throughput, latency }], error: None }
    }

    #[test]
    fn a_target_compares_with_streams_of_the_same_keys() {
        let rows = vec![row(Counter::Kstreams, 100.0, 9, 300), row(Counter::Disk, 140.0, 3, 101)];
        let lines = Section { keys: 7, rows }.targets();
        assert_eq!(lines.len(), 4, "Kafka Streams itself has no targets: {lines:?}");
        assert!(lines[0].starts_with("met     Wattle count, state on disk, 7 keys: rate"), "{lines:?}");
        assert!(lines[1].starts_with("met     ") && lines[3].starts_with("met     "), "{lines:?}");
        assert!(lines[2].starts_with("MISSED  ") && lines[2].contains("memory"), "{lines:?}");
    }

    #[test]
    fn without_streams_only_its_own_latency_is_held_to_something() {
        let lines = Section { keys: 7, rows: vec![row(Counter::Memory, 140.0, 3, 101)] }.targets();
        assert!(lines[..3].iter().all(|line| line.starts_with("not measured")), "{lines:?}");
        assert!(lines[3].starts_with("met"), "{lines:?}");
    }
}
