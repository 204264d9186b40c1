//! The commit itself: EndTxn refused, lost, or answered late.

use wattle_broker::{ApiKey, Code, Hook, On};

use super::{Copy, Ends, GoesOn, HASTY, LATE, Outcome, Refusal, Repeats, StartsAgain, all, refused};
use crate::harness::room::Room;
use crate::harness::wait::PATIENCE;

/// With the outcome where the broker has not done it, and where it has. What librdkafka repeats by itself goes unnoticed. After other
/// errors it aborts; the abort of what is committed is refused, and the positions behind a new fence tell. With a fatal error
/// they tell in both cases.
const CODES: &[(Code, u64, Outcome, Outcome)] = &[
    (Code::CoordinatorNotAvailable, 3, GoesOn, GoesOn),
    (Code::CoordinatorLoadInProgress, 5, GoesOn, GoesOn),
    (Code::NotCoordinator, 3, GoesOn, GoesOn),
    (Code::ConcurrentTransactions, 5, GoesOn, GoesOn),
    (Code::RequestTimedOut, 1, Repeats, StartsAgain),
    (Code::UnknownServerError, 1, Repeats, StartsAgain),
    (Code::InvalidProducerEpoch, 1, StartsAgain, StartsAgain),
    (Code::ProducerFenced, 1, StartsAgain, StartsAgain),
    (Code::InvalidTxnState, 1, StartsAgain, StartsAgain),
    (Code::InvalidProducerIdMapping, 1, StartsAgain, StartsAgain),
    (Code::UnknownProducerId, 1, StartsAgain, StartsAgain),
    (Code::TransactionalIdAuthorizationFailed, 1, DENIED, DENIED),
    (Code::ClusterAuthorizationFailed, 1, DENIED, DENIED),
];
const DENIED: Outcome = Ends(&["W0010", "commit", "authorization failed"]);

fn cases(done: bool) -> Vec<Refusal> {
    let outcome = |undone, afterwards| if done { afterwards } else { undone };
    CODES.iter().map(|&(code, times, a, b)| (ApiKey::EndTxn, code, times, outcome(a, b))).collect()
}

pub(in crate::promises) fn a_refused_commit_is_neither_lost_nor_doubled(room: &Room) {
    refused(room, &cases(false), |on, _, code| on.refuse(code));
}

pub(in crate::promises) fn a_commit_that_is_done_and_answered_with_an_error_is_neither_lost_nor_doubled(room: &Room) {
    refused(room, &cases(true), |on, _, code| on.refuse_afterwards(code));
}

/// What happens to the commit, how often, and the producer's properties.
type Accident = (&'static str, u64, fn(On) -> Hook, &'static str, Outcome);

/// Where the commit may have been sent twice, since its answer took too long, the lane takes a new producer, whose epoch refuses a late
/// copy. Of a connection that breaks the lane does not hear: librdkafka sends the commit again by itself.
const ACCIDENTS: &[Accident] = &[
    ("request-lost", 1, On::drop_request, "{}", GoesOn),
    ("request-lost", 3, On::drop_request, "{}", GoesOn),
    ("answer-lost", 1, On::drop_answer, "{}", GoesOn),
    ("answer-lost", 3, On::drop_answer, "{}", GoesOn),
    ("answer-late-and-awaited", 1, |on| on.delay_answer(LATE), "{}", GoesOn),
    ("answer-late", 1, |on| on.delay_answer(LATE), HASTY, StartsAgain),
    ("answer-late", 3, |on| on.delay_answer(LATE), HASTY, StartsAgain),
    ("done-late", 1, |on| on.delay(LATE), HASTY, StartsAgain),
    ("done-late", 3, |on| on.delay(LATE), HASTY, StartsAgain),
];

pub(in crate::promises) fn a_commit_that_is_lost_or_late_is_neither_lost_nor_doubled(room: &Room) {
    let name = |(what, times, ..): &Accident| format!("{what}.{times}");
    all(ACCIDENTS, name, |&(_, times, happen, producer, outcome), name| {
        let mut copy = Copy::full(room, name);
        copy.pipeline.producer = producer;
        let hook = happen(room.broker().embedded().on(ApiKey::EndTxn).matching(copy.id()).after(2).times(times));
        copy.comes_to(outcome);
        assert_eq!(hook.fired(), times, "so many met it");
    });
}

/// The transaction is over before the commit gets an answer that tells anything: it is left alone, and the positions behind a
/// new fence decide.
pub(in crate::promises) fn a_commit_without_an_answer_until_the_transactions_timeout_is_neither_lost_nor_doubled(
    room: &Room,
) {
    type Way = (&'static str, fn(On, Code) -> Hook);
    let ways: [Way; 2] = [("undone", On::refuse), ("done", On::refuse_afterwards)];
    all(
        &ways,
        |(name, _)| (*name).to_owned(),
        |(_, refuse), name| {
            let mut copy = Copy::full(room, name);
            copy.pipeline.transaction_timeout = Some("2s");
            let on = room.broker().embedded().on(ApiKey::EndTxn).matching(copy.id()).after(2).times(u64::MAX);
            let hook = refuse(on, Code::CoordinatorNotAvailable);
            let mut process = room.run(&copy.pipeline);
            process.wait_says(&["starts again with a new producer", &copy.id()], PATIENCE);
            assert!(hook.fired() > 1, "it was asked again");
            drop(hook);
            copy.wait_drained();
            process.stop_cleanly();
            copy.is_exact(0..super::RECORDS);
        },
    );
}
