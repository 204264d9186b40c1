//! Clients that are processes of their own, so that they can be killed: this binary, started with private arguments.

use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rdkafka::client::ClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext, ConsumerGroupMetadata, Rebalance};
use rdkafka::error::{KafkaError, KafkaResult};
use rdkafka::message::{Message, OwnedMessage};
use rdkafka::producer::BaseRecord;
use rdkafka::{Offset, TopicPartitionList};

use super::client::{TIMEOUT, Writer};
use crate::harness::cluster::client;

/// The first argument.
const MARK: &str = "--client";

/// How a worker ends that only a new one can replace: it was fenced, or does not know what became of its transaction.
pub(super) const REPLACE_ME: u8 = 3;

/// Records of one transaction at most.
const BATCH: usize = 50;

/// Arguments of a process that is a member of a group until it is killed.
pub(super) fn member(address: &str, group: &str, strategy: &str, topic: &str) -> [String; 6] {
    [MARK, "member", address, group, strategy, topic].map(str::to_owned)
}

/// Arguments of a process that copies `input` to the same partitions of `output`, exactly once, until it is killed.
pub(super) fn copier(address: &str, group: &str, id: &str, input: &str, output: &str) -> [String; 7] {
    [MARK, "copy", address, group, id, input, output].map(str::to_owned)
}

/// If this process is such a client: runs it.
pub(super) fn run() -> Option<ExitCode> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        [MARK, "member", address, group, strategy, topic] => {
            let soon = ("session.timeout.ms", "3000"); // it is going to be killed
            let member = super::client::member(address, group, &[("partition.assignment.strategy", strategy), soon]);
            member.subscribe(&[topic]).expect("subscribed");
            loop {
                member.poll(Duration::from_millis(100));
            }
        }
        [MARK, "copy", address, group, id, input, output] => {
            let error = Copier::new(address, group, id, input).run(output);
            eprintln!("{id}: {error}");
            Some(ExitCode::from(REPLACE_ME))
        }
        _ => None,
    }
}

/// What the group has told.
#[derive(Default)]
struct Membership {
    revocations: AtomicUsize,
    /// Who we were when the partitions were given. One that is taken later can be nobody's, between two memberships of a process that was slow,
    /// and a broker takes positions of nobody.
    token: Mutex<Option<ConsumerGroupMetadata>>,
}

impl ClientContext for Membership {}

impl ConsumerContext for Membership {
    fn pre_rebalance(&self, consumer: &BaseConsumer<Self>, rebalance: &Rebalance<'_>) {
        match rebalance {
            Rebalance::Assign(_) => *self.token.lock().expect("whole") = consumer.group_metadata(),
            Rebalance::Revoke(_) => drop(self.revocations.fetch_add(1, Ordering::Relaxed)),
            Rebalance::Error(_) => {}
        }
    }
}

struct Copier {
    consumer: BaseConsumer<Membership>,
    writer: Writer,
}

impl Copier {
    fn new(address: &str, group: &str, id: &str, input: &str) -> Self {
        let writer = Writer::new(address, id, &[("transaction.timeout.ms", "20000")]);
        retry(|| writer.init()).expect("initialised");
        let mut config = client(address);
        config.set("group.id", group).set("isolation.level", "read_committed").set("enable.auto.commit", "false");
        config.set("auto.offset.reset", "earliest").set("partition.assignment.strategy", "range");
        config.set("session.timeout.ms", "3000").set("heartbeat.interval.ms", "500");
        let consumer: BaseConsumer<Membership> = config.create_with_context(Membership::default()).expect("a consumer");
        consumer.subscribe(&[input]).expect("subscribed");
        Copier { consumer, writer }
    }

    /// Returns why it cannot go on.
    fn run(&self, output: &str) -> KafkaError {
        loop {
            let batch = self.read();
            if batch.is_empty() {
                continue;
            }
            let done = self.copy(&batch, output);
            if done.is_err()
                && let Err(error) = retry(|| self.writer.abort()).and_then(|()| self.rewind())
            {
                return error;
            }
        }
    }

    /// What comes within a tenth of a second. Records of partitions that are taken away meanwhile are somebody else's.
    fn read(&self) -> Vec<OwnedMessage> {
        let (mut batch, begin) = (Vec::new(), Instant::now());
        let revocations = || self.consumer.context().revocations.load(Ordering::Relaxed);
        let mut seen = revocations();
        while batch.len() < BATCH && begin.elapsed() < Duration::from_millis(100) {
            let polled = self.consumer.poll(Duration::from_millis(20));
            if revocations() != seen {
                seen = revocations();
                batch.clear();
            }
            // Errors of a broker that is away pass by themselves.
            if let Some(Ok(message)) = polled {
                batch.push(message.detach());
            }
        }
        batch
    }

    /// One transaction: the records, and the positions behind them.
    fn copy(&self, batch: &[OwnedMessage], output: &str) -> KafkaResult<()> {
        self.writer.begin();
        let text = |bytes: Option<&[u8]>| String::from_utf8_lossy(bytes.unwrap_or_default()).into_owned();
        let texts: Vec<_> = batch.iter().map(|m| (m.partition(), text(m.key()), text(m.payload()))).collect();
        let records = texts
            .iter()
            .map(|(at, key, value)| BaseRecord::to(output).partition(*at).key(&key[..]).payload(&value[..]));
        self.writer.send_all(records).map_err(KafkaError::MessageProduction)?;
        let mut positions: Vec<(i32, i64)> = Vec::new();
        for message in batch {
            positions.retain(|(partition, _)| *partition != message.partition());
            positions.push((message.partition(), message.offset() + 1));
        }
        let token = self.consumer.context().token.lock().expect("whole");
        let token = token.as_ref().expect("records come behind an assignment");
        self.writer.positions(token, batch[0].topic(), &positions)?;
        retry(|| self.writer.commit())
    }

    /// Back to the committed positions of what it has.
    fn rewind(&self) -> KafkaResult<()> {
        let committed = self.consumer.committed_offsets(self.consumer.assignment()?, TIMEOUT)?;
        let mut list = TopicPartitionList::new();
        for at in committed.elements() {
            let offset = if at.offset() == Offset::Invalid { Offset::Beginning } else { at.offset() };
            list.add_partition_offset(at.topic(), at.partition(), offset)?;
        }
        if list.count() > 0 {
            self.consumer.seek_partitions(list, TIMEOUT)?;
        }
        Ok(())
    }
}

/// An error that says so is followed by the same call; the broker may be away for a while.
fn retry<T>(call: impl Fn() -> KafkaResult<T>) -> KafkaResult<T> {
    let begin = Instant::now();
    loop {
        match call() {
            Err(KafkaError::Transaction(error)) if error.is_retriable() && begin.elapsed() < 3 * TIMEOUT => {}
            answer => return answer,
        }
    }
}
