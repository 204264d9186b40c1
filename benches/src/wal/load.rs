//! One log under load: tasks that append, as an HTTP server's, and a thread that processes and covers, as a stream's.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;
use wattle_wal::{Log, Options, SyncMode};

use crate::Result;
use crate::args::{Sync, WalLoadArgs};
use crate::process::Usage;
use crate::stats::quantile;

/// Entries of a transaction of the stream, at most.
const BATCH: u64 = 10_000;
/// Each appender remembers the time of one entry in so many.
const SAMPLE: u64 = 16;
/// How often the disk is looked at.
const LOOK: Duration = Duration::from_millis(5);

/// Appends and processes, and prints what it took.
pub(crate) fn run(args: &WalLoadArgs) -> Result<()> {
    let sync = match args.sync {
        Sync::PerEntry => SyncMode::PerEntry,
        Sync::GroupCommit => SyncMode::GroupCommit,
        Sync::Periodic => SyncMode::Periodic(Duration::from_millis(50)),
    };
    let options = Options { sync, max_bytes: args.max_mib << 20, ..Options::default() };
    let log = Arc::new(Log::open(&args.folder, "wattle-bench", options)?);
    let entries = args.load.entries;
    let started = Instant::now();
    let processed = thread::spawn({
        let log = log.clone();
        move || process(&log, entries).map(|()| started.elapsed())
    });
    let done = Arc::new(AtomicBool::new(false));
    let disk = thread::spawn({
        let (log, done) = (log.clone(), done.clone());
        move || watch(&log, &done)
    });
    let times = append(&log, args)?;
    let appended = started.elapsed();
    let processed = processed.join().map_err(|_| "the stream panicked")??;
    done.store(true, Ordering::Relaxed);
    let disk_most = disk.join().map_err(|_| "the watch panicked")?;
    let disk_end = log.status().bytes;
    let usage = Usage::of("self")?;
    let rate = |time: Duration| (entries as f64 / time.as_secs_f64()).round();
    println!(
        "{}",
        json!({
            "rate": rate(appended), "processed_rate": rate(processed), "p50_ms": quantile(&times, 0.5), "p99_ms": quantile(&times, 0.99),
            "disk_most": disk_most, "disk_end": disk_end, "peak": usage.peak, "cpu": usage.cpu.as_secs_f64(),
        })
    );
    Ok(())
}

/// Milliseconds that entries took to be accepted, of a sample.
fn append(log: &Arc<Log>, args: &WalLoadArgs) -> Result<Vec<f64>> {
    let (entries, appenders) = (args.load.entries, args.load.appenders);
    let entry = vec![b'x'; usize::try_from(args.load.size)?];
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build()?;
    let tasks: Vec<_> = (0..appenders)
        .map(|appender| {
            let (log, entry) = (log.clone(), entry.clone());
            let mine = entries / appenders + u64::from(appender < entries % appenders);
            runtime.spawn(async move {
                let mut times = Vec::new();
                for i in 0..mine {
                    let began = Instant::now();
                    log.append(entry.clone()).await?;
                    if i % SAMPLE == 0 {
                        times.push(began.elapsed().as_secs_f64() * 1e3);
                    }
                }
                Ok::<_, wattle_wal::Error>(times)
            })
        })
        .collect();
    let mut times = Vec::new();
    for task in tasks {
        times.extend(runtime.block_on(task)??);
    }
    Ok(times)
}

/// Every entry once and in order, or an error.
fn process(log: &Log, entries: u64) -> Result<()> {
    let mut reader = log.reader(None)?;
    let mut next = 0;
    while next < entries {
        match reader.read()? {
            Some(entry) if entry.sequence.0 != next => {
                return Err(format!("{} instead of {next}", entry.sequence).into());
            }
            Some(_) => next += 1,
            None => {
                log.cover(reader.position())?;
                reader.wait(Duration::from_secs(1));
            }
        }
        if next % BATCH == 0 {
            log.cover(reader.position())?;
        }
    }
    Ok(log.cover(reader.position())?)
}

/// The most bytes that it had on disk.
fn watch(log: &Log, done: &AtomicBool) -> u64 {
    let mut most = 0;
    while !done.load(Ordering::Relaxed) {
        most = most.max(log.status().bytes);
        thread::sleep(LOOK);
    }
    most
}
