//! The requests of members, as they come and go over the wire.

use std::sync::Arc;
use std::thread;

use bytes::{Bytes, BytesMut};
use kafka_protocol::messages::join_group_request::JoinGroupRequestProtocol;
use kafka_protocol::messages::leave_group_request::MemberIdentity;
use kafka_protocol::messages::sync_group_request::SyncGroupRequestAssignment;
use kafka_protocol::protocol::Encodable;

use crate::clock::Clock;
use crate::core::Settings;
use crate::recovery::recover;

use super::*;

fn core() -> Arc<Core> {
    let (state, _) = recover(None, 0).expect("memory has no errors");
    Arc::new(Core::new(state, Arc::new(Clock::default()), Settings { auto_create: None, waits: true }))
}

fn client() -> Client {
    Client { id: "client".to_owned(), host: "/127.0.0.1".to_owned() }
}

fn group() -> GroupId {
    GroupId("g".into())
}

fn encodes(answer: &impl Encodable, version: i16) {
    answer.encode(&mut BytesMut::new(), version).unwrap_or_else(|e| panic!("version {version}: {e}"));
}

fn versions(key: ApiKey) -> std::ops::RangeInclusive<i16> {
    let (_, first, last) = *APIS.iter().find(|(offered, _, _)| *offered == key).expect("it is offered");
    first..=last
}

fn join(core: &Core, member: &str, version: i16) -> JoinGroupResponse {
    let protocol =
        JoinGroupRequestProtocol::default().with_name("range".into()).with_metadata(Bytes::from_static(b"topics"));
    let request = JoinGroupRequest::default()
        .with_group_id(group())
        .with_member_id(member.to_owned().into())
        .with_session_timeout_ms(10_000)
        .with_rebalance_timeout_ms(60_000)
        .with_protocol_type("consumer".into())
        .with_protocols(vec![protocol]);
    let answer = join_group(core, request, version, &client()).expect("it is answered");
    encodes(&answer, version);
    answer
}

/// Joins as a newcomer does, with the id that it is told.
fn enter(core: &Core, version: i16) -> JoinGroupResponse {
    let answer = join(core, "", version);
    if version < 4 {
        return answer;
    }
    assert_eq!(answer.error_code, Code::MemberIdRequired.code());
    join(core, &answer.member_id, version)
}

fn sync(core: &Core, member: &JoinGroupResponse, assignments: &[(&StrBytes, &'static str)], version: i16) -> Bytes {
    let assignment = |(member, what): &(&StrBytes, &'static str)| {
        SyncGroupRequestAssignment::default().with_member_id((*member).clone()).with_assignment(Bytes::from(*what))
    };
    let request = SyncGroupRequest::default()
        .with_group_id(group())
        .with_generation_id(member.generation_id)
        .with_member_id(member.member_id.clone())
        .with_assignments(assignments.iter().map(assignment).collect());
    let answer = sync_group(core, request, version, &client()).expect("it is answered");
    encodes(&answer, version);
    assert_eq!(answer.error_code, 0);
    answer.assignment
}

fn beat(core: &Core, member: &JoinGroupResponse) -> i16 {
    let request = HeartbeatRequest::default()
        .with_group_id(group())
        .with_generation_id(member.generation_id)
        .with_member_id(member.member_id.clone());
    heartbeat(core, request, 4, &client()).expect("it is answered").error_code
}

fn leave(core: &Core, member: &JoinGroupResponse, version: i16) -> i16 {
    let request = LeaveGroupRequest::default().with_group_id(group());
    let request = if version < 3 {
        request.with_member_id(member.member_id.clone())
    } else {
        request.with_members(vec![MemberIdentity::default().with_member_id(member.member_id.clone())])
    };
    let answer = leave_group(core, request, version, &client()).expect("it is answered");
    encodes(&answer, version);
    answer.members.first().map_or(answer.error_code, |member| member.error_code)
}

#[test]
fn a_member_comes_and_goes_in_every_version() {
    for version in versions(ApiKey::JoinGroup) {
        let core = core();
        let member = enter(&core, version);
        assert_eq!((member.error_code, member.generation_id, member.members.len()), (0, 1, 1), "version {version}");
        let sync_version = version.min(5);
        assert_eq!(sync(&core, &member, &[(&member.member_id, "all")], sync_version), "all");
        assert_eq!(beat(&core, &member), 0);
        let leave_version = version.min(5);
        assert_eq!(leave(&core, &member, leave_version), 0);
        assert_eq!(leave(&core, &member, leave_version), Code::UnknownMemberId.code());
        assert_eq!(beat(&core, &member), Code::UnknownMemberId.code());
        encodes(&not_joined(Refusal { code: Code::UnknownMemberId, member_id: String::new() }, version), version);
    }
}

#[test]
fn two_members_wait_for_each_other() {
    let core = core();
    let first = enter(&core, 9);
    sync(&core, &first, &[(&first.member_id, "all")], 5);
    let second = {
        let core = Arc::clone(&core);
        thread::spawn(move || enter(&core, 9))
    };
    // The newcomer's id, and then its join, begin the rebalance: the first hears of it by its heartbeat.
    while beat(&core, &first) != Code::RebalanceInProgress.code() {
        thread::yield_now();
    }
    let first = join(&core, &first.member_id, 9);
    let second = second.join().expect("it is in");
    assert_eq!((first.generation_id, second.generation_id), (2, 2));
    let follower = {
        let (core, second) = (Arc::clone(&core), second.clone());
        thread::spawn(move || sync(&core, &second, &[], 5))
    };
    assert_eq!(sync(&core, &first, &[(&first.member_id, "a"), (&second.member_id, "b")], 5), "a");
    assert_eq!(follower.join().expect("it is assigned"), "b");
}

#[test]
fn a_rebalance_ends_on_time_although_a_member_is_silent() {
    let core = core();
    let first = enter(&core, 9);
    sync(&core, &first, &[(&first.member_id, "all")], 5);
    let second = {
        let core = Arc::clone(&core);
        thread::spawn(move || enter(&core, 9))
    };
    while beat(&core, &first) != Code::RebalanceInProgress.code() {
        thread::yield_now();
    }
    core.clock.advance(Duration::from_secs(60));
    core.groups_changed.notify_all();
    assert_eq!(second.join().expect("it is in").members.len(), 1);
    assert_eq!(beat(&core, &first), Code::UnknownMemberId.code());
}

#[test]
fn who_waits_is_dropped_when_the_broker_stops() {
    let core = core();
    let first = enter(&core, 9);
    sync(&core, &first, &[(&first.member_id, "all")], 5);
    let told = join(&core, "", 9).member_id;
    let waiting = {
        let core = Arc::clone(&core);
        thread::spawn(move || {
            let protocol = JoinGroupRequestProtocol::default().with_name("range".into());
            let request = JoinGroupRequest::default()
                .with_group_id(group())
                .with_member_id(told)
                .with_session_timeout_ms(10_000)
                .with_rebalance_timeout_ms(60_000)
                .with_protocol_type("consumer".into())
                .with_protocols(vec![protocol]);
            join_group(&core, request, 9, &client()).is_err()
        })
    };
    while beat(&core, &first) != Code::RebalanceInProgress.code() {
        thread::yield_now();
    }
    core.stop();
    assert!(waiting.join().expect("it ends"));
}

#[test]
fn tools_see_and_delete_groups_in_every_version() {
    let core = core();
    let member = enter(&core, 9);
    sync(&core, &member, &[(&member.member_id, "all")], 5);
    let list = |states: &[&'static str], types: &[&'static str], version: i16| {
        let request = ListGroupsRequest::default()
            .with_states_filter(states.iter().map(|name| (*name).into()).collect())
            .with_types_filter(types.iter().map(|name| (*name).into()).collect());
        let answer = list_groups(&core, request, version, &client()).expect("it is answered");
        encodes(&answer, version);
        answer.groups.len()
    };
    versions(ApiKey::ListGroups).for_each(|version| assert_eq!(list(&[], &[], version), 1));
    assert_eq!((list(&["stable"], &[], 5), list(&["Empty"], &[], 5)), (1, 0));
    assert_eq!((list(&[], &["classic"], 5), list(&[], &["consumer"], 5)), (1, 0));
    let describe = |version: i16| {
        let request = DescribeGroupsRequest::default().with_groups(vec![group(), GroupId("none".into())]);
        let answer = describe_groups(&core, request, version, &client()).expect("it is answered");
        encodes(&answer, version);
        answer.groups
    };
    for version in versions(ApiKey::DescribeGroups) {
        let groups = describe(version);
        let (there, none) = (&groups[0], &groups[1]);
        assert_eq!((&*there.group_state, &*there.protocol_data), ("Stable", "range"));
        assert_eq!(
            (&there.members[0].member_metadata[..], &there.members[0].member_assignment[..]),
            (&b"topics"[..], &b"all"[..])
        );
        assert_eq!(
            (&*none.group_state, none.error_code),
            ("Dead", if version < 6 { 0 } else { Code::GroupIdNotFound.code() })
        );
    }
    let delete = |version: i16| {
        let request = DeleteGroupsRequest::default().with_groups_names(vec![group()]);
        let answer = delete_groups(&core, request, version, &client()).expect("it is answered");
        encodes(&answer, version);
        answer.results[0].error_code
    };
    versions(ApiKey::DeleteGroups).for_each(|version| assert_eq!(delete(version), Code::NonEmptyGroup.code()));
    leave(&core, &member, 5);
    assert_eq!(&*describe(6)[0].group_state, "Empty");
    assert_eq!(delete(2), 0);
    assert_eq!(delete(2), Code::GroupIdNotFound.code());
}
