//! The committed state of a task: read from its changelog partition before the task runs. Positions first, then the end of the changelog
//! (R2): what is committed between the two is in the state, and a commit of an older owner that comes later is fenced.

use std::time::Instant;

use super::millis;
use crate::error::Error;
use crate::kafka::{Position, Until};
use crate::stage::Transformer;
use crate::state::{Memory, Store, is_state_key};
use crate::worker::{Shared, Stop};

/// What has become of a task's state before it runs.
pub(super) enum Refreshed {
    /// What the lane has is right, or the stage keeps none.
    Right,
    Read(Box<dyn Store>),
    /// The task is not ours any more.
    Gone,
}

/// Reads a task's state, unless what the lane has is right: it is where its positions are, since all of it commits together.
pub(super) fn refresh<S: Transformer>(
    shared: &Shared<S>,
    number: i32,
    found: &[Position],
    warm: Option<&[Position]>,
    cancel: &Stop,
) -> Result<Refreshed, Error> {
    if !shared.stage.is_stateful() || warm == Some(found) {
        return Ok(Refreshed::Right);
    }
    Ok(restore(shared, number, cancel)?.map_or(Refreshed::Gone, Refreshed::Read))
}

/// Reads the state of a task up to the high watermark: an open transaction of a dead owner pins the last stable offset below state whose
/// positions are committed. `None` where the task has none, or is not ours any more.
fn restore<S: Transformer>(shared: &Shared<S>, number: i32, cancel: &Stop) -> Result<Option<Box<dyn Store>>, Error> {
    let Some(changelog) = shared.changelog() else { return Ok(None) };
    let started = Instant::now();
    let mut store = Memory::default();
    let mut records = 0_u64;
    let done = changelog.read(number, Until::HighWatermark, cancel, |key, value| {
        if is_state_key(key) {
            records += 1;
            store.set(key, value.filter(|value| !value.is_empty()));
        }
    })?;
    if !done {
        return Ok(None);
    }
    tracing::info!(
        stream = %shared.config.name,
        records,
        keys = store.len(),
        took_ms = millis(started),
        "task {number} has its state from {}/{number}",
        changelog.topic
    );
    Ok(Some(Box::new(store)))
}

/// Refuses a task whose positions are gone while its state is there: processing from the beginning on top of it would count
/// everything twice. A topic that is new beside others has no position yet, and is no such case.
pub(super) fn refuse_state_without_positions<S: Transformer>(
    shared: &Shared<S>,
    number: i32,
    found: &[Option<Position>],
    cancel: &Stop,
) -> Result<(), Error> {
    if found.iter().any(Option::is_some) {
        return Ok(());
    }
    let Some(store) = restore(shared, number, cancel)? else { return Ok(()) };
    if store.len() == 0 {
        return Ok(());
    }
    Err(Error::StateWithoutPositions {
        task: number,
        group: shared.config.group.clone(),
        changelog: shared.config.changelog_topic.clone().unwrap_or_default(),
        keys: store.len(),
    })
}
