//! Where a task begins: the group's stable positions, or, for a group that has none, where `start_from` says.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rdkafka::error::RDKafkaErrorCode as Code;

use crate::config::{Delivery, StartFrom, WorkerConfig};
use crate::error::Error;
use crate::kafka::{self, Consumer, GroupView, Position, RebalanceListener, TopicPartition, Verdict};
use crate::worker::Shared;

/// One question to the broker. A position that a transaction holds open costs the whole of it, so it is short.
const ASK: Duration = Duration::from_secs(1);
/// The first question, which a coordinator that is well answers in milliseconds: where many tasks wait, others have their turn soon.
const FIRST_ASK: Duration = Duration::from_millis(250);
/// The pause behind an answer that says no more than "not now".
const AGAIN: Duration = Duration::from_millis(100);
/// Longer than any transaction that a broker allows by default (15 minutes).
const GIVE_UP: Duration = Duration::from_secs(20 * 60);
const REMIND: Duration = Duration::from_secs(60);
pub(crate) const WATERMARKS: Duration = Duration::from_secs(30);

/// The group's committed positions, none of which a transaction holds open; `None` if `still_ours` ended meanwhile.
///
/// Called after the fence: what our own predecessor had open is ended, so that only a transactional id of somebody else can
/// hold a position.
pub(crate) fn stable<S>(
    shared: &Shared<S>,
    task: &str,
    partitions: &[TopicPartition],
    still_ours: impl Fn() -> bool,
) -> Result<Option<Vec<Option<Position>>>, Error> {
    let mut wait = Wait::begin();
    while still_ours() {
        if let Some(found) = wait.ask(shared, task, partitions)? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// A wait for stable positions: between two questions others may have their turn.
#[derive(Clone, Copy)]
pub(crate) struct Wait {
    pub(crate) started: Instant,
    /// Questions so far.
    pub(crate) asked: usize,
    /// Whether the positions of the last answer carry our name: see `worker/orphan.rs`.
    pub(crate) signed: bool,
    reminded: Option<Instant>,
}

impl Wait {
    pub(crate) fn begin() -> Self {
        Wait { started: Instant::now(), asked: 0, signed: false, reminded: None }
    }

    /// Asks once; `None` if a transaction holds one of the positions open, or the coordinator does not answer in time.
    pub(crate) fn ask<S>(
        &mut self,
        shared: &Shared<S>,
        task: &str,
        partitions: &[TopicPartition],
    ) -> Result<Option<Vec<Option<Position>>>, Error> {
        let stream = &shared.config.name;
        let patience = if self.asked == 0 { FIRST_ASK } else { ASK };
        self.asked += 1;
        match shared.consumer.committed(partitions, patience) {
            Ok((positions, holders)) => {
                self.signed = shared.has_signed(partitions, &holders);
                if self.reminded.is_some() {
                    let waited_s = self.started.elapsed().as_secs();
                    tracing::info!(%stream, waited_s, "{task} has the committed positions");
                }
                return Ok(Some(positions));
            }
            // It has waited already.
            Err(error) if error.is_timeout() => {}
            Err(error) if error.verdict() == Verdict::Retry || error.code() == Some(Code::UnstableOffsetCommit) => {
                std::thread::sleep(AGAIN);
            }
            Err(source) => {
                return Err(Error::Kafka { what: format!("{stream}: {task}: read the committed positions"), source });
            }
        }
        if self.started.elapsed() > GIVE_UP {
            let what = format!("{stream}: {task}: waiting for the committed positions of {}", names(partitions));
            return Err(Error::Stuck { what, within: GIVE_UP });
        }
        if self.started.elapsed() >= ASK {
            self.remind(shared, task, partitions);
        }
        shared.end_orphans(partitions);
        Ok(None)
    }

    fn remind<S>(&mut self, shared: &Shared<S>, task: &str, partitions: &[TopicPartition]) {
        if self.reminded.is_some_and(|last| last.elapsed() < REMIND) {
            return;
        }
        self.reminded = Some(Instant::now());
        let waited_s = self.started.elapsed().as_secs();
        // This view does not wait for transactions.
        let why = match shared.view.committed(partitions, ASK) {
            Ok(_) => {
                "an open transaction holds them, of a process that is gone or commits right now; other tasks go on"
                    .to_owned()
            }
            Err(error) => format!("the group's coordinator does not answer ({error})"),
        };
        let (stream, names) = (&shared.config.name, names(partitions));
        tracing::warn!(%stream, waited_s, "{task} waits for the committed positions of {names}: {why}");
    }
}

/// Positions for partitions for which the group has none, by `start_from`. A partition that the group lacks while it knows others
/// of the topic is new, and begins at its beginning: skipping what is in it would lose records.
pub(crate) fn resolve<L: RebalanceListener>(
    consumer: &Consumer<L>,
    topic: &str,
    partition: i32,
    start_from: StartFrom,
    topic_is_known: bool,
) -> Result<Position, Error> {
    let (low, high) = ends(topic, partition, || consumer.watermarks(topic, partition, WATERMARKS))?;
    Ok(Position(if start_from == StartFrom::Latest && !topic_is_known { high } else { low }))
}

/// Refuses a position that its partition does not have: with the records between, exactly once is gone, and only the operator
/// can say how to go on.
///
/// The end is the high watermark: a position behind the last stable offset is one that waits for a transaction of somebody else.
pub(crate) fn check_range(
    view: &GroupView,
    config: &WorkerConfig,
    (topic, partition): &(Arc<str>, i32),
    position: Position,
) -> Result<(), Error> {
    let (low, high) = ends(topic, *partition, || view.watermarks(topic, *partition, WATERMARKS))?;
    let cause = if position.0 < low {
        format!("retention has removed {} records that were not processed", low - position.0)
    } else if position.0 > high {
        "the topic was made anew, or lost records".to_owned()
    } else {
        return Ok(());
    };
    Err(Error::OutOfRange {
        topic: topic.to_string(),
        partition: *partition,
        position,
        low,
        high,
        group: config.group.clone(),
        cause,
        remedy: match config.delivery {
            Delivery::TransactionalSink(_) => {
                "where the output keeps it (SQL: the table of positions; another cluster: with a new transactional_id the group's position counts, \
                 which kafka-consumer-groups --reset-offsets sets)"
            }
            _ => "with kafka-consumer-groups --reset-offsets",
        },
    })
}

/// Asks again while the partition has no leader, or its leader is not ready: a broker that restarts must not end its clients.
pub(crate) fn ends(
    topic: &str,
    partition: i32,
    ask: impl Fn() -> Result<(i64, i64), kafka::Error>,
) -> Result<(i64, i64), Error> {
    let started = Instant::now();
    loop {
        match ask() {
            Ok(ends) => return Ok(ends),
            Err(error) if error.is_transient() && started.elapsed() < WATERMARKS => {
                tracing::debug!("ask again for the ends of {topic}/{partition}: {error}");
                std::thread::sleep(AGAIN);
            }
            Err(source) => {
                return Err(Error::Kafka { what: format!("ask for the ends of {topic}/{partition}"), source });
            }
        }
    }
}

/// Positions in words.
pub(crate) fn places(positions: &[(TopicPartition, Position)]) -> String {
    let places = positions.iter().map(|((topic, partition), position)| format!("{topic}/{partition} {position}"));
    places.collect::<Vec<_>>().join(", ")
}

pub(crate) fn names(partitions: &[TopicPartition]) -> String {
    let names: Vec<String> = partitions.iter().map(|(topic, partition)| format!("{topic}/{partition}")).collect();
    names.join(", ")
}
