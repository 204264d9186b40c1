//! Whether the brokers of the streams answer. A stream without records has nothing to commit, and would not notice.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use wattle::{ClientProperties, Error, Ping};

use super::health::GLANCE;
use super::part::{Gauge, Part};
use super::{StreamHandle, spawn};

/// Longest time without an answer that is no problem yet: a broker that restarts is back by then.
const SILENCE: Duration = Duration::from_secs(15);

/// The brokers of a cluster, as they are written, and how they are connected to.
pub(crate) type Clusters = BTreeMap<String, ClientProperties>;

/// A cluster that streams need.
struct Reach {
    brokers: String,
    /// Longest time without an answer.
    silence: Duration,
    heard: Mutex<Instant>,
}

/// Watches the clusters of each stream until all streams have ended. Nothing has to be connected yet.
pub(super) fn watch(streams: &[StreamHandle], clusters: &[Clusters], stuck_after: Duration) -> Result<(), Error> {
    let silence = stuck_after.min(SILENCE);
    let mut known = BTreeMap::<&str, Arc<Reach>>::new();
    for (stream, clusters) in streams.iter().zip(clusters) {
        for (brokers, properties) in clusters {
            let reach = match known.get(brokers.as_str()) {
                Some(reach) => reach.clone(),
                None => Reach::start(brokers, silence, Ping::new(stream.id(), brokers, properties)?, streams.to_vec())?,
            };
            known.insert(brokers, reach.clone());
            stream.watch_part(reach);
        }
    }
    Ok(())
}

impl Reach {
    fn start(brokers: &str, silence: Duration, ping: Ping, streams: Vec<StreamHandle>) -> Result<Arc<Self>, Error> {
        let reach = Arc::new(Reach { brokers: brokers.to_owned(), silence, heard: Mutex::new(Instant::now()) });
        let heard = reach.clone();
        // Several questions within the silence, so that one that is lost is no problem.
        let (each, mut asked) = (silence / 3, None::<Instant>);
        // Nobody waits for this thread, and it ends by itself when the streams have ended.
        spawn("wattle-reach".to_owned(), move || {
            while streams.iter().any(|stream| !stream.is_done()) {
                if asked.is_none_or(|at| at.elapsed() >= each) {
                    asked = Some(Instant::now());
                    match ping.ask(each) {
                        Ok(()) => *heard.heard.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now(),
                        Err(error) => tracing::debug!(brokers = heard.brokers, %error, "no answer"),
                    }
                }
                std::thread::sleep(GLANCE);
            }
        })?;
        Ok(reach)
    }
}

impl Part for Reach {
    fn problem(&self) -> Option<String> {
        let silence = self.heard.lock().unwrap_or_else(PoisonError::into_inner).elapsed();
        (silence > self.silence)
            .then(|| format!("no broker of {} has answered for {} s", self.brokers, silence.as_secs()))
    }

    fn gauges(&self) -> Vec<Gauge> {
        Vec::new()
    }
}
