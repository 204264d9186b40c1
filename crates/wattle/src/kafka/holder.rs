//! Who committed a position: written into its metadata, so that a successor who waits for a transaction knows whose it is.

use super::ffi::Group;

/// The first word of the metadata, with the version of what follows.
const MARK: &str = "wattle/1";

/// The member and the transactional id that a position was committed with.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Holder {
    pub(crate) transactional_id: String,
    pub(crate) member_id: String,
    /// Of a static member, whose member id changes with every start.
    pub(crate) instance_id: Option<String>,
}

impl Holder {
    pub(crate) fn write(&self) -> String {
        let instance = self.instance_id.as_deref().unwrap_or_default();
        format!("{MARK}\t{}\t{}\t{instance}", self.transactional_id, self.member_id)
    }

    /// `None` for what we have not written, names with tabs included: nobody is guessed.
    pub(crate) fn read(metadata: &str) -> Option<Self> {
        let [MARK, transactional_id, member_id, instance] = metadata.split('\t').collect::<Vec<_>>()[..] else {
            return None;
        };
        Some(Holder {
            transactional_id: transactional_id.to_owned(),
            member_id: member_id.to_owned(),
            instance_id: (!instance.is_empty()).then(|| instance.to_owned()),
        })
    }

    /// Whether the member, or a later start of the same static member, is in the group.
    pub(crate) fn is_in(&self, group: &Group) -> bool {
        group.members.iter().any(|member| {
            member.id == self.member_id || self.instance_id.is_some() && member.instance_id == self.instance_id
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::ffi::Member;
    use super::*;

    fn holder(instance: Option<&str>) -> Holder {
        Holder {
            transactional_id: "app-7".to_owned(),
            member_id: "m-1".to_owned(),
            instance_id: instance.map(str::to_owned),
        }
    }

    #[test]
    fn what_is_written_is_read_and_nothing_else() {
        for holder in [holder(None), holder(Some("one"))] {
            assert_eq!(Holder::read(&holder.write()), Some(holder));
        }
        let tab = Holder { member_id: "a\tb".to_owned(), ..holder(None) };
        for other in ["", "wattle/1", "wattle/2\ta\tb\t", "leader epoch 7", &tab.write()] {
            assert_eq!(Holder::read(other), None, "{other:?}");
        }
    }

    #[test]
    fn a_static_member_is_known_by_its_instance() {
        let member = |id: &str, instance: Option<&str>| Member {
            id: id.to_owned(),
            client_id: String::new(),
            host: String::new(),
            instance_id: instance.map(str::to_owned),
            partitions: Vec::new(),
        };
        let group = |members| Group { stable: true, members };
        assert!(holder(None).is_in(&group(vec![member("m-1", None)])));
        assert!(!holder(None).is_in(&group(vec![member("m-2", None)])));
        assert!(holder(Some("one")).is_in(&group(vec![member("m-2", Some("one"))])));
        assert!(!holder(Some("one")).is_in(&group(vec![member("m-2", Some("two")), member("m-3", None)])));
    }
}
