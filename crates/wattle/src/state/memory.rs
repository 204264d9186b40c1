//! State in memory: as fast as it gets, and read again from the changelog at every start of the process.

use std::collections::HashMap;

use super::{ChangeRef, Checkpoint, Failed, Store, Value, is_reserved};

type Values = HashMap<Box<[u8]>, Box<[u8]>>;

#[derive(Debug, Default)]
pub(crate) struct Memory {
    values: Values,
    /// The timers' entries, apart so that a start finds them without a look at every state.
    reserved: Values,
    checkpoint: Option<Checkpoint>,
}

impl Memory {
    fn set(&mut self, key: &[u8], value: Option<&[u8]>) {
        let values = if is_reserved(key) { &mut self.reserved } else { &mut self.values };
        match (value, values.get_mut(key)) {
            (Some(value), Some(slot)) if slot.len() == value.len() => slot.copy_from_slice(value),
            (Some(value), Some(slot)) => *slot = value.into(),
            (Some(value), None) => drop(values.insert(key.into(), value.into())),
            (None, _) => drop(values.remove(key)),
        }
    }
}

impl Store for Memory {
    fn get(&self, key: &[u8]) -> Result<Option<Value<'_>>, Failed> {
        let values = if is_reserved(key) { &self.reserved } else { &self.values };
        Ok(values.get(key).map(|value| Value::Memory(value)))
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

    fn timers(&self, visit: &mut dyn FnMut(&[u8], &[u8])) -> Result<(), Failed> {
        self.reserved.iter().for_each(|(key, value)| visit(key, value));
        Ok(())
    }

    fn keys(&self) -> Result<usize, Failed> {
        Ok(self.values.len())
    }

    fn wipe(self: Box<Self>) -> Result<(), Failed> {
        Ok(())
    }
}
