//! Requests through the write-ahead log into Kafka, exactly once: what each sync mode costs a whole pipeline.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use clap::ValueEnum;

use crate::args::{IngestArgs, Sync};
use crate::kafka::{self, KEYS, Ledger, Reader, Record};
use crate::process::Process;
use crate::report::{Table, grouped, number};
use crate::scratch::Scratch;
use crate::stats::quantile;
use crate::wal::bound;
use crate::{Result, broker, machine};

/// For a start, and for records that were accepted to come out.
const PATIENCE: Duration = Duration::from_secs(120);
/// How often the disk and the log are looked at.
const LOOK: Duration = Duration::from_millis(5);
const PARTITIONS: i32 = 4;

struct Run {
    /// Seconds until everything was answered, and until a reader had it.
    accepted: f64,
    read: f64,
    /// Milliseconds until a request was answered.
    times: Vec<f64>,
    disk_most: u64,
    disk_end: u64,
    peak: u64,
    cpu: f64,
}

/// Measures and prints. An error ends it: records that are not there once have no speed.
pub(crate) fn run(args: &IngestArgs) -> Result<bool> {
    let scratch = Scratch::new()?;
    let brokers = broker::start(&scratch)?;
    let wattle = crate::kit::Kit::prepare(&[crate::kit::Program::Wattle], &scratch)?.wattle();
    fs::create_dir_all(scratch.file("disk"))?;
    let syncs = bound(&scratch, args.size)?;
    let before = machine::load_average();
    let columns = [
        "sync",
        "records/s accepted",
        "p50 ms",
        "p99 ms",
        "records/s read",
        "disk MB, most",
        "at the end",
        "peak MB",
        "CPU-s",
    ];
    let mut table = Table::new(columns);
    for sync in &args.only {
        let run = measure(&scratch, &brokers, &wattle, args, *sync)?;
        let rate = |seconds: f64| grouped(args.records as f64 / seconds);
        let megabytes = |bytes: u64| number(Some(bytes as f64 / 1e6), 1);
        table.row(vec![
            name(*sync),
            rate(run.accepted),
            number(quantile(&run.times, 0.5), 2),
            number(quantile(&run.times, 0.99), 2),
            rate(run.read),
            megabytes(run.disk_most),
            megabytes(run.disk_end),
            megabytes(run.peak),
            number(Some(run.cpu), 1),
        ]);
    }
    drop(scratch);
    let (records, size, lines, clients) = (args.records, args.size, args.lines, args.clients);
    println!(
        "\n{records} records of {size} bytes, {lines} in a request, {clients} clients that wait for each answer; max_bytes {} MiB",
        args.max_mib
    );
    println!("a plain write of one record with a sync, one after the other: {syncs}");
    println!("load average: {before:.1} before, {:.1} at the end", machine::load_average());
    println!("{}\n{}", table.markdown(), machine::lines().join("\n"));
    Ok(true)
}

fn name(sync: Sync) -> String {
    sync.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}

fn measure(scratch: &Scratch, brokers: &str, wattle: &Path, args: &IngestArgs, sync: Sync) -> Result<Run> {
    let topic = format!("ingest-{}", name(sync).replace('_', "-"));
    kafka::create_topic(brokers, &topic, PARTITIONS)?;
    let log = scratch.file("disk").join(&topic);
    let mode = if sync == Sync::Periodic { "{periodic: 50ms}".to_owned() } else { name(sync) };
    let file = scratch.file(&format!("{topic}.yaml"));
    let yaml = format!(
        "streams:\n  - id: ingest\n    input: {{type: http, address: '127.0.0.1:0', path: /, format: lines, max_waiting: {}}}\n    \
         durability: {{path: '{}', sync: {mode}, max_bytes: {}MiB}}\n    \
         output: {{type: kafka, brokers: '{brokers}', topic: {topic}, exactly_once: true, transactional_id: {topic}}}\n",
        args.clients + 1,
        log.display(),
        args.max_mib
    );
    fs::write(&file, yaml)?;
    let mut command = Command::new(wattle);
    command.arg("run").arg(&file);
    let mut process = Process::spawn(scratch, &topic, command)?;
    let address = address(&mut process)?;
    let reader = Reader::new(brokers, &topic)?;
    reader.read_to_end(|_| {})?;

    let (started, done) = (Instant::now(), AtomicBool::new(false));
    let (times, accepted, disk_most) = thread::scope(|scope| {
        let clients: Vec<_> = (0..args.clients)
            .map(|client| {
                scope.spawn({
                    let address = &address;
                    move || send(address, args, client)
                })
            })
            .collect();
        let disk = scope.spawn(|| watch(&log, &done));
        let mut times = Vec::new();
        let mut failed = None;
        for client in clients {
            match client.join() {
                Ok(Ok(some)) => times.extend(some),
                Ok(Err(error)) => failed = Some(error),
                Err(_) => failed = Some("a client panicked".into()),
            }
        }
        let accepted = started.elapsed().as_secs_f64();
        let read = failed.map_or_else(|| read(&reader, args.records), Err);
        done.store(true, Ordering::Relaxed);
        let disk_most = disk.join().map_err(|_| "the watch panicked")?;
        read.map(|()| (times, accepted, disk_most))
    })?;
    let read = started.elapsed().as_secs_f64();
    let usage = process.usage()?;
    let disk_end = size(&log);
    process.stop()?;
    let ledger = Ledger::of(brokers, &topic, args.records)?;
    if !ledger.is_exact() {
        return Err(format!("{topic}: not every record is there once: {ledger:?}").into());
    }
    kafka::delete_topic(brokers, &topic)?;
    fs::remove_dir_all(&log)?;
    Ok(Run { accepted, read, times, disk_most, disk_end, peak: usage.peak, cpu: usage.cpu.as_secs_f64() })
}

/// Where it takes requests, as its log says when it does.
fn address(process: &mut Process) -> Result<String> {
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline {
        process.check()?;
        let printed = process.printed()?;
        if printed.contains("read the cursor")
            && let Some((_, behind)) = printed.split_once("takes requests at http://")
            && let Some((address, _)) = behind.split_once('/')
        {
            return Ok(address.to_owned());
        }
        thread::sleep(LOOK);
    }
    Err("it does not take requests".into())
}

/// Sends every so many-th request, and returns how long each took in milliseconds.
fn send(address: &str, args: &IngestArgs, client: u64) -> Result<Vec<f64>> {
    let mut connection = BufReader::new(TcpStream::connect(address)?);
    connection.get_mut().set_nodelay(true)?;
    let (mut times, mut line, requests) = (Vec::new(), String::new(), args.records.div_ceil(args.lines));
    for request in (client..requests).step_by(usize::try_from(args.clients)?) {
        let ids = request * args.lines..((request + 1) * args.lines).min(args.records);
        let size = usize::try_from(args.size)?;
        let body: String = ids.map(|id| Record::new(id, size, KEYS).value + "\n").collect();
        let began = Instant::now();
        write!(connection.get_mut(), "POST / HTTP/1.1\r\nContent-Length: {}\r\n\r\n{body}", body.len())?;
        let mut length = 0;
        for place in 0.. {
            line.clear();
            connection.read_line(&mut line)?;
            if place == 0 && !line.starts_with("HTTP/1.1 200") {
                return Err(format!("a request was refused: {line}").into());
            }
            if let Some(value) = line.strip_prefix("content-length: ") {
                length = value.trim().parse()?;
            }
            if line.trim().is_empty() {
                break;
            }
        }
        std::io::copy(&mut (&mut connection).take(length), &mut std::io::sink())?;
        times.push(began.elapsed().as_secs_f64() * 1e3);
    }
    Ok(times)
}

/// Returns when the reader has had so many records.
fn read(reader: &Reader, records: u64) -> Result<()> {
    let (mut count, mut last) = (0, Instant::now());
    while count < records {
        if reader.next(Duration::from_millis(100))?.is_some() {
            (count, last) = (count + 1, Instant::now());
        } else if last.elapsed() > PATIENCE {
            return Err(format!("only {count} of {records} records come out").into());
        }
    }
    Ok(())
}

/// The most bytes that the log had on disk.
fn watch(log: &Path, done: &AtomicBool) -> u64 {
    let mut most = 0;
    while !done.load(Ordering::Relaxed) {
        most = most.max(size(log));
        thread::sleep(LOOK);
    }
    most
}

/// Bytes of its files; those that are deleted meanwhile are none.
fn size(log: &Path) -> u64 {
    let entries = fs::read_dir(log).into_iter().flatten().flatten();
    entries.filter_map(|entry| Some(entry.metadata().ok()?.len())).sum()
}
