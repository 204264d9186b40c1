//! Whose partitions are, as the group's coordinator says.

use super::ffi::Group;
use crate::config::GroupProtocol;

/// Whether a partition is ours, as the group's coordinator sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ownership {
    Ours,
    NotOurs,
    /// The group is in a rebalance.
    Undecided,
}

/// Whether this member has these partitions of all topics.
pub(super) fn ownership(protocol: GroupProtocol, group: &Group, member: &str, partitions: &[i32]) -> Ownership {
    // A coordinator that is moving or loading may answer with nothing, which says nothing about us.
    if group.members.is_empty() {
        return Ownership::Undecided;
    }
    let Some(us) = group.members.iter().find(|other| other.id == member) else { return Ownership::NotOurs };
    let assigned = |partition: &i32| us.partitions.iter().any(|(_, number)| number == partition);
    let ours = partitions.iter().all(assigned);
    match (protocol, group.stable) {
        (GroupProtocol::Classic, false) => Ownership::Undecided,
        (GroupProtocol::Classic, true) if ours => Ownership::Ours,
        (GroupProtocol::Classic, true) => Ownership::NotOurs,
        // What a member has is its own, whatever others of the group still have to do. What the coordinator wants back of us is missing
        // here before we hear of it.
        (GroupProtocol::Consumer, _) if ours => Ownership::Ours,
        (GroupProtocol::Consumer, _) => Ownership::Undecided,
    }
}

#[cfg(test)]
mod tests {
    use super::super::ffi::Member;
    use super::*;

    fn group(stable: bool) -> Group {
        let member = |id: &str, partitions: &[i32]| Member {
            id: id.to_owned(),
            client_id: String::new(),
            host: String::new(),
            instance_id: None,
            partitions: partitions.iter().map(|number| ("t".to_owned(), *number)).collect(),
        };
        Group { stable, members: vec![member("us", &[3, 5]), member("other", &[4])] }
    }

    #[test]
    fn only_a_stable_group_that_names_us_says_what_is_ours() {
        let ask =
            |group: &Group, member, partitions: &[i32]| ownership(GroupProtocol::Classic, group, member, partitions);
        assert_eq!(ask(&group(true), "us", &[3, 5]), Ownership::Ours);
        assert_eq!(ask(&group(true), "us", &[3, 4]), Ownership::NotOurs);
        assert_eq!(ask(&group(true), "gone", &[3]), Ownership::NotOurs);
        assert_eq!(ask(&group(false), "us", &[3, 5]), Ownership::Undecided);
        assert_eq!(ask(&Group { members: Vec::new(), ..group(false) }, "us", &[3]), Ownership::Undecided);
    }

    #[test]
    fn with_the_protocol_consumer_a_member_owns_what_it_has() {
        let ask =
            |group: &Group, member, partitions: &[i32]| ownership(GroupProtocol::Consumer, group, member, partitions);
        for stable in [true, false] {
            assert_eq!(ask(&group(stable), "us", &[3, 5]), Ownership::Ours);
            assert_eq!(ask(&group(stable), "us", &[3, 4]), Ownership::Undecided, "we shall hear of it");
            assert_eq!(ask(&group(stable), "gone", &[3]), Ownership::NotOurs);
        }
    }
}
