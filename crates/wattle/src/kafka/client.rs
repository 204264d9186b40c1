//! The properties of our clients, and what becomes of librdkafka's log.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rdkafka::ClientConfig;
use rdkafka::client::ClientContext;
use rdkafka::config::{NativeClientConfig, RDKafkaLogLevel};
use rdkafka::error::{KafkaError, RDKafkaErrorCode as Code};

use crate::config::ClientProperties;
use crate::error::Error;

/// What the client ids of our clients begin with, unless the user gives another one.
pub(crate) const CLIENT: &str = "wattle-";

/// Properties that every client has. The user's come last where they are allowed at all: `owned_property` has refused the rest.
pub(super) fn base(name: &str, brokers: &str) -> ClientConfig {
    let mut config = ClientConfig::new();
    config
        .set("bootstrap.servers", brokers)
        .set("client.id", format!("{CLIENT}{name}"))
        // A single broker that starts may answer that there is none, and librdkafka forgets them all; only the addresses that it was given
        // bring them back. Producers do without, see there.
        .set("metadata.recovery.strategy", "rebootstrap")
        // A broker that restarts is back within seconds; the default would look for it every 10 s.
        .set("reconnect.backoff.max.ms", "1000")
        .set("log.connection.close", "false");
    config
}

pub(super) fn with_user(mut config: ClientConfig, properties: &ClientProperties) -> ClientConfig {
    for (name, value) in properties {
        config.set(name, value);
    }
    config
}

/// What librdkafka has against a property, without its value, which may be a secret.
pub(crate) fn property_problem(name: &str, value: &str) -> Option<String> {
    match ClientConfig::new().set(name, value).create_native_config() {
        Err(KafkaError::ClientConfig(_, reason, ..)) if !value.is_empty() => Some(reason.replace(value, "…")),
        Err(error) => Some(error.to_string()),
        Ok(config) => number_problem(&config, name, value),
    }
}

/// librdkafka reads a number as far as it is one, and takes `5MB` for 5.
fn number_problem(config: &NativeClientConfig, name: &str, value: &str) -> Option<String> {
    let number = |text: &str| text.trim().parse::<f64>().ok().filter(|number| number.is_finite());
    let default = ClientConfig::new().create_native_config().ok()?.get(name).ok()?;
    number(&default)?;
    let (given, taken) = (number(value), number(&config.get(name).ok()?));
    (given.is_none() || given != taken).then(|| "must be a number without a unit".to_owned())
}

/// A client that cannot be made has a property that librdkafka does not know, or a value that it refuses.
pub(super) fn refused(error: KafkaError) -> Error {
    let problem = match error {
        // The reason may quote the value, which may be a secret.
        KafkaError::ClientConfig(_, reason, property, value) if value.is_empty() => {
            format!("client property {property}: {reason}")
        }
        KafkaError::ClientConfig(_, reason, property, value) => {
            format!("client property {property}: {}", reason.replace(&value, "…"))
        }
        other => other.to_string(),
    };
    Error::Config { problems: vec![problem] }
}

/// Passes librdkafka's log on. While a broker is away librdkafka repeats itself several times a second, so a facility speaks at
/// most once in 30 s; the rest is there at level debug.
pub(super) struct LogGate {
    name: String,
    last: Mutex<Vec<(String, Instant)>>,
    /// Why a connection failed last.
    reason: Mutex<Option<String>>,
}

impl LogGate {
    pub(super) fn new(name: &str) -> Self {
        LogGate { name: name.to_owned(), last: Mutex::default(), reason: Mutex::default() }
    }

    /// Why a connection failed last, in librdkafka's words.
    pub(super) fn reason(&self) -> Option<String> {
        self.reason.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn opens(&self, facility: &str) -> bool {
        const PAUSE: Duration = Duration::from_secs(30);
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        if let Some(entry) = last.iter_mut().find(|(known, _)| known == facility) {
            let open = now.duration_since(entry.1) >= PAUSE;
            if open {
                entry.1 = now;
            }
            return open;
        }
        last.push((facility.to_owned(), now));
        true
    }
}

impl ClientContext for LogGate {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        // CONFWARN is about properties that only one of our clients uses.
        let loud =
            (level as i32) <= (RDKafkaLogLevel::Warning as i32) && facility != "CONFWARN" && self.opens(facility);
        if loud {
            tracing::warn!(stream = %self.name, facility, "kafka client: {message}");
        } else {
            tracing::debug!(stream = %self.name, facility, "kafka client: {message}");
        }
    }

    fn error(&self, error: KafkaError, reason: &str) {
        // That all brokers are down follows from the reason before it, and explains nothing.
        if error.rdkafka_error_code() != Some(Code::AllBrokersDown) {
            *self.reason.lock().unwrap_or_else(PoisonError::into_inner) = Some(reason.to_owned());
        }
        if self.opens("ERROR") {
            tracing::warn!(stream = %self.name, "kafka client: {error}: {reason}");
        } else {
            tracing::debug!(stream = %self.name, "kafka client: {error}: {reason}");
        }
    }
}
