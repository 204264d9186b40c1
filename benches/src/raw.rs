//! The ceiling: a plain librdkafka consume-transform-produce loop, as short as it can be while it is exactly once.
//!
//! It has the two things that such a loop must know to be fast: it polls its deliveries itself before it commits, since `flush`
//! sleeps in steps of 100 ms, and its back-off is 1 ms, since the coordinator is still busy with the last transaction when the
//! next one begins. It does not handle a rebalance, a fence or any other error: it ends.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use rdkafka::{Message, Offset, TopicPartitionList};
use serde_json::json;

use crate::Result;
use crate::args::RawLoopArgs;
use crate::kafka::{client, send, wait_delivered};
use crate::stats::quantile;

/// A transaction that never runs dry is committed after this time.
const COMMIT_EVERY: Duration = Duration::from_millis(50);
const TIMEOUT: Duration = Duration::from_secs(30);

/// Copies until SIGTERM, then prints how long its commits took.
pub(crate) fn run(args: &RawLoopArgs) -> Result<()> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGTERM, signal_hook::consts::SIGINT] {
        signal_hook::flag::register(signal, stop.clone())?;
    }
    let commits = match args.each {
        None => copy(args, None, &stop)?,
        Some(partitions) => thread::scope(|scope| {
            let stop = &stop;
            let loops: Vec<_> = (0..partitions)
                .map(|partition| {
                    scope.spawn(move || {
                        // The other loops need not go on when one cannot.
                        copy(args, Some(partition), stop).inspect_err(|_| stop.store(true, Ordering::Relaxed))
                    })
                })
                .collect();
            let join = |worker: thread::ScopedJoinHandle<'_, _>| {
                worker.join().unwrap_or_else(|_| Err("a loop panicked".into()))
            };
            loops.into_iter().map(join).collect::<Result<Vec<Vec<f64>>>>().map(|all| all.concat())
        })?,
    };
    let (p50, p99) = (quantile(&commits, 0.5), quantile(&commits, 0.99));
    println!("{}", json!({ "batches": commits.len(), "commit_p50_ms": p50, "commit_p99_ms": p99 }));
    Ok(())
}

/// One loop, over one partition or over all that the group gives it. Returns milliseconds of every commit.
fn copy(args: &RawLoopArgs, partition: Option<i32>, stop: &AtomicBool) -> Result<Vec<f64>> {
    let producer = transactional_producer(args, partition)?;
    let consumer = consumer(args, partition)?;
    let mut commits = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let Some(first) = consumer.poll(Duration::from_millis(100)) else { continue };
        producer.begin_transaction()?;
        let began = Instant::now();
        let mut next = BTreeMap::new();
        let mut message = Some(first);
        while let Some(current) = message {
            let record = current?;
            let mut copy = BaseRecord::to(&args.output).payload(record.payload().unwrap_or_default());
            copy.key = record.key();
            send(&producer, copy)?;
            next.insert(record.partition(), record.offset() + 1);
            message = if began.elapsed() < COMMIT_EVERY { consumer.poll(Duration::ZERO) } else { None };
        }
        let full = Instant::now();
        commit(&producer, &consumer, &args.input, &next)?;
        commits.push(full.elapsed().as_secs_f64() * 1e3);
    }
    Ok(commits)
}

fn commit(producer: &BaseProducer, consumer: &BaseConsumer, topic: &str, next: &BTreeMap<i32, i64>) -> Result<()> {
    let mut positions = TopicPartitionList::new();
    for (partition, position) in next {
        positions.add_partition_offset(topic, *partition, Offset::Offset(*position))?;
    }
    let group = consumer.group_metadata().ok_or("the consumer has no group")?;
    producer.send_offsets_to_transaction(&positions, &group, TIMEOUT)?;
    wait_delivered(producer);
    producer.commit_transaction(TIMEOUT)?;
    Ok(())
}

fn transactional_producer(args: &RawLoopArgs, partition: Option<i32>) -> Result<BaseProducer> {
    let id = format!("{}-{}", args.group, partition.unwrap_or(0));
    let producer: BaseProducer = client(&args.brokers)
        .set("transactional.id", id)
        .set("partitioner", "murmur2_random")
        .set("linger.ms", "0")
        .set("retry.backoff.ms", "1")
        .set("queue.buffering.max.messages", "2000000")
        .create()?;
    producer.init_transactions(TIMEOUT)?;
    Ok(producer)
}

fn consumer(args: &RawLoopArgs, partition: Option<i32>) -> Result<BaseConsumer> {
    let consumer: BaseConsumer = client(&args.brokers)
        .set("group.id", &args.group)
        .set("enable.auto.commit", "false")
        .set("auto.offset.reset", "earliest")
        .set("isolation.level", "read_committed")
        .set("queued.min.messages", "200000")
        .create()?;
    match partition {
        None => consumer.subscribe(&[&args.input])?,
        // Four members of one group would pass through several rebalances at their start, which this loop does not handle.
        Some(partition) => {
            let mut list = TopicPartitionList::new();
            list.add_partition_offset(&args.input, partition, Offset::Beginning)?;
            consumer.assign(&list)?;
        }
    }
    Ok(consumer)
}
