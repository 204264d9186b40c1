//! One planned stream → a job for a thread: a worker for a Kafka input, a source for the others.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use wattle::{
    BatchLimits, Compression, CursorName, Delivery, Error, KafkaSink, KafkaSinkConfig, Metrics, Offset, OtherCluster,
    Resume, Sink, SinkFactory, Source, SourceConfig, Stop, TransactionalSinkFactory, Worker, WorkerConfig, run_source,
    run_source_exactly_once, run_source_into,
};
use wattle_wal::Log;

use super::file::{FileSource, check_regular};
use super::generate::GenerateSource;
use super::memory::MemorySource;
use super::outside::{DeadLetters, OutsideSink, Target};
use super::post::Post;
use super::push::{LogPart, LogSource};
use super::pushed::{Pushed, PushedSource};
use super::retry::{Condition, seen};
use super::segments::Segments;
use super::sink::{DropSink, StdoutSink};
use super::{Outcome, StreamEnd, StreamHandle, Watch, sql};
use crate::chain::Chain;
use crate::plan::StreamPlan;
use crate::spec::{Durability, ErrorOutput, Input, KafkaInput, KafkaOutput, Output, Stream};

/// How long a Kafka that has gone away is waited for.
const PATIENCE: Duration = Duration::from_secs(300);
/// Most records of a batch that are requests: a position commits behind all of them, and what was not committed is sent again.
const REQUESTS: usize = 500;

/// A stream, ready to run.
pub(super) struct Job {
    body: Body,
    handle: StreamHandle,
}

enum Body {
    Kafka(Box<Worker<Chain>>),
    Source(Box<SourceBody>),
}

struct SourceBody {
    id: String,
    input: Input,
    durability: Option<Durability>,
    chain: Chain,
    delivery: SourceDelivery,
    dead_letter_topic: Option<String>,
    limits: BatchLimits,
    metrics: Arc<Metrics>,
    /// An input that would go on ends where it ends now.
    drain: bool,
}

enum SourceDelivery {
    AtLeastOnce(SinkFactory),
    ExactlyOnce(Box<SourceConfig>),
    /// With the name of the cursor.
    Into(TransactionalSinkFactory, CursorName),
}

/// Nothing connects yet.
pub(super) fn prepare(plan: StreamPlan, drain: bool) -> Result<Job, Error> {
    let mut stream = plan.into_stream();
    let chain = stream.chain();
    let Stream { id, input, output, error_output, durability, mut batch, grace_period, .. } = stream;
    let id = id.value;
    let error_topic = error_output.as_ref().map(|errors| errors.topic.value.clone());
    if matches!(&output, Output::Http(output) if !output.joins()) {
        batch.max_poll_records.get_or_insert(REQUESTS);
    }
    let transactional = output.kafka().is_some_and(KafkaOutput::is_exactly_once);
    let condition = Condition::new(&id, name(&output));
    let outgoing = Outgoing { id: &id, replays: input.has_places(), error: error_output, condition: &condition };
    let (body, watch) = match input {
        Input::Kafka(input) => {
            let mut config = worker_config(*input, output, outgoing);
            config.batch = batch;
            config.grace_period = grace_period.unwrap_or(config.grace_period);
            config.dead_letter_topic = error_topic;
            let worker = Worker::new(config, chain)?;
            let monitor = worker.monitor();
            (Body::Kafka(Box::new(worker)), Watch::Kafka(monitor))
        }
        input => {
            let metrics = Arc::<Metrics>::default();
            let delivery = source_delivery(&input, output, outgoing);
            let source = SourceBody {
                id: id.clone(),
                input,
                durability,
                chain,
                delivery,
                dead_letter_topic: error_topic,
                limits: batch,
                metrics: metrics.clone(),
                drain,
            };
            (Body::Source(Box::new(source)), Watch::Source(metrics))
        }
    };
    let handle = StreamHandle::new(id.clone(), watch, condition, transactional);
    Ok(Job { body, handle })
}

/// The name of an output that is no topic, for messages.
fn name(output: &Output) -> String {
    match output {
        Output::Kafka(_) => "kafka".to_owned(),
        Output::Sql(output) => format!("{} {}", output.system(), output.database_name()),
        Output::File(output) => format!("file {}", output.shown),
        Output::Http(output) => format!("http {}", crate::plan::shown(&output.url)),
        Output::Stdout { .. } => "stdout".to_owned(),
        Output::Drop => "drop".to_owned(),
    }
}

/// What outputs of a stream are made with.
struct Outgoing<'a> {
    id: &'a str,
    /// Whether the input gives its records again with the same places.
    replays: bool,
    error: Option<ErrorOutput>,
    condition: &'a Arc<Condition>,
}

impl Outgoing<'_> {
    fn error_topic(&self) -> Option<&str> {
        self.error.as_ref().map(|error| error.topic.value.as_str())
    }

    /// A producer of its own for dead letters, and their topic.
    fn letters(&self) -> Option<(String, KafkaSinkConfig)> {
        let error = self.error.as_ref()?;
        let config = KafkaSinkConfig {
            name: self.id.to_owned(),
            output_topics: vec![error.topic.value.clone()],
            brokers: error.brokers.clone(),
            acks: "all".to_owned(),
            compression: Compression::None,
            properties: error.client.clone(),
        };
        Some((error.topic.value.clone(), config))
    }
}

fn worker_config(input: KafkaInput, output: Output, outgoing: Outgoing) -> WorkerConfig {
    let id = outgoing.id;
    let group_protocol = input.protocol();
    let exactly_once = match &output {
        Output::Kafka(output) if output.is_exactly_once() => {
            output.transactional_id.as_ref().map(|id| id.value.clone())
        }
        _ => None,
    };
    let is_elsewhere = output.kafka().is_some_and(|output| output.is_elsewhere(&input));
    let delivery = |output| match (exactly_once, output) {
        (Some(transactional_id), Output::Kafka(output)) if is_elsewhere => {
            let transaction_timeout = output.timeout();
            let sink = sink_config(*output, &outgoing);
            Delivery::OtherCluster(Box::new(OtherCluster { sink, transactional_id, transaction_timeout }))
        }
        (Some(transactional_id), _) => Delivery::ExactlyOnce { transactional_id },
        (None, output) => Delivery::AtLeastOnce(sink_factory(output, &outgoing)),
    };
    let mut config = match output {
        Output::Kafka(output) => {
            let (compression, properties) = (output.compression, output.client.clone());
            let (scope, timeout) = (output.scope(), output.transaction_timeout.as_ref().map(|given| given.value));
            // Topics on another cluster are checked by the sink.
            let topics = if is_elsewhere { Vec::new() } else { output_topics(&output, outgoing.error_topic()) };
            let delivery = delivery(Output::Kafka(output));
            let mut config = WorkerConfig::new(id, input.brokers, input.group.value, input.topics, delivery);
            config.compression = compression;
            config.producer_properties = properties;
            config.transaction_scope = scope;
            config.transaction_timeout = timeout;
            config.output_topics = topics;
            config
        }
        Output::Sql(output) => {
            let name = output.positions_id.as_ref().unwrap_or(&input.group).value.clone();
            let sinks = sql::factory(*output, name, outgoing.letters());
            let delivery = Delivery::TransactionalSink(seen(sinks, outgoing.condition));
            WorkerConfig::new(id, input.brokers, input.group.value, input.topics, delivery)
        }
        output => WorkerConfig::new(id, input.brokers, input.group.value, input.topics, delivery(output)),
    };
    config.group_instance_id = input.group_instance_id.map(|given| given.value);
    config.group_protocol = group_protocol;
    config.start_from = input.start_from;
    config.consumer_properties = input.client;
    config
}

fn source_delivery(input: &Input, output: Output, outgoing: Outgoing) -> SourceDelivery {
    // The transactional id, or the name of the positions, is of this stream alone; the stream's own id may be its place in the file.
    let (source, topic) = match input {
        Input::File(file) => ("file", file.name.as_str()),
        // A write-ahead log has its own name, which is in it.
        other => (other.type_name(), other.type_name()),
    };
    let cursor = CursorName { source: source.to_owned(), topic: topic.to_owned(), partition: 0 };
    match output {
        Output::Sql(output) => {
            let name = output.positions_id.as_ref().map(|id| id.value.clone()).unwrap_or_default();
            SourceDelivery::Into(seen(sql::factory(*output, name, outgoing.letters()), outgoing.condition), cursor)
        }
        Output::Kafka(output) if output.is_exactly_once() => SourceDelivery::ExactlyOnce(Box::new(SourceConfig {
            transactional_id: output.transactional_id.as_ref().map(|id| id.value.clone()).unwrap_or_default(),
            instance: None,
            transaction_timeout: output.timeout(),
            // Who pushes goes on while the log takes it; others have a file or a counter to go on from.
            patience: if input.replays() { PATIENCE } else { Duration::MAX },
            cursor,
            sink: sink_config(*output, &outgoing),
        })),
        output => SourceDelivery::AtLeastOnce(sink_factory(output, &outgoing)),
    }
}

fn output_topics(output: &KafkaOutput, error_topic: Option<&str>) -> Vec<String> {
    output.topics().map(|topic| topic.value.as_str()).chain(error_topic).map(str::to_owned).collect()
}

fn sink_config(output: KafkaOutput, outgoing: &Outgoing) -> KafkaSinkConfig {
    KafkaSinkConfig {
        name: outgoing.id.to_owned(),
        output_topics: output_topics(&output, outgoing.error_topic()),
        brokers: output.brokers,
        acks: output.acks.map_or("all", |given| given.value).to_owned(),
        compression: output.compression,
        properties: output.client,
    }
}

fn sink_factory(output: Output, outgoing: &Outgoing) -> SinkFactory {
    let condition = outgoing.condition.clone();
    match output {
        Output::Kafka(output) => {
            let make = connect_once(sink_config(*output, outgoing));
            Box::new(move || Ok(Box::new(make()?) as Box<dyn Sink>))
        }
        Output::Sql(_) => unreachable!("it has transactions of its own"),
        Output::Http(output) => {
            let replays = outgoing.replays;
            outside(outgoing, move || Ok(Post::new((*output).clone(), replays, condition.retry(output.retry))))
        }
        Output::File(output) => {
            outside(outgoing, move || Segments::open((*output).clone(), condition.retry(output.retry)))
        }
        Output::Stdout { append_newline } => outside(outgoing, move || Ok(StdoutSink::new(append_newline))),
        Output::Drop => outside(outgoing, || Ok(DropSink)),
    }
}

/// An output that is no topic, with the topic for what it does not take.
fn outside<T: Target + 'static>(
    outgoing: &Outgoing,
    make: impl Fn() -> Result<T, Error> + Send + Sync + 'static,
) -> SinkFactory {
    let condition = outgoing.condition.clone();
    let dead_letters = outgoing.letters().map(|(topic, config)| (topic, connect_once(config)));
    Box::new(move || {
        let dead_letters = match &dead_letters {
            Some((topic, make)) => Some(DeadLetters { topic: topic.clone(), sink: make()? }),
            None => None,
        };
        Ok(Box::new(OutsideSink::new(make()?, dead_letters, condition.clone())))
    })
}

/// Connected and checked once, by the first task that needs it.
fn connect_once(config: KafkaSinkConfig) -> impl Fn() -> Result<KafkaSink, Error> + Send + Sync {
    let factory = Mutex::new(None);
    move || {
        let mut factory = factory.lock().unwrap_or_else(PoisonError::into_inner);
        let make = match &mut *factory {
            Some(make) => make,
            none => none.insert(KafkaSink::factory(&config)?),
        };
        make()
    }
}

impl Job {
    pub(super) fn handle(&self) -> StreamHandle {
        self.handle.clone()
    }

    /// Runs the stream to its end. Never panics.
    pub(super) fn run(self) -> StreamEnd {
        let Job { body, handle } = self;
        let shared = handle.0.clone();
        let id = shared.id.clone();
        let result = catch_unwind(AssertUnwindSafe(|| match body {
            Body::Kafka(worker) => worker.run(&shared.stop).map(|()| false),
            Body::Source(source) => source.run(&handle),
        }));
        let result = result.unwrap_or_else(|panic| Err(panicked(&id, &*panic)));
        let outcome = match result {
            Ok(true) => Outcome::Done,
            Ok(false) if shared.drained.load(Ordering::Acquire) => Outcome::Drained,
            Ok(false) => Outcome::Stopped,
            Err(error) => {
                shared.failed.store(true, Ordering::Release);
                Outcome::Failed(error)
            }
        };
        // A worker that has ended cannot ask any more; of a drained stream the last answer is known.
        let mut last_lag = shared.last_lag.lock().unwrap_or_else(PoisonError::into_inner);
        if !matches!(outcome, Outcome::Drained) {
            *last_lag = None;
        }
        let lag = *last_lag;
        drop(last_lag);
        shared.done.store(true, Ordering::Release);
        StreamEnd { id, outcome, snapshot: handle.snapshot(), elapsed: shared.started.elapsed(), lag }
    }
}

fn panicked(id: &str, panic: &(dyn std::any::Any + Send)) -> Error {
    let message = match (panic.downcast_ref::<&str>(), panic.downcast_ref::<String>()) {
        (Some(text), _) => (*text).to_owned(),
        (_, Some(text)) => text.clone(),
        _ => "no message".to_owned(),
    };
    Error::Panic { what: format!("stream {id}"), message }
}

impl SourceBody {
    /// True when the input has ended, false when the stream was stopped before.
    fn run(mut self, handle: &StreamHandle) -> Result<bool, Error> {
        let stop = &handle.0.stop;
        let place = place(&self.input, self.durability.is_some());
        let result = if self.input.replays() {
            if let Input::File(file) = &self.input
                && (file.is_followed || !self.delivery.is_at_least_once())
            {
                check_regular(&file.path)?;
            }
            self.resume(&mut *open(&self.input, self.drain)?, stop)
        } else {
            let mut pushed = Pushed::open(&self.id, &self.input, self.durability.as_ref(), stop)?;
            pushed.part().into_iter().for_each(|part| handle.watch_part(part));
            let result = match &mut pushed.source {
                PushedSource::Once(source) => self.once(source, stop),
                PushedSource::Logged(source, log) => {
                    handle.watch_part(Arc::new(LogPart::of(log)));
                    self.delivery.name(log);
                    if self.delivery.is_at_least_once() {
                        // The position is the log's own.
                        source.resume(None)?;
                    }
                    self.resume(source, stop)
                }
            };
            pushed.close();
            result
        };
        result.map_err(|error| match error {
            Error::Record { topic, offset, reason, .. } => Error::SourceRecord { place: place(&topic, offset), reason },
            other => other,
        })
    }

    /// A source whose position is not kept with the results.
    fn once<T: Source + ?Sized>(&mut self, source: &mut T, stop: &Stop) -> Result<bool, Error> {
        let SourceDelivery::AtLeastOnce(sink) = &self.delivery else { unreachable!("exactly once needs a log") };
        let (errors, mut sink) = (self.dead_letter_topic.as_deref(), sink()?);
        run_source(&self.id, source, &mut self.chain, &mut *sink, errors, &self.limits, &self.metrics, stop)
    }

    fn resume<T: Resume + ?Sized>(&mut self, source: &mut T, stop: &Stop) -> Result<bool, Error> {
        let SourceBody { id, chain, limits, metrics, .. } = self;
        let errors = self.dead_letter_topic.as_deref();
        match &self.delivery {
            SourceDelivery::AtLeastOnce(_) => self.once(source, stop),
            SourceDelivery::ExactlyOnce(config) => {
                run_source_exactly_once(source, chain, config, errors, limits, metrics, stop)
            }
            SourceDelivery::Into(make, cursor) => {
                run_source_into(source, chain, &mut *make()?, (id, cursor), errors, limits, metrics, stop)
            }
        }
    }
}

impl SourceDelivery {
    fn is_at_least_once(&self) -> bool {
        matches!(self, SourceDelivery::AtLeastOnce(_))
    }

    /// Says under which names the position of a log is kept: a position in another log never applies.
    fn name(&mut self, log: &Log) {
        match self {
            SourceDelivery::AtLeastOnce(_) => {}
            SourceDelivery::ExactlyOnce(config) => {
                config.instance = Some(log.id().to_string());
                config.cursor = LogSource::cursor_name(log);
            }
            SourceDelivery::Into(_, cursor) => *cursor = LogSource::cursor_name(log),
        }
    }
}

/// A source that can be read again.
fn open(input: &Input, drain: bool) -> Result<Box<dyn Resume>, Error> {
    Ok(match input {
        Input::File(file) => Box::new(FileSource::open(file, drain)?),
        Input::Generate(input) => Box::new(GenerateSource::new(input.clone())),
        Input::Memory(input) => Box::new(MemorySource::new(input.clone())),
        _ => unreachable!("a kafka input has a worker, others are pushed to"),
    })
}

/// How a record's place is said. That of a file is a line, as an editor has it.
fn place(input: &Input, logged: bool) -> impl Fn(&str, Offset) -> String + use<> {
    let replays = input.replays();
    move |topic, offset| match (replays, logged) {
        (true, _) => format!("{topic}:{offset}"),
        (false, true) => format!("{topic}: entry {offset} of the write-ahead log"),
        (false, false) => format!("{topic}: record {offset}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chain::{Route, Values};
    use crate::spec::GenerateInput;

    #[test]
    fn a_panic_is_a_failure_of_the_stream() {
        let input = Input::Generate(GenerateInput { value: Vec::new(), interval: None, count: None, batch_size: None });
        let metrics = Arc::<Metrics>::default();
        let source = SourceBody {
            id: "made-up".to_owned(),
            input,
            durability: None,
            chain: Chain::new(Vec::new(), Arc::new(vec![Route::to("out")]), Values::Any),
            delivery: SourceDelivery::AtLeastOnce(Box::new(|| panic!("a bug in the sink"))),
            dead_letter_topic: None,
            limits: BatchLimits::default(),
            metrics: metrics.clone(),
            drain: false,
        };
        let handle = StreamHandle::new(
            "made-up".to_owned(),
            Watch::Source(metrics),
            Condition::new("made-up", String::new()),
            false,
        );
        let end = Job { body: Body::Source(Box::new(source)), handle: handle.clone() }.run();
        let Outcome::Failed(error) = end.outcome else { panic!("must fail") };
        assert!(error.to_string().starts_with("stream made-up panicked: a bug in the sink"), "{error}");
        assert!(handle.is_done());
    }
}
