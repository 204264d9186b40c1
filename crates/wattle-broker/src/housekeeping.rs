//! What happens by time alone: sessions and transactions expire, logs are cleaned, the journal is replaced.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use crate::core::{Core, State};
use crate::error::Error;
use crate::journal::Entry;
use crate::recovery::snapshot;
use crate::server::Clients;
use crate::types::Millis;

/// Timeouts are kept this exactly.
const TICK: Duration = Duration::from_millis(100);
/// Logs are looked at this often.
const CLEAN: Duration = Duration::from_secs(1);

/// Starts the thread; it ends when the broker stops.
pub(crate) fn start(core: Arc<Core>, clients: Arc<Clients>) -> thread::JoinHandle<()> {
    let run = move || {
        let mut cleaned = Instant::now();
        while clients.sleep(TICK) {
            let clean = cleaned.elapsed() >= CLEAN;
            if clean {
                cleaned = Instant::now();
            }
            keep_house(&core, clean);
            if core.lock().broken.is_some() {
                clients.disconnect_all();
            }
        }
    };
    thread::Builder::new().name("broker-house".into()).spawn(run).expect("the system can start a thread")
}

/// Does now what is due now.
pub(crate) fn keep_house(core: &Core, clean: bool) {
    let now = core.clock.now();
    let mut state = core.lock();
    if state.broken.is_some() || core.is_stopping() {
        return;
    }
    let done = expire(&mut state, now).and_then(|changed| {
        if clean {
            clean_logs(&mut state, now)?;
            replace_journal(&mut state)?;
        }
        Ok(changed)
    });
    drop(state);
    // A rebalance may have ended by time without a change of members.
    core.groups_changed.notify_all();
    // An error has broken the broker: those who wait have to find out.
    if done.unwrap_or(true) {
        core.data_changed.notify_all();
    }
}

/// Returns whether a last stable offset may have moved.
fn expire(state: &mut State, now: Millis) -> Result<bool, Error> {
    let images = state.groups.expire(now);
    let ended = state.transactions.expire(now);
    for image in &images {
        state.journal(&Entry::Group(image.clone()))?;
    }
    for ended in &ended {
        tracing::debug!(transactional_id = ended.id, "aborted a transaction that was open for too long");
        state.end_transaction(ended.clone(), now)?;
    }
    Ok(!ended.is_empty())
}

fn clean_logs(state: &mut State, now: Millis) -> Result<(), Error> {
    let cleaned = state.topics.values_mut().try_for_each(|topic| {
        let config = &topic.config;
        topic.partitions.iter_mut().try_for_each(|log| log.clean(config, now).map(|_| ()))
    });
    state.checked(cleaned)
}

fn replace_journal(state: &mut State) -> Result<(), Error> {
    if !state.journal.is_long() {
        return Ok(());
    }
    let entries = snapshot(state);
    let replaced = state.journal.replace(entries.into_iter());
    state.checked(replaced)
}
