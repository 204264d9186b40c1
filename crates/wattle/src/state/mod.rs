//! Keyed state: what a stage remembers of a key, by task. It commits with the outputs and positions of its batch, since its changes are
//! records of a changelog topic in the same transaction; a [`Store`] holds what is committed.

mod cache;
mod changes;
mod checkpoint;
mod disk;
mod folder;
mod memory;
mod timers;

use std::ops::Deref;

pub(crate) use changes::{Change, StoreFailed, TaskStates};
pub(crate) use checkpoint::{Checkpoint, Ends, now_ms};
pub(crate) use disk::{Disk, Origin};
#[cfg(any(test, fuzzing))]
pub(crate) use disk::{decode, encode};
pub(crate) use folder::StateFolder;
pub(crate) use memory::Memory;
pub(crate) use timers::{Due, MAX_NAME, time as timer_time};

/// What begins a key of the changelog, and of a store, that is not a state's.
const RESERVED: &[u8] = b"\0wattle.";

/// Most bytes of a state's key: the store on disk takes no longer one than 65 535 bytes, and the keys of its timers are longer.
pub(crate) const MAX_KEY: usize = 65_535 - timers::OVERHEAD;

/// The committed state of one task. Keys that begin with [`RESERVED`] are the product's own.
pub(crate) trait Store: Send {
    /// The value of a key; `None` where it has none.
    ///
    /// # Errors
    /// Where the disk cannot be read, or what it holds is damaged.
    fn get(&self, key: &[u8]) -> Result<Option<Value<'_>>, Failed>;

    /// Takes changes and how far in the changelog they reach, all or nothing. `None` as value deletes the key.
    ///
    /// # Errors
    /// Where nothing was taken. The store is not used after that: it is opened anew.
    fn apply(&mut self, changes: &mut dyn Iterator<Item = ChangeRef<'_>>, checkpoint: Checkpoint)
    -> Result<(), Failed>;

    /// How far in the changelog it reaches; `None` of a store that has never been told.
    fn checkpoint(&self) -> Option<Checkpoint>;

    /// Shows the timers' entries, and no others, in any order. The states are not read for it.
    ///
    /// # Errors
    /// As those of [`Store::get`].
    fn timers(&self, visit: &mut dyn FnMut(&[u8], &[u8])) -> Result<(), Failed>;

    /// How many keys have a state; timers do not count. On disk they are counted one by one.
    ///
    /// # Errors
    /// As those of [`Store::get`].
    fn keys(&self) -> Result<usize, Failed>;

    /// Removes it with everything that it holds.
    ///
    /// # Errors
    /// Where files are left.
    fn wipe(self: Box<Self>) -> Result<(), Failed>;
}

/// A key, and its value from now on.
pub(crate) type ChangeRef<'a> = (&'a [u8], Option<&'a [u8]>);

/// A value of a store: its own bytes, or a counted reference to a block that was read.
pub(crate) enum Value<'a> {
    Memory(&'a [u8]),
    Disk(fjall::Slice),
}

impl Deref for Value<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Value::Memory(bytes) => bytes,
            Value::Disk(bytes) => bytes,
        }
    }
}

/// A store on disk did not do what it was told. Says why.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Failed(pub(crate) String);

/// Whether a record of the changelog belongs in a store: the state of a key, a timer, or the time of the stream. The others, cursors for
/// example, do not.
pub(crate) fn is_state_key(key: &[u8]) -> bool {
    !is_reserved(key) || key.starts_with(timers::TIMERS)
}

/// Whether a key cannot be a state's.
pub(crate) fn is_reserved(key: &[u8]) -> bool {
    key.starts_with(RESERVED)
}
