//! Keyed state: what a stage remembers of a key, by task. It commits with the outputs and positions of its batch, since its changes are
//! records of a changelog topic in the same transaction; a [`Store`] holds what is committed.

mod changes;
mod memory;

pub(crate) use changes::{Change, TaskStates};
pub(crate) use memory::Memory;

/// What begins a key of the changelog that is not a state's.
const RESERVED: &[u8] = b"\0wattle.";

/// The committed state of one task.
pub(crate) trait Store: Send {
    /// The value of a key; `None` where it has none.
    fn get(&self, key: &[u8]) -> Option<&[u8]>;

    /// Sets a key's value, or deletes it.
    fn set(&mut self, key: &[u8], value: Option<&[u8]>);

    /// How many keys have a value.
    fn len(&self) -> usize;
}

/// Whether a record of the changelog is about a state's key. The others, cursors for example, are not.
pub(crate) fn is_state_key(key: &[u8]) -> bool {
    !key.starts_with(RESERVED)
}
