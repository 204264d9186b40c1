//! Who committed a position: written into its metadata, so that a successor who waits for a transaction knows whose it is.

use super::ffi::Group;

/// The first word of the metadata, with the version of what follows.
const MARK: &str = "wattle/1";
/// Bytes; a broker allows 4096 by default.
const LONGEST: usize = 1000;

/// The process and the transactional id that a position was committed with. The member id would not do: a process that was expelled joins
/// again with another one, and keeps its transactional id.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Holder {
    pub(crate) transactional_id: String,
    /// Of the consumer. In scope `worker` no other process has it, unless the user gave one.
    pub(crate) client_id: String,
    /// Of a static member.
    pub(crate) instance_id: Option<String>,
}

impl Holder {
    /// Empty where the names are so long that a broker could refuse them (`offset.metadata.max.bytes`).
    pub(crate) fn write(&self) -> String {
        let instance = self.instance_id.as_deref().unwrap_or_default();
        let text = format!("{MARK}\t{}\t{}\t{instance}", self.transactional_id, self.client_id);
        if text.len() <= LONGEST { text } else { String::new() }
    }

    /// Whether who reads what is written knows it again.
    pub(crate) fn is_told(&self) -> bool {
        Self::read(&self.write()).as_ref() == Some(self)
    }

    /// `None` for what we have not written, names with tabs included: nobody is guessed.
    pub(crate) fn read(metadata: &str) -> Option<Self> {
        let [MARK, transactional_id, client_id, instance] = metadata.split('\t').collect::<Vec<_>>()[..] else {
            return None;
        };
        Some(Holder {
            transactional_id: transactional_id.to_owned(),
            client_id: client_id.to_owned(),
            instance_id: (!instance.is_empty()).then(|| instance.to_owned()),
        })
    }

    /// Whether the process, or a later start of the same static member, may be in the group.
    pub(crate) fn is_in(&self, group: &Group) -> bool {
        group.members.iter().any(|member| match &self.instance_id {
            Some(_) => member.instance_id == self.instance_id,
            None => member.client_id == self.client_id,
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
            client_id: "c-1".to_owned(),
            instance_id: instance.map(str::to_owned),
        }
    }

    #[test]
    fn what_is_written_is_read_and_nothing_else() {
        for holder in [holder(None), holder(Some("one"))] {
            assert_eq!(Holder::read(&holder.write()), Some(holder));
        }
        let tab = Holder { client_id: "a\tb".to_owned(), ..holder(None) };
        let long = Holder { transactional_id: "x".repeat(LONGEST), ..holder(None) };
        assert_eq!(long.write(), "");
        assert!(holder(None).is_told() && !tab.is_told() && !long.is_told());
        for other in ["", "wattle/1", "wattle/2\ta\tb\t", "leader epoch 7", &tab.write()] {
            assert_eq!(Holder::read(other), None, "{other:?}");
        }
    }

    #[test]
    fn a_process_is_known_over_every_member_id_that_it_has() {
        let member = |client_id: &str, instance: Option<&str>| Member {
            id: "new".to_owned(),
            client_id: client_id.to_owned(),
            host: String::new(),
            instance_id: instance.map(str::to_owned),
            partitions: Vec::new(),
        };
        let group = |members| Group { stable: true, members };
        assert!(holder(None).is_in(&group(vec![member("c-1", None)])));
        assert!(!holder(None).is_in(&group(vec![member("c-2", None)])));
        assert!(holder(Some("one")).is_in(&group(vec![member("c-2", Some("one"))])));
        assert!(!holder(Some("one")).is_in(&group(vec![member("c-1", Some("two")), member("c-3", None)])));
    }
}
