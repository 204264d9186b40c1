//! Nobody waits for ever for a producer that is gone.

use super::client::{Writer, texts};
use crate::harness::cluster::Isolation::{ReadCommitted, ReadUncommitted};
use crate::harness::room::Room;
use crate::harness::wait::{PATIENCE, wait_until};

pub(super) fn a_transaction_that_outlives_its_timeout_is_aborted(room: &Room) {
    let (topic, cluster, address) = (room.topic("t", 1), room.cluster(), room.broker().address());
    let late = Writer::new(&address, &room.name("id"), &[("transaction.timeout.ms", "3000")]);
    late.init().expect("initialised");
    late.begin();
    assert_eq!(late.write(&topic, &["late"]), Ok(()));
    assert_eq!(cluster.open_transactions(&[&topic]).len(), 1, "it is open");
    wait_until("the coordinator aborts it", PATIENCE, || cluster.open_transactions(&[&topic]).is_empty());
    assert!(late.commit().is_err(), "a commit after that is refused");
    assert_eq!(texts(cluster, &topic, ReadCommitted), [""; 0]);
    Writer::ready(&address, &room.name("id")).commit_texts(&topic, &["ok"]);
    cluster.wait_settled(&[&topic]);
    assert_eq!(texts(cluster, &topic, ReadCommitted), ["ok"], "the id is of use again");
    assert_eq!(texts(cluster, &topic, ReadUncommitted), ["late", "ok"]);
}
