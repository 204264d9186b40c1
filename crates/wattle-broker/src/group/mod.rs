//! Consumer groups of the classic protocol, and their positions. Pure: time comes in, answers come out; waiting is done by `api/`.

mod exchange;
mod member;
mod membership;
#[cfg(test)]
mod tests;

pub(crate) use exchange::{Join, Joined, Refusal, Sync, Ticket};
pub(crate) use member::MemberImage;
pub(crate) use membership::{Group, Phase};

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

use crate::types::{Code, Committed, Millis, TopicPartition};

/// Kafka asks for at least 6 s; tests want less.
const SESSION_TIMEOUTS: RangeInclusive<Millis> = 1..=30 * 60 * 1000;

/// How long an empty group without positions is remembered, so that tools can see that it is empty.
const REMEMBERED: Millis = 10 * 60 * 1000;

/// A group's membership as the journal keeps it: members survive a restart of the broker, as they do in Kafka.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Image {
    pub(crate) name: String,
    pub(crate) at: Millis,
    pub(crate) generation: i32,
    pub(crate) protocol_type: String,
    pub(crate) protocol: Option<String>,
    pub(crate) leader: Option<String>,
    pub(crate) members: Vec<MemberImage>,
}

/// All groups.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    groups: BTreeMap<String, Group>,
}

impl Groups {
    /// A group's membership from the journal.
    pub(crate) fn restore(&mut self, image: Image, now: Millis) {
        let name = image.name.clone();
        let mut group = Group::restored(image, now);
        if let Some(before) = self.groups.remove(&name) {
            group.positions = before.positions;
        }
        self.groups.insert(name, group);
    }

    /// Removes a group.
    pub(crate) fn remove(&mut self, group: &str) {
        self.groups.remove(group);
    }

    /// Sets positions: from the journal, from OffsetCommit, or from a committed transaction. Creates the group if need be.
    pub(crate) fn commit(&mut self, group: &str, offsets: Vec<(TopicPartition, Committed)>) {
        self.entry(group).positions.extend(offsets);
    }

    /// Removes positions.
    pub(crate) fn forget(&mut self, group: &str, partitions: &[TopicPartition]) {
        if let Some(group) = self.groups.get_mut(group) {
            group.positions.retain(|partition, _| !partitions.contains(partition));
        }
    }

    /// A topic was deleted: its positions go in all groups.
    pub(crate) fn forget_topic(&mut self, topic: &str) {
        for group in self.groups.values_mut() {
            group.positions.retain(|partition, _| partition.topic != topic);
        }
    }

    /// Sessions and rebalances that are overdue. Returns the images to journal; whoever waits has to be woken afterwards.
    pub(crate) fn expire(&mut self, now: Millis) -> Vec<Image> {
        let mut images = Vec::new();
        self.groups.retain(|_, group| {
            group.expire(now);
            images.extend(group.take_changed(now));
            !(group.is_abandoned() && now - group.kept.at > REMEMBERED)
        });
        images
    }

    /// Ends every membership, as if all sessions were over. Returns the images to journal.
    pub(crate) fn forget_members(&mut self, now: Millis) -> Vec<Image> {
        self.expire(now + *SESSION_TIMEOUTS.end() + 1)
    }

    /// Everything, for a snapshot: images and positions. Of a rebalance in progress it has what the journal has: the generation before.
    pub(crate) fn snapshot(&self) -> Vec<(Image, Vec<(TopicPartition, Committed)>)> {
        let positions = |group: &Group| group.positions.iter().map(|(p, c)| (p.clone(), c.clone())).collect();
        self.groups.values().map(|group| (group.kept.clone(), positions(group))).collect()
    }

    /// The session timeouts that members may ask for.
    pub(crate) fn session_timeouts(&self) -> RangeInclusive<Millis> {
        SESSION_TIMEOUTS
    }

    /// A group, if it is there.
    pub(crate) fn get(&self, group: &str) -> Option<&Group> {
        self.groups.get(group)
    }

    /// All groups with their names.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&String, &Group)> {
        self.groups.iter()
    }

    /// A member wants in; [`Groups::take_joined`] has the answer.
    pub(crate) fn join(&mut self, group: &str, join: Join, now: Millis) -> Result<Ticket, Refusal> {
        let refuse = |code| Err(Refusal { code, member_id: join.member_id.clone() });
        if !SESSION_TIMEOUTS.contains(&join.session_timeout) {
            return refuse(Code::InvalidSessionTimeout);
        }
        if join.protocols.is_empty() || join.protocol_type.is_empty() {
            return refuse(Code::InconsistentGroupProtocol);
        }
        if !join.member_id.is_empty() && !self.groups.contains_key(group) {
            return refuse(Code::UnknownMemberId);
        }
        let group = self.entry(group);
        if group.kept.at == 0 {
            group.kept.at = now;
        }
        group.join(join, now)
    }

    /// The answer to a join, once it is there.
    pub(crate) fn take_joined(&mut self, group: &str, ticket: Ticket) -> Option<Result<Joined, Refusal>> {
        match self.groups.get_mut(group) {
            Some(group) => group.take_joined(ticket),
            None => Some(Err(Refusal { code: Code::UnknownMemberId, member_id: String::new() })),
        }
    }

    /// A member wants its assignment; [`Groups::take_synced`] has the answer.
    pub(crate) fn sync(&mut self, group: &str, sync: Sync, now: Millis) -> Result<Ticket, Code> {
        self.member_of(group)?.sync(sync, now)
    }

    /// The answer to a sync, once it is there.
    pub(crate) fn take_synced(&mut self, group: &str, ticket: Ticket) -> Option<Result<Vec<u8>, Code>> {
        match self.groups.get_mut(group) {
            Some(group) => group.take_synced(ticket),
            None => Some(Err(Code::UnknownMemberId)),
        }
    }

    /// A member lives.
    pub(crate) fn heartbeat(
        &mut self,
        group: &str,
        member: &str,
        instance: Option<&str>,
        generation: i32,
        now: Millis,
    ) -> Result<(), Code> {
        self.member_of(group)?.heartbeat(member, instance, generation, now)
    }

    /// A member goes.
    pub(crate) fn leave(&mut self, group: &str, member: &str, instance: Option<&str>, now: Millis) -> Result<(), Code> {
        self.member_of(group)?.leave(member, instance, now)
    }

    /// Whether a commit of positions is accepted. A member of the group is heard of by it, unless it is part of a transaction.
    pub(crate) fn may_commit(
        &mut self,
        group: &str,
        member: &str,
        instance: Option<&str>,
        generation: i32,
        transactional: bool,
        now: Millis,
    ) -> Result<(), Code> {
        let Some(group) = self.groups.get_mut(group) else {
            return if generation < 0 { Ok(()) } else { Err(Code::IllegalGeneration) };
        };
        group.may_commit(member, instance, generation, transactional)?;
        if !transactional {
            group.touch(member, now);
        }
        Ok(())
    }

    /// One group's overdue sessions and rebalances, for those who wait for it.
    pub(crate) fn expire_one(&mut self, group: &str, now: Millis) -> bool {
        self.groups.get_mut(group).is_some_and(|group| group.expire(now))
    }

    /// When [`Groups::expire_one`] has something to do next.
    pub(crate) fn next_expiry(&self, group: &str) -> Option<Millis> {
        self.groups.get(group).and_then(Group::next_expiry)
    }

    /// The membership to journal, if it changed since the last call.
    pub(crate) fn take_changed(&mut self, group: &str, now: Millis) -> Option<Image> {
        self.groups.get_mut(group).and_then(|group| group.take_changed(now))
    }

    fn member_of(&mut self, group: &str) -> Result<&mut Group, Code> {
        self.groups.get_mut(group).ok_or(Code::UnknownMemberId)
    }

    fn entry(&mut self, group: &str) -> &mut Group {
        let new = || Group::restored(Image { name: group.to_owned(), ..Image::default() }, 0);
        self.groups.entry(group.to_owned()).or_insert_with(new)
    }
}
