//! All contenders side by side: one table for each number of partitions.

mod rows;
mod targets;

use std::fs;

use crate::args::CompareArgs;
use crate::contender::Kind;
use crate::latency::RATE;
use crate::report::list;
use crate::setting::Setting;
use crate::{Result, latency, machine, throughput};
use rows::{Row, Run, Section};

/// Measures and prints. Returns whether every contender delivered every record once.
pub(crate) fn run(args: &CompareArgs) -> Result<bool> {
    let before = machine::load_average();
    let setting = Setting::prepare(&args.only, &args.load, &args.partitions, args.latency_seconds > 0)?;
    let mut sections = sections(args, &setting);
    for round in 0..args.load.rounds as usize {
        for section in &mut sections {
            measure_all(&setting, section, round, args.latency_seconds);
        }
    }
    drop(setting);
    print(args, &sections, [before, machine::load_average()])?;
    Ok(sections.iter().flat_map(|section| &section.rows).all(|row| row.error.is_none()))
}

/// What is going to be measured. One partition shows latency without any parallelism; what it can carry at full load tells nothing
/// that more partitions do not.
fn sections(args: &CompareArgs, setting: &Setting) -> Vec<Section> {
    let one = (args.latency_seconds > 0 && !args.partitions.contains(&1)).then_some(1);
    let of = |partitions| {
        let mut section = Section::new(partitions, args.partitions.contains(&partitions));
        for kind in &args.only {
            match why_not(*kind, partitions, setting) {
                Some(reason) => section.left_out.push((*kind, reason)),
                None => section.rows.push(Row::new(*kind)),
            }
        }
        section
    };
    one.into_iter().chain(args.partitions.iter().copied()).map(of).collect()
}

/// Why a contender has no row.
fn why_not(kind: Kind, partitions: i32, setting: &Setting) -> Option<String> {
    match (kind, &setting.kit.kstreams) {
        (Kind::Kstreams, Err(reason)) => Some(reason.clone()),
        (Kind::RawEach, _) if partitions == 1 => Some("it is the plain loop then".to_owned()),
        _ => None,
    }
}

/// One round of a section. Whoever comes first has a cooler machine; so they take turns.
fn measure_all(setting: &Setting, section: &mut Section, round: usize, latency_seconds: u64) {
    let (partitions, full_load, count) = (section.partitions, section.full_load, section.rows.len());
    for turn in 0..count {
        let row = &mut section.rows[(round + turn) % count];
        if row.error.is_some() {
            continue;
        }
        let name = format!("{}-{partitions}-{round}", row.kind);
        match measure(setting, row.kind, &name, partitions, full_load, latency_seconds) {
            Ok(run) => row.runs.push(run),
            Err(error) => {
                eprintln!("{}, partitions {partitions}: {error}", row.kind.title());
                row.error = Some(error.to_string());
            }
        }
    }
}

fn measure(
    setting: &Setting,
    kind: Kind,
    name: &str,
    partitions: i32,
    full_load: bool,
    latency_seconds: u64,
) -> Result<Run> {
    let title = format!("{}, partitions {partitions}", kind.title());
    let mut run = Run::default();
    if full_load {
        let throughput = throughput::measure(setting, kind, name, partitions, None)?;
        eprintln!("{title}: {throughput}");
        run.throughput = Some(throughput);
    }
    if latency_seconds > 0 {
        let latency = latency::measure(setting, kind, &format!("{name}-latency"), partitions, latency_seconds)?;
        eprintln!("{title}: {RATE} records/s: {latency}");
        run.latency = Some(latency);
    }
    Ok(run)
}

fn print(args: &CompareArgs, sections: &[Section], load_average: [f64; 2]) -> Result<()> {
    let targets = targets::lines(sections);
    let notes = notes(args, sections, load_average);
    for section in sections {
        println!("\n{}\n\n{}", section.title(), section.table().text());
    }
    println!("{}\n\n{}", targets.join("\n"), notes.join("\n"));
    if let Some(file) = &args.out {
        let tables = sections.iter().map(|s| format!("**{}**\n\n{}\n", s.title(), s.table().markdown()));
        let text = format!("{}{}\n{}", tables.collect::<String>(), list(&targets), list(&notes));
        fs::write(file, text).map_err(|error| format!("cannot write {}: {error}", file.display()))?;
    }
    Ok(())
}

fn notes(args: &CompareArgs, sections: &[Section], [before, after]: [f64; 2]) -> Vec<String> {
    let mut notes: Vec<String> = sections.iter().flat_map(Section::notes).collect();
    notes.push(format!(
        "load: {} records of {} bytes; latency at {RATE} records/s for {} s; rounds: {}",
        args.load.records, args.load.size, args.latency_seconds, args.load.rounds
    ));
    notes.push(format!(
        "load average: {before:.1} before, {after:.1} at the end; the benchmark's own share is about 2 to 3"
    ));
    notes.extend(machine::lines());
    notes
}
