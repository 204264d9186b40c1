//! State in memory: as fast as it gets, and read again from the changelog at every start.

use std::collections::HashMap;

use super::Store;

#[derive(Debug, Default)]
pub(crate) struct Memory(HashMap<Box<[u8]>, Box<[u8]>>);

impl Store for Memory {
    fn get(&self, key: &[u8]) -> Option<&[u8]> {
        self.0.get(key).map(AsRef::as_ref)
    }

    fn set(&mut self, key: &[u8], value: Option<&[u8]>) {
        match (value, self.0.get_mut(key)) {
            (Some(value), Some(slot)) if slot.len() == value.len() => slot.copy_from_slice(value),
            (Some(value), Some(slot)) => *slot = value.into(),
            (Some(value), None) => drop(self.0.insert(key.into(), value.into())),
            (None, _) => drop(self.0.remove(key)),
        }
    }

    fn scan(&self, prefix: &[u8], visit: &mut dyn FnMut(&[u8], &[u8])) {
        for (key, value) in self.0.iter().filter(|(key, _)| key.starts_with(prefix)) {
            visit(key, value);
        }
    }

    fn len(&self) -> usize {
        self.0.len()
    }
}
