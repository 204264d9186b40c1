//! One transactional id, several producers: the latest has it.

use rdkafka::error::RDKafkaErrorCode as Code;

use super::client::{Writer, code, is_fatal, texts};
use crate::harness::cluster::Isolation::{ReadCommitted, ReadUncommitted};
use crate::harness::room::Room;

pub(super) fn a_second_producer_aborts_and_fences_the_first(room: &Room) {
    let (topic, cluster, address) = (room.topic("t", 1), room.cluster(), room.broker().address());
    let first = Writer::begun(&address, &room.name("id"));
    assert_eq!(first.write(&topic, &["zombie"]), Ok(()));
    let second = Writer::ready(&address, &room.name("id"));
    assert_eq!(cluster.open_transactions(&[&topic]), [""; 0], "aborted before the second is initialised");
    let answer = first.commit();
    assert!(is_fatal(&answer), "{answer:?}");
    let code = code(answer);
    assert!(matches!(code, Code::Fenced | Code::InvalidProducerEpoch | Code::ProducerFenced), "{code:?}");
    second.commit_texts(&topic, &["ok"]);
    cluster.wait_settled(&[&topic]);
    assert_eq!(texts(cluster, &topic, ReadCommitted), ["ok"]);
}

pub(super) fn a_fenced_producer_can_neither_write_nor_abort(room: &Room) {
    let (topic, cluster, address) = (room.topic("t", 1), room.cluster(), room.broker().address());
    let first = Writer::begun(&address, &room.name("id"));
    assert_eq!(first.write(&topic, &["before"]), Ok(()));
    let second = Writer::begun(&address, &room.name("id"));
    let refusal = first.write(&topic, &["after"]).expect_err("a zombie writes nothing");
    assert!(matches!(refusal, Code::Fenced | Code::Fatal | Code::InvalidProducerEpoch | Code::PurgeQueue), "{refusal:?}");
    assert_eq!(second.write(&topic, &["ok"]), Ok(()));
    let answer = first.abort();
    let (stable, end) = (cluster.ends(&topic, ReadCommitted), cluster.ends(&topic, ReadUncommitted));
    assert!(stable < end, "a zombie ends nothing: stable to {stable:?} of {end:?}; it was told {answer:?}");
    second.commit().expect("committed");
    cluster.wait_settled(&[&topic]);
    assert_eq!(texts(cluster, &topic, ReadCommitted), ["ok"]);
    assert_eq!(texts(cluster, &topic, ReadUncommitted), ["before", "ok"]);
}

/// Five producers, each left alone with a transaction open.
pub(super) fn abandoned_generations_leave_nothing_visible(room: &Room) {
    let (topic, cluster, address) = (room.topic("t", 1), room.cluster(), room.broker().address());
    let generations = ["g0", "g1", "g2", "g3", "g4"];
    let abandoned = generations.map(|text| {
        let writer = Writer::begun(&address, &room.name("id"));
        assert_eq!(writer.write(&topic, &[text]), Ok(()));
        writer
    });
    Writer::ready(&address, &room.name("id")).commit_texts(&topic, &["last"]);
    cluster.wait_settled(&[&topic]);
    assert_eq!(texts(cluster, &topic, ReadCommitted), ["last"]);
    assert_eq!(texts(cluster, &topic, ReadUncommitted), [&generations[..], &["last"]].concat());
    drop(abandoned);
}
