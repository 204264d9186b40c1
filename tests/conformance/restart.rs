//! `kill -9` of the broker: what it has confirmed is there when it comes back.

use rdkafka::consumer::Consumer;
use rdkafka::producer::BaseRecord;

use super::client::{Writer, member, texts};
use crate::harness::cluster::Isolation::ReadCommitted;
use crate::harness::load::{confirmed_producer, finish, send};
use crate::harness::room::Room;

/// Committed, aborted and open transactions, positions, and a topic's setting.
pub(super) fn a_killed_broker_keeps_what_it_confirmed(room: &Room) {
    let broker = room.own_broker();
    let (cluster, address, topic, id) = (broker.cluster(), broker.address(), room.name("t"), room.name("id"));
    cluster.create_topic(&topic, 1, &[("cleanup.policy", "compact")]);
    let group = cluster.group(&room.group());
    let token = member(&address, &room.group(), &[]).group_metadata().expect("a consumer with a group has it");
    let writer = Writer::ready(&address, &id);
    let keyed = |key: &str, text: &str| writer.send(BaseRecord::to(&topic).partition(0).key(key).payload(text));
    let mut wanted = Vec::new();
    for n in 0..10 {
        let (key, values) = (format!("k{n}"), (0..100).map(|i| format!("{n}-{i}")).collect::<Vec<_>>());
        writer.begin();
        let records = values.iter().map(|text| BaseRecord::to(&topic).partition(0).key(&key[..]).payload(&text[..]));
        assert_eq!(writer.send_all(records), Ok(()));
        writer.positions(&token, &topic, &[(0, n + 1)]).expect("pending");
        writer.commit().expect("committed");
        wanted.extend(values);
    }
    writer.begin();
    assert_eq!(keyed("a", "aborted"), Ok(()));
    writer.abort().expect("aborted");
    writer.begin();
    assert_eq!(keyed("o", "open"), Ok(()));
    cluster.group(&room.group()).wait_coordinator();
    assert_eq!(texts(cluster, &topic, ReadCommitted), wanted);
    assert_eq!(group.committed(&topic), [Some(10)]);
    broker.kill();
    broker.start_again();
    assert_eq!(cluster.partitions(&topic), Some(1), "the topic is there");
    assert_eq!(texts(cluster, &topic, ReadCommitted), wanted);
    assert_eq!(group.committed(&topic), [Some(10)]);
    assert_eq!(cluster.setting(&topic, "cleanup.policy").as_deref(), Some("compact"));
    let next = Writer::ready(&address, &id);
    assert_eq!(cluster.open_transactions(&[&topic]), [""; 0], "the open one is aborted by the next of its id");
    next.begin();
    assert_eq!(next.send(BaseRecord::to(&topic).partition(0).key("z").payload("after")), Ok(()));
    next.commit().expect("committed");
    cluster.wait_settled(&[&topic]);
    wanted.push("after".into());
    assert_eq!(texts(cluster, &topic, ReadCommitted), wanted);
}

/// The producer lives on, and so does its transaction: nothing of it is lost, doubled or refused.
pub(super) fn an_open_transaction_outlives_the_broker(room: &Room) {
    let broker = room.own_broker();
    let (cluster, topic) = (broker.cluster(), room.name("t"));
    cluster.create_topic(&topic, 1, &[]);
    let writer = Writer::begun(&broker.address(), &room.name("id"));
    assert_eq!(writer.write(&topic, &["a", "b", "c"]), Ok(()));
    broker.kill();
    broker.start_again();
    assert_eq!(writer.write(&topic, &["d", "e", "f"]), Ok(()));
    assert_eq!(cluster.open_transactions(&[&topic]), [format!("{topic}/0: stable to 0 of 6")]);
    writer.commit().expect("committed");
    cluster.wait_settled(&[&topic]);
    assert_eq!(texts(cluster, &topic, ReadCommitted), ["a", "b", "c", "d", "e", "f"]);
}

/// It numbers its batches; the broker still knows the numbers.
pub(super) fn an_idempotent_producer_outlives_the_broker(room: &Room) {
    let broker = room.own_broker();
    let (cluster, topic) = (broker.cluster(), room.name("t"));
    cluster.create_topic(&topic, 1, &[]);
    let producer = confirmed_producer(&broker.address());
    for (n, text) in (1..).zip(["a", "b", "c", "d"]) {
        send(&producer, BaseRecord::<str, str>::to(&topic).partition(0).payload(text));
        if n == 2 {
            finish(&producer);
            broker.kill();
            broker.start_again();
        }
    }
    finish(&producer);
    assert_eq!(texts(cluster, &topic, ReadCommitted), ["a", "b", "c", "d"]);
}
