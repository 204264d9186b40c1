//! Questions to the cluster before anything runs.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use rdkafka::admin::{AdminClient, AdminOptions, ConfigResource, NewTopic, ResourceSpecifier, TopicReplication};
use rdkafka::config::FromClientConfigAndContext;
use rdkafka::error::RDKafkaErrorCode as Code;

use super::client::{self, LogGate};
use super::ffi;
use crate::config::ClientProperties;
use crate::error::Error;
use crate::kafka;

/// Long enough for a slow cluster, short enough that a wrong address is known within 10 s.
const CONNECT: Duration = Duration::from_secs(8);

/// As many replicas as the cluster sees fit.
const DEFAULT: TopicReplication<'static> = TopicReplication::Fixed(-1);

/// A client for metadata and settings.
pub(crate) struct Admin {
    client: AdminClient<LogGate>,
    brokers: String,
}

/// What the cluster looks like.
pub(crate) struct Cluster {
    /// Partition counts by topic.
    pub(crate) topics: BTreeMap<String, i32>,
    /// Brokers that a client connects to: those of the cluster, and the addresses that it was given and that none of them has.
    pub(crate) connections: usize,
    broker: i32,
}

impl Admin {
    pub(crate) fn new(name: &str, brokers: &str, properties: &ClientProperties) -> Result<Self, Error> {
        let config = client::with_user(client::base(name, brokers), properties);
        let client = AdminClient::from_config_and_context(&config, LogGate::new(name)).map_err(client::refused)?;
        Ok(Admin { client, brokers: brokers.to_owned() })
    }

    /// All topics: asking for one by name would create it on a cluster that allows that.
    pub(crate) fn cluster(&self) -> Result<Cluster, Error> {
        let metadata = self.client.inner().fetch_metadata(None, CONNECT).map_err(|error| {
            let reason = self.client.inner().context().reason();
            let source = reason.map_or_else(|| error.into(), kafka::Error::text);
            Error::Unreachable { brokers: self.brokers.clone(), within: CONNECT, source }
        })?;
        let count =
            |topic: &rdkafka::metadata::MetadataTopic| i32::try_from(topic.partitions().len()).unwrap_or(i32::MAX);
        let brokers: BTreeSet<String> =
            metadata.brokers().iter().map(|broker| format!("{}:{}", broker.host(), broker.port())).collect();
        let given = self.brokers.split(',').map(str::trim).filter(|address| !brokers.contains(*address));
        Ok(Cluster {
            connections: brokers.len() + given.count(),
            topics: metadata.topics().iter().map(|topic| (topic.name().to_owned(), count(topic))).collect(),
            broker: metadata.brokers().first().map_or(-1, rdkafka::metadata::MetadataBroker::id),
        })
    }

    /// Whether a broker of the cluster answers in time. Cheap, whatever is in the cluster.
    pub(crate) fn answers(&self, timeout: Duration) -> Result<(), kafka::Error> {
        ffi::answers(self.client.inner().native_ptr(), timeout)
    }

    /// The id of the cluster.
    pub(crate) fn cluster_id(&self) -> Result<String, Error> {
        self.cluster()?;
        self.client.inner().fetch_cluster_id(CONNECT).ok_or_else(|| Error::BrokerSetting {
            text: format!(
                "the brokers {} do not tell the id of their cluster, by which two clusters are told apart",
                self.brokers
            ),
        })
    }

    /// The ids of topics that are there.
    pub(crate) fn topic_ids(&self, topics: &[String]) -> Result<BTreeMap<String, String>, kafka::Error> {
        ffi::topic_ids(self.client.inner().native_ptr(), topics, CONNECT)
    }

    /// What we may do with topics; those of which the broker does not tell are left out.
    pub(crate) fn topic_rights(&self, topics: &[String]) -> Result<BTreeMap<String, ffi::Rights>, kafka::Error> {
        ffi::topic_rights(self.client.inner().native_ptr(), topics, CONNECT)
    }

    /// What we may do with a group; `None` where the broker does not tell.
    pub(crate) fn group_rights(&self, group: &str) -> Result<Option<ffi::Rights>, kafka::Error> {
        ffi::group_rights(self.client.inner().native_ptr(), group, CONNECT)
    }

    /// A setting of a broker of the cluster; `None` if it does not tell.
    pub(crate) fn broker_setting(&self, cluster: &Cluster, name: &str) -> Option<i64> {
        self.setting(&ResourceSpecifier::Broker(cluster.broker), name)?.parse().ok()
    }

    /// A setting of a topic; `None` if the broker does not tell.
    pub(crate) fn topic_setting(&self, topic: &str, name: &str) -> Option<i64> {
        self.setting(&ResourceSpecifier::Topic(topic), name)?.parse().ok()
    }

    /// A topic's `cleanup.policy`; `None` if the broker does not tell.
    pub(crate) fn topic_policy(&self, topic: &str) -> Option<String> {
        self.setting(&ResourceSpecifier::Topic(topic), "cleanup.policy")
    }

    /// Creates a changelog topic where it is missing, and refuses one that could lose records: only compaction keeps the newest of
    /// every key.
    /// `partitions`: how many it needs at least; of a new one, how many it gets.
    pub(crate) fn ensure_changelog(
        &self,
        topic: &str,
        partitions: i32,
        replication: Option<i32>,
        properties: &ClientProperties,
    ) -> Result<(), Error> {
        let started = Instant::now();
        let mut count = self.cluster()?.topics.get(topic).copied();
        if count.is_none() {
            self.create_changelog(topic, partitions, replication, properties)?;
            while count.is_none_or(|count| count < partitions) && started.elapsed() < CONNECT {
                std::thread::sleep(Duration::from_millis(20));
                count = self.cluster()?.topics.get(topic).copied();
            }
        }
        let count = count.unwrap_or_default();
        if count < partitions {
            let text =
                format!("the changelog topic {topic} has {count} partitions and needs {partitions}: add partitions");
            return Err(Error::Topics { text });
        }
        match self.topic_policy(topic).as_deref() {
            Some("compact") => Ok(()),
            Some(other) => {
                let text = format!(
                    "the changelog topic {topic} has cleanup.policy={other}, which would delete what it keeps: set it to compact"
                );
                Err(Error::Topics { text })
            }
            None => {
                let text = format!(
                    "the broker does not tell the cleanup.policy of the changelog topic {topic}: allow us to describe its configuration"
                );
                Err(Error::Topics { text })
            }
        }
    }

    fn create_changelog(
        &self,
        topic: &str,
        partitions: i32,
        replication: Option<i32>,
        properties: &ClientProperties,
    ) -> Result<(), Error> {
        let what =
            format!("create the changelog topic {topic} (it may be created by hand, with cleanup.policy=compact)");
        // Segments are small since a start reads what is not compacted yet, and the last one never is.
        let mut settings = BTreeMap::from([("cleanup.policy", "compact"), ("segment.bytes", "52428800")]);
        settings.extend(properties.iter().map(|(name, value)| (name.as_str(), value.as_str())));
        let mut new = NewTopic::new(topic, partitions, replication.map_or(DEFAULT, TopicReplication::Fixed));
        new.config.extend(settings);
        if self.create_topic(what, &new)? {
            tracing::info!("created the changelog topic {topic}");
        }
        Ok(())
    }

    /// Creates a topic; false if it is there already.
    pub(super) fn create_topic(&self, what: String, topic: &NewTopic<'_>) -> Result<bool, Error> {
        let options = AdminOptions::new().operation_timeout(Some(CONNECT)).request_timeout(Some(CONNECT));
        match runtime()?.block_on(self.client.create_topics([topic], &options)).map(|mut results| results.pop()) {
            Ok(Some(Err((_, Code::TopicAlreadyExists)))) => Ok(false),
            Ok(Some(Err((_, code)))) => Err(Error::Kafka { what, source: kafka::Error::of(code) }),
            Ok(_) => Ok(true),
            Err(error) => Err(Error::Kafka { what, source: error.into() }),
        }
    }

    /// Deletes a group with its positions; one that is not there is deleted already.
    pub(crate) fn delete_group(&self, group: &str) -> Result<(), Error> {
        let what = format!("delete the positions of group {group}");
        let options = AdminOptions::new().request_timeout(Some(CONNECT));
        match runtime()?.block_on(self.client.delete_groups(&[group], &options)).map(|mut results| results.pop()) {
            Ok(Some(Err((_, Code::GroupIdNotFound)))) => Ok(()),
            Ok(Some(Err((_, code)))) => Err(Error::Kafka { what, source: kafka::Error::of(code) }),
            Ok(_) => Ok(()),
            Err(error) => Err(Error::Kafka { what, source: error.into() }),
        }
    }

    /// Deletes a topic.
    pub(crate) fn delete_topic(&self, topic: &str) -> Result<(), Error> {
        let what = format!("delete the topic {topic}");
        let options = AdminOptions::new().operation_timeout(Some(CONNECT)).request_timeout(Some(CONNECT));
        match runtime()?.block_on(self.client.delete_topics(&[topic], &options)).map(|mut results| results.pop()) {
            Ok(Some(Err((_, code)))) => Err(Error::Kafka { what, source: kafka::Error::of(code) }),
            Ok(_) => Ok(()),
            Err(error) => Err(Error::Kafka { what, source: error.into() }),
        }
    }

    /// The settings of a broker of the cluster by name; empty if it does not tell. Names without a value are there too.
    pub(crate) fn broker_settings(&self, cluster: &Cluster) -> BTreeMap<String, String> {
        let Some(config) = self.settings(&ResourceSpecifier::Broker(cluster.broker)) else { return BTreeMap::new() };
        config.entries.into_iter().map(|entry| (entry.name, entry.value.unwrap_or_default())).collect()
    }

    fn setting(&self, resource: &ResourceSpecifier<'_>, name: &str) -> Option<String> {
        self.settings(resource)?.get(name)?.value.clone()
    }

    fn settings(&self, resource: &ResourceSpecifier<'_>) -> Option<ConfigResource> {
        let options = AdminOptions::new().request_timeout(Some(CONNECT));
        let results = runtime().ok()?.block_on(self.client.describe_configs([resource], &options));
        match results.map(|mut list| list.pop()) {
            Ok(Some(Ok(config))) => Some(config),
            Ok(Some(Err(error))) => {
                tracing::debug!("the broker does not tell the settings of {resource:?}: {error}");
                None
            }
            Ok(None) => None,
            Err(error) => {
                tracing::debug!("the broker does not tell the settings of {resource:?}: {error}");
                None
            }
        }
    }
}

fn runtime() -> Result<tokio::runtime::Runtime, Error> {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    runtime.map_err(|source| Error::Io { what: "start a runtime".to_owned(), source })
}
