//! The group protocol `consumer`: whether the brokers speak it, and what their refusals mean. Where a broker does not, librdkafka says
//! nothing and asks for ever.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use rdkafka::error::RDKafkaErrorCode as Code;

use crate::config::{GroupProtocol, WorkerConfig};
use crate::error::Error;
use crate::kafka::{self, Admin, Cluster};

/// How long the group may take to answer a broker's new member for the first time: a coordinator that starts is slow.
const PATIENCE: Duration = Duration::from_secs(60);
/// The same where nothing says that the broker speaks the protocol.
const DOUBT: Duration = Duration::from_secs(10);

/// Lists the protocols that a broker's coordinator speaks.
const PROTOCOLS: &str = "group.coordinator.rebalance.protocols";
/// Every broker that speaks the protocol has it.
const SESSION: &str = "group.consumer.session.timeout.ms";

/// A worker's first membership, which with the protocol `consumer` comes at once or never.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Joining(Option<Duration>);

impl Joining {
    /// Refuses a broker that says that it does not speak the protocol.
    pub(crate) fn check(admin: &Admin, cluster: &Cluster, config: &WorkerConfig) -> Result<Self, Error> {
        match config.group_protocol {
            GroupProtocol::Classic => Ok(Joining(None)),
            GroupProtocol::Consumer => Self::by(&admin.broker_settings(cluster), &config.brokers),
        }
    }

    fn by(settings: &BTreeMap<String, String>, brokers: &str) -> Result<Self, Error> {
        match settings.get(PROTOCOLS) {
            Some(protocols) if !protocols.split(',').any(|protocol| protocol.trim() == "consumer") => {
                Err(unsupported(brokers, &format!("they have {PROTOCOLS}={protocols}")))
            }
            _ => Ok(Joining(Some(if settings.contains_key(SESSION) { PATIENCE } else { DOUBT }))),
        }
    }

    /// Called until it returns false: there is nothing to wait for any more.
    pub(super) fn goes_on(
        &self,
        config: &WorkerConfig,
        since: Instant,
        is_member: impl Fn() -> bool,
    ) -> Result<bool, Error> {
        let Some(patience) = self.0 else { return Ok(false) };
        if is_member() {
            return Ok(false);
        }
        if since.elapsed() < patience {
            return Ok(true);
        }
        Err(unsupported(&config.brokers, &format!("the group took no member within {} s", patience.as_secs())))
    }
}

fn unsupported(brokers: &str, why: &str) -> Error {
    let text = format!(
        "the brokers {brokers} do not speak the group protocol consumer (KIP-848): {why}. It needs Kafka 4.0 or later, with the feature \
         group.version 1 or later; or set group_protocol classic"
    );
    Error::BrokerSetting { text }
}

/// What a fatal answer of the coordinator is about; other errors stay as they are.
pub(super) fn explain(config: &WorkerConfig, source: kafka::Error) -> Error {
    match source.code() {
        Some(Code::UnsupportedVersion) if config.group_protocol == GroupProtocol::Consumer => {
            unsupported(&config.brokers, "the coordinator refuses it")
        }
        Some(Code::UnreleasedInstanceId) => Error::Kafka {
            what: format!(
                "{}: the group {} still has a member with the group_instance_id {}: another process that runs, which needs one of its own, or \
                 one that was killed, whose session has to end first (the group's consumer.session.timeout.ms)",
                config.name,
                config.group,
                config.group_instance_id.as_deref().unwrap_or_default()
            ),
            source,
        },
        _ => Error::Kafka { what: format!("{}: serve the consumer group", config.name), source },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(list: &[(&str, &str)]) -> BTreeMap<String, String> {
        list.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn a_broker_that_lists_other_protocols_is_refused_at_once() {
        let error = Joining::by(&settings(&[(PROTOCOLS, "classic"), (SESSION, "45000")]), "b:1").expect_err("refused");
        assert!(matches!(error, Error::BrokerSetting { .. }));
        for part in ["b:1", "KIP-848", "protocols=classic", "Kafka 4.0", "group_protocol classic"] {
            assert!(error.to_string().contains(part), "{part}: {error}");
        }
        let both = Joining::by(&settings(&[(PROTOCOLS, "classic, consumer"), (SESSION, "45000")]), "b:1");
        assert_eq!(both.expect("it may be"), Joining(Some(PATIENCE)));
    }

    #[test]
    fn a_broker_that_tells_nothing_gets_a_short_time() {
        let joining = Joining::by(&settings(&[]), "b:1").expect("it may be");
        assert_eq!(joining, Joining(Some(DOUBT)));
        let delivery = crate::Delivery::ExactlyOnce { transactional_id: "t".to_owned() };
        let config = WorkerConfig::new("n", "b:1", "g", ["a"], delivery);
        let now = Instant::now();
        assert!(joining.goes_on(&config, now, || false).expect("there is time"));
        assert!(!joining.goes_on(&config, now, || true).expect("a member"));
        let late = now.checked_sub(DOUBT).expect("the machine is up for longer");
        assert!(joining.goes_on(&config, late, || false).is_err());
        assert!(!Joining(None).goes_on(&config, late, || false).expect("the classic protocol waits"));
    }
}
