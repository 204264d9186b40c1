//! The rules of epochs and ends, in virtual time.

use super::*;

const NOW: Millis = 1_000_000;
const TIMEOUT: Millis = 60_000;

fn place(topic: &str) -> TopicPartition {
    TopicPartition { topic: topic.to_owned(), partition: 0 }
}

fn position(offset: i64) -> Committed {
    Committed { offset, leader_epoch: -1, metadata: "m".to_owned(), at: NOW }
}

fn init(transactions: &mut Transactions) -> (Producer, Option<Ended>) {
    transactions.initialise("x", None, TIMEOUT, NOW).expect("it may")
}

/// An id with an open transaction on one partition and one group's position.
fn open() -> (Transactions, Producer) {
    let mut transactions = Transactions::default();
    let (producer, _) = init(&mut transactions);
    assert_eq!(transactions.add_partitions("x", producer, vec![place("t")], NOW), Ok(true));
    assert_eq!(transactions.add_group("x", producer, "g", NOW), Ok(true));
    assert_eq!(transactions.may_hold("x", producer, "g"), Ok(()));
    transactions.hold("x", "g", vec![(place("in"), position(7))]);
    (transactions, producer)
}

#[test]
fn every_id_gets_its_own_producer_and_every_start_an_epoch() {
    let mut transactions = Transactions::default();
    let idempotent = transactions.new_producer_id();
    let (first, ended) = init(&mut transactions);
    assert_eq!((first.epoch, ended), (0, None));
    assert_ne!(first.id, idempotent);
    let (second, _) = init(&mut transactions);
    assert_eq!(second, Producer { id: first.id, epoch: 1 });
    let (other, _) = transactions.initialise("y", None, TIMEOUT, NOW).expect("it may");
    assert_ne!(other.id, first.id);
}

#[test]
fn refuses_what_cannot_be() {
    let mut transactions = Transactions::default();
    let mut init = |id: &str, timeout| transactions.initialise(id, None, timeout, NOW).expect_err("it is refused");
    assert_eq!(init("", TIMEOUT), Code::InvalidRequest);
    assert_eq!(init("x", 0), Code::InvalidTransactionTimeout);
    assert_eq!(init("x", 15 * 60_000 + 1), Code::InvalidTransactionTimeout);
    let nobody = Producer { id: 0, epoch: 0 };
    assert_eq!(transactions.add_partitions("x", nobody, vec![], NOW), Err(Code::InvalidProducerIdMapping));
    assert_eq!(transactions.add_group("", nobody, "g", NOW), Err(Code::InvalidRequest));
    assert_eq!(transactions.end("x", nobody, true, NOW), Err(Code::InvalidProducerIdMapping));
}

#[test]
fn a_commit_carries_partitions_and_positions() {
    let (mut transactions, producer) = open();
    assert!(transactions.holds("g", &place("in")));
    assert!(!transactions.holds("g", &place("t")) && !transactions.holds("h", &place("in")));
    let ended = transactions.end("x", producer, true, NOW).expect("it may").expect("it was open");
    let offsets = vec![("g".to_owned(), vec![(place("in"), position(7))])];
    let wanted = Ended { id: "x".to_owned(), producer, commit: true, partitions: vec![place("t")], offsets };
    assert_eq!(ended, wanted);
    assert!(!transactions.holds("g", &place("in")));
}

#[test]
fn an_abort_carries_no_positions() {
    let (mut transactions, producer) = open();
    let ended = transactions.end("x", producer, false, NOW).expect("it may").expect("it was open");
    assert_eq!((ended.commit, ended.partitions.len(), ended.offsets.len()), (false, 1, 0));
}

#[test]
fn the_same_end_again_succeeds_and_the_other_does_not() {
    for commit in [true, false] {
        let (mut transactions, producer) = open();
        assert!(transactions.end("x", producer, commit, NOW).expect("it may").is_some());
        assert_eq!(transactions.end("x", producer, commit, NOW), Ok(None));
        assert_eq!(transactions.end("x", producer, !commit, NOW), Err(Code::InvalidTxnState));
        assert_eq!(transactions.end("x", producer, commit, NOW), Ok(None));
        init(&mut transactions);
        let producer = transactions.get("x").expect("known").producer;
        assert_eq!(transactions.end("x", producer, commit, NOW), Err(Code::InvalidTxnState));
    }
}

#[test]
fn a_new_start_fences_aborts_and_goes_one_epoch_past_the_markers() {
    let (mut transactions, old) = open();
    let (new, ended) = init(&mut transactions);
    let ended = ended.expect("it was open");
    assert_eq!((ended.commit, ended.producer), (false, Producer { id: old.id, epoch: old.epoch + 1 }));
    assert_eq!(new, Producer { id: old.id, epoch: old.epoch + 2 });
    assert!(!transactions.holds("g", &place("in")));
    assert_eq!(transactions.end("x", old, true, NOW), Err(Code::ProducerFenced));
    assert_eq!(transactions.add_partitions("x", old, vec![place("t")], NOW), Err(Code::ProducerFenced));
    assert_eq!(transactions.add_group("x", old, "g", NOW), Err(Code::ProducerFenced));
    assert_eq!(transactions.may_hold("x", old, "g"), Err(Code::InvalidProducerEpoch));
    assert_eq!(transactions.may_produce("x", old, &place("t")), Err(Code::InvalidProducerEpoch));
    assert_eq!(transactions.may_produce("x", new, &place("t")), Err(Code::InvalidTxnState));
}

#[test]
fn only_what_was_added_may_be_written() {
    let (mut transactions, producer) = open();
    assert_eq!(transactions.may_produce("x", producer, &place("t")), Ok(()));
    assert_eq!(transactions.may_produce("x", producer, &place("u")), Err(Code::InvalidTxnState));
    assert_eq!(transactions.may_hold("x", producer, "h"), Err(Code::InvalidTxnState));
    let other = Producer { id: producer.id + 1, ..producer };
    assert_eq!(transactions.may_produce("x", other, &place("t")), Err(Code::InvalidProducerIdMapping));
    assert_eq!(transactions.may_produce("y", producer, &place("t")), Err(Code::InvalidProducerIdMapping));
    assert_eq!(transactions.add_partitions("x", producer, vec![place("t")], NOW), Ok(false));
    assert_eq!(transactions.add_group("x", producer, "g", NOW), Ok(false));
    transactions.end("x", producer, true, NOW).expect("it may");
    assert_eq!(transactions.may_produce("x", producer, &place("t")), Err(Code::InvalidTxnState));
}

#[test]
fn a_known_producer_gets_its_next_epoch_once() {
    let mut transactions = Transactions::default();
    let (first, _) = init(&mut transactions);
    let mut next = |known| transactions.initialise("x", Some(known), TIMEOUT, NOW).map(|(producer, _)| producer);
    let second = next(first).expect("it is the one");
    assert_eq!(second.epoch, 1);
    assert_eq!(next(first), Ok(second), "the answer was lost");
    assert_eq!(next(second).map(|p| p.epoch), Ok(2));
    assert_eq!(next(first), Err(Code::ProducerFenced));
    assert_eq!(next(Producer { id: first.id + 1, epoch: 2 }), Err(Code::ProducerFenced));
    init(&mut transactions);
    let fenced = transactions.initialise("x", Some(second), TIMEOUT, NOW);
    assert_eq!(fenced, Err(Code::ProducerFenced), "another start came between");
}

#[test]
fn a_stranger_is_fenced_without_harm_to_the_open_transaction() {
    let (mut transactions, producer) = open();
    let stale = Producer { epoch: producer.epoch + 1, ..producer };
    assert_eq!(transactions.initialise("x", Some(stale), TIMEOUT, NOW), Err(Code::ProducerFenced));
    assert!(transactions.end("x", producer, true, NOW).expect("it may").is_some());
}

#[test]
fn used_up_epochs_give_a_new_producer_id() {
    let mut transactions = Transactions::default();
    let (first, _) = init(&mut transactions);
    let mut last = first;
    for epoch in 1..i16::MAX {
        (last, _) = init(&mut transactions);
        assert_eq!(last, Producer { id: first.id, epoch });
    }
    // The last epoch of all is left for a fence.
    transactions.add_partitions("x", last, vec![place("t")], NOW).expect("it may");
    let (new, ended) = init(&mut transactions);
    assert_eq!(ended.expect("it was open").producer, Producer { id: first.id, epoch: i16::MAX });
    assert_eq!((new.epoch, new.id > first.id), (0, true));
    assert_eq!(transactions.end("x", last, true, NOW), Err(Code::InvalidProducerIdMapping));
    let mut known = Transactions::default();
    let mut producer = init(&mut known).0;
    while producer.epoch < i16::MAX - 1 {
        producer = init(&mut known).0;
    }
    let (rotated, _) = known.initialise("x", Some(producer), TIMEOUT, NOW).expect("it is the one");
    assert_ne!(rotated.id, producer.id);
    assert_eq!(known.initialise("x", Some(producer), TIMEOUT, NOW), Ok((rotated, None)), "the answer was lost");
}

#[test]
fn an_overdue_transaction_is_aborted_and_its_producer_fenced() {
    let (mut transactions, producer) = open();
    assert_eq!(transactions.expire(NOW + TIMEOUT - 1), vec![]);
    let ended = transactions.expire(NOW + TIMEOUT);
    assert_eq!(ended.len(), 1);
    assert_eq!((ended[0].commit, ended[0].producer.epoch), (false, producer.epoch + 1));
    assert_eq!(transactions.expire(NOW + 2 * TIMEOUT), vec![]);
    assert_eq!(transactions.end("x", producer, false, NOW), Err(Code::ProducerFenced));
    assert_eq!(transactions.initialise("x", Some(producer), TIMEOUT, NOW), Err(Code::ProducerFenced));
    assert_eq!(init(&mut transactions).0.epoch, producer.epoch + 2);
}

#[test]
fn idle_ids_are_forgotten_and_their_producer_ids_are_not_given_again() {
    let mut transactions = Transactions::default();
    let (first, _) = init(&mut transactions);
    transactions.expire(NOW + REMEMBERED - 1);
    assert!(transactions.get("x").is_some());
    transactions.expire(NOW + REMEMBERED);
    assert!(transactions.get("x").is_none());
    assert_ne!(init(&mut transactions).0.id, first.id);
}

#[test]
fn a_deleted_topic_is_forgotten_by_open_transactions() {
    let (mut transactions, producer) = open();
    transactions.forget_topic("t");
    transactions.forget_topic("in");
    assert!(!transactions.holds("g", &place("in")));
    let ended = transactions.end("x", producer, true, NOW).expect("it may").expect("it was open");
    assert_eq!((ended.partitions, ended.offsets), (vec![], vec![("g".to_owned(), vec![])]));
}

#[test]
fn an_open_transaction_survives_a_restart() {
    let (transactions, producer) = open();
    let mut after = Transactions::default();
    // The clock had been moved forward before.
    after.restore(transactions.image("x").expect("known"), NOW - 1_000);
    assert!(after.holds("g", &place("in")));
    assert_eq!(after.may_produce("x", producer, &place("t")), Ok(()));
    assert_eq!(after.expire(NOW - 1_000 + TIMEOUT).len(), 1);
    assert_ne!(after.new_producer_id(), producer.id);
}

/// Whatever producers do, the images replayed are the snapshot.
#[test]
fn the_journal_replayed_is_the_snapshot() {
    for seed in 1..200_u64 {
        let mut random = seed;
        let mut pick = move |n: u64| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random % n
        };
        let (mut transactions, mut replayed) = (Transactions::default(), Transactions::default());
        let mut producers = vec![Producer { id: 0, epoch: 0 }];
        let mut now = NOW;
        for _ in 0..100 {
            let id = format!("x{}", pick(3));
            let producer = producers[usize::try_from(pick(producers.len() as u64)).expect("small")];
            match pick(6) {
                0 => {
                    let known = (pick(2) == 0).then_some(producer);
                    producers.extend(transactions.initialise(&id, known, TIMEOUT, now).map(|(producer, _)| producer));
                }
                1 => drop(transactions.add_partitions(&id, producer, vec![place("t")], now)),
                2 => drop(transactions.add_group(&id, producer, "g", now)),
                3 if transactions.may_hold(&id, producer, "g").is_ok() => {
                    transactions.hold(&id, "g", vec![(place("in"), position(3))]);
                }
                4 => drop(transactions.end(&id, producer, pick(2) == 0, now)),
                _ => {
                    now += Millis::try_from(pick(30_000)).expect("small");
                    let ended = transactions.expire(now);
                    let images = ended.iter().filter_map(|ended| transactions.image(&ended.id));
                    images.for_each(|image| replayed.restore(image, now));
                }
            }
            transactions.image(&id).into_iter().for_each(|image| replayed.restore(image, now));
            assert_eq!(transactions.snapshot(), replayed.snapshot(), "seed {seed}");
        }
    }
}
