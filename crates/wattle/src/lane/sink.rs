//! Where outputs go that are not written to Kafka.

use crate::config::{ClientProperties, Compression};
use crate::error::Error;
use crate::kafka::Batch;
use crate::stage::Output;

/// Takes the outputs of one task or of one source. It belongs to one thread.
pub trait Sink: Send {
    /// Writes the outputs in their order and returns when every one of them is confirmed: positions are committed next.
    /// `batch` is what they were made from.
    ///
    /// # Errors
    /// Stops the worker; nothing of the batch is committed, so that a restart repeats it.
    fn deliver(&mut self, batch: &Batch, output: &Output) -> Result<(), Error>;
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

/// Writes to Kafka without a transaction. Every delivery is confirmed before positions move on.
pub struct KafkaSink {}

impl KafkaSink {
    /// Connects and checks that the topics are there.
    ///
    /// # Errors
    /// [`Error::Unreachable`], [`Error::Topics`].
    pub fn connect(_config: &KafkaSinkConfig) -> Result<Self, Error> {
        unimplemented!()
    }
}

impl Sink for KafkaSink {
    fn deliver(&mut self, _batch: &Batch, _output: &Output) -> Result<(), Error> {
        unimplemented!()
    }
}
