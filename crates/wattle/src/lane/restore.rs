//! The committed state of a task, brought up to date before the task runs. Positions first, then the end of the changelog (R2): what is
//! committed between the two is in the state, and a commit of an older owner that comes later is fenced.

use std::collections::BTreeMap;
use std::time::Instant;

use super::millis;
use crate::error::Error;
use crate::invariant::w2_a_restore_reaches_the_high_watermark;
use crate::kafka::{Offset, Position};
use crate::stage::Transformer;
use crate::state::{Checkpoint, Disk, Failed, Memory, Origin, Store, is_state_key, now_ms};
use crate::task::positions;
#[cfg(any(test, fuzzing))]
use crate::worker::Restores;
use crate::worker::{Restoring, Shared, Stop};

/// Keys, and bytes of keys and values, that a store takes at once.
const CHUNK: (usize, usize) = (10_000, 4 << 20);
/// Memory for blocks that are read, of all stores of a process together; of each at least the second.
const CACHE_BYTES: (u64, u64) = (256 << 20, 4 << 20);

/// A store of a task, while nobody uses it.
pub(super) type Kept = Option<Box<dyn Store>>;

/// Brings the state of a task up to the high watermark of its changelog partition: an open transaction of a dead owner pins the last stable
/// offset below state whose positions are committed. `kept` is what there is of it already; only what it does not reach is read, if it can be trusted. Returns
/// false where the task is not ours any more.
pub(super) fn refresh<S: Transformer>(
    shared: &Shared<S>,
    number: i32,
    kept: &mut Kept,
    cancel: &Stop,
) -> Result<bool, Error> {
    let (Some(changelog), Some(facts)) = (shared.changelog(), &shared.topology.changelog) else { return Ok(true) };
    // Taken before the ends: whatever is written behind them is younger.
    let (started, now) = (Instant::now(), now_ms());
    let ask = || shared.view.watermarks(&changelog.topic, number, positions::WATERMARKS);
    let (low, high) = positions::ends(&changelog.topic, number, ask)?;
    let mut store = match kept.take() {
        Some(store) => store,
        None => open(shared, number)?,
    };
    let distrust = |checkpoint: Checkpoint| checkpoint.distrust(low, high, facts.delete_retention, now);
    if let Some(why) = store.checkpoint().and_then(distrust) {
        say_wiped(shared, number, &why);
        store.wipe().map_err(|reason| failed(number, "removed", reason))?;
        store = open(shared, number)?;
    }
    let from = store.checkpoint().map_or(Position(low), |checkpoint| checkpoint.position);
    let progress = shared.restores.begin(&shared.config.name, number, from, Position(high));
    let mut chunk = Chunk::new(store.as_mut(), from, now, progress);
    let reached = changelog.replay(number, from, high, cancel, |offset, key, value| {
        chunk.add(offset, key, value).map_err(|reason| failed(number, "written", reason))
    })?;
    let records = chunk.end(reached, now).map_err(|reason| failed(number, "written", reason))?;
    *kept = Some(store);
    if let Some(reached) = reached {
        w2_a_restore_reaches_the_high_watermark(reached, high);
        let (stream, took_ms) = (&shared.config.name, millis(started));
        let topic = &changelog.topic;
        tracing::info!(%stream, records, from = from.0, took_ms, "task {number} has its state from {topic}/{number}");
    }
    Ok(reached.is_some())
}

/// What is read and not in the store yet: the last of each key, since a store takes each once.
struct Chunk<'a> {
    store: &'a mut dyn Store,
    keys: BTreeMap<Box<[u8]>, Option<Box<[u8]>>>,
    bytes: usize,
    /// Behind everything that was read.
    next: Position,
    owned_until: i64,
    progress: Restoring<'a>,
}

impl<'a> Chunk<'a> {
    /// None yet. What is read while a store is not up to date is as old as the store.
    fn new(store: &'a mut dyn Store, from: Position, now: i64, progress: Restoring<'a>) -> Self {
        let owned_until = store.checkpoint().map_or(now, |checkpoint| checkpoint.owned_until);
        Chunk { store, keys: BTreeMap::new(), bytes: 0, next: from, owned_until, progress }
    }

    fn add(&mut self, offset: Offset, key: &[u8], value: Option<&[u8]>) -> Result<(), Failed> {
        self.next = offset.next();
        // A longer key is of no state that was ever taken, and no store takes it.
        if key.len() > usize::from(u16::MAX) {
            tracing::warn!(
                "passed over offset {offset} of the changelog: its key has {} bytes, and no state has",
                key.len()
            );
        } else if is_state_key(key) {
            self.progress.record(self.next);
            // An empty value deletes, as a null one does.
            let value = value.filter(|value| !value.is_empty());
            self.bytes += key.len() + value.map_or(0, <[u8]>::len);
            self.keys.insert(key.into(), value.map(Into::into));
            if self.keys.len() >= CHUNK.0 || self.bytes >= CHUNK.1 {
                return self.flush();
            }
        }
        Ok(())
    }

    /// Hands on what is left. Behind `reached` only what is written from now on can be missed later. Returns how many records there were.
    fn end(mut self, reached: Option<Position>, now: i64) -> Result<u64, Failed> {
        if let Some(end) = reached {
            (self.next, self.owned_until) = (end, now);
        }
        self.flush()?;
        Ok(self.progress.records())
    }

    fn flush(&mut self) -> Result<(), Failed> {
        let checkpoint = Checkpoint { position: self.next, owned_until: self.owned_until };
        self.store.apply(&mut self.keys.iter().map(|(key, value)| (&**key, value.as_deref())), checkpoint)?;
        self.keys.clear();
        self.bytes = 0;
        Ok(())
    }
}

/// The store that these records of a changelog make.
#[cfg(any(test, fuzzing))]
pub(crate) fn fold<'r>(records: impl IntoIterator<Item = (&'r [u8], Option<&'r [u8]>)>) -> Box<dyn Store> {
    let (mut store, restores) = (Memory::default(), Restores::default());
    let progress = restores.begin("", 0, Position(0), Position(0));
    let mut chunk = Chunk::new(&mut store, Position(0), 0, progress);
    for (offset, (key, value)) in (0..).zip(records) {
        chunk.add(Offset(offset), key, value).expect("memory takes it");
    }
    chunk.end(None, 0).expect("memory takes it");
    Box::new(store)
}

/// The store of a task as it was left.
fn open<S: Transformer>(shared: &Shared<S>, number: i32) -> Result<Box<dyn Store>, Error> {
    let (Some(folder), Some(facts)) = (&shared.states, &shared.topology.changelog) else {
        return Ok(Box::new(Memory::default()));
    };
    let origin = Origin {
        application: shared.config.name.clone(),
        topic: shared.config.changelog_topic.clone().unwrap_or_default(),
        topic_id: facts.id.clone(),
        partition: number,
    };
    let tasks = u64::try_from(shared.topology.partitions).unwrap_or(1).max(1);
    let cache_bytes = (CACHE_BYTES.0 / tasks).max(CACHE_BYTES.1);
    let opened = Disk::open(&folder.task(number), origin, cache_bytes);
    let (store, wiped) = opened.map_err(|reason| failed(number, "opened", reason))?;
    if let Some(why) = wiped {
        say_wiped(shared, number, &why);
    }
    Ok(Box::new(store))
}

fn say_wiped<S>(shared: &Shared<S>, number: i32, why: &str) {
    tracing::warn!(stream = %shared.config.name, "task {number}: its local state is wiped and built anew: {why}");
}

fn failed(task: i32, what: &'static str, reason: Failed) -> Error {
    Error::State { task, what, reason: reason.to_string() }
}

/// Refuses a task whose positions are gone while its state is there: processing from the beginning on top of it would count
/// everything twice. A topic that is new beside others has no position yet, and is no such case.
pub(super) fn refuse_state_without_positions<S: Transformer>(
    shared: &Shared<S>,
    number: i32,
    found: &[Option<Position>],
    kept: &mut Kept,
    cancel: &Stop,
) -> Result<(), Error> {
    if found.iter().any(Option::is_some) || !refresh(shared, number, kept, cancel)? {
        return Ok(());
    }
    let Some(store) = kept else { return Ok(()) };
    let keys = store.keys().map_err(|reason| failed(number, "read", reason))?;
    let mut timers = 0;
    store.timers(&mut |_, _| timers += 1).map_err(|reason| failed(number, "read", reason))?;
    if keys + timers == 0 {
        return Ok(());
    }
    Err(Error::StateWithoutPositions {
        task: number,
        group: shared.config.group.clone(),
        changelog: shared.config.changelog_topic.clone().unwrap_or_default(),
        keys,
        timers,
    })
}
