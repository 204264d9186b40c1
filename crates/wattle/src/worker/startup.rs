//! What is checked against the cluster before anything runs.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::descriptors;
use super::protocol::Patience;
use crate::config::{Delivery, TransactionScope, WorkerConfig};
use crate::error::Error;
use crate::kafka::{Admin, CLIENT, Cluster, Group, Member};

/// librdkafka's default for the bytes of one record batch.
const BATCH_SIZE: i64 = 1_000_000;

/// What a worker needs to know of its cluster.
pub(crate) struct Topology {
    /// Partitions of each input topic.
    pub(crate) partitions: i32,
    /// The input topics' ids.
    pub(crate) ids: BTreeMap<String, String>,
    /// Most bytes of one record batch that every output topic accepts.
    pub(crate) batch_size: usize,
    /// How long to wait for the group.
    pub(crate) patience: Patience,
}

pub(crate) fn check(admin: &Admin, config: &WorkerConfig) -> Result<Topology, Error> {
    let cluster = admin.cluster()?;
    let patience = Patience::of(admin, &cluster, config)?;
    let outputs: Vec<String> = config.output_topics.iter().chain(&config.dead_letter_topic).cloned().collect();
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
        if config.transaction_scope == TransactionScope::Worker {
            check_members(admin, config)?;
        }
    }
    descriptors::check(config, partitions, cluster.connections)?;
    if let Some(changelog) = &config.changelog_topic {
        admin.ensure_changelog(changelog, partitions)?;
    }
    let ids = admin
        .topic_ids(&config.topics)
        .map_err(|source| Error::Kafka { what: format!("{}: ask for the topics' ids", config.name), source })?;
    Ok(Topology { partitions, ids, batch_size: batch_size(admin, &outputs), patience })
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

/// Refuses topics that are not there.
pub(crate) fn check_topics(cluster: &Cluster, brokers: &str, topics: &[String]) -> Result<(), Error> {
    let missing: BTreeSet<_> = topics.iter().filter(|topic| !cluster.topics.contains_key(*topic)).cloned().collect();
    if missing.is_empty() {
        return Ok(());
    }
    let text = format!(
        "topics that do not exist on {brokers}: {}. Create them (input topics with equal partition counts), or correct the names",
        Vec::from_iter(missing).join(", ")
    );
    Err(Error::Topics { text })
}

/// Most bytes of one record batch that all of these topics accept. A batch of one record may exceed it: the broker judges that
/// record by itself.
pub(crate) fn batch_size(admin: &Admin, topics: &[String]) -> usize {
    let limits = topics.iter().filter_map(|topic| admin.topic_setting(topic, "max.message.bytes"));
    let size = limits.chain([BATCH_SIZE]).min().unwrap_or(BATCH_SIZE).max(1);
    usize::try_from(size).expect("between 1 and a million")
}

/// In scope `worker` the group is the fence, which takes members that show the group's token with their positions. A member of another
/// product may commit its own without.
fn check_members(admin: &Admin, config: &WorkerConfig) -> Result<(), Error> {
    let group = admin.group(&config.group).map_err(|source| Error::Kafka {
        what: format!("{}: describe the group {}", config.name, config.group),
        source,
    })?;
    let text = foreign(&group, config);
    text.map_or(Ok(()), |text| Err(Error::BrokerSetting { text }))
}

/// What is wrong with the members that are there; `None` if they are all ours.
fn foreign(group: &Group, config: &WorkerConfig) -> Option<String> {
    let given = config.consumer_properties.get("client.id");
    let foreign = |member: &&Member| !member.client_id.starts_with(CLIENT) && Some(&member.client_id) != given;
    let members: Vec<String> = group
        .members
        .iter()
        .filter(foreign)
        .map(|member| format!("client id {} at {}", member.client_id, member.host.trim_start_matches('/')))
        .collect();
    (!members.is_empty()).then(|| {
        format!(
            "transaction_scope worker needs the group {} for itself, and it has other members: {}. They may commit positions without the              group's token, which fences nobody. Stop them, choose another consumer_group, or set transaction_scope: task",
            config.group,
            members.join("; ")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_of_other_products_are_named() {
        let member = |client_id: &str| Member {
            id: String::new(),
            client_id: client_id.to_owned(),
            host: "/10.0.0.7".to_owned(),
            instance_id: None,
            partitions: Vec::new(),
        };
        let delivery = Delivery::ExactlyOnce { transactional_id: "t".to_owned() };
        let mut config = WorkerConfig::new("n", "b", "orders", ["a"], delivery);
        let members = vec![member("wattle-n"), member("billing"), member("console-consumer")];
        let group = Group { stable: true, members };
        let text = foreign(&group, &config).expect("two of them");
        assert!(text.contains("orders") && text.contains("client id billing at 10.0.0.7; client id console"), "{text}");
        config.consumer_properties.insert("client.id".to_owned(), "billing".to_owned());
        assert!(!foreign(&group, &config).expect("one of them").contains("billing"));
    }
}
