//! The cluster that outputs go to with the cursor of a source that is not in it.

use std::time::Duration;

use crate::config::ClientProperties;
use crate::error::Error;
use crate::kafka::{Admin, Batch, Changelog, Failure, Producer, ProducerConfig};
use crate::lane::{KafkaSinkConfig, check_sizes, refusal};
use crate::stage::Output;
use crate::worker::{Limits, check_topics, check_transaction_timeout};

/// Connected, with its topics and settings checked. Nothing is fenced by that.
pub(crate) struct Target {
    /// Holds the cursors.
    pub(crate) changelog: Changelog,
    pub(crate) timeout: Duration,
    admin: Admin,
    producer: ProducerConfig,
    limits: Limits,
}

impl Target {
    /// `partitions`: how many the changelog `{transactional_id}-changelog` needs at least, one for each task. It is created where it is missing.
    pub(crate) fn connect(
        sink: &KafkaSinkConfig,
        transactional_id: &str,
        timeout: Duration,
        partitions: i32,
    ) -> Result<Self, Error> {
        let admin = Admin::new(&sink.name, &sink.brokers, &sink.properties)?;
        let cluster = admin.cluster()?;
        check_topics(&cluster, &sink.brokers, &sink.output_topics)?;
        check_transaction_timeout(&admin, &cluster, timeout)?;
        let changelog = Changelog {
            name: sink.name.clone(),
            brokers: sink.brokers.clone(),
            properties: sink.properties.clone(),
            topic: format!("{transactional_id}-changelog"),
        };
        admin.ensure_changelog(&changelog.topic, partitions, None, &ClientProperties::new())?;
        let limits = Limits::of(&admin, &sink.output_topics);
        let producer = ProducerConfig {
            name: sink.name.clone(),
            brokers: sink.brokers.clone(),
            acks: sink.acks.clone(),
            compression: sink.compression,
            properties: sink.properties.clone(),
            batch_size: limits.batch_size,
            transaction: None,
        };
        Ok(Target { changelog, timeout, admin, producer, limits })
    }

    /// Refuses a task without a partition of the changelog: its inputs have grown, and the changelog has not.
    pub(crate) fn check_partition(&self, task: i32) -> Result<(), Error> {
        let count = self.admin.cluster()?.topics.get(&self.changelog.topic).copied().unwrap_or_default();
        if task < count {
            return Ok(());
        }
        let topic = &self.changelog.topic;
        let text = format!(
            "the topic {topic} has {count} partitions, and partition {task} of the input has its position in partition {task} of it: add partitions"
        );
        Err(Error::Topics { text })
    }

    /// A producer that has not fenced yet.
    pub(crate) fn producer(&self, transactional_id: &str) -> Result<Producer, Error> {
        let transaction = Some((transactional_id.to_owned(), self.timeout));
        Producer::new(&ProducerConfig { transaction, ..self.producer.clone() })
    }

    /// Refuses outputs that are known to be too large before they are sent.
    pub(crate) fn check_sizes(&self, output: &Output, batch: &Batch) -> Result<(), Error> {
        check_sizes(output, batch, self.producer.compression, None, &self.limits)
    }

    /// A failure for good, in an operator's words.
    pub(crate) fn explain(&self, transactional_id: &str, failure: Failure, output: &Output, batch: &Batch) -> Error {
        let limit = |topic: &str| self.admin.topic_setting(topic, "max.message.bytes");
        refusal(&failure, output, batch, limit)
            .unwrap_or_else(|| Error::Kafka { what: format!("{transactional_id}: commit"), source: failure.error })
    }
}
