//! Wattle alone with several values of `max_poll_records`.

use crate::args::BatchSizeArgs;
use crate::report::{Table, grouped, number};
use crate::setting::Setting;
use crate::stats::median;
use crate::throughput::{self, Throughput};
use crate::{Result, machine};

/// Measures and prints. An error ends it: a table with holes chooses no default.
pub(crate) fn run(args: &BatchSizeArgs) -> Result<bool> {
    if let Some(kind) = args.only.iter().find(|kind| kind.scope().is_none()) {
        return Err(format!("{kind} has no max_poll_records").into());
    }
    let setting = Setting::prepare(&args.only, &args.load, &[args.partitions], false)?;
    let cells: Vec<_> = args.only.iter().flat_map(|kind| args.sizes.iter().map(|size| (*kind, *size))).collect();
    let mut runs: Vec<Vec<Throughput>> = cells.iter().map(|_| Vec::new()).collect();
    for round in 0..args.load.rounds as usize {
        for turn in 0..cells.len() {
            let place = (round + turn) % cells.len();
            let (kind, size) = cells[place];
            let run =
                throughput::measure(&setting, kind, &format!("{kind}-{size}-{round}"), args.partitions, Some(size))?;
            eprintln!("{} with {size}: {run}", kind.label());
            runs[place].push(run);
        }
    }
    drop(setting);

    let columns =
        ["contender", "max_poll_records", "records/s", "CPU-s", "peak MB", "commits", "commit p50 ms", "p99 ms"];
    let mut table = Table::new(columns);
    for ((kind, size), runs) in cells.iter().zip(&runs) {
        let of = |value: &dyn Fn(&Throughput) -> Option<f64>| median(runs.iter().filter_map(value));
        table.row(vec![
            kind.label().to_owned(),
            size.to_string(),
            of(&|run| Some(run.rate)).map_or_else(String::new, grouped),
            number(of(&|run| Some(run.usage.cpu.as_secs_f64())), 2),
            number(of(&|run| Some(run.usage.peak as f64 / 1e6)), 0),
            number(of(&|run| Some(run.commits?.count as f64)), 0),
            number(of(&|run| Some(run.commits?.p50)), 1),
            number(of(&|run| Some(run.commits?.p99)), 1),
        ]);
    }
    println!("\n{}\n{}", table.text(), machine::lines().join("\n"));
    Ok(true)
}
