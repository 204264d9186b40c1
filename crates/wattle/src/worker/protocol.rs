//! The group protocol `consumer`: whether the brokers speak it, and what their refusals mean. Where a broker does not, librdkafka says
//! nothing and asks for ever.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use rdkafka::error::RDKafkaErrorCode as Code;

use crate::config::{GroupProtocol, WorkerConfig};
use crate::error::Error;
use crate::kafka::{self, Admin, Cluster};

/// How long the group may take to take a new member, while its coordinator answers.
const PATIENCE: Duration = Duration::from_secs(60);
/// The same where nothing says that the broker speaks the protocol.
const DOUBT: Duration = Duration::from_secs(10);

/// Lists the protocols that a broker's coordinator speaks.
const PROTOCOLS: &str = "group.coordinator.rebalance.protocols";
/// Every broker that speaks the protocol has it.
const SESSION: &str = "group.consumer.session.timeout.ms";

/// How long to wait for a worker's first membership, which with the protocol `consumer` comes soon or never; `None`: for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Patience(Option<Duration>);

impl Patience {
    /// Refuses a broker that says that it does not speak the protocol.
    pub(crate) fn of(admin: &Admin, cluster: &Cluster, config: &WorkerConfig) -> Result<Self, Error> {
        match config.group_protocol {
            GroupProtocol::Classic => Ok(Patience(None)),
            GroupProtocol::Consumer => Self::by(&admin.broker_settings(cluster), &config.brokers),
        }
    }

    fn by(settings: &BTreeMap<String, String>, brokers: &str) -> Result<Self, Error> {
        match settings.get(PROTOCOLS) {
            Some(protocols) if !protocols.split(',').any(|protocol| protocol.trim() == "consumer") => {
                Err(unsupported(brokers, &format!("they have {PROTOCOLS}={protocols}")))
            }
            _ => Ok(Patience(Some(if settings.contains_key(SESSION) { PATIENCE } else { DOUBT }))),
        }
    }
}

/// When a wait for the first membership is said.
const SAY: Duration = Duration::from_secs(5);

/// The wait for a worker's first membership.
pub(super) struct Joining {
    patience: Option<Duration>,
    since: Instant,
    is_over: bool,
    said: bool,
}

impl Joining {
    pub(super) fn new(patience: Patience, now: Instant) -> Self {
        Joining { patience: patience.0, since: now, is_over: false, said: false }
    }

    /// Looked at now and then: an error where the group does not take us although its coordinator `answers`. While that does not answer,
    /// a broker is away or starts, which is no reason to end.
    pub(super) fn look(
        &mut self,
        config: &WorkerConfig,
        now: Instant,
        is_member: impl Fn() -> bool,
        answers: impl Fn() -> bool,
    ) -> Result<(), Error> {
        self.is_over |= is_member();
        if self.is_over {
            return Ok(());
        }
        let waited = now.duration_since(self.since);
        if waited >= SAY && !std::mem::replace(&mut self.said, true) {
            tracing::info!(
                stream = %config.name,
                "waits for the group {}: a member that died without leaving keeps its place until its session timeout is over",
                config.group
            );
        }
        let Some(patience) = self.patience else { return Ok(()) };
        if waited >= patience {
            if answers() {
                let why = format!("the group {} took no member within {} s", config.group, patience.as_secs());
                return Err(unsupported(&config.brokers, &why));
            }
            let waited_s = patience.as_secs();
            tracing::warn!(stream = %config.name, waited_s, "still waits for the coordinator of the group {}", config.group);
            self.since = now;
        }
        Ok(())
    }
}

fn unsupported(brokers: &str, why: &str) -> Error {
    let text = format!(
        "the brokers {brokers} do not seem to speak the group protocol consumer (KIP-848): {why}. It needs Kafka 4.0 or later, with the \
         feature group.version 1 or later; or set group_protocol classic"
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
        _ => {
            let (name, group, topics) = (&config.name, &config.group, config.topics.join(", "));
            Error::Kafka { what: format!("{name}: serve the consumer group {group} (topics {topics})"), source }
        }
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
        let error = Patience::by(&settings(&[(PROTOCOLS, "classic"), (SESSION, "45000")]), "b:1").expect_err("refused");
        assert!(matches!(error, Error::BrokerSetting { .. }));
        for part in ["b:1", "KIP-848", "protocols=classic", "Kafka 4.0", "group_protocol classic"] {
            assert!(error.to_string().contains(part), "{part}: {error}");
        }
        let both = Patience::by(&settings(&[(PROTOCOLS, "classic, consumer"), (SESSION, "45000")]), "b:1");
        assert_eq!(both.expect("it may be"), Patience(Some(PATIENCE)));
        assert_eq!(Patience::by(&settings(&[]), "b:1").expect("it may be"), Patience(Some(DOUBT)), "it tells nothing");
    }

    #[test]
    fn a_group_that_takes_nobody_though_its_coordinator_answers_is_an_error() {
        let delivery = crate::Delivery::ExactlyOnce { transactional_id: "t".to_owned() };
        let config = WorkerConfig::new("n", "b:1", "g", ["a"], delivery);
        let start = Instant::now();
        let joining = || Joining::new(Patience(Some(DOUBT)), start);
        let (early, late, later) = (start + DOUBT / 2, start + DOUBT, start + DOUBT * 2);
        let mut refused = joining();
        refused.look(&config, early, || false, || true).expect("there is time");
        let error = refused.look(&config, late, || false, || true).expect_err("the time is over");
        assert!(error.to_string().contains("the group g took no member within 10 s"), "{error}");
        let mut away = joining();
        away.look(&config, late, || false, || false).expect("a broker that is away is waited for");
        away.look(&config, late + DOUBT / 2, || false, || true).expect("and the time begins anew");
        assert!(away.look(&config, later, || false, || true).is_err());
        let mut member = joining();
        member.look(&config, late, || true, || true).expect("a member");
        member.look(&config, later, || false, || true).expect("was a member");
        let mut classic = Joining::new(Patience(None), start);
        classic.look(&config, later, || false, || true).expect("the classic protocol waits");
    }
}
