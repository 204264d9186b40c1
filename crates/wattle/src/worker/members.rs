//! In scope `worker` the group is the fence, which takes members that show the group's token with their positions. A member of another
//! product may commit its own without; and the records of the partitions that it is given never reach our outputs.

use std::time::Duration;

use crate::config::{Delivery, TransactionScope, WorkerConfig};
use crate::error::Error;
use crate::kafka::{CLIENT, Group, GroupView, Member};

/// For a coordinator that starts or moves.
const COORDINATOR: Duration = Duration::from_secs(20);

/// The group that is to have our members only.
pub(super) struct OwnGroup {
    name: String,
    /// The client id that the user gave; without one ours begin with [`CLIENT`].
    client_id: Option<String>,
}

impl OwnGroup {
    /// `None` where the group may be shared.
    pub(super) fn of(config: &WorkerConfig) -> Option<Self> {
        let exactly_once = matches!(config.delivery, Delivery::ExactlyOnce { .. });
        let client_id = config.consumer_properties.get("client.id").cloned();
        (exactly_once && config.transaction_scope == TransactionScope::Worker)
            .then(|| OwnGroup { name: config.group.clone(), client_id })
    }

    /// Refuses members of another product.
    pub(super) fn check(&self, view: &GroupView) -> Result<(), Error> {
        let group = view
            .group(COORDINATOR)
            .map_err(|source| Error::Kafka { what: format!("describe the group {}", self.name), source })?;
        self.foreign(&group).map_or(Ok(()), |text| Err(Error::BrokerSetting { text }))
    }

    /// What is wrong with the members; `None` if they are all ours.
    fn foreign(&self, group: &Group) -> Option<String> {
        let foreign = |member: &&Member| {
            !member.client_id.starts_with(CLIENT) && Some(&member.client_id) != self.client_id.as_ref()
        };
        let name =
            |member: &Member| format!("client id {} at {}", member.client_id, member.host.trim_start_matches('/'));
        let members: Vec<String> = group.members.iter().filter(foreign).map(name).collect();
        (!members.is_empty()).then(|| {
            format!(
                "transaction_scope worker needs the group {} for itself, and it has other members: {}. They get partitions whose records do \
                 not come here, and may commit positions without the group's token, which fences nobody. Stop them, choose another \
                 consumer_group, or set transaction_scope: task",
                self.name,
                members.join("; ")
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_of_other_products_are_named() {
        let member = |client_id: &str| Member {
            id: String::new(),
            client_id: client_id.to_owned(),
            host: "/10.0.0.7".to_owned(),
            instance_id: None,
            partitions: Vec::new(),
        };
        let members = vec![member("wattle-n"), member("billing"), member("console-consumer")];
        let group = Group { stable: true, members };
        let mut own = OwnGroup { name: "orders".to_owned(), client_id: None };
        let text = own.foreign(&group).expect("two of them");
        assert!(text.contains("orders") && text.contains("client id billing at 10.0.0.7; client id console"), "{text}");
        assert!(!text.contains("  "), "{text}");
        own.client_id = Some("billing".to_owned());
        assert!(!own.foreign(&group).expect("one of them").contains("billing"));
    }

    #[test]
    fn only_scope_worker_needs_the_group_for_itself() {
        let delivery = Delivery::ExactlyOnce { transactional_id: "t".to_owned() };
        let mut config = WorkerConfig::new("n", "b", "orders", ["a"], delivery);
        assert!(OwnGroup::of(&config).is_none());
        config.transaction_scope = TransactionScope::Worker;
        assert!(OwnGroup::of(&config).is_some());
    }
}
