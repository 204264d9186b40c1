//! Topics and their settings, as the admin client sees them.

use std::time::Duration;

use rdkafka::admin::{AdminClient, AdminOptions, NewPartitions, NewTopic, ResourceSpecifier, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::RDKafkaErrorCode;
use rdkafka::types::RDKafkaErrorCode as Refused;
use tempfile::TempDir;
use wattle_broker::Broker;

use crate::support::{LONG, all_values, at, config, send, sender};

type Admin = AdminClient<DefaultClientContext>;

fn admin(broker: &Broker) -> Admin {
    config(broker).create().expect("an admin client")
}

fn run<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(future)
}

fn create(admin: &Admin, topic: &NewTopic<'_>) -> Result<String, (String, Refused)> {
    run(admin.create_topics([topic], &AdminOptions::new())).expect("answered").remove(0)
}

fn names(broker: &Broker) -> Vec<(String, usize)> {
    let consumer: BaseConsumer = config(broker).create().expect("a consumer");
    let metadata = consumer.fetch_metadata(None, LONG).expect("metadata");
    metadata.topics().iter().map(|topic| (topic.name().to_owned(), topic.partitions().len())).collect()
}

fn setting(admin: &Admin, resource: &ResourceSpecifier<'_>, name: &str) -> (Option<String>, bool) {
    let described = run(admin.describe_configs([resource], &AdminOptions::new())).expect("answered").remove(0);
    let described = described.expect("described");
    let entry = described.get(name).expect("the setting is known");
    (entry.value.clone(), entry.is_default)
}

#[test]
fn topics_are_created_grown_and_deleted_and_a_folder_remembers() {
    let folder = TempDir::new().expect("a folder");
    let broker = Broker::builder().folder(folder.path()).start().expect("a broker");
    let admin = admin(&broker);
    let topic = NewTopic::new("t", 2, TopicReplication::Fixed(1)).set("retention.ms", "1000");
    create(&admin, &topic).expect("created");
    assert_eq!(create(&admin, &topic).expect_err("it is there").1, RDKafkaErrorCode::TopicAlreadyExists);
    create(&admin, &NewTopic::new("gone", 1, TopicReplication::Fixed(-1))).expect("created");
    let grown = run(admin.create_partitions([&NewPartitions::new("t", 5)], &AdminOptions::new()));
    grown.expect("answered").remove(0).expect("grown");
    run(admin.delete_topics(&["gone"], &AdminOptions::new())).expect("answered").remove(0).expect("deleted");
    for _ in 0..2 {
        assert_eq!(names(&broker), [("t".to_owned(), 5)]);
        let of_topic = ResourceSpecifier::Topic("t");
        assert_eq!(setting(&admin, &of_topic, "retention.ms"), (Some("1000".into()), false));
        assert_eq!(setting(&admin, &of_topic, "cleanup.policy"), (Some("delete".into()), true));
        broker.restart().expect("started again");
    }
}

#[test]
fn what_cannot_be_is_refused() {
    let broker = Broker::builder().topic("a_b", 1).start().expect("a broker");
    let admin = admin(&broker);
    let fixed = TopicReplication::Fixed;
    for (topic, expected) in [
        (NewTopic::new("a b", 1, fixed(1)), Refused::InvalidTopic),
        (NewTopic::new("a.b", 1, fixed(1)), Refused::InvalidTopic),
        (NewTopic::new("c", 1, fixed(3)), Refused::InvalidReplicationFactor),
        (NewTopic::new("c", 1, fixed(1)).set("retention.ms", "soon"), Refused::InvalidConfig),
        (NewTopic::new("c", 1, fixed(1)).set("retention.msec", "1"), Refused::InvalidConfig),
    ] {
        assert_eq!(create(&admin, &topic).expect_err("refused").1, expected, "{topic:?}");
    }
    let shrunk = run(admin.create_partitions([&NewPartitions::new("a_b", 1)], &AdminOptions::new()));
    assert_eq!(shrunk.expect("answered").remove(0).expect_err("refused").1, Refused::InvalidPartitions);
    assert_eq!(names(&broker), [("a_b".to_owned(), 1)]);
}

#[test]
fn validate_only_creates_nothing() {
    let broker = Broker::builder().start().expect("a broker");
    let options = AdminOptions::new().validate_only(true);
    let topic = NewTopic::new("t", 1, TopicReplication::Fixed(1));
    run(admin(&broker).create_topics([&topic], &options)).expect("answered").remove(0).expect("it could be");
    assert_eq!(names(&broker), []);
}

#[test]
fn the_broker_tells_its_own_settings() {
    let timeout = Duration::from_secs(60);
    let broker = Broker::builder().transaction_max_timeout(timeout).start().expect("a broker");
    let (value, _) = setting(&admin(&broker), &ResourceSpecifier::Broker(1), "transaction.max.timeout.ms");
    assert_eq!(value.as_deref(), Some("60000"));
}

#[test]
fn records_are_deleted_up_to_an_offset() {
    let broker = Broker::builder().topic("t", 1).start().expect("a broker");
    let sender = sender(&broker);
    for value in ["a", "b", "c"] {
        send(&sender, "t", 0, value).expect("delivered");
    }
    run(admin(&broker).delete_records(&at(2), &AdminOptions::new())).expect("deleted");
    assert_eq!(all_values(&broker), ["c"]);
    let consumer: BaseConsumer = config(&broker).create().expect("a consumer");
    assert_eq!(consumer.fetch_watermarks("t", 0, LONG).expect("watermarks"), (2, 3));
}
