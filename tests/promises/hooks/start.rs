//! The order of a start; coordinators that are not ready, or answer late; and a group that does not rest meanwhile.

use wattle_broker::ApiKey::{Fetch, FindCoordinator, Heartbeat, InitProducerId, JoinGroup, OffsetFetch, SyncGroup};
use wattle_broker::{ApiKey, Code, Hook, On};

use super::{Copy, Ends, GoesOn, HASTY, LATE, Outcome, RECORDS, all};
use crate::harness::ledger::assert_counts_of;
use crate::harness::load::Load;
use crate::harness::process::Process;
use crate::harness::room::Room;
use crate::harness::wait::{PATIENCE, wait_until};
use crate::promises::state::start_at;

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
    (JoinGroup, Group, "denied", |on| on.refuse(Code::GroupAuthorizationFailed), DENIED),
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

/// The first request of each step is held: until it is let go, none of a later step comes.
pub(in crate::promises) fn a_task_starts_with_its_fence_then_its_positions_then_its_state_then_its_records(room: &Room) {
    let broker = room.own_broker();
    let (input, output, id) = (room.name("in"), room.name("out"), room.group());
    for topic in [&input, &output] {
        broker.cluster().create_topic(topic, 1, &[]);
    }
    let load = Load { address: broker.address(), topics: vec![input.clone()], partitions: 1 };
    let start = || start_at(room, &broker.address(), "count", &input, &output, &[]);
    let drain = |mut process: Process| {
        broker.cluster().group(&id).wait_drained(&[&input], PATIENCE);
        process.stop_cleanly();
    };
    load.send(0..100);
    drain(start());
    load.send(100..200);
    let on = |key| broker.embedded().on(key);
    let mut steps = vec![
        ("the fence", on(InitProducerId).hold()),
        ("its state", on(Fetch).matching(format!("{id}-changelog")).hold()),
        ("its records", on(Fetch).matching(&input).hold()),
    ];
    // In scope worker the process looks at its group now and then, which cannot be told from this.
    if !room.mode().is_worker() {
        steps.insert(1, ("its positions", on(OffsetFetch).matching(&id).hold()));
    }
    let process = start();
    for (index, (what, step)) in steps.iter().enumerate() {
        assert!(step.wait_fired(1, PATIENCE), "it asks for {what}");
        let early: Vec<_> = steps[index + 1..].iter().filter(|(_, later)| later.fired() > 0).map(|(what, _)| what).collect();
        assert!(early.is_empty(), "before {what}: {early:?}");
        step.release();
    }
    drain(process);
    assert_counts_of(broker.cluster(), &output, 1, 200);
}

/// The group is divided twice more while the fence of a task is held; nobody has come or gone, and the same tasks come back each time.
pub(in crate::promises) fn two_rebalances_during_a_start_lose_and_double_nothing(room: &Room) {
    let copy = Copy::full(room, "again");
    let broker = room.broker().embedded();
    let fence = broker.on(InitProducerId).matching(copy.id()).hold();
    let mut process = room.run(&copy.pipeline);
    assert!(fence.wait_fired(1, PATIENCE), "it starts");
    for round in 1..=2 {
        let synced = broker.on(SyncGroup).matching(&copy.name).observe();
        let heartbeat = broker.on(Heartbeat).matching(&copy.name).refuse(Code::RebalanceInProgress);
        assert!(heartbeat.wait_fired(1, PATIENCE) && synced.wait_fired(1, PATIENCE), "it joins again");
        wait_until("it has its tasks again", PATIENCE, || process.stderr().matches("was assigned tasks").count() > round);
    }
    fence.release();
    copy.wait_drained();
    assert!(process.is_running() && !process.says(&["starts again with a new producer"]), "{}", process.stderr());
    process.stop_cleanly();
    copy.is_exact(0..RECORDS);
}
