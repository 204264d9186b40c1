//! The consumer of a worker: group membership, partition queues, positions.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rdkafka::client::ClientContext;
use rdkafka::config::{FromClientConfigAndContext, RDKafkaLogLevel};
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer as _, ConsumerContext};
use rdkafka::error::{KafkaError, RDKafkaErrorCode as Code};
use rdkafka::message::{BorrowedMessage, Message as _};
use rdkafka::topic_partition_list::{Offset as RdOffset, TopicPartitionList};
use rdkafka_sys::rd_kafka_resp_err_t as RespErr;

use super::client::{self, LogGate};
use super::close;
use super::error::{Error, Flags};
use super::ffi::{self, Group, GroupToken};
use super::holder::Holder;
use super::ownership::{Ownership, ownership};
use super::position::{Offset, Position};
use super::producer::position_list;
use super::record::{Batch, Header, Record};
use crate::config::{GroupProtocol, WorkerConfig};
use crate::error::Error as WattleError;

/// Longest wait for a seek to have its turn.
const OUT_OF_TURN: Duration = Duration::from_secs(5);

/// A topic and a partition number.
pub(crate) type TopicPartition = (Arc<str>, i32);

/// Of each partition the group's position, and who committed it.
type Committed = (Vec<Option<Position>>, Vec<Option<Holder>>);

/// Hears of changes of the assignment, from within [`Consumer::poll`].
pub(crate) trait RebalanceListener: Send + Sync + 'static {
    /// These partitions are ours too from now on. They are paused until [`Consumer::begin`].
    fn assigned(&self, partitions: Vec<(String, i32)>);

    /// These partitions are not ours any more: all that we had with the group protocol `classic`, those that move with `consumer`. Must
    /// not return before nothing more is sent for any of them. `lost`: they may be another's already.
    fn revoked(&self, partitions: Vec<(String, i32)>, lost: bool);
}

/// The consumer. Clones share it; [`Consumer::close`] leaves the group.
pub(crate) struct Consumer<L: RebalanceListener> {
    inner: Arc<BaseConsumer<Context<L>>>,
}

impl<L: RebalanceListener> Clone for Consumer<L> {
    fn clone(&self) -> Self {
        Consumer { inner: self.inner.clone() }
    }
}

impl<L: RebalanceListener> Drop for Consumer<L> {
    /// After a fatal error librdkafka refuses to close a consumer, and its destruction waits for the close, some seconds or for ever.
    /// The worker ends then anyway, so the client is left behind.
    fn drop(&mut self) {
        if self.is_dead() {
            std::mem::forget(self.inner.clone());
        }
    }
}

impl<L: RebalanceListener> Consumer<L> {
    /// `partitions` is the number of all partitions of all input topics: they share the prefetch memory.
    pub(crate) fn new(
        config: &WorkerConfig,
        client_id: &str,
        partitions: usize,
        listener: Arc<L>,
    ) -> Result<Self, WattleError> {
        // A partition's queue may exceed this by one fetch of at most 1 MiB.
        let queue_kbytes = (64 * 1024 / partitions.max(1)).clamp(1024, 16 * 1024);
        let mut client_config = client::base(&config.name, &config.brokers);
        client_config
            .set("queued.max.messages.kbytes", queue_kbytes.to_string())
            // How long a full queue pauses fetching; the default of 1 s would starve a task that is faster than that.
            .set("fetch.queue.backoff.ms", "5")
            // A partition that resumes waits for the fetch under way, up to this long.
            .set("fetch.wait.max.ms", "50");
        client_config = client::with_user(client_config, &config.consumer_properties);
        client_config
            .set("client.id", client_id)
            .set("group.id", &config.group)
            .set("enable.auto.commit", "false")
            .set("enable.auto.offset.store", "false")
            .set("auto.offset.reset", "error")
            .set("isolation.level", "read_committed");
        // Equal partition numbers of all topics have to come to one member.
        match config.group_protocol {
            GroupProtocol::Classic => client_config.set("partition.assignment.strategy", "range"),
            GroupProtocol::Consumer => {
                client_config.set("group.protocol", "consumer").set("group.remote.assignor", "range")
            }
        };
        if let Some(id) = &config.group_instance_id {
            client_config.set("group.instance.id", id);
        }
        let context = Context { log: LogGate::new(&config.name), listener, protocol: config.group_protocol };
        let inner = BaseConsumer::from_config_and_context(&client_config, context).map_err(client::refused)?;
        Ok(Consumer { inner: Arc::new(inner) })
    }

    pub(crate) fn subscribe(&self, topics: &[String]) -> Result<(), Error> {
        let topics: Vec<&str> = topics.iter().map(String::as_str).collect();
        Ok(self.inner.subscribe(&topics)?)
    }

    pub(crate) fn unsubscribe(&self) {
        self.inner.unsubscribe();
    }

    /// Leaves the group; all clones are closed with it.
    pub(crate) fn close(&self, deadline: Instant) {
        if !self.is_dead() && !close::close(&self.inner, deadline) {
            tracing::debug!("the consumer has not ended in time; its client is left behind");
        }
    }

    /// Serves the group: rebalances call the listener from in here. Returns what it cannot go on after.
    pub(crate) fn poll(&self, timeout: Duration) -> Result<(), Error> {
        match self.inner.poll(timeout) {
            // Records come by partition queues; one that slipped in before its queue was split is read again after the seek.
            None | Some(Ok(_)) => Ok(()),
            // About a fetch from the placeholder, between the assignment and the pause: what is behind the seek has its own queue.
            Some(Err(error)) if error.rdkafka_error_code() == Some(Code::AutoOffsetReset) => Ok(()),
            // The event of a fatal error does not say which one.
            Some(Err(error)) => match self.inner.client().fatal_error() {
                Some((code, text)) => Err(Error::new(code, text, Flags::default())),
                None => tolerated(error),
            },
        }
    }

    /// Whether it has met a fatal error: it serves the group no more, and may not even tell of the end of its assignment.
    pub(crate) fn is_dead(&self) -> bool {
        self.inner.client().fatal_error().is_some()
    }

    /// Gives a partition a queue of its own. `wake` is called from a thread of librdkafka when the queue is empty no longer.
    pub(crate) fn split(
        &self,
        topic: &str,
        partition: i32,
        wake: impl Fn() + Send + Sync + 'static,
    ) -> Result<PartitionQueue<L>, Error> {
        let mut queue = self
            .inner
            .split_partition_queue(topic, partition)
            .ok_or_else(|| Error::text(format!("{topic}/{partition} has no queue")))?;
        queue.set_nonempty_callback(wake);
        Ok(PartitionQueue(queue))
    }

    /// Who we are in the group now; `None` while we are not in it.
    pub(crate) fn token(&self) -> Option<GroupToken> {
        GroupToken::take(self.inner.client().native_ptr())
    }

    /// The id of the group's cluster; `None` while it is not known.
    pub(crate) fn cluster_id(&self, timeout: Duration) -> Option<String> {
        self.inner.client().fetch_cluster_id(timeout)
    }

    /// The group's stable positions, and who committed each, as far as that is said. Where a transaction holds one of them open this waits,
    /// and fails with a timeout.
    pub(crate) fn committed(&self, partitions: &[TopicPartition], timeout: Duration) -> Result<Committed, Error> {
        let list = self.inner.committed_offsets(unassigned(partitions), timeout)?;
        let holder = |(topic, partition): &TopicPartition| {
            list.find_partition(topic, *partition).and_then(|element| Holder::read(element.metadata()))
        };
        let positions = partitions.iter().map(|(topic, partition)| offset_in(&list, topic, *partition));
        Ok((positions.collect::<Result<_, _>>()?, partitions.iter().map(holder).collect()))
    }

    /// First offset that a partition still has, and its last stable offset.
    pub(crate) fn watermarks(&self, topic: &str, partition: i32, timeout: Duration) -> Result<(i64, i64), Error> {
        watermarks(&*self.inner, topic, partition, timeout)
    }

    /// The positions behind everything taken from the queues, markers included; `None` where nothing was taken yet.
    pub(crate) fn position(&self, partitions: &[TopicPartition]) -> Result<Vec<Option<Position>>, Error> {
        let list = unassigned(partitions);
        ffi::position(self.inner.client().native_ptr(), &list)?;
        partitions.iter().map(|(topic, partition)| offset_in(&list, topic, *partition)).collect()
    }

    pub(crate) fn pause(&self, partitions: &[TopicPartition]) -> Result<(), Error> {
        Ok(self.inner.pause(&unassigned(partitions))?)
    }

    /// Seeks to the positions, which drops what was fetched from elsewhere, and resumes.
    pub(crate) fn begin(
        &self,
        positions: &[(TopicPartition, Position)],
        timeout: Duration,
        ours: impl Fn() -> bool,
    ) -> Result<(), Error> {
        self.seek(positions, timeout, ours)?;
        let partitions: Vec<_> = positions.iter().map(|(partition, _)| partition.clone()).collect();
        self.inner.resume(&unassigned(&partitions))?;
        self.rouse(&partitions, timeout);
        Ok(())
    }

    /// librdkafka begins to fetch what was assigned when no commit of positions is under way, and until then a seek is out of turn. Where other
    /// tasks go on over a rebalance (group protocol `consumer`) and commit outside of transactions, that takes a moment.
    fn seek(
        &self,
        positions: &[(TopicPartition, Position)],
        timeout: Duration,
        ours: impl Fn() -> bool,
    ) -> Result<(), Error> {
        let started = Instant::now();
        loop {
            let list = self.inner.seek_partitions(position_list(positions)?, timeout)?;
            let Some(error) = list.elements().iter().find_map(|element| element.error().err()) else { return Ok(()) };
            let again = error.rdkafka_error_code() == Some(Code::State) && started.elapsed() < OUT_OF_TURN && ours();
            if !again {
                return Err(error.into());
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Makes sure that fetching begins. The thread of a broker from which nothing was to be fetched rests for up to a second; a seek of a
    /// paused partition does not wake it for good, and a resumption does not wake it at all. A request does, whatever its answer.
    ///
    /// `timeout` must be long: a request that times out costs the connection.
    fn rouse(&self, partitions: &[TopicPartition], timeout: Duration) {
        let mut list = TopicPartitionList::with_capacity(partitions.len());
        let asked = partitions
            .iter()
            .try_for_each(|(topic, partition)| list.add_partition_offset(topic, *partition, RdOffset::End));
        if let Err(error) = asked.and_then(|()| self.inner.offsets_for_times(list, timeout).map(drop)) {
            tracing::debug!("fetching may begin a second late: {error}");
        }
    }

    /// Commits positions outside of any transaction, and waits for the answer.
    pub(crate) fn commit(&self, positions: &[(TopicPartition, Position)]) -> Result<(), Error> {
        Ok(self.inner.commit(&position_list(positions)?, CommitMode::Sync)?)
    }

    /// Whether we are a member and have these partitions of all topics, as the coordinator has said of the group. Our own view can be out
    /// of date: a process that was stopped for long believes what was true before.
    pub(crate) fn ownership(&self, group: &Group, partitions: &[i32]) -> Ownership {
        let Some(token) = self.token() else { return Ownership::NotOurs };
        ownership(self.inner.context().protocol, group, &token.member_id(), partitions)
    }
}

/// The ends of a partition. A client that has not heard of a new partition yet asks what there is, and then again.
pub(super) fn watermarks<C: ConsumerContext>(
    client: &BaseConsumer<C>,
    topic: &str,
    partition: i32,
    timeout: Duration,
) -> Result<(i64, i64), Error> {
    let unknown = |error: &KafkaError| {
        matches!(error.rdkafka_error_code(), Some(Code::UnknownPartition | Code::UnknownTopicOrPartition))
    };
    match client.fetch_watermarks(topic, partition, timeout) {
        Err(error) if unknown(&error) => {
            client.fetch_metadata(None, timeout)?;
            Ok(client.fetch_watermarks(topic, partition, timeout)?)
        }
        answer => Ok(answer?),
    }
}

pub(super) fn unassigned(partitions: &[TopicPartition]) -> TopicPartitionList {
    let mut list = TopicPartitionList::with_capacity(partitions.len());
    for (topic, partition) in partitions {
        list.add_partition(topic, *partition);
    }
    list
}

pub(super) fn offset_in(list: &TopicPartitionList, topic: &str, partition: i32) -> Result<Option<Position>, Error> {
    let Some(element) = list.find_partition(topic, partition) else { return Ok(None) };
    element.error()?;
    Ok(match element.offset() {
        RdOffset::Offset(offset) => Some(Position(offset)),
        _ => None,
    })
}

/// What the client reports while it mends itself is news for the log; the rest ends the worker.
fn tolerated(error: KafkaError) -> Result<(), Error> {
    match error.rdkafka_error_code() {
        // It left the group by its own doing and joins again: the partitions are lost, and the listener is told.
        Some(Code::PollExceeded) => {
            tracing::warn!(
                "was away for longer than max.poll.interval.ms and lost its partitions; joins the group again"
            );
            Ok(())
        }
        Some(
            Code::TopicAuthorizationFailed
            | Code::GroupAuthorizationFailed
            | Code::SaslAuthenticationFailed
            | Code::ClusterAuthorizationFailed
            | Code::UnknownTopicOrPartition
            | Code::UnknownTopic
            | Code::UnknownPartition
            | Code::AutoOffsetReset
            | Code::OffsetOutOfRange
            | Code::InvalidGroupId
            | Code::InconsistentGroupProtocol
            | Code::FencedInstanceId
            | Code::Fatal,
        ) => Err(error.into()),
        _ if matches!(error, KafkaError::MessageConsumptionFatal(_)) => Err(error.into()),
        _ => {
            tracing::debug!("kafka consumer: {error}");
            Ok(())
        }
    }
}

/// Records of one partition that were fetched and not taken yet.
pub(crate) struct PartitionQueue<L: RebalanceListener>(rdkafka::consumer::base_consumer::PartitionQueue<Context<L>>);

impl<L: RebalanceListener> PartitionQueue<L> {
    /// Moves at most `limit` records at or behind `from` into the batch, as records of its topic `topic`. Returns how many it
    /// took, and whether the queue is empty.
    pub(crate) fn drain(
        &self,
        batch: &mut Batch,
        topic: usize,
        from: Position,
        limit: usize,
    ) -> Result<(usize, bool), Error> {
        let mut taken = 0;
        // One empty answer may be an event that the client consumed itself.
        let mut empty = 0;
        while taken < limit && empty < 2 {
            match self.0.poll(Duration::ZERO) {
                None => empty += 1,
                Some(Ok(message)) if message.offset() < from.0 => {
                    tracing::debug!("dropped a record fetched before the seek");
                }
                Some(Ok(message)) => {
                    push(batch, topic, &message);
                    taken += 1;
                }
                Some(Err(error)) => tolerated(error)?,
            }
        }
        Ok((taken, empty == 2))
    }
}

fn push(batch: &mut Batch, topic: usize, message: &BorrowedMessage<'_>) {
    let (headers, unreadable) = headers(message);
    batch.push(
        topic,
        &Record {
            topic: "",
            partition: message.partition(),
            offset: Offset(message.offset()),
            timestamp: message.timestamp().to_millis().filter(|millis| *millis >= 0),
            key: message.key(),
            value: message.payload(),
            headers: &headers,
        },
    );
    if unreadable {
        batch.refuse_last("a header name is not UTF-8 text");
    }
}

/// The headers, and whether a name had to be changed to become text.
pub(super) fn headers(message: &BorrowedMessage<'_>) -> (Vec<Header>, bool) {
    let mut unreadable = false;
    let headers = ffi::headers(message).into_iter().map(|(name, value)| {
        let name = String::from_utf8(name).unwrap_or_else(|error| {
            unreadable = true;
            String::from_utf8_lossy(error.as_bytes()).into_owned()
        });
        Header { name, value }
    });
    let headers = headers.collect();
    (headers, unreadable)
}

pub(crate) struct Context<L> {
    log: LogGate,
    listener: Arc<L>,
    protocol: GroupProtocol,
}

impl<L: RebalanceListener> ClientContext for Context<L> {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        self.log.log(level, facility, message);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        self.log.error(error, reason);
    }
}

impl<L: RebalanceListener> ConsumerContext for Context<L> {
    fn rebalance(&self, consumer: &BaseConsumer<Self>, error: RespErr, list: &mut TopicPartitionList) {
        let done = if error == RespErr::RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS {
            self.assign_paused(consumer, list).map(|()| self.listener.assigned(names(list)))
        } else {
            self.listener.revoked(names(list), consumer.assignment_lost());
            match self.protocol {
                GroupProtocol::Classic => consumer.unassign(),
                GroupProtocol::Consumer => consumer.incremental_unassign(list),
            }
        };
        if let Err(error) = done {
            tracing::error!("the assignment could not be taken over: {error}");
        }
    }
}

impl<L: RebalanceListener> Context<L> {
    /// Takes the partitions over with a placeholder for their positions. Without one librdkafka would ask for the committed
    /// positions itself; one that a transaction holds open would then keep every partition from being sought.
    ///
    /// The placeholder is a number: a logical one (the end, say) is looked up, and the answer to a lookup that a seek has overtaken starts
    /// another one half a second later, which moves the partition to the end past everything between. A number may be out of
    /// range, and a fetch from there would stop the partition for good; so the partitions are paused *before* they are assigned.
    fn assign_paused(&self, consumer: &BaseConsumer<Self>, list: &TopicPartitionList) -> Result<(), KafkaError> {
        let mut placeholders = TopicPartitionList::with_capacity(list.count());
        for element in list.elements() {
            ffi::introduce(consumer.client().native_ptr(), element.topic(), element.partition());
            placeholders.add_partition_offset(element.topic(), element.partition(), RdOffset::Offset(0))?;
        }
        consumer.pause(&placeholders)?;
        match self.protocol {
            GroupProtocol::Classic => consumer.assign(&placeholders),
            GroupProtocol::Consumer => consumer.incremental_assign(&placeholders),
        }
    }
}

fn names(list: &TopicPartitionList) -> Vec<(String, i32)> {
    list.elements().iter().map(|element| (element.topic().to_owned(), element.partition())).collect()
}
