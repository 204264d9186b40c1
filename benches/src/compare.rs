//! All contenders side by side.

mod rows;
mod targets;

use std::fs;

use crate::args::CompareArgs;
use crate::contender::Kind;
use crate::setting::Setting;
use crate::{Result, latency, machine, throughput};
use rows::{Row, Run};

/// Measures and prints. Returns whether every contender delivered every record once.
pub(crate) fn run(args: &CompareArgs) -> Result<bool> {
    let before = machine::load_average();
    let setting = Setting::prepare(&args.only, &args.load, args.latency_seconds > 0)?;
    let missing = setting.kit.kstreams.as_ref().err().filter(|_| args.only.contains(&Kind::Kstreams)).cloned();
    let there = args.only.iter().filter(|kind| **kind != Kind::Kstreams || missing.is_none());
    let mut rows: Vec<Row> = there.map(|kind| Row::new(*kind)).collect();
    for round in 0..args.load.rounds as usize {
        for turn in 0..rows.len() {
            // Whoever comes first has a cooler machine; so they take turns.
            let place = (round + turn) % rows.len();
            let row = &mut rows[place];
            if row.error.is_some() {
                continue;
            }
            match measure(&setting, row.kind, round, args.latency_seconds) {
                Ok(run) => row.runs.push(run),
                Err(error) => {
                    eprintln!("{}: {error}", row.kind.title());
                    row.error = Some(error.to_string());
                }
            }
        }
    }
    drop(setting);
    let left_out = missing.map(|reason| format!("{} is left out: {reason}", Kind::Kstreams.title()));
    print(args, &rows, left_out, [before, machine::load_average()])?;
    Ok(rows.iter().all(|row| row.error.is_none()))
}

fn measure(setting: &Setting, kind: Kind, round: usize, latency_seconds: u64) -> Result<Run> {
    let title = kind.title();
    let throughput = throughput::measure(setting, kind, &format!("{kind}-{round}"), None)?;
    eprintln!("{title}: {throughput}");
    let at = |partitions: i32| {
        let name = format!("{kind}-{round}-latency-{partitions}");
        let latency = latency::measure(setting, kind, &name, partitions, latency_seconds)?;
        eprintln!("{title}: {} records/s, partitions {partitions}: {latency}", latency::RATE);
        Result::Ok(latency)
    };
    let wanted = latency_seconds > 0;
    let all = wanted.then(|| at(setting.load.partitions)).transpose()?;
    let one = match setting.load.partitions {
        1 => all,
        // One loop a partition is one loop then.
        _ => (wanted && kind != Kind::RawEach).then(|| at(1)).transpose()?,
    };
    Ok(Run { throughput, all, one })
}

fn print(args: &CompareArgs, rows: &[Row], left_out: Option<String>, [before, after]: [f64; 2]) -> Result<()> {
    let table = rows::table(rows, &args.load);
    let mut notes: Vec<String> =
        rows.iter().filter_map(|row| Some(format!("{}: {}", row.kind.title(), row.error.as_ref()?))).collect();
    notes.extend(left_out);
    notes.push(format!(
        "load: {} records of {} bytes over {} partitions; latency at {} records/s for {} s; rounds: {}",
        args.load.records,
        args.load.size,
        args.load.partitions,
        latency::RATE,
        args.latency_seconds,
        args.load.rounds
    ));
    notes.push(format!(
        "load average: {before:.1} before, {after:.1} at the end; the benchmark's own share is about 2 to 3"
    ));
    notes.extend(machine::lines());
    let targets = targets::lines(rows);
    println!("\n{}\n{}\n\n{}", table.text(), targets.join("\n"), notes.join("\n"));
    if let Some(file) = &args.out {
        let list = |lines: &[String]| lines.iter().map(|line| format!("- {line}\n")).collect::<String>();
        let text = format!("{}\n{}\n{}", table.markdown(), list(&targets), list(&notes));
        fs::write(file, text).map_err(|error| format!("cannot write {}: {error}", file.display()))?;
    }
    Ok(())
}
