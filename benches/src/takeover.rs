//! How long the partitions of a process that is killed in the middle of a transaction stand still: to the first of their records that
//! a `read_committed` reader sees, one committed by the other process of the group. The process is stopped, looked at and killed; its
//! time is counted from when it was stopped, since it is as good as dead from then on.
//!
//! Every input partition has its own output partition, so that what is seen in it tells who has which.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use std::{fs, thread};

use nix::sys::signal::Signal;
use rdkafka::Message;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::producer::{BaseRecord, Producer};

use crate::Result;
use crate::args::TakeoverArgs;
use crate::broker;
use crate::kafka::{self, Reader};
use crate::kit::{Kit, Program};
use crate::process::Process;
use crate::report::Table;
use crate::scratch::Scratch;
use crate::stats::median;

const PARTITIONS: i32 = 4;
/// Of the group's members, in milliseconds. The shortest that a broker allows by default.
const SESSION: u32 = 6000;
/// Longer than a session, a transaction's timeout and the broker's sweep together.
const PATIENCE: Duration = Duration::from_secs(90);
/// What was on its way when a process was stopped has arrived by then.
const ARRIVED: Duration = Duration::from_millis(300);
const INPUT: &str = "takeover-in";

/// One take-over, in seconds.
struct Takeover {
    /// The first record of one of the partitions.
    first: f64,
    /// The first record of the last of them.
    all: f64,
}

/// Measures both scopes and prints a table.
pub(crate) fn run(args: &TakeoverArgs) -> Result<bool> {
    let scratch = Scratch::new()?;
    let wattle = match &args.wattle {
        Some(wattle) => wattle.clone(),
        None => Kit::prepare(&[Program::Wattle], &scratch)?.wattle(),
    };
    eprintln!("starting Kafka {}", broker::KAFKA_VERSION);
    let brokers = broker::start(&scratch)?;
    kafka::create_topic(&brokers, INPUT, PARTITIONS)?;
    let keys = keys(&brokers)?;
    let mut table = Table::new(["scope", "first record", "first record of each partition"]);
    for scope in &args.scopes {
        let bench = Bench { scratch: &scratch, wattle: &wattle, brokers: &brokers, keys: &keys, scope };
        let takeovers = bench.measure(args.rounds)?;
        let of = |pick: fn(&Takeover) -> f64| {
            let times: Vec<f64> = takeovers.iter().map(pick).collect();
            let (least, most) =
                (times.iter().copied().fold(f64::MAX, f64::min), times.iter().copied().fold(0.0, f64::max));
            let middle = median(times).unwrap_or_default();
            format!("{middle:.1} ({least:.1} to {most:.1})")
        };
        table.row(vec![scope.clone(), of(|takeover| takeover.first), of(|takeover| takeover.all)]);
    }
    println!("\nkill -9 of one of two processes, in a transaction; sessions of {SESSION} ms");
    println!("seconds until a reader sees its partitions go on, median of {} (least to most)", args.rounds);
    print!("{}", table.text());
    Ok(true)
}

/// A key for each partition: that it goes to, as the client partitions.
fn keys(brokers: &str) -> Result<Vec<String>> {
    let topic = "takeover-keys";
    kafka::create_topic(brokers, topic, PARTITIONS)?;
    let producer = kafka::producer(brokers)?;
    for number in 0..16 * PARTITIONS {
        kafka::send(&producer, BaseRecord::to(topic).key(format!("k{number}").as_bytes()).payload(b"{}"))?;
    }
    kafka::wait_delivered(&producer);
    let mut keys = BTreeMap::new();
    Reader::new(brokers, topic)?.read_to_end(|message| {
        let key = String::from_utf8_lossy(message.key().unwrap_or_default()).into_owned();
        keys.insert(message.partition(), key);
    })?;
    match keys.len() == usize::try_from(PARTITIONS)? {
        true => Ok(keys.into_values().collect()),
        false => Err("a partition has no key".into()),
    }
}

struct Bench<'a> {
    scratch: &'a Scratch,
    wattle: &'a Path,
    brokers: &'a str,
    keys: &'a [String],
    scope: &'a str,
}

impl Bench<'_> {
    fn output(&self) -> String {
        format!("takeover-{}", self.scope)
    }

    fn measure(&self, rounds: u32) -> Result<Vec<Takeover>> {
        kafka::create_topic(self.brokers, &self.output(), PARTITIONS)?;
        let done = AtomicBool::new(false);
        thread::scope(|threads| {
            let load = threads.spawn(|| self.load(&done));
            let takeovers = self.rounds(rounds);
            done.store(true, Ordering::Relaxed);
            load.join().unwrap_or_else(|_| Err("the load panicked".into())).and(takeovers)
        })
    }

    /// 1 000 records a second.
    fn load(&self, done: &AtomicBool) -> Result<()> {
        let producer = kafka::producer(self.brokers)?;
        producer.client().fetch_metadata(Some(INPUT), PATIENCE)?;
        while !done.load(Ordering::Relaxed) {
            for (partition, key) in (0..PARTITIONS).zip(self.keys) {
                kafka::send(&producer, BaseRecord::to(INPUT).partition(partition).key(key.as_bytes()).payload(b"{}"))?;
            }
            producer.poll(Duration::ZERO);
            thread::sleep(Duration::from_millis(1000 * u64::from(PARTITIONS.unsigned_abs()) / crate::latency::RATE));
        }
        kafka::wait_delivered(&producer);
        Ok(())
    }

    fn rounds(&self, rounds: u32) -> Result<Vec<Takeover>> {
        let mut survivor = self.start("survivor")?;
        let all: Vec<i32> = (0..PARTITIONS).collect();
        self.wait_for(&survivor, "it has all partitions", |survivor| Ok(tasks(survivor)? == all))?;
        let mut takeovers = Vec::new();
        for round in 1..=rounds {
            let takeover = self.round(round)?;
            survivor.check()?;
            eprintln!("{}, {round}: first {:.1} s, each {:.1} s", self.scope, takeover.first, takeover.all);
            takeovers.push(takeover);
        }
        survivor.stop()?;
        Ok(takeovers)
    }

    /// A second process comes, works, is stopped with a transaction open, and killed.
    fn round(&self, round: u32) -> Result<Takeover> {
        let victim = self.start(&format!("victim-{round}"))?;
        let half = usize::try_from(PARTITIONS / 2)?;
        self.wait_for(&victim, "it has half of the partitions", |victim| Ok(tasks(victim)?.len() == half))?;
        let mut waiting = tasks(&victim)?;
        let mut stopped = Instant::now();
        self.wait_for(&victim, "it is stopped in a transaction", |victim| {
            stopped = Instant::now();
            self.stopped_in_transaction(victim, &waiting)
        })?;
        drop(victim); // kill -9
        // What it has committed itself is there now; its session lasts for seconds.
        let reader = Reader::new(self.brokers, &self.output())?;
        reader.read_to_end(|_| {})?;
        let mut first = None;
        loop {
            if let Some(message) = reader.next(Duration::from_millis(50))? {
                let seen = stopped.elapsed().as_secs_f64();
                if waiting.contains(&message.partition()) {
                    first.get_or_insert(seen);
                    waiting.retain(|partition| *partition != message.partition());
                }
                if let (Some(first), true) = (first, waiting.is_empty()) {
                    return Ok(Takeover { first, all: seen });
                }
            }
            if stopped.elapsed() > PATIENCE {
                return Err(format!("partitions {waiting:?} are not taken over after {PATIENCE:?}").into());
            }
        }
    }

    /// Stopped, it cannot commit: what stays open is its own. Goes on where nothing was open.
    fn stopped_in_transaction(&self, victim: &Process, partitions: &[i32]) -> Result<bool> {
        victim.signal(Signal::SIGSTOP)?;
        thread::sleep(ARRIVED);
        let ends = |isolation| -> Result<Vec<i64>> {
            let client: BaseConsumer = kafka::client(self.brokers).set("isolation.level", isolation).create()?;
            let end = |partition: &i32| Ok(client.fetch_watermarks(&self.output(), *partition, PATIENCE)?.1);
            partitions.iter().map(end).collect()
        };
        let open = ends("read_committed")? != ends("read_uncommitted")?;
        if !open {
            victim.signal(Signal::SIGCONT)?;
        }
        Ok(open)
    }

    fn wait_for(&self, process: &Process, what: &str, mut holds: impl FnMut(&Process) -> Result<bool>) -> Result<()> {
        let began = Instant::now();
        while !holds(process)? {
            if began.elapsed() > PATIENCE {
                return Err(format!("{}: waited in vain: {what}; log: {}", self.scope, process.printed()?).into());
            }
            thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    fn start(&self, name: &str) -> Result<Process> {
        let (output, brokers, scope) = (self.output(), self.brokers, self.scope);
        let name = format!("{output}-{name}");
        let file = self.scratch.file(&format!("{name}.yaml"));
        fs::write(
            &file,
            format!(
                "\
streams:
  - id: copy
    input:
      type: kafka
      brokers: [\"{brokers}\"]
      topics: [{INPUT}]
      consumer_group: {output}
      start_from_latest: true
      transactional_offsets: true
      client: {{session.timeout.ms: {SESSION}}}
    output:
      type: kafka
      brokers: [\"{brokers}\"]
      topic: {output}
      exactly_once: true
      transactional_id: {output}
      transaction_scope: {scope}
      offset_commit_group: {output}
"
            ),
        )?;
        let mut command = Command::new(self.wattle);
        command.arg("run").arg(file).env("NO_COLOR", "1");
        Process::spawn(self.scratch, &name, command)
    }
}

/// The tasks that a process says it has started, in order. Each of ours starts a task once.
fn tasks(process: &Process) -> Result<Vec<i32>> {
    let printed = process.printed()?;
    let mut tasks: Vec<i32> = printed.lines().filter_map(started).collect();
    tasks.sort_unstable();
    tasks.dedup();
    Ok(tasks)
}

/// From `… task 3 started …`.
fn started(line: &str) -> Option<i32> {
    let (_, rest) = line.split_once("task ")?;
    let (number, _) = rest.split_once(" started")?;
    number.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_started_task_is_found_in_its_line() {
        assert_eq!(started("2026 INFO task 3 started stream=copy"), Some(3));
        assert_eq!(started("2026 INFO task 3 waits"), None);
    }
}
