//! What a cluster says about itself, for checks before a run. Nothing is joined, created or fenced by looking.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::application::MemberView;
use crate::config::ClientProperties;
use crate::error::Error;
use crate::kafka::{Admin, GroupView, Rights};

/// For a coordinator that starts or moves.
const ASK: Duration = Duration::from_secs(10);

/// Asks a cluster now and then whether it answers.
pub struct Ping(Admin);

impl Ping {
    /// Nothing connects yet. `name`: the `stream` of its log lines.
    ///
    /// # Errors
    /// [`Error::Config`] for properties that the client refuses.
    pub fn new(name: &str, brokers: &str, properties: &ClientProperties) -> Result<Self, Error> {
        Admin::new(name, brokers, properties).map(Ping)
    }

    /// One question, which any of the brokers may answer.
    ///
    /// # Errors
    /// Where none does in time.
    pub fn ask(&self, timeout: Duration) -> Result<(), Error> {
        self.0
            .answers(timeout)
            .map_err(|source| Error::Kafka { what: "ask whether a broker answers".to_owned(), source })
    }
}

/// A cluster that has answered.
pub struct ClusterView {
    admin: Admin,
    brokers: String,
    properties: ClientProperties,
    /// Its id, by which two clusters are told apart.
    pub id: String,
    /// Partition counts by topic.
    pub topics: BTreeMap<String, i32>,
    /// The longest transaction timeout that it allows (`transaction.max.timeout.ms`); `None` where it does not tell.
    pub longest_transaction: Option<Duration>,
}

impl ClusterView {
    /// Asks some of its brokers, `host:port`, separated by commas; for at most 8 s.
    ///
    /// # Errors
    /// [`Error::Unreachable`] where none answers, [`Error::Config`] for properties that the client refuses.
    pub fn connect(brokers: &str, properties: &ClientProperties) -> Result<Self, Error> {
        let admin = Admin::new("check", brokers, properties)?;
        let cluster = admin.cluster()?;
        let longest = admin.broker_setting(&cluster, "transaction.max.timeout.ms");
        let longest_transaction = longest.and_then(|millis| u64::try_from(millis).ok()).map(Duration::from_millis);
        let (id, topics) = (admin.cluster_id()?, cluster.topics);
        let (brokers, properties) = (brokers.to_owned(), properties.clone());
        Ok(ClusterView { admin, brokers, properties, id, topics, longest_transaction })
    }

    /// The members of a consumer group; `topic` is one that it reads.
    ///
    /// # Errors
    /// [`Error::Kafka`] where the coordinator refuses.
    pub fn members(&self, group: &str, topic: &str) -> Result<Vec<MemberView>, Error> {
        let view = GroupView::of("check", &self.brokers, group, topic, &self.properties, "read_uncommitted")?;
        let found =
            view.group(ASK).map_err(|source| Error::Kafka { what: format!("ask for the group {group}"), source })?;
        Ok(found.members.into_iter().map(MemberView::from).collect())
    }

    /// What the user may do with these topics; those of which the broker does not tell, or that are not there, are left out.
    ///
    /// # Errors
    /// [`Error::Kafka`] where the cluster does not answer.
    pub fn topic_rights(&self, topics: &[String]) -> Result<BTreeMap<String, Rights>, Error> {
        let there: Vec<_> = topics.iter().filter(|topic| self.topics.contains_key(*topic)).cloned().collect();
        if there.is_empty() {
            return Ok(BTreeMap::new());
        }
        self.admin
            .topic_rights(&there)
            .map_err(|source| Error::Kafka { what: "ask what may be done with its topics".into(), source })
    }

    /// What the user may do with a consumer group; `None` where the broker does not tell, as of one that does not exist.
    ///
    /// # Errors
    /// [`Error::Kafka`] where the coordinator does not answer.
    pub fn group_rights(&self, group: &str) -> Result<Option<Rights>, Error> {
        let what = || format!("ask what may be done with the group {group}");
        self.admin.group_rights(group).map_err(|source| Error::Kafka { what: what(), source })
    }

    /// A topic's `cleanup.policy`; `None` where the broker does not tell.
    #[must_use]
    pub fn cleanup_policy(&self, topic: &str) -> Option<String> {
        self.admin.topic_policy(topic)
    }
}
