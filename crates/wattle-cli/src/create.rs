//! `wattle create`: topics, with the same partitions and settings each.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::error::KafkaError;
use wattle::{ClientProperties, Error};

use crate::args::CreateArgs;
use crate::connect::{check_properties, connect};
use crate::embedded::Embedded;
use crate::failure::Failure;
use crate::status::Status;
use crate::text::counted;

/// As long as the other commands wait for a broker.
const CONNECT: Duration = Duration::from_secs(8);

type Client = AdminClient<DefaultClientContext>;

/// Creates the topics that are not there. One that is there with another number of partitions is refused before any is created.
pub(crate) fn run(args: &CreateArgs, status: &Status, embedded: &mut Option<Embedded>) -> Result<(), Failure> {
    let settings = settings(&args.config)?;
    let (brokers, properties) = connect(&args.cluster, status, embedded)?;
    let client = client(&brokers, &properties)?;
    let there = partition_counts(&client, &brokers)?;
    let topics: BTreeSet<&str> = args.topics.iter().map(String::as_str).collect();
    check(&topics, &there, args.partitions)?;
    let with = counted(u64::from(args.partitions), "partition", "partitions");
    for topic in topics {
        if there.contains_key(topic) {
            status.note(&format!("{topic} is there already, with {with}; its settings stay as they are"));
        } else {
            create(&client, topic, args, &settings)?;
            status.note(&format!("created {topic} with {with}"));
        }
    }
    Ok(())
}

/// What `--config` says, a key once.
fn settings(given: &[(String, String)]) -> Result<BTreeMap<&str, &str>, Failure> {
    let mut settings = BTreeMap::new();
    for (key, value) in given {
        if settings.insert(key.as_str(), value.as_str()).is_some() {
            return Err(Failure::refused(format!("--config {key} is given a second time; keep one")));
        }
    }
    Ok(settings)
}

/// All topics that do not fit are told at once.
fn check(topics: &BTreeSet<&str>, there: &BTreeMap<String, u32>, partitions: u32) -> Result<(), Error> {
    let count = |topic: &&str| there.get(*topic).copied().filter(|count| *count != partitions);
    let others: Vec<_> = topics.iter().filter_map(|topic| Some(format!("{topic} with {}", count(topic)?))).collect();
    if others.is_empty() {
        return Ok(());
    }
    let text = format!(
        "topics that are there already, with another number of partitions than {partitions}: {}. Give --partitions as it is there, or other \
         names; nothing was created",
        others.join(", ")
    );
    Err(Error::Topics { text })
}

fn client(brokers: &str, properties: &ClientProperties) -> Result<Client, Error> {
    check_properties(properties)?;
    let mut config = ClientConfig::new();
    config.extend(properties.clone());
    config.set("bootstrap.servers", brokers);
    config.create().map_err(|error| failed("create a Kafka client".to_owned(), error))
}

fn partition_counts(client: &Client, brokers: &str) -> Result<BTreeMap<String, u32>, Error> {
    // All topics: asking for one by name would create it on a cluster that allows that.
    let metadata = client.inner().fetch_metadata(None, CONNECT).map_err(|error| Error::Unreachable {
        brokers: brokers.to_owned(),
        within: CONNECT,
        source: error.into(),
    })?;
    let count = |topic: &rdkafka::metadata::MetadataTopic| u32::try_from(topic.partitions().len()).unwrap_or(u32::MAX);
    Ok(metadata.topics().iter().map(|topic| (topic.name().to_owned(), count(topic))).collect())
}

fn create(client: &Client, topic: &str, args: &CreateArgs, settings: &BTreeMap<&str, &str>) -> Result<(), Error> {
    let mut what = format!("create the topic {topic} with partitions={}", args.partitions);
    let replication = args.replication_factor.inspect(|n| what.push_str(&format!(", replication-factor={n}")));
    settings.iter().for_each(|(key, value)| what.push_str(&format!(", {key}={value}")));
    // -1: as many replicas as the cluster sees fit.
    let replication = TopicReplication::Fixed(replication.map_or(-1, i32::from));
    let partitions = i32::try_from(args.partitions).unwrap_or(i32::MAX);
    let mut new = NewTopic::new(topic, partitions, replication);
    new.config.extend(settings.iter().map(|(key, value)| (*key, *value)));
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    let runtime = runtime.map_err(|source| Error::Io { what: "start a runtime".to_owned(), source })?;
    let options = AdminOptions::new().operation_timeout(Some(CONNECT)).request_timeout(Some(CONNECT));
    let results =
        runtime.block_on(client.create_topics([&new], &options)).map_err(|error| failed(what.clone(), error))?;
    match results.into_iter().next() {
        Some(Err((_, code))) => Err(failed(what, KafkaError::AdminOp(code))),
        _ => Ok(()),
    }
}

fn failed(what: String, error: KafkaError) -> Error {
    Error::Kafka { what, source: error.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_topic_with_another_number_of_partitions_is_named_at_once() {
        let there = BTreeMap::from([("a".to_owned(), 3), ("b".to_owned(), 1), ("c".to_owned(), 6)]);
        assert!(check(&BTreeSet::from(["a", "new"]), &there, 3).is_ok());
        let error = check(&BTreeSet::from(["a", "b", "c", "new"]), &there, 3).expect_err("two do not fit");
        assert!(error.to_string().contains("than 3: b with 1, c with 6."), "{error}");
        assert_eq!(error.code(), Some("W0003"));
    }

    #[test]
    fn a_setting_is_given_once() {
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        assert_eq!(settings(&[pair("a", "1"), pair("b", "")]).expect("is legal")["a"], "1");
        assert!(settings(&[pair("a", "1"), pair("a", "1")]).is_err());
    }
}
