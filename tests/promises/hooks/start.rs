//! A start whose coordinators are not ready, or answer late.

use wattle_broker::ApiKey::{FindCoordinator, InitProducerId, JoinGroup, OffsetFetch, SyncGroup};
use wattle_broker::{ApiKey, Code, Hook, On};

use super::{Copy, Ends, GoesOn, HASTY, LATE, Outcome, RECORDS, all};
use crate::harness::room::Room;

/// Whom the request is about.
#[derive(Clone, Copy, Debug)]
enum Of {
    Group,
    Task,
}
use Of::{Group, Task};

type Case = (ApiKey, Of, &'static str, fn(On) -> Hook, Outcome);

const DENIED: Outcome = Ends(&["W0010", "authorization failed"]);

const CASES: &[Case] = &[
    (FindCoordinator, Group, "away", |on| on.times(3).refuse(Code::CoordinatorNotAvailable), GoesOn),
    (FindCoordinator, Task, "away", |on| on.times(3).refuse(Code::CoordinatorNotAvailable), GoesOn),
    (InitProducerId, Task, "loading", |on| on.times(3).refuse(Code::CoordinatorLoadInProgress), GoesOn),
    (InitProducerId, Task, "moving", |on| on.times(3).refuse(Code::NotCoordinator), GoesOn),
    (InitProducerId, Task, "busy", |on| on.times(3).refuse(Code::ConcurrentTransactions), GoesOn),
    (InitProducerId, Task, "denied", |on| on.refuse(Code::TransactionalIdAuthorizationFailed), DENIED),
    (InitProducerId, Task, "late", |on| on.times(2).delay_answer(LATE), GoesOn),
    (InitProducerId, Task, "lost", |on| on.times(2).drop_answer(), GoesOn),
    (OffsetFetch, Group, "loading", |on| on.times(6).refuse(Code::CoordinatorLoadInProgress), GoesOn),
    (OffsetFetch, Group, "moving", |on| on.times(6).refuse(Code::NotCoordinator), GoesOn),
    (OffsetFetch, Group, "unstable", |on| on.times(6).refuse(Code::UnstableOffsetCommit), GoesOn),
    (OffsetFetch, Group, "denied", |on| on.refuse(Code::GroupAuthorizationFailed), DENIED),
    (JoinGroup, Group, "loading", |on| on.refuse(Code::CoordinatorLoadInProgress), GoesOn),
    (JoinGroup, Group, "unknown", |on| on.refuse(Code::UnknownMemberId), GoesOn),
    (SyncGroup, Group, "again", |on| on.refuse(Code::RebalanceInProgress), GoesOn),
    (SyncGroup, Group, "lost", |on| on.drop_answer(), GoesOn),
];

pub(in crate::promises) fn a_start_with_coordinators_that_are_not_ready_loses_and_doubles_nothing(room: &Room) {
    let name = |(key, of, what, ..): &Case| format!("{key:?}.{of:?}.{what}");
    all(CASES, name, |&(key, of, _, happen, outcome), name| {
        let mut copy = Copy::full(room, name);
        copy.pipeline.producer = HASTY;
        let whom = match of {
            Group => copy.name.clone(),
            Task => copy.id(),
        };
        // In scope worker the consumer's would go on behind that.
        copy.pipeline.consumer = "client.id: wattle-copy";
        // The test asks for the group's positions too.
        let hook = happen(room.broker().embedded().on(key).matching(whom).client("wattle-copy"));
        let mut process = copy.goes_on(room.run(&copy.pipeline), outcome);
        copy.wait_drained();
        process.stop_cleanly();
        copy.is_exact(0..RECORDS);
        drop(hook);
    });
}
