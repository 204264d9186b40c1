//! One producer. Whoever uses it sees every delivery report.

use std::time::{Duration, Instant};

use rdkafka::client::ClientContext;
use rdkafka::config::{FromClientConfigAndContext, RDKafkaLogLevel};
use rdkafka::error::{KafkaError, RDKafkaErrorCode as Code};
use rdkafka::message::{Header as RdHeader, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, DeliveryResult, Producer as _, ProducerContext, PurgeConfig};
use rdkafka::topic_partition_list::{Offset as RdOffset, TopicPartitionList};

use super::client::{self, LogGate};
use super::consumer::TopicPartition;
use super::deliveries::{Deliveries, Failure, Refused, is_purged};
use super::error::{Error, Verdict};
use super::ffi::{self, Events, GroupToken};
use super::holder::Holder;
use super::position::Position;
use super::record::ALONE;
use crate::config::{ClientProperties, Compression};
use crate::error::Error as WattleError;
use crate::stage::{Output, Sent};
use crate::state::Ends;

/// What a producer is told.
#[derive(Clone, Debug)]
pub(crate) struct ProducerConfig {
    pub(crate) name: String,
    pub(crate) brokers: String,
    pub(crate) acks: String,
    pub(crate) compression: Compression,
    pub(crate) properties: ClientProperties,
    /// Most bytes of one record batch: a broker refuses a batch as a whole by the topic's `max.message.bytes`.
    pub(crate) batch_size: usize,
    /// The transactional id and the transaction's timeout.
    pub(crate) transaction: Option<(String, Duration)>,
}

/// A librdkafka producer, transactional or not.
pub(crate) struct Producer {
    events: Events, // before the client: it must be gone first
    client: BaseProducer<Context>,
    /// Empty without transactions.
    transactional_id: String,
    /// See [`Refused`].
    alone_above: usize,
    /// Sent, and not reported yet.
    outstanding: usize,
    /// From this time on a commit may have been sent a second time.
    resent_after: Duration,
    /// See [`Producer::may_have_sent_twice`].
    sent_twice: bool,
}

/// librdkafka sends a request again when `socket.timeout.ms` (60 s) has passed, or when a connection is lost. A commit that takes this
/// long is suspected of either.
const SUSPICIOUS: Duration = Duration::from_secs(10);

/// Longest wait for the abort of a transaction after which the worker ends.
const LAST_ABORT: Duration = Duration::from_secs(10);

/// What a transaction commits for a consumer group.
pub(crate) struct GroupPositions<'a> {
    pub(crate) positions: &'a [(TopicPartition, Position)],
    pub(crate) token: &'a GroupToken,
    /// Of the consumer.
    pub(crate) client_id: &'a str,
    /// Of a static member.
    pub(crate) instance_id: Option<&'a str>,
}

/// Every output is confirmed; so far do the changes of states reach in the changelog.
struct Delivered(Ends);

impl Producer {
    pub(crate) fn new(config: &ProducerConfig) -> Result<Self, WattleError> {
        let mut client_config = client::base(&config.name, &config.brokers);
        client_config
            // Re-bootstrapping when the only broker goes away can leave a transactional call hanging past its timeout. Without it the
            // call may wait in vain, which the watchdog ends.
            .set("metadata.recovery.strategy", "none")
            .set("linger.ms", "0")
            // Right after a commit the coordinator still writes markers and answers CONCURRENT_TRANSACTIONS; the default of 100 ms
            // would make that the length of every second transaction. It grows exponentially.
            .set("retry.backoff.ms", "1")
            .set("retry.backoff.max.ms", "500")
            // The topic's limit decides, not the client's.
            .set("message.max.bytes", "1000000000");
        client_config = client::with_user(client_config, &config.properties);
        let wanted = config.properties.get("batch.size").and_then(|bytes| bytes.parse().ok());
        let batch_size = config.batch_size.min(wanted.unwrap_or(usize::MAX));
        client_config
            .set("batch.size", batch_size.to_string())
            .set("enable.idempotence", "true")
            .set("acks", &config.acks)
            .set("compression.type", config.compression.name())
            // Java's, so that a key finds the partition that any Java producer would give it.
            .set("partitioner", "murmur2_random");
        match &config.transaction {
            Some((id, timeout)) => {
                client_config
                    .set("transactional.id", id)
                    .set("transaction.timeout.ms", timeout.as_millis().to_string());
            }
            // Without all acknowledgements there is no idempotence to be had.
            None if config.acks != "all" => {
                client_config.set("enable.idempotence", "false");
            }
            None => {}
        }
        let client = BaseProducer::from_config_and_context(&client_config, Context(LogGate::new(&config.name)))
            .map_err(client::refused)?;
        let events = Events::of(client.client().native_ptr());
        let socket_timeout = config.properties.get("socket.timeout.ms").and_then(|millis| millis.parse().ok());
        let resent_after = socket_timeout.map_or(SUSPICIOUS, Duration::from_millis).min(SUSPICIOUS);
        let transactional_id = config.transaction.as_ref().map(|(id, _)| id.clone()).unwrap_or_default();
        let alone_above = batch_size.saturating_sub(ALONE);
        Ok(Producer { events, client, transactional_id, alone_above, outstanding: 0, resent_after, sent_twice: false })
    }

    /// Fences every other producer with this transactional id, and ends the transaction that it may have open.
    pub(crate) fn init_transactions(&self, timeout: Duration) -> Result<(), Error> {
        Ok(self.client.init_transactions(timeout)?)
    }

    /// The id of the cluster; `None` while it is not known.
    pub(crate) fn cluster_id(&self, timeout: Duration) -> Option<String> {
        self.client.client().fetch_cluster_id(timeout)
    }

    /// Whether the end of the last transaction may have been sent more than once. The transaction protocol that librdkafka speaks does
    /// not tell transactions of one epoch apart: a late copy would commit the *next* transaction half way. A new producer has a
    /// new epoch, which refuses the copy.
    pub(crate) fn may_have_sent_twice(&self) -> bool {
        self.sent_twice
    }

    /// Whether everything that was sent is reported.
    pub(crate) fn is_idle(&self) -> bool {
        self.outstanding == 0
    }

    /// One transaction: outputs in their order, the group's positions where there is a group, commit. Returns how far the changes of
    /// states reach in the changelog. On failure the transaction is aborted as far as the error leaves that to us.
    pub(crate) fn transact(
        &mut self,
        output: &Output,
        positions: Option<GroupPositions<'_>>,
        timeout: Duration,
    ) -> Result<Ends, Failure> {
        let deadline = Instant::now() + timeout;
        self.client.begin_transaction()?;
        let ready = match positions {
            Some(positions) => self.prepare(output, &positions, deadline),
            None => self.prepare_outputs(output, deadline),
        };
        let failure = match ready {
            Ok(Delivered(ends)) => match self.commit(deadline) {
                Ok(()) => return Ok(ends),
                Err(failure) => failure,
            },
            Err(failure) => failure,
        };
        // Neither a dead handle nor a transaction that may be committed is aborted.
        if failure.error.verdict() != Verdict::RestartLane && !failure.outcome_unknown {
            // A refusal ends the worker, and is what its operator has to hear of, whatever becomes of the abort: the next start's fence
            // ends the transaction too.
            let last = failure.error.verdict() == Verdict::Crash;
            match self.abort(if last { timeout.min(LAST_ABORT) } else { timeout }) {
                Err(abort) if !last => return Err(abort),
                _ => {}
            }
        }
        Err(failure)
    }

    fn prepare(
        &mut self,
        output: &Output,
        positions: &GroupPositions<'_>,
        deadline: Instant,
    ) -> Result<Delivered, Failure> {
        let list = position_list(positions.positions)?;
        self.sign(&list, positions);
        let handle = self.client.client().native_ptr();
        let offsets = || ffi::send_offsets(handle, &list, positions.token, left(deadline));
        let mut reports = Deliveries::of(output, self.alone_above);
        // The positions travel while the outputs do; both are checked before the commit.
        let sent = self.send(output, &mut reports);
        let begun = offsets();
        if sent.is_ok() && begun.is_ok() {
            return self.await_deliveries(&mut reports, deadline, offsets);
        }
        // A transaction that has failed refuses every later call too; report the failure that explains most.
        let definite = self.definite(&mut reports, begun.as_ref().err());
        match (definite, sent, begun) {
            (Some(failure), ..) => Err(failure),
            (None, Err(failure), _) if !failure.is_consequence() => Err(failure),
            (None, _, Err(error)) => Err(error.into()),
            (None, Err(failure), _) => Err(failure),
            (None, Ok(()), Ok(())) => unreachable!("one of them failed"),
        }
    }

    /// Writes into the positions who commits them.
    fn sign(&self, list: &TopicPartitionList, positions: &GroupPositions<'_>) {
        let holder = Holder {
            transactional_id: self.transactional_id.clone(),
            client_id: positions.client_id.to_owned(),
            instance_id: positions.instance_id.map(str::to_owned),
        };
        let metadata = holder.write();
        for mut element in list.elements() {
            element.set_metadata(&metadata);
        }
    }

    /// The same without a group: the position is among the outputs.
    fn prepare_outputs(&mut self, output: &Output, deadline: Instant) -> Result<Delivered, Failure> {
        let mut reports = Deliveries::of(output, self.alone_above);
        // A call out of turn: a sound transaction refuses it for its state alone, a failed one tells its failure.
        let handle = self.client.client().native_ptr();
        let alive = || match ffi::begin_transaction(handle) {
            Err(error) if error.code() == Some(Code::State) => Ok(()),
            answer => answer,
        };
        if let Err(failure) = self.send(output, &mut reports) {
            let alive = alive();
            let definite = self.definite(&mut reports, alive.as_ref().err());
            return Err(match (definite, alive) {
                (Some(definite), _) => definite,
                (None, Err(error)) if failure.is_consequence() => error.into(),
                (None, _) => failure,
            });
        }
        self.await_deliveries(&mut reports, deadline, alive)
    }

    /// The refusal of an output, where one has failed a transaction. Calls are refused for it a moment before its report is there.
    fn definite(&mut self, reports: &mut Deliveries, refused: Option<&Error>) -> Option<Failure> {
        const MOMENT: Duration = Duration::from_secs(1);
        let until = Instant::now() + MOMENT;
        self.poll(Duration::ZERO, reports);
        while reports.definite().is_none()
            && self.outstanding > 0
            && refused.is_some_and(|error| error.verdict() == Verdict::Crash)
            && !left(until).is_zero()
        {
            self.poll(Duration::from_millis(10), reports);
        }
        reports.definite()
    }

    /// Sends the outputs and waits until every one is confirmed. For producers without transactions.
    pub(crate) fn deliver(&mut self, output: &Output, timeout: Duration) -> Result<(), Failure> {
        let mut reports = Deliveries::of(output, self.alone_above);
        self.send(output, &mut reports)?;
        self.await_deliveries(&mut reports, Instant::now() + timeout, || Ok(())).map(|Delivered(_)| ())
    }

    fn send(&mut self, output: &Output, reports: &mut Deliveries) -> Result<(), Failure> {
        for (index, message) in output.iter().enumerate() {
            let mut record = base_record(&message, index);
            loop {
                match self.client.send(record) {
                    Ok(()) => break,
                    Err((KafkaError::MessageProduction(Code::QueueFull), back)) => {
                        record = back;
                        self.poll(Duration::from_millis(100), reports);
                    }
                    Err((error, _)) => {
                        let bytes = message.key.map_or(0, <[u8]>::len) + message.value.map_or(0, <[u8]>::len);
                        let partition = message.partition.unwrap_or(-1);
                        let refused = vec![Refused { index, partition, bytes, alone_above: 0 }];
                        return Err(Failure { error: error.into(), refused, outcome_unknown: false });
                    }
                }
            }
            self.outstanding += 1;
        }
        Ok(())
    }

    /// Waits until everything is reported. Once a transaction has failed, librdkafka keeps what is still queued until the abort, so that
    /// its reports would never come: a refusal ends the wait, and after some silence `alive` is asked whether there is still
    /// something to wait for. Without a transaction what comes behind a record that is too large is delivered all the same, and all of those are found.
    fn await_deliveries(
        &mut self,
        reports: &mut Deliveries,
        deadline: Instant,
        alive: impl Fn() -> Result<(), Error>,
    ) -> Result<Delivered, Failure> {
        const SILENCE: Duration = Duration::from_secs(1);
        let mut last = Instant::now();
        while self.outstanding > 0 {
            let goes_on = self.transactional_id.is_empty() && reports.are_too_large();
            if !goes_on && let Some(failure) = reports.definite() {
                return Err(failure);
            }
            if left(deadline).is_zero() {
                return Err(Error::of(Code::MessageTimedOut).into());
            }
            let before = self.outstanding;
            self.poll(left(deadline).min(Duration::from_millis(100)), reports);
            if self.outstanding < before {
                last = Instant::now();
            } else if last.elapsed() >= SILENCE {
                alive()?;
                last = Instant::now();
            }
        }
        let Some(failure) = reports.failure() else {
            return Ok(Delivered(std::mem::take(&mut reports.ends)));
        };
        if failure.error.code().is_some_and(is_purged) {
            // What was thrown away with its transaction does not tell why.
            alive()?;
        }
        Err(failure)
    }

    fn poll(&mut self, timeout: Duration, reports: &mut Deliveries) {
        let outstanding = &mut self.outstanding;
        let news = self.events.poll(timeout, |report| {
            *outstanding -= 1;
            reports.add(&report);
        });
        if let Some(error) = news {
            tracing::debug!("kafka producer: {error}");
        }
    }

    /// Repeats the same call while it asks for that: its outcome stays open until it answers.
    fn commit(&mut self, deadline: Instant) -> Result<(), Failure> {
        let started = Instant::now();
        loop {
            let error: Error = match self.client.commit_transaction(left(deadline)) {
                Ok(()) => {
                    // Nothing is in flight, so that only news of the connection can be in the queue.
                    let lost = self.events.poll(Duration::ZERO, |_| {}).is_some();
                    self.sent_twice |= lost || started.elapsed() >= self.resent_after;
                    return Ok(());
                }
                Err(error) => error.into(),
            };
            if error.verdict() != Verdict::Retry {
                return Err(error.into());
            }
            if left(deadline).is_zero() {
                return Err(Failure { error, refused: Vec::new(), outcome_unknown: true });
            }
            tracing::debug!("repeating the commit: {error}");
            self.sent_twice = true;
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Aborts. librdkafka first waits for the reports of what it throws away, so somebody has to take them meanwhile.
    fn abort(&mut self, timeout: Duration) -> Result<(), Failure> {
        const STUCK: Duration = Duration::from_secs(2);
        let started = Instant::now();
        let mut purged = false;
        let client = &self.client;
        let (events, outstanding) = (&self.events, &mut self.outstanding);
        let result = std::thread::scope(|scope| {
            let abort = scope.spawn(|| client.abort_transaction(timeout));
            while !abort.is_finished() {
                events.poll(Duration::from_millis(10), |_| *outstanding -= 1);
                // A record behind a refused one can stay "in flight" for ever, and the abort would wait for it.
                if !purged && started.elapsed() >= STUCK {
                    client.purge(PurgeConfig::default().queue().inflight());
                    purged = true;
                }
            }
            abort.join()
        });
        while *outstanding > 0 && client.in_flight_count() > 0 {
            events.poll(Duration::from_millis(10), |_| *outstanding -= 1);
        }
        // A handle from which something was torn is not used for another transaction.
        self.sent_twice |= purged || started.elapsed() >= self.resent_after;
        match result {
            Ok(Ok(())) => Ok(()),
            // An abort that does not come to an end leaves the same doubt as such a commit, except that nothing can be committed:
            // a new handle, fenced anew, ends it.
            Ok(Err(error)) => {
                let error = Error::from(error);
                let outcome_unknown = error.verdict() != Verdict::RestartLane;
                Err(Failure { error, refused: Vec::new(), outcome_unknown })
            }
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}

fn base_record<'a>(message: &Sent<'a>, index: usize) -> BaseRecord<'a, [u8], [u8], usize> {
    let mut record = BaseRecord::with_opaque_to(message.topic, index);
    record.partition = message.partition;
    record.timestamp = message.timestamp;
    record.key = message.key;
    record.payload = message.value;
    if !message.headers.is_empty() {
        let mut headers = OwnedHeaders::new_with_capacity(message.headers.len());
        for header in message.headers {
            headers = headers.insert(RdHeader { key: &header.name, value: header.value.as_deref() });
        }
        record.headers = Some(headers);
    }
    record
}

pub(super) fn position_list(positions: &[(TopicPartition, Position)]) -> Result<TopicPartitionList, Error> {
    let mut list = TopicPartitionList::with_capacity(positions.len());
    for ((topic, partition), position) in positions {
        list.add_partition_offset(topic, *partition, RdOffset::Offset(position.0))?;
    }
    Ok(list)
}

fn left(deadline: Instant) -> Duration {
    deadline.saturating_duration_since(Instant::now())
}

/// Log only: delivery reports are taken from the event queue before rdkafka sees them.
struct Context(LogGate);

impl ClientContext for Context {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        self.0.log(level, facility, message);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        self.0.error(error, reason);
    }
}

impl ProducerContext for Context {
    type DeliveryOpaque = usize;

    fn delivery(&self, _: &DeliveryResult<'_>, _: usize) {}
}
