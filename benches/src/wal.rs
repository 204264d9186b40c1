//! The write-ahead log alone: what each sync mode costs, beside what the disk can do at all.

pub(crate) mod load;

use std::fs::File;
use std::io::Write;
use std::process::Command;
use std::time::{Duration, Instant};
use std::{env, fs};

use clap::ValueEnum;
use serde_json::Value;

use crate::args::{Sync, WalArgs};
use crate::process::Process;
use crate::report::{Table, grouped, number};
use crate::scratch::Scratch;
use crate::stats::{median, quantile};
use crate::{Result, machine};

/// How long the disk is measured.
const BOUND: Duration = Duration::from_secs(3);

/// Measures and prints. An error ends it: a log that does not give every entry once has no speed.
pub(crate) fn run(args: &WalArgs) -> Result<bool> {
    let scratch = Scratch::new()?;
    let mut runs: Vec<Vec<Value>> = args.only.iter().map(|_| Vec::new()).collect();
    fs::create_dir_all(scratch.file("disk"))?;
    let syncs = bound(&scratch, args.load.size)?;
    for round in 0..args.rounds as usize {
        for turn in 0..args.only.len() {
            let place = (round + turn) % args.only.len();
            let run = measure(&scratch, args, args.only[place], round)?;
            eprintln!("{}: {run}", name(args.only[place]));
            runs[place].push(run);
        }
    }
    drop(scratch);

    let columns =
        ["sync", "entries/s", "p50 ms", "p99 ms", "processed/s", "disk MB, most", "at the end", "peak MB", "CPU-s"];
    let mut table = Table::new(columns);
    for (sync, runs) in args.only.iter().zip(&runs) {
        let of = |field: &str| median(runs.iter().filter_map(|run| run[field].as_f64()));
        let mut row = vec![name(*sync), of("rate").map_or_else(String::new, grouped)];
        row.extend(["p50_ms", "p99_ms"].map(|field| number(of(field), 2)));
        row.push(of("processed_rate").map_or_else(String::new, grouped));
        row.extend(["disk_most", "disk_end", "peak"].map(|field| number(of(field).map(|bytes| bytes / 1e6), 1)));
        row.push(number(of("cpu"), 1));
        table.row(row);
    }
    let (entries, size, appenders) = (args.load.entries, args.load.size, args.load.appenders);
    println!("\n{entries} entries of {size} bytes, {appenders} appenders; max_bytes {} MiB", args.max_mib);
    println!("a plain write of one entry with a sync, one after the other: {syncs}");
    println!("{}\n{}", table.text(), machine::lines().join("\n"));
    Ok(true)
}

fn name(sync: Sync) -> String {
    sync.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}

fn measure(scratch: &Scratch, args: &WalArgs, sync: Sync, round: usize) -> Result<Value> {
    let name = format!("{}-{round}", name(sync));
    let folder = scratch.file("disk").join(&name);
    let mut command = Command::new(env::current_exe()?);
    command.arg("wal-load").arg(&folder).arg(self::name(sync)).arg(args.max_mib.to_string());
    command.args(["--entries", &args.load.entries.to_string(), "--size", &args.load.size.to_string()]);
    command.args(["--appenders", &args.load.appenders.to_string()]);
    let printed = Process::spawn(scratch, &name, command)?.finish()?;
    fs::remove_dir_all(&folder)?;
    Ok(serde_json::from_str(printed.lines().last().unwrap_or_default())?)
}

/// What the disk does with the least that a log has to ask of it.
pub(crate) fn bound(scratch: &Scratch, size: u64) -> Result<String> {
    let path = scratch.file("disk").join("plain");
    let mut file = File::create(&path)?;
    let entry = vec![b'x'; usize::try_from(size)?];
    let started = Instant::now();
    let mut times = Vec::new();
    while started.elapsed() < BOUND {
        let began = Instant::now();
        file.write_all(&entry)?;
        file.sync_data()?;
        times.push(began.elapsed().as_secs_f64() * 1e3);
    }
    fs::remove_file(&path)?;
    let rate = times.len() as f64 / started.elapsed().as_secs_f64();
    let (p50, p99) = (quantile(&times, 0.5), quantile(&times, 0.99));
    Ok(format!("{}/s, p50 {} ms, p99 {} ms", grouped(rate), number(p50, 2), number(p99, 2)))
}
