//! In scope `worker` the group is the fence, which takes members that show the group's token with their positions. A member of another
//! product may commit its own without; and the records of the partitions that it is given never reach our outputs.

use std::time::{Duration, Instant};

use super::startup::COORDINATOR;
use crate::config::{Delivery, TransactionScope, WorkerConfig};
use crate::error::Error;
use crate::kafka::{CLIENT, Group, GroupView, Member};

/// The group that is to have our members only.
pub(super) struct OwnGroup {
    name: String,
    /// The client id that the user gave; without one ours begin with [`CLIENT`].
    client_id: Option<String>,
    /// What every member reads.
    topics: Vec<String>,
}

impl OwnGroup {
    /// `None` where the group may be shared.
    pub(super) fn of(config: &WorkerConfig) -> Option<Self> {
        let exactly_once = matches!(config.delivery, Delivery::ExactlyOnce { .. });
        let client_id = config.consumer_properties.get("client.id").cloned();
        (exactly_once && config.transaction_scope == TransactionScope::Worker).then(|| OwnGroup {
            name: config.group.clone(),
            client_id,
            topics: config.topics.clone(),
        })
    }

    /// Refuses members of another product.
    pub(super) fn check(&self, view: &GroupView) -> Result<(), Error> {
        let group = view
            .group(COORDINATOR)
            .map_err(|source| Error::Kafka { what: format!("describe the group {}", self.name), source })?;
        self.foreign(&group).map_or(Ok(()), |text| Err(Error::BrokerSetting { text }))
    }

    /// What is wrong with the members; `None` if they are all ours.
    pub(super) fn foreign(&self, group: &Group) -> Option<String> {
        self.of_another_product(group).or_else(|| self.with_other_topics(group))
    }

    /// Members that read other topics have tasks of the same numbers, and with them the same partitions of the changelog and of the outputs.
    fn with_other_topics(&self, group: &Group) -> Option<String> {
        let topics = group.members.iter().flat_map(|member| member.partitions.iter().map(move |of| (member, &of.0)));
        let (member, topic) = topics.into_iter().find(|(_, topic)| !self.topics.contains(topic))?;
        Some(format!(
            "the member with client id {} at {} of the group {} reads {topic}, and this process reads {}: with transaction_scope worker all processes \
             of an application read the same topics, or two of them would have one task. Stop those of the former version first, or \
             give this one a name of its own",
            member.client_id,
            member.host.trim_start_matches('/'),
            self.name,
            self.topics.join(", ")
        ))
    }

    fn of_another_product(&self, group: &Group) -> Option<String> {
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
                 consumer_group, or set transaction_scope: task. If they are Wattle's, give them the same client.id, or one that begins \
                 with {CLIENT}",
                self.name,
                members.join("; ")
            )
        })
    }
}

/// How long the coordinator may not have us as a member while it answers others.
const GONE: Duration = Duration::from_secs(60);

/// With the group protocol `consumer`: whether the coordinator has us. librdkafka 2.12 can fall silent behind a connection that was made
/// anew while a heartbeat was under way, and believes in its membership for ever.
#[derive(Default)]
pub(super) struct Membership {
    missing: Option<Instant>,
}

impl Membership {
    /// Looks at the group at `now`; `member` is who we believe to be. An error once we have been missing for too long.
    pub(super) fn look(&mut self, group: &Group, member: Option<&str>, now: Instant) -> Result<(), Error> {
        if group.members.iter().any(|other| Some(other.id.as_str()) == member) {
            self.missing = None;
            return Ok(());
        }
        if now.duration_since(*self.missing.get_or_insert(now)) <= GONE {
            return Ok(());
        }
        let what =
            "joining the consumer group again, whose coordinator does not have this process as a member any more"
                .to_owned();
        Err(Error::Stuck { what, within: GONE })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_that_stays_missing_is_an_error() {
        let member = Member {
            id: "us".to_owned(),
            client_id: String::new(),
            host: String::new(),
            instance_id: None,
            partitions: Vec::new(),
        };
        let (with, without) =
            (Group { stable: true, members: vec![member] }, Group { stable: true, members: Vec::new() });
        let (mut membership, start) = (Membership::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        membership.look(&without, Some("us"), at(0)).expect("it may be joining");
        membership.look(&without, None, at(60)).expect("there is time");
        membership.look(&with, Some("us"), at(70)).expect("it is there");
        membership.look(&without, Some("us"), at(80)).expect("the time begins anew");
        membership.look(&with, Some("other"), at(141)).expect_err("it is missing for too long");
    }

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
        let mut own = OwnGroup { name: "orders".to_owned(), client_id: None, topics: vec!["a".to_owned()] };
        let text = own.foreign(&group).expect("two of them");
        assert!(text.contains("orders") && text.contains("client id billing at 10.0.0.7; client id console"), "{text}");
        assert!(!text.contains("  "), "{text}");
        own.client_id = Some("billing".to_owned());
        assert!(!own.foreign(&group).expect("one of them").contains("billing"));
    }

    #[test]
    fn a_member_with_other_topics_is_named() {
        let member = |topic: &str| Member {
            id: String::new(),
            client_id: "wattle-orders-1".to_owned(),
            host: "/10.0.0.7".to_owned(),
            instance_id: None,
            partitions: vec![(topic.to_owned(), 3)],
        };
        let own = OwnGroup { name: "orders".to_owned(), client_id: None, topics: vec!["a".to_owned(), "b".to_owned()] };
        let mut group = Group { stable: true, members: vec![member("a"), member("b")] };
        assert_eq!(own.foreign(&group), None);
        group.members.push(member("c"));
        let text = own.foreign(&group).expect("one of them");
        for part in ["wattle-orders-1 at 10.0.0.7", "group orders reads c", "reads a, b"] {
            assert!(text.contains(part), "{part}: {text}");
        }
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
