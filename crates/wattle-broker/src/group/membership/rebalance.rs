//! A rebalance: everybody joins, the protocol is chosen, the leader assigns.

use std::collections::BTreeMap;

use super::super::exchange::{Refusal, Ticket};
use super::super::member::Member;
use super::{Group, Phase};
use crate::types::{Code, Millis};

impl Group {
    /// Begins a rebalance, or goes on with the one that is there.
    pub(super) fn prepare(&mut self, now: Millis) {
        if self.phase != Phase::PreparingRebalance {
            for member in self.members.values_mut() {
                member.owes_sync = false;
                if let Some(waiting) = member.syncing.take() {
                    member.seen = now;
                    self.syncs.insert(waiting, Err(Code::RebalanceInProgress));
                }
            }
            self.phase = Phase::PreparingRebalance;
            self.deadline = now.saturating_add(self.rebalance_timeout());
        }
        self.complete_if_all_joined(now);
    }

    pub(super) fn rebalance_timeout(&self) -> Millis {
        self.members.values().map(|m| m.is.rebalance_timeout).max().unwrap_or(0)
    }

    pub(super) fn complete_if_all_joined(&mut self, now: Millis) {
        if self.phase == Phase::PreparingRebalance
            && self.pending.is_empty()
            && self.members.values().all(|m| m.joining.is_some())
        {
            self.complete(now);
        }
    }

    /// Ends the joining: who has not joined is out, unless it is static and its session still runs.
    pub(super) fn complete(&mut self, now: Millis) {
        self.members.retain(|_, m| m.joining.is_some() || m.is.instance.is_some());
        let joined = |m: &Member| m.joining.is_some();
        if !self.leader.as_ref().and_then(|id| self.members.get(id)).is_some_and(joined) {
            let first = self.members.values().find(|m| joined(m)).map(|m| m.is.id.clone());
            if first.is_none() && !self.members.is_empty() {
                self.deadline = now.saturating_add(self.rebalance_timeout());
                return;
            }
            self.leader = first;
        }
        self.generation = self.generation.checked_add(1).unwrap_or(1);
        if self.members.is_empty() {
            self.phase = Phase::Empty;
            self.protocol = None;
            self.changed = true;
            return;
        }
        self.protocol = self.select();
        self.phase = Phase::CompletingRebalance;
        self.deadline = now.saturating_add(self.rebalance_timeout());
        let tickets: Vec<(String, Ticket)> =
            self.members.values_mut().filter_map(|m| Some((m.is.id.clone(), m.joining.take()?))).collect();
        for (id, ticket) in tickets {
            let answer = self.joined(&id);
            self.joins.insert(ticket, Ok(answer));
            let member = self.members.get_mut(&id).expect("it joined");
            member.owes_sync = true;
            member.seen = now;
        }
    }

    /// The protocol that everybody speaks and most prefer.
    pub(super) fn select(&self) -> Option<String> {
        let mut votes: BTreeMap<&str, usize> = BTreeMap::new();
        for member in self.members.values() {
            let common = |name: &&str| self.members.values().all(|m| m.is.supports(name));
            if let Some(choice) = member.is.protocols.iter().map(|(name, _)| name.as_str()).find(common) {
                *votes.entry(choice).or_default() += 1;
            }
        }
        votes.into_iter().max_by_key(|(_, count)| *count).map(|(name, _)| name.to_owned())
    }

    pub(super) fn assign(&mut self, mut assignments: BTreeMap<String, Vec<u8>>) {
        for (id, member) in &mut self.members {
            member.is.assignment = assignments.remove(id).unwrap_or_default();
        }
        self.phase = Phase::Stable;
        self.changed = true;
    }

    pub(super) fn answer_syncs(&mut self, now: Millis) {
        for member in self.members.values_mut() {
            if let Some(ticket) = member.syncing.take() {
                member.owes_sync = false;
                member.seen = now;
                self.syncs.insert(ticket, Ok(member.is.assignment.clone()));
            }
        }
    }

    pub(super) fn remove(&mut self, id: &str, now: Millis) {
        let Some(member) = self.members.remove(id) else { return };
        if let Some(waiting) = member.joining {
            self.joins.insert(waiting, Err(Refusal { code: Code::UnknownMemberId, member_id: id.to_owned() }));
        }
        if let Some(waiting) = member.syncing {
            self.syncs.insert(waiting, Err(Code::UnknownMemberId));
        }
        if self.leader.as_deref() == Some(id) {
            self.leader = self.members.keys().next().cloned();
        }
        self.prepare(now);
    }
}
