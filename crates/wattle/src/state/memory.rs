//! State in memory: as fast as it gets, and read again from the changelog at every start of the process.

use std::collections::HashMap;

use super::{ChangeRef, Checkpoint, Failed, Store, Value, is_state_key};

#[derive(Debug, Default)]
pub(crate) struct Memory {
    values: HashMap<Box<[u8]>, Box<[u8]>>,
    checkpoint: Option<Checkpoint>,
}

impl Memory {
    fn set(&mut self, key: &[u8], value: Option<&[u8]>) {
        match (value, self.values.get_mut(key)) {
            (Some(value), Some(slot)) if slot.len() == value.len() => slot.copy_from_slice(value),
            (Some(value), Some(slot)) => *slot = value.into(),
            (Some(value), None) => drop(self.values.insert(key.into(), value.into())),
            (None, _) => drop(self.values.remove(key)),
        }
    }
}

impl Store for Memory {
    fn get(&self, key: &[u8]) -> Result<Option<Value<'_>>, Failed> {
        Ok(self.values.get(key).map(|value| Value::Memory(value)))
    }

    fn apply(
        &mut self,
        changes: &mut dyn Iterator<Item = ChangeRef<'_>>,
        checkpoint: Checkpoint,
    ) -> Result<(), Failed> {
        for (key, value) in changes {
            self.set(key, value);
        }
        self.checkpoint = Some(checkpoint);
        Ok(())
    }

    fn checkpoint(&self) -> Option<Checkpoint> {
        self.checkpoint
    }

    fn keys(&self) -> Result<usize, Failed> {
        Ok(self.values.keys().filter(|key| is_state_key(key)).count())
    }

    fn wipe(self: Box<Self>) -> Result<(), Failed> {
        Ok(())
    }
}
