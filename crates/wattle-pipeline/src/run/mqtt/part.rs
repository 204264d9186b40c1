//! What the subscriber of an MQTT broker tells those who watch its stream.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::super::part::{Gauge, Part};

/// How often the log says that the broker is still away.
const REMINDER: Duration = Duration::from_secs(60);

/// How it is with the broker.
pub(in crate::run) struct BrokerPart {
    broker: String,
    away: Mutex<Option<Away>>,
    connections: AtomicU64,
    messages: AtomicU64,
    again: AtomicU64,
    waiting: AtomicUsize,
    no_room: AtomicBool,
}

struct Away {
    since: Instant,
    told: Option<Instant>,
    tries: u32,
    reason: String,
}

impl BrokerPart {
    /// Not connected yet.
    pub(in crate::run) fn new(broker: String) -> Self {
        let away = Away { since: Instant::now(), told: None, tries: 0, reason: "connects".to_owned() };
        BrokerPart {
            broker,
            away: Mutex::new(Some(away)),
            connections: AtomicU64::default(),
            messages: AtomicU64::default(),
            again: AtomicU64::default(),
            waiting: AtomicUsize::default(),
            no_room: AtomicBool::default(),
        }
    }

    pub(super) fn connected(&self) {
        self.connections.fetch_add(1, Ordering::Relaxed);
        *self.away() = None;
    }

    /// The connection is gone, or did not come about; whether the log should say so.
    pub(super) fn lost(&self, reason: &str) -> bool {
        let mut away = self.away();
        let away =
            away.get_or_insert_with(|| Away { since: Instant::now(), told: None, tries: 0, reason: String::new() });
        away.tries += 1;
        reason.clone_into(&mut away.reason);
        let says = away.told.is_none_or(|told| told.elapsed() >= REMINDER);
        if says {
            away.told = Some(Instant::now());
        }
        says
    }

    /// A message was handed in.
    pub(super) fn took(&self, dup: bool) {
        self.messages.fetch_add(1, Ordering::Relaxed);
        self.again.fetch_add(dup.into(), Ordering::Relaxed);
    }

    /// So many messages are not acknowledged.
    pub(super) fn waiting(&self, messages: usize) {
        self.waiting.store(messages, Ordering::Relaxed);
    }

    /// Whether that is a change.
    pub(super) fn no_room(&self, there_is_none: bool) -> bool {
        self.no_room.swap(there_is_none, Ordering::Relaxed) != there_is_none
    }

    fn away(&self) -> MutexGuard<'_, Option<Away>> {
        self.away.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Part for BrokerPart {
    fn problem(&self) -> Option<String> {
        let away = self.away();
        let Away { since, tries, reason, .. } = away.as_ref()?;
        let (broker, seconds) = (&self.broker, since.elapsed().as_secs());
        Some(format!("mqtt broker {broker} is not connected since {seconds} s, {tries} attempts: {reason}"))
    }

    fn gauges(&self) -> Vec<Gauge> {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let connected = if self.away().is_none() { 1.0 } else { 0.0 };
        let waiting = self.waiting.load(Ordering::Relaxed) as f64;
        vec![
            Gauge::now("mqtt_connected", "1 where the subscription to the MQTT broker stands.", connected),
            Gauge::counter(
                "mqtt_connections",
                "Connections to the MQTT broker that came about.",
                count(&self.connections),
            ),
            Gauge::counter("mqtt_messages", "Messages taken from the MQTT broker.", count(&self.messages)),
            Gauge::counter("mqtt_repeated", "Those of them that it had sent before (DUP).", count(&self.again)),
            Gauge::now("mqtt_unacknowledged", "Messages that are taken and not safe yet.", waiting),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broker_that_is_away_is_a_problem_until_it_is_back() {
        let part = BrokerPart::new("there:1883".to_owned());
        let problem = part.problem().unwrap();
        assert!(problem.starts_with("mqtt broker there:1883 is not connected since 0 s, 0 attempts"), "{problem}");
        part.connected();
        assert_eq!(part.problem(), None);
        assert!(part.lost("nobody") && !part.lost("nobody listens"), "the log says it once");
        assert!(part.problem().unwrap().ends_with("2 attempts: nobody listens"));
        part.connected();
        assert!(part.lost("gone"), "and again the next time");
        part.took(false);
        part.took(true);
        let value = |name: &str| part.gauges().iter().find(|gauge| gauge.name == name).unwrap().value;
        let values = ["mqtt_connected", "mqtt_connections", "mqtt_messages", "mqtt_repeated"].map(value);
        assert_eq!(values, [0.0, 2.0, 2.0, 1.0]);
    }
}
