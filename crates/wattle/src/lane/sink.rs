//! Where outputs go when there is no transaction: to Kafka, or to a sink of the caller's.

use std::sync::Arc;
use std::time::Duration;

use super::refusal::refusal;
use crate::config::{ClientProperties, Compression};
use crate::error::Error;
use crate::kafka::{Admin, Batch, Producer, ProducerConfig};
use crate::stage::Output;
use crate::worker::{Limits, Stop, check_topics};

/// Takes the outputs of one task or of one source. It belongs to one thread.
pub trait Sink: Send {
    /// Writes the outputs in their order and returns true when every one of them is confirmed: positions are committed next.
    /// `batch` is what they were made from. A sink that tries again gives up when `stop` is given: false, and nothing of the batch is
    /// committed here.
    ///
    /// # Errors
    /// Stops the worker; nothing of the batch is committed, so that a restart repeats it.
    fn deliver(&mut self, batch: &Batch, output: &Output, stop: &Stop) -> Result<bool, Error>;
}

/// What a [`KafkaSink`] is told.
#[derive(Clone, Debug)]
pub struct KafkaSinkConfig {
    /// A short name for logs.
    pub name: String,
    /// Addresses of some brokers of the cluster, `host:port`, separated by commas.
    pub brokers: String,
    /// Topics that outputs go to, as far as they are known: checked by [`KafkaSink::connect`].
    pub output_topics: Vec<String>,
    /// librdkafka's `acks`: `0`, `1` or `all`. Below `all` a confirmed record can be lost with its broker.
    pub acks: String,
    /// Compression of what is written.
    pub compression: Compression,
    /// Further producer properties.
    pub properties: ClientProperties,
}

/// Writes to Kafka without a transaction. Every delivery is confirmed before positions move on; what a broker does not take in
/// time stops the worker.
pub struct KafkaSink {
    config: ProducerConfig,
    admin: Arc<Admin>,
    /// None after a failure: what is under way then must not be taken for what is sent next.
    producer: Option<Producer>,
}

/// librdkafka gives a record up after `message.timeout.ms`, 5 minutes by default; this is only for the case that it does not.
const DELIVER: Duration = Duration::from_secs(24 * 60 * 60);

impl KafkaSink {
    /// Connects and checks that the topics are there.
    ///
    /// # Errors
    /// [`Error::Unreachable`], [`Error::Topics`], and [`Error::Config`] for properties that the client refuses.
    pub fn connect(config: &KafkaSinkConfig) -> Result<Self, Error> {
        Self::factory(config)?()
    }

    /// Connects and checks once, for any number of sinks.
    ///
    /// # Errors
    /// As [`KafkaSink::connect`].
    pub fn factory(config: &KafkaSinkConfig) -> Result<impl Fn() -> Result<Self, Error> + Send + Sync + use<>, Error> {
        let admin = Arc::new(Admin::new(&config.name, &config.brokers, &config.properties)?);
        check_topics(&admin.cluster()?, &config.brokers, &config.output_topics)?;
        let producer = ProducerConfig {
            name: config.name.clone(),
            brokers: config.brokers.clone(),
            acks: config.acks.clone(),
            compression: config.compression,
            properties: config.properties.clone(),
            batch_size: Limits::of(&admin, &config.output_topics).batch_size,
            transaction: None,
        };
        Ok(move || {
            let config = producer.clone();
            Ok(KafkaSink { admin: admin.clone(), producer: Some(Producer::new(&config)?), config })
        })
    }
}

impl KafkaSink {
    /// Writes dead letters as [`Sink::deliver`] does. One that is too large for its topic goes without its value.
    ///
    /// # Errors
    /// As those of [`Sink::deliver`].
    pub fn deliver_letters(&mut self, batch: &Batch, mut letters: Output, stop: &Stop) -> Result<bool, Error> {
        loop {
            match self.deliver(batch, &letters, stop) {
                Err(Error::Refused { text, oversized, alone_above }) => {
                    // What else was refused stays.
                    if oversized.is_empty() || !oversized.iter().all(|(index, _)| letters.shorten(*index)) {
                        return Err(Error::Refused { text, oversized: Vec::new(), alone_above });
                    }
                }
                other => return other,
            }
        }
    }
}

impl Sink for KafkaSink {
    fn deliver(&mut self, batch: &Batch, output: &Output, _stop: &Stop) -> Result<bool, Error> {
        let mut producer = match self.producer.take() {
            Some(producer) => producer,
            None => Producer::new(&self.config)?,
        };
        let Err(failure) = producer.deliver(output, DELIVER) else {
            self.producer = Some(producer);
            return Ok(true);
        };
        let limit = |topic: &str| self.admin.topic_setting(topic, "max.message.bytes");
        // What it was asked to send before must not be taken for what it is asked to send next.
        let is_done = producer.is_idle() && !failure.refused.is_empty();
        self.producer = is_done.then_some(producer);
        Err(refusal(&failure, output, batch, limit)
            .unwrap_or_else(|| Error::Kafka { what: format!("{}: deliver", self.config.name), source: failure.error }))
    }
}
