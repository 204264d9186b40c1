//! Keyed state: what a stage remembers of a key, by task. It commits with the outputs and positions of its batch, since its changes are
//! records of a changelog topic in the same transaction; a [`Store`] holds what is committed.

mod changes;
mod memory;
mod timers;

pub(crate) use changes::{Change, TaskStates};
pub(crate) use memory::Memory;
pub(crate) use timers::Due;

/// What begins a key of the changelog that is not a state's.
const RESERVED: &[u8] = b"\0wattle.";

/// The committed state of one task.
pub(crate) trait Store: Send {
    /// The value of a key; `None` where it has none.
    fn get(&self, key: &[u8]) -> Option<&[u8]>;

    /// Sets a key's value, or deletes it.
    fn set(&mut self, key: &[u8], value: Option<&[u8]>);

    /// Shows every key that begins with `prefix`, with its value, in any order.
    fn scan(&self, prefix: &[u8], visit: &mut dyn FnMut(&[u8], &[u8]));

    /// How many keys have a value.
    fn len(&self) -> usize;
}

/// Whether a record of the changelog belongs to the state: that of a key, or a timer of it. The others, cursors for example, do not.
pub(crate) fn is_state_key(key: &[u8]) -> bool {
    !is_reserved(key) || key.starts_with(timers::TIMERS)
}

/// Whether a key cannot be a state's.
pub(crate) fn is_reserved(key: &[u8]) -> bool {
    key.starts_with(RESERVED)
}
