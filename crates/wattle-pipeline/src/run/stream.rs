//! One planned stream → a job for a thread: a worker for a Kafka input, a source for the others.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use wattle::{
    BatchLimits, CursorName, Delivery, Error, KafkaSink, KafkaSinkConfig, Metrics, Offset, OtherCluster, Resume, Sink,
    SinkFactory, SourceConfig, Stop, Worker, WorkerConfig, run_source, run_source_exactly_once,
};

use super::file::{FileSource, check_regular};
use super::generate::GenerateSource;
use super::pushed::Pushed;
use super::sink::{DropSink, StdoutSink};
use super::{Outcome, StreamEnd, StreamHandle, Watch};
use crate::chain::{Chain, Values};
use crate::plan::StreamPlan;
use crate::spec::{Durability, Input, KafkaInput, KafkaOutput, Output, StdinFormat, Stream};

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
}

enum SourceDelivery {
    AtLeastOnce(SinkFactory),
    ExactlyOnce(Box<SourceConfig>),
}

/// Nothing connects yet.
pub(super) fn prepare(plan: StreamPlan) -> Result<Job, Error> {
    let Stream { id, input, processors, output, error_topic, durability, batch, grace_period, is_json, names: _ } =
        plan.into_stream();
    let id = id.value;
    let topic = match &output {
        Output::Kafka(output) => output.topic.value.clone(),
        Output::Stdout { .. } => "stdout".to_owned(),
        Output::Drop => "drop".to_owned(),
    };
    let values = match &input {
        _ if is_json => Values::Json,
        Input::File(_) => Values::Json,
        Input::Stdin(input) if input.format == StdinFormat::Lines => Values::Json,
        _ => Values::Any,
    };
    let chain = Chain::new(processors, topic, values);
    let (body, watch) = match input {
        Input::Kafka(input) => {
            let mut config = worker_config(&id, *input, output, error_topic.as_deref());
            config.batch = batch;
            config.grace_period = grace_period.unwrap_or(config.grace_period);
            config.dead_letter_topic = error_topic;
            let worker = Worker::new(config, chain)?;
            let monitor = worker.monitor();
            (Body::Kafka(Box::new(worker)), Watch::Kafka(monitor))
        }
        input => {
            let metrics = Arc::<Metrics>::default();
            let delivery = source_delivery(&id, &input, output, error_topic.as_deref());
            let source = SourceBody {
                id: id.clone(),
                input,
                durability,
                chain,
                delivery,
                dead_letter_topic: error_topic,
                limits: batch,
                metrics: metrics.clone(),
            };
            (Body::Source(Box::new(source)), Watch::Source(metrics))
        }
    };
    let handle = StreamHandle::new(id, watch);
    Ok(Job { body, handle })
}

fn worker_config(id: &str, input: KafkaInput, output: Output, error_topic: Option<&str>) -> WorkerConfig {
    let group_protocol = input.protocol();
    let exactly_once = match &output {
        Output::Kafka(output) if output.is_exactly_once() => {
            output.transactional_id.as_ref().map(|id| id.value.clone())
        }
        _ => None,
    };
    let is_elsewhere = matches!(&output, Output::Kafka(output) if output.is_elsewhere(&input));
    let delivery = |output| match (exactly_once, output) {
        (Some(transactional_id), Output::Kafka(output)) if is_elsewhere => {
            let transaction_timeout = output.timeout();
            let sink = sink_config(id, *output, error_topic);
            Delivery::OtherCluster(Box::new(OtherCluster { sink, transactional_id, transaction_timeout }))
        }
        (Some(transactional_id), _) => Delivery::ExactlyOnce { transactional_id },
        (None, output) => Delivery::AtLeastOnce(sink_factory(id, output, error_topic)),
    };
    let mut config = match output {
        Output::Kafka(output) => {
            let (compression, properties) = (output.compression, output.client.clone());
            let (scope, timeout) = (output.scope(), output.transaction_timeout.as_ref().map(|given| given.value));
            // Topics on another cluster are checked by the sink.
            let topics = if is_elsewhere { Vec::new() } else { output_topics(&output, error_topic) };
            let delivery = delivery(Output::Kafka(output));
            let mut config = WorkerConfig::new(id, input.brokers, input.group.value, input.topics, delivery);
            config.compression = compression;
            config.producer_properties = properties;
            config.transaction_scope = scope;
            config.transaction_timeout = timeout;
            config.output_topics = topics;
            config
        }
        output => WorkerConfig::new(id, input.brokers, input.group.value, input.topics, delivery(output)),
    };
    config.group_instance_id = input.group_instance_id.map(|given| given.value);
    config.group_protocol = group_protocol;
    config.start_from = input.start_from;
    config.consumer_properties = input.client;
    config
}

fn source_delivery(id: &str, input: &Input, output: Output, error_topic: Option<&str>) -> SourceDelivery {
    match output {
        Output::Kafka(output) if output.is_exactly_once() => {
            // The transactional id is of this stream alone; the stream's own id may be its place in the file.
            let (source, topic) = match input {
                Input::File(file) => ("file", file.name.as_str()),
                // A write-ahead log has its own name, which is in it.
                other => (other.type_name(), other.type_name()),
            };
            SourceDelivery::ExactlyOnce(Box::new(SourceConfig {
                transactional_id: output.transactional_id.as_ref().map(|id| id.value.clone()).unwrap_or_default(),
                instance: None,
                transaction_timeout: output.timeout(),
                cursor: CursorName { source: source.to_owned(), topic: topic.to_owned(), partition: 0 },
                sink: sink_config(id, *output, error_topic),
            }))
        }
        output => SourceDelivery::AtLeastOnce(sink_factory(id, output, error_topic)),
    }
}

fn output_topics(output: &KafkaOutput, error_topic: Option<&str>) -> Vec<String> {
    [Some(output.topic.value.as_str()), error_topic].into_iter().flatten().map(str::to_owned).collect()
}

fn sink_config(id: &str, output: KafkaOutput, error_topic: Option<&str>) -> KafkaSinkConfig {
    KafkaSinkConfig {
        name: id.to_owned(),
        output_topics: output_topics(&output, error_topic),
        brokers: output.brokers,
        acks: output.acks.map_or("all", |given| given.value).to_owned(),
        compression: output.compression,
        properties: output.client,
    }
}

fn sink_factory(id: &str, output: Output, error_topic: Option<&str>) -> SinkFactory {
    match output {
        Output::Kafka(output) => {
            let config = sink_config(id, *output, error_topic);
            // Connected and checked once, by the first task that needs it.
            let factory = Mutex::new(None);
            Box::new(move || {
                let mut factory = factory.lock().unwrap_or_else(PoisonError::into_inner);
                let make = match &mut *factory {
                    Some(make) => make,
                    none => none.insert(KafkaSink::factory(&config)?),
                };
                Ok(Box::new(make()?) as Box<dyn Sink>)
            })
        }
        Output::Stdout { append_newline } => Box::new(move || Ok(Box::new(StdoutSink::new(append_newline)))),
        Output::Drop => Box::new(|| Ok(Box::new(DropSink))),
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
            Body::Source(source) => source.run(&shared.stop),
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
    fn run(self, stop: &Stop) -> Result<bool, Error> {
        let SourceBody { id, input, durability, mut chain, delivery, dead_letter_topic, limits, metrics } = self;
        let place = place(&input, durability.is_some());
        let dead_letter_topic = dead_letter_topic.as_deref();
        let result = match (delivery, input) {
            (SourceDelivery::AtLeastOnce(sink), input) if input.replays() => {
                let mut sink = sink()?;
                run_source(&mut *open(&input)?, &mut chain, &mut *sink, dead_letter_topic, &limits, &metrics, stop)
            }
            (SourceDelivery::ExactlyOnce(config), input) if input.replays() => {
                if let Input::File(file) = &input {
                    check_regular(&file.path)?;
                }
                run_source_exactly_once(
                    &mut *open(&input)?,
                    &mut chain,
                    &config,
                    dead_letter_topic,
                    &limits,
                    &metrics,
                    stop,
                )
            }
            (SourceDelivery::AtLeastOnce(sink), input) => {
                let mut sink = sink()?;
                let mut pushed = Pushed::open(&id, input, durability.as_ref(), stop)?;
                let source = pushed.source();
                let result = run_source(source, &mut chain, &mut *sink, dead_letter_topic, &limits, &metrics, stop);
                pushed.close();
                result
            }
            (SourceDelivery::ExactlyOnce(mut config), input) => {
                let mut pushed = Pushed::open(&id, input, durability.as_ref(), stop)?;
                pushed.name(&mut config);
                let source = pushed.resume();
                let result =
                    run_source_exactly_once(source, &mut chain, &config, dead_letter_topic, &limits, &metrics, stop);
                pushed.close();
                result
            }
        };
        result.map_err(|error| match error {
            Error::Record { topic, offset, reason, .. } => Error::SourceRecord { place: place(&topic, offset), reason },
            other => other,
        })
    }
}

/// A source that can be read again.
fn open(input: &Input) -> Result<Box<dyn Resume>, Error> {
    Ok(match input {
        Input::File(file) => Box::new(FileSource::open(&file.path)?),
        Input::Generate(input) => Box::new(GenerateSource::new(input.clone())),
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
    use crate::spec::GenerateInput;

    #[test]
    fn a_panic_is_a_failure_of_the_stream() {
        let input = Input::Generate(GenerateInput { value: Vec::new(), interval: None, count: None, batch_size: None });
        let metrics = Arc::<Metrics>::default();
        let source = SourceBody {
            id: "made-up".to_owned(),
            input,
            durability: None,
            chain: Chain::new(Vec::new(), "out", Values::Any),
            delivery: SourceDelivery::AtLeastOnce(Box::new(|| panic!("a bug in the sink"))),
            dead_letter_topic: None,
            limits: BatchLimits::default(),
            metrics: metrics.clone(),
        };
        let handle = StreamHandle::new("made-up".to_owned(), Watch::Source(metrics));
        let end = Job { body: Body::Source(Box::new(source)), handle: handle.clone() }.run();
        let Outcome::Failed(error) = end.outcome else { panic!("must fail") };
        assert!(error.to_string().starts_with("stream made-up panicked: a bug in the sink"), "{error}");
        assert!(handle.is_done());
    }
}
