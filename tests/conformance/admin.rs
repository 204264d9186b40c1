//! What is asked and changed about topics, groups and the cluster.

use rdkafka::admin::{NewTopic, TopicReplication};
use rdkafka::consumer::Consumer;
use rdkafka::error::RDKafkaErrorCode as Code;

use super::client::{TIMEOUT, Writer, member, share, texts};
use crate::harness::wire;
use crate::harness::cluster::Isolation::{ReadCommitted, ReadUncommitted};
use crate::harness::cluster::{answer, options};
use crate::harness::room::Room;
use crate::harness::wait::{PATIENCE, wait_until};

/// More partitions, and another setting, which leaves the others alone.
pub(super) fn a_topic_is_grown_and_changed(room: &Room) {
    let (topic, cluster) = (room.topic_with("t", 1, &[("max.message.bytes", "5000")]), room.cluster());
    let writer = Writer::ready(&room.broker().address(), &room.name("id"));
    writer.commit_texts(&topic, &["a"]);
    cluster.add_partitions(&topic, 3);
    assert_eq!(cluster.partitions(&topic), Some(3));
    wire::set_topic_config(cluster.address(), &topic, "retention.ms", "123456");
    // The answer comes from the controller, the next question goes to the broker, which hears of it a moment later.
    wait_until("the setting", PATIENCE, || cluster.setting(&topic, "retention.ms").as_deref() == Some("123456"));
    assert_eq!(cluster.setting(&topic, "max.message.bytes").as_deref(), Some("5000"));
    cluster.wait_settled(&[&topic]);
    assert_eq!(texts(cluster, &topic, ReadCommitted), ["a"], "records stay");
}

pub(super) fn records_before_an_offset_are_deleted(room: &Room) {
    let (topic, cluster) = (room.topic("t", 1), room.cluster());
    Writer::ready(&room.broker().address(), &room.name("id")).commit_texts(&topic, &["a", "b", "c"]);
    cluster.wait_settled(&[&topic]);
    cluster.delete_records(&topic, 0, 2);
    assert_eq!(cluster.range(&topic, 0, ReadUncommitted), (2, 4));
    assert_eq!(texts(cluster, &topic, ReadCommitted), ["c"]);
}

pub(super) fn a_topic_that_is_there_is_not_created(room: &Room) {
    let (topic, cluster) = (room.topic("t", 2), room.cluster());
    let again = NewTopic::new(&topic, 1, TopicReplication::Fixed(1));
    let results = answer(cluster.admin().create_topics([&again], &options()));
    assert_eq!(results, [Err((topic.clone(), Code::TopicAlreadyExists))]);
    assert_eq!(cluster.partitions(&topic), Some(2));
}

pub(super) fn a_deleted_topic_is_gone(room: &Room) {
    let (topic, cluster) = (room.topic("t", 1), room.cluster());
    let writer = Writer::ready(&room.broker().address(), &room.name("id"));
    writer.commit_texts(&topic, &["old"]);
    cluster.wait_settled(&[&topic]);
    cluster.delete_topic(&topic);
    let again = room.topic("t", 1);
    assert_eq!(texts(cluster, &again, ReadCommitted), [""; 0], "a new one of its name is empty");
}

pub(super) fn groups_and_the_cluster_are_described(room: &Room) {
    let topic = room.topic("t", 2);
    let only = member(&room.broker().address(), &room.group(), &[]);
    only.subscribe(&[&topic]).expect("subscribed");
    share(&[(&only, 2)], |_, _, _| {});
    let groups = only.fetch_group_list(None, TIMEOUT).expect("an answer");
    let names: Vec<&str> = groups.groups().iter().map(|group| group.name()).collect();
    assert!(names.contains(&room.group().as_str()), "{names:?}");
    assert_eq!(room.cluster().group(&room.group()).members(), Some(vec![2]));
    let id = room.cluster().admin().inner().fetch_cluster_id(TIMEOUT);
    assert!(id.as_ref().is_some_and(|id| !id.is_empty()), "{id:?}");
}
