//! A group's state machine: join, sync, heartbeat, leave, and what happens when somebody does not.
//!
//! A request that has to wait for others gets a [`Ticket`]; its answer lies in the group until it is taken.

mod rebalance;

use std::collections::BTreeMap;

use crate::types::{Code, Committed, Millis, TopicPartition};

use super::Image;
use super::exchange::{Join, Joined, Refusal, Sync, Ticket};
use super::member::Member;

/// Kafka's group states; a group that is gone is `Dead` there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// No members; it may have positions.
    Empty,
    /// Waits for all members to join.
    PreparingRebalance,
    /// Waits for the leader's assignment.
    CompletingRebalance,
    /// Everybody has an assignment.
    Stable,
}

impl Phase {
    /// Kafka's name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Phase::Empty => "Empty",
            Phase::PreparingRebalance => "PreparingRebalance",
            Phase::CompletingRebalance => "CompletingRebalance",
            Phase::Stable => "Stable",
        }
    }
}

/// One group.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) phase: Phase,
    pub(crate) generation: i32,
    pub(crate) protocol_type: String,
    pub(crate) protocol: Option<String>,
    pub(crate) members: BTreeMap<String, Member>,
    pub(crate) positions: BTreeMap<TopicPartition, Committed>,
    leader: Option<String>,
    /// Member ids that were given and have not joined yet, and until when they may.
    pending: BTreeMap<String, Millis>,
    /// Of the rebalance; of the assignments to be fetched in the other phases.
    deadline: Millis,
    /// Membership as of the last stable or empty generation.
    pub(super) kept: Image,
    /// `kept` is older than what is here.
    changed: bool,
    last_ticket: Ticket,
    joins: BTreeMap<Ticket, Result<Joined, Refusal>>,
    syncs: BTreeMap<Ticket, Result<Vec<u8>, Code>>,
}

impl Group {
    /// A group from its journal image; sessions start anew.
    pub(super) fn restored(image: Image, now: Millis) -> Self {
        let kept = image.clone();
        let members: BTreeMap<_, _> =
            image.members.into_iter().map(|m| (m.id.clone(), Member::restored(m, now))).collect();
        Self {
            phase: if members.is_empty() { Phase::Empty } else { Phase::Stable },
            generation: image.generation,
            protocol_type: image.protocol_type,
            protocol: image.protocol,
            members,
            positions: BTreeMap::new(),
            leader: image.leader,
            pending: BTreeMap::new(),
            deadline: 0,
            kept,
            changed: false,
            last_ticket: 0,
            joins: BTreeMap::new(),
            syncs: BTreeMap::new(),
        }
    }

    /// A member wants in. The answer to the ticket may be there already.
    pub(super) fn join(&mut self, join: Join, now: Millis) -> Result<Ticket, Refusal> {
        let refuse = |code| Refusal { code, member_id: join.member_id.clone() };
        if !self.supports(&join) {
            return Err(refuse(Code::InconsistentGroupProtocol));
        }
        if join.member_id.is_empty() {
            return self.join_newcomer(join, now);
        }
        if self.pending.remove(&join.member_id).is_some() {
            let id = join.member_id.clone();
            return Ok(self.add(join, id, now));
        }
        self.check_member(&join.member_id, join.instance.as_deref()).map_err(refuse)?;
        let id = join.member_id.clone();
        let same = self.members[&id].is.protocols == join.protocols;
        let leads = self.leader.as_ref() == Some(&id);
        match self.phase {
            Phase::Empty => Err(refuse(Code::UnknownMemberId)),
            // Its first answer was lost.
            Phase::CompletingRebalance if same => Ok(self.answer_now(&id, now)),
            // A leader joins again because something changed: only it can know.
            Phase::Stable if same && !leads => Ok(self.answer_now(&id, now)),
            _ => Ok(self.rejoin(join, now)),
        }
    }

    /// Takes the answer to a join, once it is there.
    pub(super) fn take_joined(&mut self, ticket: Ticket) -> Option<Result<Joined, Refusal>> {
        self.joins.remove(&ticket)
    }

    /// A member wants its assignment; the leader brings everybody's.
    pub(super) fn sync(&mut self, sync: Sync, now: Millis) -> Result<Ticket, Code> {
        let differs = |said: &Option<String>, is: Option<&str>| said.is_some() && said.as_deref() != is;
        self.check_member(&sync.member_id, sync.instance.as_deref())?;
        if sync.generation != self.generation {
            return Err(Code::IllegalGeneration);
        }
        if differs(&sync.protocol_type, Some(&self.protocol_type)) || differs(&sync.protocol, self.protocol.as_deref())
        {
            return Err(Code::InconsistentGroupProtocol);
        }
        match self.phase {
            Phase::Empty => return Err(Code::UnknownMemberId),
            Phase::PreparingRebalance => return Err(Code::RebalanceInProgress),
            Phase::CompletingRebalance | Phase::Stable => {}
        }
        let ticket = self.ticket();
        let leads = self.leader.as_ref() == Some(&sync.member_id);
        let member = self.members.get_mut(&sync.member_id).expect("the member was checked");
        if let Some(before) = member.syncing.replace(ticket) {
            self.syncs.insert(before, Err(Code::RebalanceInProgress));
        }
        if self.phase == Phase::CompletingRebalance && leads {
            self.assign(sync.assignments);
        }
        if self.phase == Phase::Stable {
            self.answer_syncs(now);
        }
        Ok(ticket)
    }

    /// Takes the answer to a sync, once it is there.
    pub(super) fn take_synced(&mut self, ticket: Ticket) -> Option<Result<Vec<u8>, Code>> {
        self.syncs.remove(&ticket)
    }

    /// A member lives.
    pub(super) fn heartbeat(
        &mut self,
        id: &str,
        instance: Option<&str>,
        generation: i32,
        now: Millis,
    ) -> Result<(), Code> {
        self.check_member(id, instance)?;
        if generation != self.generation {
            return Err(Code::IllegalGeneration);
        }
        self.touch(id, now);
        match self.phase {
            Phase::PreparingRebalance => Err(Code::RebalanceInProgress),
            Phase::Empty | Phase::CompletingRebalance | Phase::Stable => Ok(()),
        }
    }

    /// A member goes. With an empty id the instance id names it.
    pub(super) fn leave(&mut self, id: &str, instance: Option<&str>, now: Millis) -> Result<(), Code> {
        let id = match instance {
            Some(instance) if id.is_empty() => self.static_member(instance).ok_or(Code::UnknownMemberId)?,
            _ => id.to_owned(),
        };
        if self.pending.remove(&id).is_some() {
            self.complete_if_all_joined(now);
            return Ok(());
        }
        self.check_member(&id, instance)?;
        self.remove(&id, now);
        Ok(())
    }

    /// Whether a commit of positions is accepted: from a member of this generation, or from outside while there are no members. Inside a
    /// transaction it may also name nobody at all, as old producers do.
    pub(crate) fn may_commit(
        &self,
        id: &str,
        instance: Option<&str>,
        generation: i32,
        transactional: bool,
    ) -> Result<(), Code> {
        if generation < 0 && self.phase == Phase::Empty {
            return Ok(());
        }
        if generation < 0 && id.is_empty() && instance.is_none() {
            return if transactional { Ok(()) } else { Err(Code::UnknownMemberId) };
        }
        self.check_member(id, instance)?;
        if generation != self.generation {
            return Err(Code::IllegalGeneration);
        }
        if !transactional && self.phase == Phase::CompletingRebalance {
            return Err(Code::RebalanceInProgress);
        }
        Ok(())
    }

    /// It was heard of.
    pub(super) fn touch(&mut self, id: &str, now: Millis) {
        if let Some(member) = self.members.get_mut(id) {
            member.seen = now;
        }
    }

    /// What is overdue: ids that were given, sessions, rebalances, assignments not fetched. Returns whether anything happened.
    pub(super) fn expire(&mut self, now: Millis) -> bool {
        let given = self.pending.len();
        self.pending.retain(|_, until| *until > now);
        let mut happened = self.pending.len() < given;
        let late = now >= self.deadline;
        let assigning = matches!(self.phase, Phase::CompletingRebalance | Phase::Stable);
        let gone: Vec<String> = (self.members.iter())
            .filter(|(_, m)| {
                m.expires().is_some_and(|at| at <= now)
                    || late && assigning && m.owes_sync && m.syncing.is_none() && m.joining.is_none()
            })
            .map(|(id, _)| id.clone())
            .collect();
        for id in &gone {
            self.remove(id, now);
        }
        happened |= !gone.is_empty();
        self.complete_if_all_joined(now);
        if self.phase == Phase::PreparingRebalance && now >= self.deadline {
            self.complete(now);
            happened = true;
        }
        happened
    }

    /// When [`Group::expire`] has something to do next.
    pub(super) fn next_expiry(&self) -> Option<Millis> {
        let sessions = self.members.values().filter_map(Member::expires);
        let deadline = match self.phase {
            Phase::Empty => None,
            Phase::PreparingRebalance => Some(self.deadline),
            Phase::CompletingRebalance | Phase::Stable => {
                self.members.values().any(|m| m.owes_sync).then_some(self.deadline)
            }
        };
        self.pending.values().copied().chain(sessions).chain(deadline).min()
    }

    /// The membership to journal, if a generation became stable or empty since the last call.
    pub(super) fn take_changed(&mut self, now: Millis) -> Option<Image> {
        if !std::mem::take(&mut self.changed) {
            return None;
        }
        self.kept = Image {
            name: std::mem::take(&mut self.kept.name),
            at: now,
            generation: self.generation,
            protocol_type: self.protocol_type.clone(),
            protocol: self.protocol.clone(),
            leader: self.leader.clone(),
            members: self.members.values().map(|m| m.is.clone()).collect(),
        };
        Some(self.kept.clone())
    }

    /// Nobody is in and nobody was told an id.
    pub(super) fn is_abandoned(&self) -> bool {
        self.phase == Phase::Empty && self.pending.is_empty() && self.positions.is_empty()
    }

    fn ticket(&mut self) -> Ticket {
        self.last_ticket += 1;
        self.last_ticket
    }

    /// A static member's id must be the one that its instance joined with last.
    fn check_member(&self, id: &str, instance: Option<&str>) -> Result<(), Code> {
        if let Some(instance) = instance {
            match self.static_member(instance) {
                None => return Err(Code::UnknownMemberId),
                Some(current) if current != id => return Err(Code::FencedInstanceId),
                Some(_) => {}
            }
        }
        if self.members.contains_key(id) { Ok(()) } else { Err(Code::UnknownMemberId) }
    }

    fn static_member(&self, instance: &str) -> Option<String> {
        self.members.values().find(|m| m.is.instance.as_deref() == Some(instance)).map(|m| m.is.id.clone())
    }

    /// Whether it speaks a protocol that everybody speaks.
    fn supports(&self, join: &Join) -> bool {
        if self.members.is_empty() {
            return !join.protocol_type.is_empty() && !join.protocols.is_empty();
        }
        join.protocol_type == self.protocol_type
            && join.protocols.iter().any(|(name, _)| self.members.values().all(|m| m.is.supports(name)))
    }

    fn join_newcomer(&mut self, join: Join, now: Millis) -> Result<Ticket, Refusal> {
        let id = join.new_id.clone();
        if let Some(old) = join.instance.as_deref().and_then(|instance| self.static_member(instance)) {
            return Ok(self.replace(&old, join, now));
        }
        if join.id_first && join.instance.is_none() {
            self.pending.insert(id.clone(), now.saturating_add(join.session_timeout));
            return Err(Refusal { code: Code::MemberIdRequired, member_id: id });
        }
        Ok(self.add(join, id, now))
    }

    fn add(&mut self, join: Join, id: String, now: Millis) -> Ticket {
        let ticket = self.ticket();
        if self.members.is_empty() {
            self.protocol_type.clone_from(&join.protocol_type);
            self.leader = Some(id.clone());
        }
        self.members.insert(id.clone(), Member::new(join, id, ticket, now));
        self.prepare(now);
        ticket
    }

    fn rejoin(&mut self, join: Join, now: Millis) -> Ticket {
        let ticket = self.ticket();
        let member = self.members.get_mut(&join.member_id).expect("the member was checked");
        let before = member.joining.replace(ticket);
        let id = join.member_id.clone();
        member.update(join, now);
        if let Some(before) = before {
            self.joins.insert(before, Err(Refusal { code: Code::RebalanceInProgress, member_id: id }));
        }
        self.prepare(now);
        ticket
    }

    /// A static member came back under a new id: the old id is fenced. While its subscription is the same, the group goes on as it is.
    fn replace(&mut self, old: &str, join: Join, now: Millis) -> Ticket {
        let ticket = self.ticket();
        let leader_before = self.leader.clone();
        let can_skip = join.can_skip_assignment;
        let id = join.new_id.clone();
        let mut member = self.members.remove(old).expect("the caller found it");
        if let Some(waiting) = member.joining.take() {
            let refusal = Refusal { code: Code::FencedInstanceId, member_id: old.to_owned() };
            self.joins.insert(waiting, Err(refusal));
        }
        if let Some(waiting) = member.syncing.take() {
            self.syncs.insert(waiting, Err(Code::FencedInstanceId));
        }
        let topics = member.is.topics();
        member.update(join, now);
        member.is.id.clone_from(&id);
        let same_topics = topics == member.is.topics();
        self.members.insert(id.clone(), member);
        let led = leader_before.as_deref() == Some(old);
        if led {
            self.leader = Some(id.clone());
        }
        if self.phase == Phase::Stable && same_topics && self.protocol == self.select() {
            self.changed = true;
            let mut joined = self.joined(&id);
            // An old client that is told that it leads would assign anew: it is told the leader's old id instead.
            joined.skip_assignment = can_skip && led;
            if !can_skip {
                joined.leader = leader_before.unwrap_or_default();
                joined.members.clear();
            }
            self.joins.insert(ticket, Ok(joined));
            return ticket;
        }
        self.members.get_mut(&id).expect("it was put there").joining = Some(ticket);
        self.prepare(now);
        ticket
    }

    fn answer_now(&mut self, id: &str, now: Millis) -> Ticket {
        let ticket = self.ticket();
        self.touch(id, now);
        let joined = self.joined(id);
        self.joins.insert(ticket, Ok(joined));
        ticket
    }

    fn joined(&self, id: &str) -> Joined {
        let protocol = self.protocol.clone().unwrap_or_default();
        let leads = self.leader.as_deref() == Some(id);
        let members = if leads {
            let member = |m: &Member| (m.is.id.clone(), m.is.instance.clone(), m.is.metadata(&protocol).to_vec());
            self.members.values().map(member).collect()
        } else {
            Vec::new()
        };
        Joined {
            member_id: id.to_owned(),
            generation: self.generation,
            leader: self.leader.clone().unwrap_or_default(),
            protocol_type: self.protocol_type.clone(),
            protocol,
            members,
            skip_assignment: false,
        }
    }
}
