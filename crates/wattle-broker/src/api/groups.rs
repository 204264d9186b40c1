//! Membership of groups: JoinGroup, SyncGroup, Heartbeat, LeaveGroup, and what tools ask about groups.

use std::sync::MutexGuard;
use std::time::Duration;

use kafka_protocol::messages::delete_groups_response::DeletableGroupResult;
use kafka_protocol::messages::describe_groups_response::{DescribedGroup, DescribedGroupMember};
use kafka_protocol::messages::join_group_response::JoinGroupResponseMember;
use kafka_protocol::messages::leave_group_response::MemberResponse;
use kafka_protocol::messages::list_groups_response::ListedGroup;
use kafka_protocol::messages::{
    ApiKey, ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse, DeleteGroupsRequest, DeleteGroupsResponse,
    DescribeGroupsRequest, DescribeGroupsResponse, GroupId, HeartbeatRequest, HeartbeatResponse, JoinGroupRequest,
    JoinGroupResponse, LeaveGroupRequest, LeaveGroupResponse, ListGroupsRequest, ListGroupsResponse, SyncGroupRequest,
    SyncGroupResponse,
};
use kafka_protocol::protocol::StrBytes;
use uuid::Uuid;

use crate::core::{Core, State};
use crate::error::Error;
use crate::group::{Group, Groups, Join, Joined, Phase, Refusal, Sync};
use crate::journal::Entry;
use crate::types::{Code, Millis};

use super::{Client, Dropped};

/// Versions offered.
pub(crate) const APIS: &[(ApiKey, i16, i16)] = &[
    (ApiKey::JoinGroup, 0, 9),
    (ApiKey::SyncGroup, 0, 5),
    (ApiKey::Heartbeat, 0, 4),
    (ApiKey::LeaveGroup, 0, 5),
    (ApiKey::ListGroups, 0, 5),
    (ApiKey::DescribeGroups, 0, 6),
    (ApiKey::DeleteGroups, 0, 2),
];

/// A request looks again at least this often, should nobody wake it.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// A member wants in: answered when everybody has joined.
pub(crate) fn join_group(
    core: &Core,
    request: JoinGroupRequest,
    version: i16,
    client: &Client,
) -> Result<JoinGroupResponse, Dropped> {
    let group = request.group_id.to_string();
    let member_id = request.member_id.clone();
    if group.is_empty() {
        return Ok(not_joined(Refusal { code: Code::InvalidGroupId, member_id: member_id.to_string() }, version));
    }
    let now = core.clock.now();
    let mut state = core.lock();
    let asked = state.groups.join(&group, read_join(request, version, client), now);
    settle(core, &mut state, &group, now)?;
    let answer = match asked {
        Ok(ticket) => wait_for(core, state, &group, |groups| groups.take_joined(&group, ticket))?,
        Err(refusal) => Err(refusal),
    };
    Ok(match answer {
        Ok(joined) => write_joined(joined),
        Err(refusal) => not_joined(refusal, version),
    })
}

/// A member wants its assignment: answered when the leader has brought it.
pub(crate) fn sync_group(
    core: &Core,
    request: SyncGroupRequest,
    _version: i16,
    _client: &Client,
) -> Result<SyncGroupResponse, Dropped> {
    let group = request.group_id.to_string();
    let refused = |code: Code| SyncGroupResponse::default().with_error_code(code.code());
    if group.is_empty() {
        return Ok(refused(Code::InvalidGroupId));
    }
    let (protocol_type, protocol) = (request.protocol_type.clone(), request.protocol_name.clone());
    let sync = Sync {
        member_id: request.member_id.to_string(),
        instance: owned(request.group_instance_id),
        generation: request.generation_id,
        protocol_type: owned(request.protocol_type),
        protocol: owned(request.protocol_name),
        assignments: (request.assignments.into_iter())
            .map(|assigned| (assigned.member_id.to_string(), assigned.assignment.to_vec()))
            .collect(),
    };
    let now = core.clock.now();
    let mut state = core.lock();
    let asked = state.groups.sync(&group, sync, now);
    settle(core, &mut state, &group, now)?;
    let answer = match asked {
        Ok(ticket) => wait_for(core, state, &group, |groups| groups.take_synced(&group, ticket))?,
        Err(code) => Err(code),
    };
    Ok(match answer {
        Ok(assignment) => SyncGroupResponse::default()
            .with_assignment(assignment.into())
            .with_protocol_type(protocol_type)
            .with_protocol_name(protocol),
        Err(code) => refused(code),
    })
}

/// A member lives.
pub(crate) fn heartbeat(
    core: &Core,
    request: HeartbeatRequest,
    _version: i16,
    _client: &Client,
) -> Result<HeartbeatResponse, Dropped> {
    let now = core.clock.now();
    let mut state = core.lock();
    let instance = request.group_instance_id.as_deref();
    let (group, member) = (&request.group_id, &request.member_id);
    let answer = state.groups.heartbeat(group, member, instance, request.generation_id, now);
    Ok(HeartbeatResponse::default().with_error_code(code(answer)))
}

/// Members go: one, or, from version 3 on, several.
pub(crate) fn leave_group(
    core: &Core,
    request: LeaveGroupRequest,
    version: i16,
    _client: &Client,
) -> Result<LeaveGroupResponse, Dropped> {
    let now = core.clock.now();
    let mut state = core.lock();
    let group = request.group_id.to_string();
    if version < 3 {
        let answer = state.groups.leave(&group, &request.member_id, None, now);
        settle(core, &mut state, &group, now)?;
        return Ok(LeaveGroupResponse::default().with_error_code(code(answer)));
    }
    let members = request.members.into_iter().map(|member| {
        let answer = state.groups.leave(&group, &member.member_id, member.group_instance_id.as_deref(), now);
        MemberResponse::default()
            .with_member_id(member.member_id)
            .with_group_instance_id(member.group_instance_id)
            .with_error_code(code(answer))
    });
    let answer = LeaveGroupResponse::default().with_members(members.collect());
    settle(core, &mut state, &group, now)?;
    Ok(answer)
}

/// Which groups there are.
pub(crate) fn list_groups(
    core: &Core,
    request: ListGroupsRequest,
    _version: i16,
    _client: &Client,
) -> Result<ListGroupsResponse, Dropped> {
    let state = core.lock();
    let matches = |filter: &[StrBytes], name: &str| {
        filter.is_empty() || filter.iter().any(|wanted| wanted.eq_ignore_ascii_case(name))
    };
    let wanted = |group: &Group| {
        matches(&request.states_filter, group.phase.name()) && matches(&request.types_filter, "classic")
    };
    let listed = state.groups.iter().filter(|(_, group)| wanted(group)).map(|(name, group)| {
        ListedGroup::default()
            .with_group_id(GroupId(name.clone().into()))
            .with_protocol_type(group.protocol_type.clone().into())
            .with_group_state(group.phase.name().into())
            .with_group_type("classic".into())
    });
    Ok(ListGroupsResponse::default().with_groups(listed.collect()))
}

/// Groups with their members.
pub(crate) fn describe_groups(
    core: &Core,
    request: DescribeGroupsRequest,
    version: i16,
    _client: &Client,
) -> Result<DescribeGroupsResponse, Dropped> {
    let state = core.lock();
    let described = request.groups.into_iter().map(|name| match state.groups.get(&name) {
        Some(group) => described(name, group),
        None if version >= 6 => DescribedGroup::default()
            .with_error_code(Code::GroupIdNotFound.code())
            .with_error_message(Some(format!("group {} not found", &*name).into()))
            .with_group_state("Dead".into())
            .with_group_id(name),
        None => DescribedGroup::default().with_group_state("Dead".into()).with_group_id(name),
    });
    Ok(DescribeGroupsResponse::default().with_groups(described.collect()))
}

/// Removes groups without members.
pub(crate) fn delete_groups(
    core: &Core,
    request: DeleteGroupsRequest,
    _version: i16,
    _client: &Client,
) -> Result<DeleteGroupsResponse, Dropped> {
    let mut state = core.lock();
    let mut results = Vec::new();
    for name in request.groups_names {
        let answer = match state.groups.get(&name).map(|group| group.phase) {
            None => Err(Code::GroupIdNotFound),
            Some(Phase::Empty) => Ok(()),
            Some(_) => Err(Code::NonEmptyGroup),
        };
        if answer.is_ok() {
            state.journal(&Entry::GroupDeleted { name: name.to_string() })?;
            state.groups.remove(&name);
        }
        results.push(DeletableGroupResult::default().with_group_id(name).with_error_code(code(answer)));
    }
    Ok(DeleteGroupsResponse::default().with_results(results))
}

/// The newer consumer protocol is not spoken, and says so to a client that did not ask what is offered.
pub(crate) fn consumer_group_heartbeat(
    _core: &Core,
    _request: ConsumerGroupHeartbeatRequest,
    _version: i16,
    _client: &Client,
) -> Result<ConsumerGroupHeartbeatResponse, Dropped> {
    let message = "this broker speaks the classic group protocol only: set group.protocol=classic";
    Ok(ConsumerGroupHeartbeatResponse::default()
        .with_error_code(Code::UnsupportedVersion.code())
        .with_error_message(Some(message.into())))
}

/// Journals what the group became, and wakes those who wait for it.
fn settle(core: &Core, state: &mut State, group: &str, now: Millis) -> Result<(), Error> {
    if let Some(image) = state.groups.take_changed(group, now) {
        state.journal(&Entry::Group(image))?;
    }
    core.groups_changed.notify_all();
    Ok(())
}

/// Waits until `take` has an answer. Whoever waits also ends what is overdue in the group, on time.
fn wait_for<'a, T>(
    core: &'a Core,
    mut state: MutexGuard<'a, State>,
    group: &str,
    take: impl Fn(&mut Groups) -> Option<T>,
) -> Result<T, Dropped> {
    loop {
        if let Some(answer) = take(&mut state.groups) {
            return Ok(answer);
        }
        let left = state.groups.next_expiry(group).map_or(Millis::MAX, |at| at - core.clock.now()).max(1);
        let at_most = Duration::from_millis(left.unsigned_abs()).min(LOOK_AGAIN);
        state = core.wait(&core.groups_changed, state, at_most).ok_or(Dropped)?;
        let now = core.clock.now();
        if state.groups.expire_one(group, now) {
            settle(core, &mut state, group, now)?;
        }
    }
}

fn read_join(request: JoinGroupRequest, version: i16, client: &Client) -> Join {
    let instance = owned(request.group_instance_id);
    let session_timeout = Millis::from(request.session_timeout_ms);
    let name = instance.as_deref().unwrap_or(&client.id);
    Join {
        member_id: request.member_id.to_string(),
        new_id: format!("{name}-{}", Uuid::new_v4()),
        client_id: client.id.clone(),
        client_host: client.host.clone(),
        session_timeout,
        // Version 0 has one timeout for both.
        rebalance_timeout: if version == 0 { session_timeout } else { request.rebalance_timeout_ms.into() },
        protocol_type: request.protocol_type.to_string(),
        protocols: request.protocols.into_iter().map(|p| (p.name.to_string(), p.metadata.to_vec())).collect(),
        id_first: version >= 4,
        can_skip_assignment: version >= 9,
        instance,
    }
}

fn write_joined(joined: Joined) -> JoinGroupResponse {
    let members = joined.members.into_iter().map(|(id, instance, metadata)| {
        JoinGroupResponseMember::default()
            .with_member_id(id.into())
            .with_group_instance_id(instance.map(Into::into))
            .with_metadata(metadata.into())
    });
    JoinGroupResponse::default()
        .with_generation_id(joined.generation)
        .with_protocol_type(Some(joined.protocol_type.into()))
        .with_protocol_name(Some(joined.protocol.into()))
        .with_leader(joined.leader.into())
        .with_member_id(joined.member_id.into())
        .with_skip_assignment(joined.skip_assignment)
        .with_members(members.collect())
}

fn not_joined(refusal: Refusal, version: i16) -> JoinGroupResponse {
    JoinGroupResponse::default()
        .with_error_code(refusal.code.code())
        .with_generation_id(-1)
        // Older versions cannot say that there is none.
        .with_protocol_name((version < 7).then(StrBytes::new))
        .with_member_id(refusal.member_id.into())
}

fn described(name: GroupId, group: &Group) -> DescribedGroup {
    let protocol = group.protocol.as_deref().filter(|_| group.phase == Phase::Stable);
    let members = group.members.values().map(|member| {
        let described = DescribedGroupMember::default()
            .with_member_id(member.is.id.clone().into())
            .with_group_instance_id(member.is.instance.clone().map(Into::into))
            .with_client_id(member.is.client_id.clone().into())
            .with_client_host(member.is.client_host.clone().into());
        match protocol {
            Some(protocol) => described
                .with_member_metadata(member.is.metadata(protocol).to_vec().into())
                .with_member_assignment(member.is.assignment.clone().into()),
            None => described,
        }
    });
    DescribedGroup::default()
        .with_group_id(name)
        .with_group_state(group.phase.name().into())
        .with_protocol_type(group.protocol_type.clone().into())
        .with_protocol_data(protocol.unwrap_or_default().to_owned().into())
        .with_members(members.collect())
}

fn code(answer: Result<(), Code>) -> i16 {
    answer.err().map_or(0, |code| code.code())
}

fn owned(text: Option<StrBytes>) -> Option<String> {
    text.map(|text| text.to_string())
}

#[cfg(test)]
mod tests;
