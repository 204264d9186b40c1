//! A contender copies the whole load, as fast as it can.

use std::fmt;
use std::time::{Duration, Instant};

use crate::Result;
use crate::contender::{self, Commits, Contender, Job};
use crate::kafka::{self, Reader};
use crate::process::{Process, Usage};
use crate::setting::Setting;

/// With no new record for this long a contender has failed.
const PATIENCE: Duration = Duration::from_secs(60);

/// What a contender took for the load.
pub(crate) struct Throughput {
    /// Records a second, from the first to the last that a `read_committed` reader saw.
    pub(crate) rate: f64,
    /// From the start of the process until the reader had the last record.
    pub(crate) usage: Usage,
    pub(crate) commits: Option<Commits>,
}

/// Runs a contender from the load over so many partitions to a new topic. What it makes of the load must be right, or it is an error.
pub(crate) fn measure(
    setting: &Setting,
    contender: impl Contender,
    name: &str,
    partitions: i32,
    max_poll_records: Option<u64>,
) -> Result<Throughput> {
    let (brokers, load) = (&setting.brokers, &setting.load);
    let (input, output) = (Setting::input(partitions, contender.keys()), format!("{name}-out"));
    kafka::create_topic(brokers, &output, partitions)?;
    let reader = Reader::new(brokers, &output)?;
    reader.read_to_end(|_| {})?;
    let job = Job { name, input: &input, output: &output, partitions, max_poll_records };
    let mut process = contender.start(setting, &job)?;
    let took = watch(&reader, load.records, &mut process)?;
    let usage = process.usage()?;
    let commits = contender::commits(&process.stop()?);
    drop(reader);
    contender.check(brokers, &output, load.records)?;
    for topic in [output].iter().chain(&contender.own_topics(name)) {
        kafka::delete_topic(brokers, topic)?;
    }
    Ok(Throughput { rate: load.records as f64 / took.as_secs_f64(), usage, commits })
}

/// The time from the first record to the last.
fn watch(reader: &Reader, records: u64, process: &mut Process) -> Result<Duration> {
    let mut seen = 0;
    let mut first = None;
    let mut last = Instant::now();
    while seen < records {
        if reader.next(Duration::from_millis(50))?.is_some() {
            seen += 1;
            if first.is_none() {
                first = Some(Instant::now());
            }
            if seen % 1_000 == 0 {
                last = Instant::now();
            }
            continue;
        }
        process.check()?;
        if last.elapsed() > PATIENCE {
            return Err(format!("only {seen} of {records} records came, then none for {} s", PATIENCE.as_secs()).into());
        }
    }
    Ok(first.unwrap_or(last).elapsed())
}

impl fmt::Display for Throughput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (cpu, peak) = (self.usage.cpu.as_secs_f64(), self.usage.peak as f64 / 1e6);
        write!(f, "{:.0} records/s, {cpu:.2} CPU-seconds, peak {peak:.0} MB", self.rate)?;
        match &self.commits {
            Some(commits) => write!(f, ", {} commits, p50 {:.1} p99 {:.1} ms", commits.count, commits.p50, commits.p99),
            None => Ok(()),
        }
    }
}
