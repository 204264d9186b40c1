//! One member of a group: what it said when it joined, and what it waits for.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::types::Millis;

use super::exchange::{Join, Ticket};

/// A member as the journal keeps it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct MemberImage {
    pub(crate) id: String,
    pub(crate) instance: Option<String>,
    pub(crate) client_id: String,
    pub(crate) client_host: String,
    pub(crate) session_timeout: Millis,
    pub(crate) rebalance_timeout: Millis,
    pub(crate) protocols: Vec<(String, Vec<u8>)>,
    pub(crate) assignment: Vec<u8>,
}

impl MemberImage {
    /// What it said for this protocol.
    pub(crate) fn metadata(&self, protocol: &str) -> &[u8] {
        self.protocols.iter().find(|(name, _)| name == protocol).map_or(&[], |(_, metadata)| metadata)
    }

    /// Whether it knows this protocol.
    pub(crate) fn supports(&self, protocol: &str) -> bool {
        self.protocols.iter().any(|(name, _)| name == protocol)
    }

    /// The topics that it subscribed to, as far as it speaks the consumer protocol.
    pub(crate) fn topics(&self) -> BTreeSet<String> {
        self.protocols.iter().filter_map(|(_, metadata)| topics(metadata)).flatten().collect()
    }
}

/// A member as the group sees it now.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    pub(crate) is: MemberImage,
    /// When it was last heard of.
    pub(super) seen: Millis,
    /// Its JoinGroup waits for the others.
    pub(super) joining: Option<Ticket>,
    /// Its SyncGroup waits for the leader.
    pub(super) syncing: Option<Ticket>,
    /// It was told the generation and has not fetched its assignment yet.
    pub(super) owes_sync: bool,
}

impl Member {
    pub(super) fn new(join: Join, id: String, ticket: Ticket, now: Millis) -> Self {
        let is = MemberImage {
            id,
            instance: join.instance,
            client_id: join.client_id,
            client_host: join.client_host,
            session_timeout: join.session_timeout,
            rebalance_timeout: join.rebalance_timeout,
            protocols: join.protocols,
            assignment: Vec::new(),
        };
        Self { is, seen: now, joining: Some(ticket), syncing: None, owes_sync: false }
    }

    pub(super) fn restored(is: MemberImage, now: Millis) -> Self {
        Self { is, seen: now, joining: None, syncing: None, owes_sync: false }
    }

    /// It joined again, and perhaps says something else.
    pub(super) fn update(&mut self, join: Join, now: Millis) {
        self.is.client_id = join.client_id;
        self.is.client_host = join.client_host;
        self.is.session_timeout = join.session_timeout;
        self.is.rebalance_timeout = join.rebalance_timeout;
        self.is.protocols = join.protocols;
        self.seen = now;
    }

    /// When its session ends; never while one of its requests waits here.
    pub(super) fn expires(&self) -> Option<Millis> {
        (self.joining.is_none() && self.syncing.is_none()).then(|| self.seen.saturating_add(self.is.session_timeout))
    }
}

/// The topics in a subscription of the consumer protocol: version, then an array of strings.
fn topics(metadata: &[u8]) -> Option<Vec<String>> {
    let mut rest = metadata.get(2..)?;
    let mut take = |n: usize| -> Option<&[u8]> {
        let (taken, left) = rest.split_at_checked(n)?;
        rest = left;
        Some(taken)
    };
    let count = i32::from_be_bytes(take(4)?.try_into().ok()?);
    let mut topics = Vec::new();
    for _ in 0..count {
        let length = i16::from_be_bytes(take(2)?.try_into().ok()?);
        topics.push(String::from_utf8(take(usize::try_from(length).ok()?)?.to_vec()).ok()?);
    }
    Some(topics)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_topics_of_a_subscription() {
        let metadata = b"\0\x03\0\0\0\x02\0\x01a\0\x02bc\xff\xff\xff\xff";
        assert_eq!(topics(metadata), Some(vec!["a".to_owned(), "bc".to_owned()]));
        for cut in 0..metadata.len() - 4 {
            assert_eq!(topics(&metadata[..cut]), None, "cut at {cut}");
        }
    }
}
