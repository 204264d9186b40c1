//! What is checked against the cluster before anything runs.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::time::Duration;

use super::descriptors;
use super::protocol::Patience;
use crate::config::{Delivery, WorkerConfig};
use crate::error::Error;
use crate::kafka::{Admin, Cluster, GroupView, Position};
use crate::state::StateFolder;

/// librdkafka's default for the bytes of one record batch.
const BATCH_SIZE: usize = 1_000_000;
/// For a coordinator that starts or moves.
pub(super) const COORDINATOR: Duration = Duration::from_secs(20);
/// Kafka's default.
const DELETE_RETENTION: Duration = Duration::from_secs(24 * 3600);

/// What a worker needs to know of its cluster.
pub(crate) struct Topology {
    /// Partitions of each input topic.
    pub(crate) partitions: i32,
    /// The ids of the input topics and the changelog.
    pub(crate) ids: BTreeMap<String, String>,
    /// What the topics that are written to accept.
    pub(crate) limits: Limits,
    /// Where the stage's state is kept, if it keeps some.
    pub(crate) changelog: Option<ChangelogFacts>,
    /// How long to wait for the group.
    pub(crate) patience: Patience,
}

/// What a worker needs to know of its changelog topic.
pub(crate) struct ChangelogFacts {
    /// Empty where the brokers know no ids of topics.
    pub(crate) id: String,
    /// Compaction may remove a delete that is older than this.
    pub(crate) delete_retention: Duration,
}

impl ChangelogFacts {
    /// `ids`: those of topics.
    pub(crate) fn of(admin: &Admin, topic: &str, ids: &BTreeMap<String, String>) -> Self {
        ChangelogFacts {
            id: ids.get(topic).cloned().unwrap_or_default(),
            delete_retention: admin.topic_setting(topic, "delete.retention.ms").map_or(DELETE_RETENTION, millis),
        }
    }
}

/// The folder for states on disk, if the configuration has one: before anything connects, since another process may have it.
pub(super) fn state_folder(config: &WorkerConfig) -> Result<Option<StateFolder>, Error> {
    config.state_dir.as_deref().map(|path| StateFolder::open(path, &config.name)).transpose()
}

/// Which cluster the outputs are on is known now.
pub(super) fn find_cluster(admin: &Admin, config: &mut WorkerConfig) -> Result<(), Error> {
    let Delivery::OtherCluster(outputs) = &config.delivery else { return Ok(()) };
    config.delivery = if let Some(sinks) = outputs.connect(admin, &config.topics)? {
        Delivery::TransactionalSink(sinks)
    } else {
        let (stream, brokers) = (&config.name, &outputs.sink.brokers);
        tracing::info!(%stream, "{brokers} are brokers of the inputs' cluster: the group's positions commit in the transactions");
        config.output_topics.clone_from(&outputs.sink.output_topics);
        Delivery::ExactlyOnce { transactional_id: outputs.transactional_id.clone() }
    };
    Ok(())
}

pub(crate) fn check(admin: &Admin, config: &WorkerConfig) -> Result<Topology, Error> {
    let cluster = admin.cluster()?;
    let patience = Patience::of(admin, &cluster, config)?;
    // A sink knows which cluster its topics are on.
    let dead_letters =
        config.dead_letter_topic.iter().filter(|_| matches!(config.delivery, Delivery::ExactlyOnce { .. }));
    let outputs: Vec<String> = config.output_topics.iter().chain(dead_letters).cloned().collect();
    let all: Vec<String> = config.topics.iter().chain(&outputs).cloned().collect();
    check_topics(&cluster, &config.brokers, &all)?;
    let counts: Vec<_> = config.topics.iter().map(|topic| (topic, cluster.topics[topic])).collect();
    let partitions = counts[0].1;
    if counts.iter().any(|(_, count)| *count != partitions) {
        let list: Vec<_> = counts.iter().map(|(topic, count)| format!("{topic} has {count}")).collect();
        let text = format!(
            "input topics need equal partition counts, since partition n of all of them makes task n: {}",
            list.join(", ")
        );
        return Err(Error::Topics { text });
    }
    if matches!(config.delivery, Delivery::ExactlyOnce { .. }) {
        check_transaction_timeout(admin, &cluster, config.transaction_timeout())?;
    }
    descriptors::check(config, partitions, cluster.connections)?;
    if let Some(changelog) = &config.changelog_topic {
        check_count(&cluster, changelog, partitions)?;
        if !cluster.topics.contains_key(changelog) {
            refuse_positions_without_state(admin, config, changelog, partitions)?;
        }
        let (replication, properties) = (config.changelog_replication, &config.changelog_properties);
        admin.ensure_changelog(changelog, partitions, replication, properties)?;
    }
    let watched: Vec<String> = config.topics.iter().chain(&config.changelog_topic).cloned().collect();
    let ids = admin
        .topic_ids(&watched)
        .map_err(|source| Error::Kafka { what: format!("{}: ask for the topics' ids", config.name), source })?;
    let changelog = config.changelog_topic.as_ref().map(|topic| ChangelogFacts::of(admin, topic, &ids));
    let written: Vec<String> = outputs.into_iter().chain(config.changelog_topic.clone()).collect();
    Ok(Topology { partitions, ids, limits: Limits::of(admin, &written), changelog, patience })
}

fn millis(millis: i64) -> Duration {
    Duration::from_millis(u64::try_from(millis).unwrap_or_default())
}

/// Refuses a transaction timeout that the broker does not allow.
pub(crate) fn check_transaction_timeout(admin: &Admin, cluster: &Cluster, timeout: Duration) -> Result<(), Error> {
    let ours = i64::try_from(timeout.as_millis()).unwrap_or(i64::MAX);
    let max = admin.broker_setting(cluster, "transaction.max.timeout.ms");
    let Some(max) = max.filter(|max| ours > *max) else { return Ok(()) };
    let text = format!(
        "transaction_timeout is {ours} ms, and the broker allows at most {max} ms (transaction.max.timeout.ms): lower the one, or raise \
         the other"
    );
    Err(Error::BrokerSetting { text })
}

/// Refuses a changelog topic whose partitions are not those of the input.
fn check_count(cluster: &Cluster, changelog: &str, partitions: i32) -> Result<(), Error> {
    match cluster.topics.get(changelog) {
        Some(count) if *count != partitions => Err(uneven(changelog, *count, partitions)),
        _ => Ok(()),
    }
}

/// A changelog is created where nothing was processed yet. Positions without one mean that it was deleted: the states would begin empty in the
/// middle of their records.
fn refuse_positions_without_state(
    admin: &Admin,
    config: &WorkerConfig,
    changelog: &str,
    partitions: i32,
) -> Result<(), Error> {
    let committed = GroupView::new(config)?.all_committed(COORDINATOR).map_err(|source| Error::Kafka {
        what: format!("{}: ask for the positions of group {}", config.name, config.group),
        source,
    })?;
    let Some(one) = committed.into_iter().next() else { return Ok(()) };
    // Of two processes that start at once the other one has created it, and committed, since we looked.
    if admin.cluster()?.topics.contains_key(changelog) {
        return Ok(());
    }
    Err(Error::PositionsWithoutState {
        group: config.group.clone(),
        changelog: changelog.to_owned(),
        partitions,
        topic: one.topic,
        partition: one.partition,
        position: Position(one.position),
    })
}

/// What is wrong with so many partitions: a key's records would be in another one than its state. `inputs`: how many those have.
pub(super) fn uneven(changelog: &str, count: i32, inputs: impl Display) -> Error {
    let text = format!(
        "the changelog topic {changelog} has {count} partitions and the input topics {inputs}, while partition n of the one is the state \
         of partition n of the others, and with another number of partitions most keys move to another one. A topic never gets fewer: feed the \
         application from a topic with {count} partitions (a stream can copy into it), or, where the input still has all its records, begin anew: \
         under another application_id, or with  wattle reset  (it shows what it would delete, and deletes with --execute)"
    );
    Error::Topics { text }
}

/// Refuses topics that are not there.
pub(crate) fn check_topics(cluster: &Cluster, brokers: &str, topics: &[String]) -> Result<(), Error> {
    let missing: BTreeSet<_> = topics.iter().filter(|topic| !cluster.topics.contains_key(*topic)).cloned().collect();
    if missing.is_empty() {
        return Ok(());
    }
    let text = format!(
        "topics that do not exist on {brokers}: {}. Create them (wattle create; input topics with equal partition counts), or correct the names",
        Vec::from_iter(missing).join(", ")
    );
    Err(Error::Topics { text })
}

/// What topics accept, by their `max.message.bytes`.
#[derive(Debug)]
pub(crate) struct Limits {
    /// Most bytes of one record batch that all of them accept. A batch of one record may exceed it: the broker judges that record by
    /// itself.
    pub(crate) batch_size: usize,
    /// Most bytes of a record, for each.
    pub(crate) record: BTreeMap<String, usize>,
}

impl Limits {
    pub(crate) fn of(admin: &Admin, topics: &[String]) -> Self {
        let limit = |topic: &String| {
            let limit = admin.topic_setting(topic, "max.message.bytes")?;
            Some((topic.clone(), usize::try_from(limit).unwrap_or_default()))
        };
        let record: BTreeMap<String, usize> = topics.iter().filter_map(limit).collect();
        // A broker that compresses anew what it gets judges that, which can be a little longer.
        let batch_size = record.values().map(|limit| limit - limit / 64).chain([BATCH_SIZE]).min();
        let batch_size = batch_size.unwrap_or(BATCH_SIZE).max(1);
        Limits { batch_size, record }
    }
}
