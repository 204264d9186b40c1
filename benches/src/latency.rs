//! How long a record takes from the moment when it is due to be produced until a `read_committed` reader sees what
//! was made of it, at a steady rate.

use std::fmt;
use std::thread;
use std::time::{Duration, Instant};

use rdkafka::Message;
use rdkafka::producer::{BaseRecord, Producer};

use crate::Result;
use crate::contender::{self, Commits, Contender, Job};
use crate::kafka::{self, Reader, Record};
use crate::process::Process;
use crate::setting::Setting;
use crate::stats::quantile;

/// Records a second.
pub(crate) const RATE: u64 = 1_000;
/// The first 1/n of the records is not counted: connections, compilers, caches.
const DISCARDED: usize = 5;
/// Before the first record is due.
const LEAD: Duration = Duration::from_millis(500);
/// With no new record for this long a contender has failed.
const PATIENCE: Duration = Duration::from_secs(30);

/// In milliseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Latency {
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    pub(crate) commits: Option<Commits>,
}

/// Runs a contender between two new topics for so many seconds. What it makes of the records must be right, or it is an error.
pub(crate) fn measure(
    setting: &Setting,
    contender: impl Contender,
    name: &str,
    partitions: i32,
    seconds: u64,
) -> Result<Latency> {
    let brokers = &setting.brokers;
    let (input, output) = (format!("{name}-in"), format!("{name}-out"));
    kafka::create_topic(brokers, &input, partitions)?;
    kafka::create_topic(brokers, &output, partitions)?;
    let reader = Reader::new(brokers, &output)?;
    reader.read_to_end(|_| {})?;
    let job = Job { name, input: &input, output: &output, partitions, max_poll_records: None };
    let mut process = contender.start(setting, &job)?;
    probe(brokers, &input, partitions, &reader, &mut process)?;

    let stream = Stream {
        records: RATE * seconds,
        size: setting.load.bytes(),
        keys: contender.keys(),
        began: Instant::now() + LEAD,
    };
    let times = thread::scope(|scope| {
        let producer = scope.spawn(|| stream.produce(brokers, &input));
        let times = stream.collect(&reader, contender, &mut process);
        producer.join().unwrap_or_else(|_| Err("the producer panicked".into())).and(times)
    })?;
    let commits = contender::commits(&process.stop()?);
    drop(reader);
    contender.check(brokers, &output, stream.records)?;
    for topic in [input, output].iter().chain(&contender.own_topics(name)) {
        kafka::delete_topic(brokers, topic)?;
    }
    let counted = &times[times.len() / DISCARDED..];
    let of = |q| quantile(counted, q).ok_or("the measurement is too short");
    Ok(Latency { p50: of(0.5)?, p99: of(0.99)?, commits })
}

/// Sends a record to every partition and waits for the copies: the contender is ready.
fn probe(brokers: &str, topic: &str, partitions: i32, reader: &Reader, process: &mut Process) -> Result<()> {
    kafka::send_to_each(brokers, topic, partitions)?;
    let began = Instant::now();
    let mut missing = partitions;
    while missing > 0 {
        if reader.next(Duration::from_millis(50))?.is_some() {
            missing -= 1;
            continue;
        }
        process.check()?;
        if began.elapsed() > PATIENCE {
            return Err(
                format!("{missing} of {partitions} partitions are not copied after {} s", PATIENCE.as_secs()).into()
            );
        }
    }
    Ok(())
}

/// When record `i` is due, counted from the begin.
fn due(i: u64) -> Duration {
    Duration::from_nanos(i * 1_000_000_000 / RATE)
}

/// The records at a steady rate.
#[derive(Clone, Copy)]
struct Stream {
    records: u64,
    /// Bytes of a value.
    size: usize,
    /// Distinct keys.
    keys: u64,
    began: Instant,
}

impl Stream {
    fn produce(self, brokers: &str, topic: &str) -> Result<()> {
        let producer = kafka::producer(brokers)?;
        // The first record would wait for the connection.
        producer.client().fetch_metadata(Some(topic), PATIENCE)?;
        for i in 0..self.records {
            let record = Record::new(i, self.size, self.keys);
            thread::sleep((self.began + due(i)).saturating_duration_since(Instant::now()));
            kafka::send(&producer, BaseRecord::to(topic).key(record.key.as_bytes()).payload(record.value.as_bytes()))?;
            producer.poll(Duration::ZERO);
        }
        kafka::wait_delivered(&producer);
        Ok(())
    }

    /// Milliseconds that each record took, in the order in which they were seen.
    fn collect(self, reader: &Reader, contender: impl Contender, process: &mut Process) -> Result<Vec<f64>> {
        let mut times = Vec::new();
        let mut last = Instant::now();
        while (times.len() as u64) < self.records {
            let message = reader.next(Duration::from_millis(50))?;
            if let Some(number) = message.and_then(|message| contender.number(message.payload())) {
                last = Instant::now();
                times.push(last.saturating_duration_since(self.began + due(number)).as_secs_f64() * 1e3);
                continue;
            }
            process.check()?;
            if last.elapsed() > PATIENCE {
                let (seen, records) = (times.len(), self.records);
                return Err(
                    format!("only {seen} of {records} records came, then none for {} s", PATIENCE.as_secs()).into()
                );
            }
        }
        Ok(times)
    }
}

impl fmt::Display for Latency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "p50 {:.1} p99 {:.1} ms", self.p50, self.p99)?;
        match &self.commits {
            Some(commits) => write!(f, ", {} commits, p50 {:.1} p99 {:.1} ms", commits.count, commits.p50, commits.p99),
            None => Ok(()),
        }
    }
}
