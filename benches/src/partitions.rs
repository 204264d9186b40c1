//! What one Wattle process costs that has many partitions, by transaction scope.

use std::fmt;
use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use rdkafka::producer::{BaseRecord, Producer};
use serde_json::Value;

use crate::args::{LoadArgs, PartitionsArgs};
use crate::contender::{Contender, Job, Kind};
use crate::kafka::{self, KEYS, Reader, Record};
use crate::process::{Footprint, Process};
use crate::report::{Table, list, number};
use crate::setting::Setting;
use crate::stats::median;
use crate::{Result, machine};

/// Between the first records and the measurement of an idle process.
const SETTLE: Duration = Duration::from_secs(3);
/// For a start, and for records that were sent to come out.
const PATIENCE: Duration = Duration::from_secs(120);
/// How often the log and the output are looked at.
const TICK: Duration = Duration::from_millis(5);
/// Bytes of a record's value.
const SIZE: u64 = 100;

/// One process, from its start to its end. Times are in seconds.
struct Costs {
    /// From the start of the process until its last task says that it has started.
    tasks: f64,
    /// From the start of the process until a reader has a committed record of every partition.
    records: f64,
    idle: Watched,
    load: Watched,
    /// From SIGTERM to the end of the process.
    stop: f64,
}

/// A process over some time.
struct Watched {
    /// At the end of the time.
    footprint: Footprint,
    /// Share of a core, in per cent.
    cpu: f64,
}

/// Measures and prints. An error ends it: a table with holes tells no costs.
pub(crate) fn run(args: &PartitionsArgs) -> Result<bool> {
    if let Some(kind) = args.only.iter().find(|kind| !kind.is_pipeline()) {
        return Err(format!("{kind} is not measured here: only the pipelines say when their tasks have started").into());
    }
    let before = machine::load_average();
    let load = LoadArgs { records: args.rate * args.seconds, size: SIZE, rounds: args.rounds };
    let setting = Setting::start(args.only.iter().copied(), &load)?;
    let cells: Vec<_> =
        args.only.iter().flat_map(|kind| args.partitions.iter().map(|partitions| (*kind, *partitions))).collect();
    if let Some((kind, partitions)) = cells.first() {
        let costs = measure(&setting, *kind, "warm-up", *partitions, args)?;
        eprintln!("warm-up, not counted: {costs}");
    }
    let mut runs: Vec<Vec<Costs>> = cells.iter().map(|_| Vec::new()).collect();
    for round in 0..args.rounds {
        for ((kind, partitions), runs) in cells.iter().zip(&mut runs) {
            let costs = measure(&setting, *kind, &format!("{kind}-{partitions}-{round}"), *partitions, args)?;
            eprintln!("{}, partitions {partitions}: {costs}", kind.label());
            runs.push(costs);
        }
    }
    drop(setting);
    print(args, &cells, &runs, [before, machine::load_average()])?;
    Ok(true)
}

fn measure(setting: &Setting, kind: Kind, name: &str, partitions: i32, args: &PartitionsArgs) -> Result<Costs> {
    let brokers = &setting.brokers;
    let (input, output) = (format!("{name}-in"), format!("{name}-out"));
    kafka::create_topic(brokers, &input, partitions)?;
    kafka::create_topic(brokers, &output, partitions)?;
    kafka::send_to_each(brokers, &input, partitions)?;
    let reader = Reader::new(brokers, &output)?;
    reader.read_to_end(|_| {})?;
    let job = Job { name, input: &input, output: &output, partitions, max_poll_records: None };

    let began = Instant::now();
    let mut process = kind.start(setting, &job)?;
    let [tasks, records] = wait_started(&mut process, &reader, partitions, began)?;
    thread::sleep(SETTLE);
    let idle = watch(&process, || {
        thread::sleep(Duration::from_secs(args.seconds));
        Ok(())
    })?;
    let load = watch(&process, || produce(brokers, &input, args))?;
    wait_copied(&mut process, &reader, setting.load.records)?;
    let asked = Instant::now();
    process.stop()?;
    let stop = asked.elapsed().as_secs_f64();

    drop(reader);
    kind.check(brokers, &output, setting.load.records)?;
    for topic in [&input, &output] {
        kafka::delete_topic(brokers, topic)?;
    }
    Ok(Costs { tasks, records, idle, load, stop })
}

/// Seconds until the last task has started, and until there is a record of every partition.
fn wait_started(process: &mut Process, reader: &Reader, partitions: i32, began: Instant) -> Result<[f64; 2]> {
    let mut missing = partitions;
    let (mut tasks, mut records) = (None, None);
    loop {
        let now = began.elapsed();
        if missing > 0 && reader.next(TICK)?.is_some() {
            missing -= 1;
            continue;
        }
        if missing == 0 {
            records = records.or(Some(now.as_secs_f64()));
        }
        let started = if tasks.is_none() { started_tasks(&process.printed()?) } else { 0 };
        if started >= usize::try_from(partitions)? {
            tasks = Some(now.as_secs_f64());
        }
        if let (Some(tasks), Some(records)) = (tasks, records) {
            return Ok([tasks, records]);
        }
        process.check()?;
        if now > PATIENCE {
            return Err(format!(
                "after {} s of {partitions} tasks {started} have started, and {missing} have copied nothing",
                PATIENCE.as_secs()
            )
            .into());
        }
        if missing == 0 {
            thread::sleep(TICK);
        }
    }
}

/// How many tasks the log says have started.
fn started_tasks(log: &str) -> usize {
    let started = |line: &&str| {
        let Ok(line) = serde_json::from_str::<Value>(line) else { return false };
        let message = line["message"].as_str().unwrap_or_default();
        message.starts_with("task ") && message.ends_with(" started")
    };
    log.lines().filter(started).count()
}

/// What the process uses while `work` is done.
fn watch(process: &Process, work: impl FnOnce() -> Result<()>) -> Result<Watched> {
    let (before, began) = (process.usage()?.cpu, Instant::now());
    work()?;
    let used = process.usage()?.cpu.saturating_sub(before);
    let cpu = used.as_secs_f64() / began.elapsed().as_secs_f64() * 100.0;
    Ok(Watched { footprint: process.footprint()?, cpu })
}

/// The light load.
fn produce(brokers: &str, topic: &str, args: &PartitionsArgs) -> Result<()> {
    let producer = kafka::producer(brokers)?;
    producer.client().fetch_metadata(Some(topic), PATIENCE)?;
    let began = Instant::now();
    for i in 0..args.rate * args.seconds {
        let due = began + Duration::from_secs(1) * u32::try_from(i)? / u32::try_from(args.rate)?;
        thread::sleep(due.saturating_duration_since(Instant::now()));
        let record = Record::new(i, usize::try_from(SIZE)?, KEYS);
        kafka::send(&producer, BaseRecord::to(topic).key(record.key.as_bytes()).payload(record.value.as_bytes()))?;
        producer.poll(Duration::ZERO);
    }
    kafka::wait_delivered(&producer);
    Ok(())
}

fn wait_copied(process: &mut Process, reader: &Reader, records: u64) -> Result<()> {
    let (began, mut missing) = (Instant::now(), records);
    while missing > 0 {
        if let Some(record) = reader.next(TICK)? {
            missing -= u64::from(kafka::number(rdkafka::Message::payload(&record)).is_some());
        }
        process.check()?;
        if began.elapsed() > PATIENCE {
            return Err(format!("{missing} of {records} records do not come within {} s", PATIENCE.as_secs()).into());
        }
    }
    Ok(())
}

fn table(cells: &[(Kind, i32)], runs: &[Vec<Costs>]) -> Table {
    let mut table = Table::new([
        "one process",
        "partitions",
        "threads",
        "descriptors",
        "MB idle",
        "MB under load",
        "CPU % idle",
        "CPU % under load",
        "s to the last task",
        "s to the last first record",
        "s to stop",
    ]);
    for ((kind, partitions), runs) in cells.iter().zip(runs) {
        let of = |value: &dyn Fn(&Costs) -> f64, decimals| number(median(runs.iter().map(value)), decimals);
        table.row(vec![
            kind.label().to_owned(),
            partitions.to_string(),
            of(&|costs| costs.idle.footprint.threads as f64, 0),
            of(&|costs| costs.idle.footprint.descriptors as f64, 0),
            of(&|costs| costs.idle.footprint.resident as f64 / 1e6, 0),
            of(&|costs| costs.load.footprint.resident as f64 / 1e6, 0),
            of(&|costs| costs.idle.cpu, 1),
            of(&|costs| costs.load.cpu, 1),
            of(&|costs| costs.tasks, 2),
            of(&|costs| costs.records, 2),
            of(&|costs| costs.stop, 2),
        ]);
    }
    table
}

fn print(args: &PartitionsArgs, cells: &[(Kind, i32)], runs: &[Vec<Costs>], [before, after]: [f64; 2]) -> Result<()> {
    let table = table(cells, runs);
    let mut notes = vec![
        format!(
            "idle: {} s without a record; load: {} records/s of {SIZE} bytes for {} s over all partitions; CPU: of one core; rounds: {}",
            args.seconds, args.rate, args.seconds, args.rounds
        ),
        format!("load average: {before:.1} before, {after:.1} at the end"),
    ];
    notes.extend(machine::lines());
    println!("\n{}\n{}", table.text(), notes.join("\n"));
    if let Some(file) = &args.out {
        let text = format!("{}\n{}", table.markdown(), list(&notes));
        fs::write(file, text).map_err(|error| format!("cannot write {}: {error}", file.display()))?;
    }
    Ok(())
}

impl fmt::Display for Costs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Footprint { threads, descriptors, resident } = self.idle.footprint;
        write!(
            f,
            "{threads} threads, {descriptors} descriptors, {:.0} MB, idle CPU {:.1} %; under load {:.0} MB, CPU {:.1} %; tasks after \
             {:.2} s, records after {:.2} s; stop {:.2} s",
            resident as f64 / 1e6,
            self.idle.cpu,
            self.load.footprint.resident as f64 / 1e6,
            self.load.cpu,
            self.tasks,
            self.records,
            self.stop
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_are_counted_by_their_log_lines() {
        let log = "{\"message\":\"task 3 started\",\"stream\":\"copy\"}\nno json\n{\"message\":\"was assigned tasks 3, 4\"}\n";
        assert_eq!(started_tasks(log), 1);
    }
}
