//! Exactly once from topics of one Kafka cluster into topics of another: the positions are cursors on the cluster of the outputs, in their
//! transactions. What the group on the other side says is only shown.

use std::sync::Arc;
use std::time::Duration;

use super::CursorName;
use super::target::Target;
use crate::error::Error;
use crate::kafka::{Admin, Batch, Failure, Producer, Until, Verdict};
use crate::lane::{KafkaSinkConfig, Place, RefusedRecord, SinkFailure, TransactionalSink, TransactionalSinkFactory};
use crate::stage::{Message, Output};
use crate::worker::Stop;

/// How long a cluster that does not answer is tried again: as long as librdkafka tries to deliver a record.
const PATIENCE: Duration = Duration::from_secs(300);

/// For the cursors of a task; there are few.
const READ: Duration = Duration::from_secs(30);

/// The cluster that outputs go to, where it is not that of the inputs.
pub struct OtherCluster {
    /// The outputs; its `acks` must be `all`.
    pub sink: KafkaSinkConfig,
    /// The part of the transactional ids before a task's number. The cursors are in the topic `{transactional_id}-changelog` of the outputs' cluster, which is
    /// created where it is missing.
    pub transactional_id: String,
    /// A transaction that takes longer is aborted by the broker.
    pub transaction_timeout: Duration,
}

impl OtherCluster {
    /// Connects to both clusters, and checks that of the outputs; sinks for tasks of these input topics. `None` where it is one cluster after all,
    /// whatever the addresses say: the group's positions can be in the transactions.
    pub(crate) fn connect(&self, inputs: &Admin, topics: &[String]) -> Result<Option<TransactionalSinkFactory>, Error> {
        let outputs = Admin::new(&self.sink.name, &self.sink.brokers, &self.sink.properties)?;
        let (source, own) = (inputs.cluster_id()?, outputs.cluster_id()?);
        if source == own {
            return Ok(None);
        }
        let cluster = inputs.cluster()?;
        let partitions = topics.iter().filter_map(|topic| cluster.topics.get(topic)).max().copied().unwrap_or(1);
        let target = Target::connect(&self.sink, &self.transactional_id, self.transaction_timeout, partitions)?;
        let (target, id): (_, Arc<str>) = (Arc::new(target), self.transactional_id.as_str().into());
        let source: Arc<str> = source.into();
        Ok(Some(Box::new(move || {
            let (target, id, source) = (target.clone(), id.clone(), source.clone());
            Ok(Box::new(ClusterSink { target, id, source, producer: None }))
        })))
    }
}

/// For the tasks that a lane opens together.
struct ClusterSink {
    target: Arc<Target>,
    /// What the transactional id begins with.
    id: Arc<str>,
    /// The id of the inputs' cluster.
    source: Arc<str>,
    /// The transactional id with which the positions were opened last, and its producer.
    producer: Option<(String, Producer)>,
}

impl ClusterSink {
    fn name(&self, (topic, partition): &Place) -> CursorName {
        CursorName { source: self.source.to_string(), topic: topic.to_string(), partition: *partition }
    }

    fn failure(&self, id: &str, failure: Failure, output: &Output, batch: &Batch) -> SinkFailure {
        let text = failure.error.to_string();
        match failure.error.verdict() {
            _ if failure.error.is_fenced() => SinkFailure::Fenced(text),
            _ if failure.outcome_unknown => SinkFailure::Unknown(text),
            Verdict::RestartLane => SinkFailure::Unknown(text),
            Verdict::AbortBatch | Verdict::Retry => SinkFailure::Again(text),
            Verdict::Crash => SinkFailure::Fatal(self.target.explain(id, failure, output, batch)),
        }
    }
}

impl TransactionalSink for ClusterSink {
    /// Strictly in this order: fence, end of the changelog, cursors up to there. So a commit of an owner before us either is in the cursors, or
    /// can never happen.
    fn open(&mut self, places: &[Place]) -> Result<Vec<Option<String>>, SinkFailure> {
        let task = places.first().map_or(0, |(_, partition)| *partition);
        let id = format!("{}-{task}", self.id);
        self.producer = None;
        self.target.check_partition(task).map_err(|error| match error {
            Error::Topics { .. } => SinkFailure::Fatal(error),
            other => SinkFailure::Again(other.to_string()),
        })?;
        let producer = self.target.producer(&id).map_err(SinkFailure::Fatal)?;
        producer.init_transactions(self.target.timeout).map_err(|source| match source.verdict() {
            Verdict::Crash if !source.is_timeout() => {
                let what = format!("{id}: init_transactions (the fence of the transactional id)");
                SinkFailure::Fatal(Error::Kafka { what, source })
            }
            _ => SinkFailure::Again(source.to_string()),
        })?;
        let keys: Vec<_> = places.iter().map(|place| self.name(place).key()).collect();
        let mut found: Vec<Option<String>> = vec![None; places.len()];
        let apply = |key: &[u8], value: Option<&[u8]>| {
            if let Some(index) = keys.iter().position(|of| of == key) {
                found[index] = value.map(|value| String::from_utf8_lossy(value).into_owned());
            }
        };
        let read = self.target.changelog.read(task, Until::HighWatermark, &Stop::after(READ), apply);
        if !read.map_err(|error| SinkFailure::Again(error.to_string()))? {
            let topic = &self.target.changelog.topic;
            return Err(SinkFailure::Again(format!(
                "{topic}/{task} was not read to its end within {} s",
                READ.as_secs()
            )));
        }
        self.producer = Some((id, producer));
        Ok(found)
    }

    fn commit(
        &mut self,
        batch: &Batch,
        output: &mut Output,
        moves: &[(Place, String)],
    ) -> Result<Vec<RefusedRecord>, SinkFailure> {
        self.target.check_sizes(output, batch).map_err(SinkFailure::Fatal)?;
        let Some((id, mut producer)) = self.producer.take() else {
            return Err(SinkFailure::Unknown("the positions are not open".to_owned()));
        };
        if producer.may_have_sent_twice() {
            return Err(SinkFailure::Unknown("the end of the last transaction may have been sent twice".to_owned()));
        }
        let mark = output.mark();
        for (place, position) in moves {
            let key = self.name(place).key();
            let cursor = Message::to(&*self.target.changelog.topic).partition(place.1).key(&key[..]);
            output.send(cursor.value(position.as_bytes()));
        }
        let result = producer.transact(output, None, self.target.timeout);
        let result = result.map_err(|failure| self.failure(&id, failure, output, batch));
        output.rewind(mark);
        if !matches!(result, Err(SinkFailure::Fenced(_) | SinkFailure::Unknown(_))) {
            self.producer = Some((id, producer));
        }
        result.map(|_| Vec::new())
    }

    fn patience(&self) -> Duration {
        PATIENCE
    }
}
