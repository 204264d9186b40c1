//! The group protocol, and the client properties that do not go with it.

/// How the members of the consumer group agree on who has which partitions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GroupProtocol {
    /// The members decide, by the assignor `range`. Whenever one comes or goes, all of them give back everything for a moment. Every
    /// broker speaks it.
    #[default]
    Classic,
    /// The group's coordinator decides (KIP-848), by its assignor `range`. Only partitions that move are given back; everything else
    /// keeps running. Needs Kafka 4.0 or later. The session timeout and the heartbeat interval are settings of the group or of the
    /// brokers, not of the client: see [`protocol_problem`].
    Consumer,
}

impl GroupProtocol {
    /// Kafka's name for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            GroupProtocol::Classic => "classic",
            GroupProtocol::Consumer => "consumer",
        }
    }
}

/// Why a librdkafka property of the consumer does not go with the group protocol, and what to do instead; `None` if it does. `group` is
/// the consumer group.
#[must_use]
pub fn protocol_problem(protocol: GroupProtocol, group: &str, name: &str) -> Option<String> {
    if protocol == GroupProtocol::Classic {
        return None;
    }
    match name {
        "session.timeout.ms" | "heartbeat.interval.ms" => Some(format!(
            "with group_protocol consumer the broker decides: remove it, and set consumer.{name} of the group (kafka-configs \
             --bootstrap-server HOST:PORT --alter --entity-type groups --entity-name {} --add-config consumer.{name}=MS) or \
             group.consumer.{name} of the brokers",
            if group.trim().is_empty() { "GROUP" } else { group }
        )),
        "group.protocol.type" => Some("belongs to group_protocol classic: remove it".to_owned()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_broker_decides_is_refused_with_its_place() {
        let problem = protocol_problem(GroupProtocol::Consumer, "g", "session.timeout.ms").expect("is refused");
        for part in ["consumer.session.timeout.ms=MS", "--entity-name g ", "group.consumer.session.timeout.ms"] {
            assert!(problem.contains(part), "{part}: {problem}");
        }
        assert!(
            protocol_problem(GroupProtocol::Consumer, " ", "heartbeat.interval.ms")
                .is_some_and(|p| p.contains("GROUP"))
        );
        assert!(protocol_problem(GroupProtocol::Consumer, "g", "group.protocol.type").is_some());
        assert_eq!(protocol_problem(GroupProtocol::Consumer, "g", "max.poll.interval.ms"), None);
        assert_eq!(protocol_problem(GroupProtocol::Classic, "g", "session.timeout.ms"), None);
    }
}
