//! The commit itself: EndTxn refused, lost, or answered late.

use std::time::Duration;

use wattle_broker::{ApiKey, Code, On};

use super::{Copy, Outcome, Refusal, all, refused};
use crate::harness::room::Room;
use crate::harness::wait::PATIENCE;

/// What librdkafka repeats by itself goes on unnoticed. After other errors the transaction is aborted and runs again, or the lane
/// reads the committed positions behind a new fence: either is right whether the commit was done or not, and so is a restart.
const CODES: &[(Code, u64, Outcome)] = &[
    (Code::CoordinatorNotAvailable, 5, Outcome::GoesOn),
    (Code::CoordinatorLoadInProgress, 5, Outcome::GoesOn),
    (Code::NotCoordinator, 5, Outcome::GoesOn),
    (Code::ConcurrentTransactions, 5, Outcome::GoesOn),
    (Code::RequestTimedOut, 1, Outcome::GoesOn),
    (Code::UnknownServerError, 1, Outcome::GoesOn),
    (Code::InvalidProducerEpoch, 1, Outcome::StartsAgain),
    (Code::ProducerFenced, 1, Outcome::StartsAgain),
    (Code::InvalidTxnState, 1, Outcome::StartsAgain),
    (Code::InvalidProducerIdMapping, 1, Outcome::StartsAgain),
    (Code::UnknownProducerId, 1, Outcome::StartsAgain),
    (Code::TransactionalIdAuthorizationFailed, 1, Outcome::Ends(&["authorization", "commit"])),
    (Code::ClusterAuthorizationFailed, 1, Outcome::Ends(&["authorization", "commit"])),
];

fn cases() -> Vec<Refusal> {
    CODES.iter().map(|&(code, times, outcome)| Refusal { key: ApiKey::EndTxn, code, times, outcome }).collect()
}

/// The broker does not do it.
pub(in crate::promises) fn a_refused_commit_is_neither_lost_nor_doubled(room: &Room) {
    refused(room, &cases(), On::refuse);
}

/// The broker does it, and says that it did not.
pub(in crate::promises) fn a_commit_that_is_done_and_answered_with_an_error_is_neither_lost_nor_doubled(room: &Room) {
    refused(room, &cases(), On::refuse_afterwards);
}
