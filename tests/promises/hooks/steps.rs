//! The steps of a transaction before its commit: partitions, the group, and positions are refused.

use wattle_broker::ApiKey::{AddOffsetsToTxn, AddPartitionsToTxn, TxnOffsetCommit};
use wattle_broker::Code;

use super::{Ends, GoesOn, Outcome, Refusal, Repeats, StartsAgain, refused};
use crate::harness::room::Room;

const DENIED: Outcome = Ends(&["W0010", "commit", "authorization failed"]);

/// A stale token is a reason to run the batch again, since the task is still ours; a group that another instance has taken is none.
const POSITIONS: &[Refusal] = &[
    (TxnOffsetCommit, Code::IllegalGeneration, 1, Repeats),
    (TxnOffsetCommit, Code::UnknownMemberId, 1, Repeats),
    (TxnOffsetCommit, Code::RebalanceInProgress, 1, Repeats),
    (TxnOffsetCommit, Code::CoordinatorLoadInProgress, 2, GoesOn),
    (TxnOffsetCommit, Code::NotCoordinator, 2, GoesOn),
    (TxnOffsetCommit, Code::InvalidProducerEpoch, 1, StartsAgain),
    (TxnOffsetCommit, Code::InvalidTxnState, 1, StartsAgain),
    (TxnOffsetCommit, Code::FencedInstanceId, 1, Ends(&["W0010", "commit", "group.instance.id"])),
    (TxnOffsetCommit, Code::GroupAuthorizationFailed, 1, DENIED),
];

pub(in crate::promises) fn refused_positions_are_neither_lost_nor_doubled(room: &Room) {
    refused(room, POSITIONS, |on, _, code| on.refuse(code));
}

/// They would commit with the transaction if its end were taken for a success.
pub(in crate::promises) fn positions_that_are_taken_and_answered_with_an_error_are_neither_lost_nor_doubled(
    room: &Room,
) {
    refused(room, POSITIONS, |on, _, code| on.refuse_afterwards(code));
}

const REGISTRATIONS: &[Refusal] = &[
    (AddPartitionsToTxn, Code::ConcurrentTransactions, 12, GoesOn),
    (AddPartitionsToTxn, Code::CoordinatorNotAvailable, 3, GoesOn),
    (AddPartitionsToTxn, Code::CoordinatorLoadInProgress, 3, GoesOn),
    (AddPartitionsToTxn, Code::ProducerFenced, 1, StartsAgain),
    (AddPartitionsToTxn, Code::InvalidTxnState, 1, StartsAgain),
    (AddPartitionsToTxn, Code::InvalidProducerIdMapping, 1, StartsAgain),
    (AddPartitionsToTxn, Code::TransactionalIdAuthorizationFailed, 1, DENIED),
    (AddPartitionsToTxn, Code::TopicAuthorizationFailed, 1, DENIED),
    (AddOffsetsToTxn, Code::ConcurrentTransactions, 12, GoesOn),
    (AddOffsetsToTxn, Code::NotCoordinator, 3, GoesOn),
    (AddOffsetsToTxn, Code::CoordinatorLoadInProgress, 3, GoesOn),
    (AddOffsetsToTxn, Code::InvalidProducerEpoch, 1, StartsAgain),
    (AddOffsetsToTxn, Code::InvalidTxnState, 1, StartsAgain),
    (AddOffsetsToTxn, Code::InvalidProducerIdMapping, 1, StartsAgain),
    (AddOffsetsToTxn, Code::TransactionalIdAuthorizationFailed, 1, DENIED),
    (AddOffsetsToTxn, Code::GroupAuthorizationFailed, 1, DENIED),
];

pub(in crate::promises) fn a_transaction_that_does_not_get_its_partitions_or_its_group_is_neither_lost_nor_doubled(
    room: &Room,
) {
    refused(room, REGISTRATIONS, |on, _, code| on.refuse(code));
}
