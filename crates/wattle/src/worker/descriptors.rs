//! File descriptors: how many a worker may come to need, and the limit of its process. Looked at before anything runs: a client that
//! gets none fails late, in the middle of a takeover, and for a reason that librdkafka does not tell.

use std::fs;

use nix::sys::resource::{Resource, getrlimit, setrlimit};

use crate::config::{Delivery, TransactionScope, WorkerConfig};
use crate::error::Error;

/// Of a librdkafka client, whatever the cluster: the wake-up pipe of its internal thread, and the connection to a coordinator with another.
const CLIENT: u64 = 5;
/// Of a librdkafka client for each broker: a connection and the wake-up pipe of its thread.
const BROKER: u64 = 3;
/// Of the store of a task on disk: journals, tables and a lock.
const STORE: u64 = 72;
/// Of the runtime in which a lane's stage waits.
const RUNTIME: u64 = 3;
/// Clients that a worker has beside those of its lanes, at most: the consumer, the view of the group, one that sets first positions, one
/// that ends what a dead worker has left open.
const CLIENTS: u64 = 4;
/// Files, pipes and connections of whatever else the process does.
const RESERVE: u64 = 32;

/// What one worker may come to need.
#[derive(Clone, Copy, Debug)]
struct Need {
    lanes: u64,
    /// Of one lane.
    each: u64,
    /// Everything, with what the process has open already.
    all: u64,
}

/// Makes sure that the process may open what a worker needs that gets all partitions: raises the soft limit to the hard one where it is
/// short of that, as the runtimes of Go and Java do.
///
/// # Errors
/// [`Error::Limit`] where the hard limit is too low. Delivered at least once only a warning tells: what sinks need is not known here.
pub(super) fn check(config: &WorkerConfig, partitions: i32, brokers: usize) -> Result<(), Error> {
    let lanes = u64::try_from(config.transaction_scope.lanes(partitions)).unwrap_or_default();
    let mut need = Need::of(lanes, u64::try_from(brokers).unwrap_or(u64::MAX), open());
    if config.state_dir.is_some() {
        need.all += STORE * u64::try_from(partitions).unwrap_or_default();
    }
    let Some(limit) = granted(&config.name, need.all) else { return Ok(()) };
    let text = need.refusal(config, partitions, limit);
    if !matches!(config.delivery, Delivery::ExactlyOnce { .. }) {
        tracing::warn!(stream = %config.name, "{text}");
        return Ok(());
    }
    Err(Error::Limit { text })
}

impl Need {
    fn of(lanes: u64, brokers: u64, open: u64) -> Self {
        let client = CLIENT + BROKER * brokers;
        let each = client + RUNTIME;
        Need { lanes, each, all: open + RESERVE + CLIENTS * client + lanes * each }
    }

    fn refusal(&self, config: &WorkerConfig, partitions: i32, limit: u64) -> String {
        let Need { lanes, each, all } = self;
        let fewer = u64::try_from(TransactionScope::Worker.lanes(partitions)).unwrap_or_default();
        let other = if *lanes > fewer {
            format!(", or set transaction_scope: worker, where all partitions together need {}", fewer * each)
        } else {
            String::new()
        };
        format!(
            "{}: the process may open {limit} files, and needs {all} file descriptors if all {partitions} partitions come to it ({each} for \
             each of {lanes} producers): raise the hard limit (ulimit -n {all} before the start; LimitNOFILE of a systemd unit; \
             --ulimit nofile={all} of a container){other}",
            config.name
        )
    }
}

/// The limit, where it is below `needed` and cannot be raised; `None` where there is enough.
fn granted(stream: &str, needed: u64) -> Option<u64> {
    // A system that does not tell its limit has the last word anyway.
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).ok()?;
    // With twice as much there is room for further workers of the process, which all count for themselves.
    if soft >= needed.saturating_mul(2) || soft == hard {
        return (soft < needed).then_some(soft);
    }
    match setrlimit(Resource::RLIMIT_NOFILE, hard, hard) {
        Ok(()) => {
            tracing::info!(stream, "raised the limit of open files (ulimit -n) from {soft} to {hard}");
            (hard < needed).then_some(hard)
        }
        Err(error) => {
            tracing::debug!(stream, "the limit of open files stays at {soft}: {error}");
            (soft < needed).then_some(soft)
        }
    }
}

/// Descriptors that the process has open.
fn open() -> u64 {
    // Where the system does not show them, the reserve has to do.
    fs::read_dir("/dev/fd").map_or(0, |entries| entries.count() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Measured on one broker: 11 for each lane, 45 for a whole process with one.
    #[test]
    fn what_is_needed_is_a_little_more_than_what_was_measured() {
        assert_eq!(Need::of(256, 1, 16).each, 11);
        assert!((2_850..3_000).contains(&Need::of(256, 1, 16).all), "{:?}", Need::of(256, 1, 16));
        assert!((45..120).contains(&Need::of(1, 1, 16).all), "{:?}", Need::of(1, 1, 16));
    }

    #[test]
    fn a_refusal_says_how_many_and_what_else_helps() {
        let delivery = Delivery::ExactlyOnce { transactional_id: "t".to_owned() };
        let config = WorkerConfig::new("orders", "b", "g", ["a"], delivery);
        let need = Need::of(256, 3, 20);
        let text = need.refusal(&config, 256, 1024);
        for word in ["orders", "1024", &format!("ulimit -n {}", need.all), "transaction_scope: worker"] {
            assert!(text.contains(word), "{word} is not in: {text}");
        }
        assert!(!Need::of(4, 3, 20).refusal(&config, 256, 64).contains("transaction_scope"));
    }
}
