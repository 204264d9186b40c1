//! All contenders side by side: one table for each number of partitions.

mod section;
mod targets;

use std::fs;

use crate::args::CompareArgs;
use crate::contender::{Contender, Kind};
use crate::latency::RATE;
use crate::report::list;
use crate::row::{Round, Row};
use crate::setting::Setting;
use crate::{Result, machine};
use section::Section;

/// Measures and prints. Returns whether every contender delivered every record once.
pub(crate) fn run(args: &CompareArgs) -> Result<bool> {
    let before = machine::load_average();
    let setting = Setting::prepare(&args.only, &args.load, &args.partitions, args.latency_seconds > 0)?;
    let mut sections = sections(args, &setting);
    for number in 0..args.load.rounds as usize {
        for Section { partitions, full_load, rows, .. } in &mut sections {
            let (partitions, full_load) = (*partitions, *full_load);
            let round = Round { number, partitions, full_load, latency_seconds: args.latency_seconds };
            round.measure_all(&setting, rows);
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
    match kind {
        Kind::RawEach if partitions == 1 => Some("it is the plain loop then".to_owned()),
        _ => setting.kit.lacks(kind.program()).map(str::to_owned),
    }
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
