//! The changes of a batch on top of what is committed.

use std::collections::{BTreeMap, HashMap};

use super::timers::{Due, TIME, TIMERS, Timers, stored, time};
use super::{Store, is_reserved};
use crate::stage::{Clock, SetTimer};

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
    timers: Timers,
    /// The largest timestamp of a record, with and without the batch.
    time: Option<i64>,
    committed_time: Option<i64>,
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
        let mut timers = Timers::default();
        store.scan(TIMERS, &mut |key, value| timers.set(key, Some(value)));
        let time = store.get(TIME).and_then(time);
        let (changes, by_key) = (Vec::new(), HashMap::new());
        self.tasks.insert(task, TaskState { store, changes, by_key, timers, time, committed_time: time });
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
        if is_reserved(key) {
            task.timers.set(key, value.as_deref());
        }
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
        for task in self.tasks.values_mut() {
            task.time = task.committed_time;
            if task.changes.is_empty() {
                continue;
            }
            for change in task.changes.iter().filter(|change| is_reserved(&change.key)) {
                task.timers.set(&change.key, task.store.get(&change.key));
            }
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
            task.committed_time = task.time;
        }
        self.clear();
    }

    /// Notes the timestamp of a record of the current task. Returns the time of the stream.
    pub(crate) fn advance(&mut self, timestamp: Option<i64>) -> Option<i64> {
        let task = self.tasks.get_mut(&self.current).expect("a task that runs has its state");
        task.time = task.time.max(timestamp);
        task.time
    }

    /// Sets or clears a timer of a key of the current task.
    pub(crate) fn set_timer(&mut self, key: &[u8], timer: &SetTimer, source: usize) {
        let value = timer.at.map(|at| at.to_string().into_bytes());
        self.set(&stored(timer.clock, &timer.name, key), value, source);
    }

    /// The earliest timer of a key of the current task that is due at this time of the stream.
    pub(crate) fn due_of(&self, key: &[u8], now: Option<i64>) -> Option<Due> {
        let timers = &self.tasks.get(&self.current)?.timers;
        if timers.is_empty() { None } else { timers.due_of(key, now?) }
    }

    /// The timers of a task that are due, with the time of its stream; `now` is that of the wall clock.
    pub(crate) fn due(&self, task: i32, now: i64) -> impl Iterator<Item = (Due, Option<i64>)> {
        self.tasks.get(&task).into_iter().flat_map(move |task| {
            let stream = task.time.into_iter().flat_map(|time| task.timers.due(Clock::Stream, time));
            stream.chain(task.timers.due(Clock::Wall, now)).map(|due| (due, task.time))
        })
    }

    /// Keeps the time of a task's stream, where timers go by it.
    pub(crate) fn keep_time(&mut self, task: i32, source: usize) {
        let Some(state) = self.tasks.get(&task).filter(|task| task.timers.has(Clock::Stream)) else { return };
        let value = state.time.map(|time| time.to_string().into_bytes());
        self.set_current(task);
        self.set(TIME, value, source);
    }

    /// Whether a task has timers. Those change without its positions.
    pub(crate) fn has_timers(&self, task: i32) -> bool {
        self.tasks.get(&task).is_some_and(|task| !task.timers.is_empty())
    }

    /// When the next timer of a task fires by the wall clock.
    pub(crate) fn next_wall(&self, task: i32) -> Option<i64> {
        self.tasks.get(&task)?.timers.next(Clock::Wall)
    }

    /// The timers of a key.
    pub(crate) fn timers_of(&self, task: i32, key: &[u8]) -> Vec<(Clock, String, i64)> {
        self.tasks.get(&task).map(|task| task.timers.of(key)).unwrap_or_default()
    }

    /// The tasks that have a store.
    pub(crate) fn tasks(&self) -> Vec<i32> {
        self.tasks.keys().copied().collect()
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
