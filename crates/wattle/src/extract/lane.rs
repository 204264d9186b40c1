//! The lane of a source that is not a topic: one transactional producer, and the cursor that commits with its outputs.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use super::target::Target;
use super::{CursorLane, CursorName};
use crate::error::Error;
use crate::invariant::w1_nothing_is_produced_before_the_fence;
use crate::kafka::{self, Batch, Producer, Until, Verdict};
use crate::lane::{AFTER_FENCE, Fences, KafkaSinkConfig, LONGEST_PAUSE, Patience, Reaction, RefusedRecord, reaction};
use crate::metrics::Metrics;
use crate::stage::{Message, Output};
use crate::worker::Stop;

/// The task of a source without partitions: the number of its changelog partition, and the end of its transactional id.
const TASK: i32 = 0;

/// Where the outputs of a source go, and under which names its position is kept.
#[derive(Clone, Debug)]
pub struct SourceConfig {
    /// The outputs; its `acks` must be `all`.
    pub sink: KafkaSinkConfig,
    /// The part of the transactional id before the task's number. The cursor is in the topic `{transactional_id}-changelog`, which is
    /// created where it is missing.
    pub transactional_id: String,
    /// What tells this source from others with the same transactional id, such as the write-ahead log of another process: a further part of the
    /// id. Sources that are told apart do not fence each other.
    pub instance: Option<String>,
    /// A transaction that takes longer is aborted by the broker.
    pub transaction_timeout: Duration,
    /// How long brokers that do not answer are tried again, once they have answered at the start.
    pub patience: Duration,
    /// The source's cursor.
    pub cursor: CursorName,
}

impl SourceConfig {
    /// The transactional id.
    fn id(&self) -> String {
        let instance = self.instance.as_ref().map(|instance| format!("-{instance}")).unwrap_or_default();
        format!("{}{instance}-{TASK}", self.transactional_id)
    }
}

pub(crate) struct SourceLane<'a> {
    config: &'a SourceConfig,
    metrics: &'a Metrics,
    target: Target,
    /// There from the fence on.
    producer: Option<Producer>,
    fences: Fences,
    /// The cursor that we read or committed last.
    committed: Option<Vec<u8>>,
}

/// What the changelog holds of cursors.
#[derive(Default)]
struct Cursors {
    /// Ours.
    own: Option<Vec<u8>>,
    /// Of other sources with the same transactional id.
    others: BTreeSet<CursorName>,
}

impl<'a> SourceLane<'a> {
    /// Connects, and checks the topics. Nothing is fenced yet.
    pub(crate) fn connect(config: &'a SourceConfig, metrics: &'a Metrics) -> Result<Self, Error> {
        let target = Target::connect(&config.sink, &config.transactional_id, config.transaction_timeout, TASK + 1)?;
        let (producer, fences) = (None, Fences::default());
        Ok(SourceLane { config, metrics, target, producer, fences, committed: None })
    }

    /// Strictly in this order: fence, end of the changelog, cursor up to there. So a commit of a process before us either is in the
    /// cursor, or can never happen. Returns false if `stop` came first.
    fn fence(&mut self, stop: &Stop) -> Result<bool, Error> {
        let started = Instant::now();
        let (stream, id) = (&self.config.sink.name, self.id());
        let producer = self.target.producer(&id)?;
        producer.init_transactions(self.config.transaction_timeout).map_err(|source| Error::Kafka {
            what: format!("{id}: init_transactions (the fence of the transactional id)"),
            source,
        })?;
        let fence_ms = millis(started);
        let Some(Cursors { own, others }) = self.cursors(Until::HighWatermark, stop)? else { return Ok(false) };
        let took_ms = millis(started);
        tracing::info!(%stream, transactional_id = %id, fence_ms, took_ms, "fenced every older producer of the id and read the cursor");
        if own.is_none() && !others.is_empty() {
            let others = others.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            let (topic, name) = (&self.target.changelog.topic, &self.config.cursor);
            tracing::warn!(%stream, "{topic} has no cursor of {name}, which is read from its beginning; it has cursors of {others}");
        }
        self.committed = own;
        self.producer = Some(producer);
        Ok(true)
    }

    /// Leaves the producer behind. A process that was stopped for long finds itself fenced; if it fenced back at once, it would throw
    /// out the rightful owner. There is no group to ask, but whoever has committed since has the source. `attempted` is the cursor
    /// whose commit has just failed: found in the changelog, it may be ours.
    fn restart(&mut self, reason: &kafka::Error, attempted: &[u8], stop: &Stop) -> Result<(), Error> {
        self.producer = None;
        self.metrics.restart();
        let (stream, id) = (&self.config.sink.name, self.id());
        tracing::warn!(%stream, transactional_id = %id, "starts again with a new producer: {reason}");
        if reason.is_fenced() {
            self.fences.count(&id)?;
            // Also the time that another process has for its first commit.
            stop.wait(AFTER_FENCE);
            let Some(newest) = self.cursors(Until::LastStable, stop)? else { return Ok(()) };
            if newest.own != self.committed && newest.own.as_deref() != Some(attempted) {
                return Err(Error::TakenOver { transactional_id: id });
            }
        }
        Ok(())
    }

    /// `None` if `stop` came first.
    fn cursors(&self, until: Until, stop: &Stop) -> Result<Option<Cursors>, Error> {
        let key = self.config.cursor.key();
        let mut cursors = Cursors::default();
        let read = self.target.changelog.read(TASK, until, stop, |other, value| {
            if other == key {
                cursors.own = value.map(<[u8]>::to_vec);
            } else {
                cursors.others.extend(CursorName::of_key(other));
            }
        })?;
        Ok(read.then_some(cursors))
    }

    fn id(&self) -> String {
        self.config.id()
    }
}

impl CursorLane for SourceLane<'_> {
    fn start(&mut self, stop: &Stop) -> Result<bool, Error> {
        let mut patience = Patience::begin(self.config.patience, LONGEST_PAUSE);
        while !stop.is_stopped() {
            match self.fence(stop) {
                Err(Error::Kafka { what, source }) if may_pass(&source) && patience.is_left() => {
                    if patience.is_to_be_said() {
                        tracing::warn!(stream = %self.config.sink.name, "{what}: {source}; tried again");
                    }
                    patience.rest();
                }
                outcome => return outcome,
            }
        }
        Ok(false)
    }

    fn cursor(&self) -> Option<&[u8]> {
        self.committed.as_deref()
    }

    fn commit(
        &mut self,
        batch: &Batch,
        output: &mut Output,
        cursor: Vec<u8>,
        stop: &Stop,
    ) -> Result<Option<Vec<RefusedRecord>>, Error> {
        self.target.check_sizes(output, batch)?;
        let key = self.config.cursor.key();
        let record = Message::to(&*self.target.changelog.topic).partition(TASK).key(&key[..]).value(&cursor[..]);
        let mark = output.mark();
        output.send(record);
        let committed = self.transact(batch, output, &cursor, stop);
        output.rewind(mark);
        if committed? {
            self.committed = Some(cursor);
            return Ok(Some(Vec::new()));
        }
        Ok(None)
    }
}

impl SourceLane<'_> {
    /// Returns false where the lane has to start again.
    fn transact(&mut self, batch: &Batch, output: &Output, cursor: &[u8], stop: &Stop) -> Result<bool, Error> {
        let timeout = self.config.transaction_timeout;
        let mut patience = Patience::begin(self.config.patience, LONGEST_PAUSE);
        loop {
            let producer = w1_nothing_is_produced_before_the_fence(self.producer.as_mut());
            if producer.may_have_sent_twice() {
                let reason = kafka::Error::text("the last transaction was slow and its end may have been sent twice");
                return self.restart(&reason, cursor, stop).map(|()| false);
            }
            let Err(failure) = producer.transact(output, None, timeout) else { return Ok(true) };
            match reaction(&failure, producer.may_have_sent_twice(), patience.is_left()) {
                Reaction::Restart => return self.restart(&failure.error, cursor, stop).map(|()| false),
                Reaction::Repeat => {
                    self.metrics.abort();
                    if patience.is_to_be_said() {
                        let (stream, id) = (&self.config.sink.name, self.id());
                        tracing::warn!(%stream, transactional_id = %id, "a batch was aborted and runs again: {}", failure.error);
                    }
                }
                Reaction::Fail => return Err(self.target.explain(&self.id(), failure, output, batch)),
            }
            if stop.is_stopped() {
                return Ok(false);
            }
            patience.rest();
        }
    }
}

/// Whether brokers may answer otherwise in a while.
fn may_pass(error: &kafka::Error) -> bool {
    error.is_transient() || error.is_timeout() || error.verdict() == Verdict::AbortBatch
}

fn millis(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX)
}
