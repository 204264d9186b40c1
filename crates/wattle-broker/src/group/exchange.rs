//! What members say to their group, and what they are answered.

use std::collections::BTreeMap;

use crate::types::{Code, Millis};

/// Names a waiting request; its answer is fetched with it.
pub(crate) type Ticket = u64;

/// What a member says when it joins.
#[derive(Clone, Debug)]
pub(crate) struct Join {
    /// Empty for a newcomer.
    pub(crate) member_id: String,
    /// The member id that a newcomer gets.
    pub(crate) new_id: String,
    pub(crate) instance: Option<String>,
    pub(crate) client_id: String,
    pub(crate) client_host: String,
    pub(crate) session_timeout: Millis,
    pub(crate) rebalance_timeout: Millis,
    pub(crate) protocol_type: String,
    /// Names with the subscription that the member encodes for each, in the order of its preference.
    pub(crate) protocols: Vec<(String, Vec<u8>)>,
    /// A newcomer is told its id first and joins with it (version 4 and later).
    pub(crate) id_first: bool,
    /// A leader can be told to keep the assignment (version 9 and later).
    pub(crate) can_skip_assignment: bool,
}

/// A member is in.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Joined {
    pub(crate) member_id: String,
    pub(crate) generation: i32,
    pub(crate) leader: String,
    pub(crate) protocol_type: String,
    pub(crate) protocol: String,
    /// Id, instance id and metadata of everybody, for the leader.
    pub(crate) members: Vec<(String, Option<String>, Vec<u8>)>,
    pub(crate) skip_assignment: bool,
}

/// A member is not in.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Refusal {
    pub(crate) code: Code,
    /// The id to come back with, where the code asks for it.
    pub(crate) member_id: String,
}

/// What SyncGroup says.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sync {
    pub(crate) member_id: String,
    pub(crate) instance: Option<String>,
    pub(crate) generation: i32,
    pub(crate) protocol_type: Option<String>,
    pub(crate) protocol: Option<String>,
    /// By member id, from the leader.
    pub(crate) assignments: BTreeMap<String, Vec<u8>>,
}
