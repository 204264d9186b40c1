//! The changes of a batch on top of what is committed.

use std::collections::{BTreeMap, HashMap};

use super::Store;

/// The stores of a lane's tasks, and what the batch in hand has changed of them. Nothing of a batch reaches a store before
/// [`TaskStates::commit`].
#[derive(Default)]
pub(crate) struct TaskStates {
    tasks: BTreeMap<i32, TaskState>,
    /// The task whose record is processed.
    current: i32,
}

struct TaskState {
    store: Box<dyn Store>,
    /// In the order in which the keys were first changed.
    changes: Vec<Change>,
    by_key: HashMap<Box<[u8]>, usize>,
}

/// What a batch leaves of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) key: Box<[u8]>,
    /// `None`: deleted.
    pub(crate) value: Option<Vec<u8>>,
    /// Index in its batch of the last record that changed it.
    pub(crate) source: usize,
}

impl TaskStates {
    /// Gives a task its committed state.
    pub(crate) fn open(&mut self, task: i32, store: Box<dyn Store>) {
        self.tasks.insert(task, TaskState { store, changes: Vec::new(), by_key: HashMap::new() });
    }

    pub(crate) fn is_open(&self, task: i32) -> bool {
        self.tasks.contains_key(&task)
    }

    pub(crate) fn set_current(&mut self, task: i32) {
        self.current = task;
    }

    /// The state of a key of the current task, changes of the batch included.
    ///
    /// # Panics
    /// Where the task has no store: a bug in here.
    pub(crate) fn get(&self, key: &[u8]) -> Option<&[u8]> {
        let task = self.tasks.get(&self.current).expect("a task that runs has its state");
        match task.by_key.get(key) {
            Some(index) => task.changes[*index].value.as_deref(),
            None => task.store.get(key),
        }
    }

    /// Changes a key of the current task.
    pub(crate) fn set(&mut self, key: &[u8], value: Option<Vec<u8>>, source: usize) {
        let task = self.tasks.get_mut(&self.current).expect("a task that runs has its state");
        if let Some(index) = task.by_key.get(key) {
            let change = &mut task.changes[*index];
            (change.value, change.source) = (value, source);
        } else {
            task.by_key.insert(key.into(), task.changes.len());
            task.changes.push(Change { key: key.into(), value, source });
        }
    }

    /// What differs from the committed state: one change a key, none where the batch has left it as it was.
    pub(crate) fn changes(&self) -> impl Iterator<Item = (i32, &Change)> {
        self.tasks.iter().flat_map(|(number, task)| {
            let differs = |change: &&Change| task.store.get(&change.key) != change.value.as_deref();
            task.changes.iter().filter(differs).map(move |change| (*number, change))
        })
    }

    /// Forgets the changes of the batch.
    pub(crate) fn clear(&mut self) {
        for task in self.tasks.values_mut().filter(|task| !task.changes.is_empty()) {
            task.changes.clear();
            task.by_key.clear();
        }
    }

    /// Makes the changes of the batch the committed state.
    pub(crate) fn commit(&mut self) {
        for task in self.tasks.values_mut() {
            for change in &task.changes {
                task.store.set(&change.key, change.value.as_deref());
            }
        }
        self.clear();
    }

    /// The committed state of a key of a task.
    pub(crate) fn committed(&self, task: i32, key: &[u8]) -> Option<&[u8]> {
        self.tasks.get(&task)?.store.get(key)
    }

    /// Takes a task's store away, without what the batch has changed.
    pub(crate) fn close(&mut self, task: i32) -> Option<Box<dyn Store>> {
        self.tasks.remove(&task).map(|task| task.store)
    }
}

impl std::fmt::Debug for TaskStates {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TaskStates").field("tasks", &self.tasks.keys()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::super::Memory;
    use super::*;

    fn states() -> TaskStates {
        let mut states = TaskStates::default();
        for task in [0, 1] {
            let mut store = Memory::default();
            store.set(b"kept", Some(b"1"));
            states.open(task, Box::new(store));
        }
        states
    }

    #[test]
    fn a_record_sees_the_changes_before_it_and_an_aborted_batch_leaves_none() {
        let mut states = states();
        states.set(b"kept", Some(b"2".to_vec()), 0);
        assert_eq!(states.get(b"kept"), Some(b"2".as_slice()));
        states.set(b"kept", None, 1);
        assert_eq!(states.get(b"kept"), None);
        states.clear();
        assert_eq!(states.get(b"kept"), Some(b"1".as_slice()));
    }

    #[test]
    fn a_batch_writes_one_change_a_key_and_none_where_nothing_changed() {
        let mut states = states();
        states.set(b"new", Some(b"1".to_vec()), 0);
        states.set(b"new", Some(b"2".to_vec()), 1);
        states.set(b"kept", Some(b"3".to_vec()), 2);
        states.set(b"kept", Some(b"1".to_vec()), 3);
        states.set(b"never there", None, 4);
        let changes: Vec<_> = states.changes().collect();
        assert_eq!(changes.len(), 1);
        assert_eq!((changes[0].0, &*changes[0].1.key, changes[0].1.source), (0, b"new".as_slice(), 1));
    }

    #[test]
    fn tasks_do_not_share_a_key() {
        let mut states = states();
        states.set_current(1);
        states.set(b"kept", None, 0);
        states.commit();
        assert_eq!((states.get(b"kept"), states.committed(1, b"kept")), (None, None));
        states.set_current(0);
        assert_eq!(states.get(b"kept"), Some(b"1".as_slice()));
    }
}
