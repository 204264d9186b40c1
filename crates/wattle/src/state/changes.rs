//! The changes of a batch on top of what is committed.

use std::collections::{BTreeMap, HashMap};
use std::sync::OnceLock;
use std::time::Duration;

use super::timers::{self, Due, TIME, Timers, stored};
use super::{ChangeRef, Checkpoint, Ends, Failed, Store, Value, is_reserved};
use crate::kafka::Position;
use crate::stage::{Clock, SetTimer};

/// The stores of a lane's tasks, and what the batch in hand has changed of them. Nothing of a batch reaches a store before
/// [`TaskStates::commit`].
#[derive(Default)]
pub(crate) struct TaskStates {
    tasks: BTreeMap<i32, TaskState>,
    /// The task whose record is processed.
    current: i32,
    /// The first store that could not be read: what was made of the batch since is not to be committed.
    unread: OnceLock<StoreFailed>,
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

/// A task's store did not do what it was told.
#[derive(Clone, Debug)]
pub(crate) struct StoreFailed {
    pub(crate) task: i32,
    pub(crate) reason: Failed,
}

impl TaskStates {
    /// Gives a task its committed state. A store whose timers cannot be read is one that [`TaskStates::take_unread`] tells.
    pub(crate) fn open(&mut self, task: i32, store: Box<dyn Store>) {
        let (mut timers, mut time) = (Timers::default(), None);
        let read = store.timers(&mut |key, value| match key {
            TIME => time = timers::time(value),
            _ => timers.set(key, Some(value)),
        });
        if let Err(reason) = read {
            drop(self.unread.set(StoreFailed { task, reason }));
        }
        let (changes, by_key) = (Vec::new(), HashMap::new());
        self.tasks.insert(task, TaskState { store, changes, by_key, timers, time, committed_time: time });
    }

    pub(crate) fn is_open(&self, task: i32) -> bool {
        self.tasks.contains_key(&task)
    }

    pub(crate) fn set_current(&mut self, task: i32) {
        self.current = task;
    }

    /// The state of a key of the current task, changes of the batch included. `None` also where the store cannot be read, which
    /// [`TaskStates::take_unread`] tells.
    ///
    /// # Panics
    /// Where the task has no store: a bug in here.
    pub(crate) fn get(&self, key: &[u8]) -> Option<Value<'_>> {
        let task = self.tasks.get(&self.current).expect("a task that runs has its state");
        match task.by_key.get(key) {
            Some(index) => task.changes[*index].value.as_deref().map(Value::Memory),
            None => self.read(self.current, key),
        }
    }

    fn read(&self, task: i32, key: &[u8]) -> Option<Value<'_>> {
        match self.tasks.get(&task)?.store.get(key) {
            Ok(value) => value,
            Err(reason) => {
                // The first one counts.
                drop(self.unread.set(StoreFailed { task, reason }));
                None
            }
        }
    }

    /// The failure of a store to be read since the last call. What the batch has been processed to is wrong then.
    pub(crate) fn take_unread(&mut self) -> Option<StoreFailed> {
        self.unread.take()
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

    /// Ends the batch: keeps of its changes what differs from the committed state.
    pub(crate) fn settle(&mut self) {
        for (number, task) in &mut self.tasks {
            let TaskState { store, changes, by_key, .. } = task;
            changes.retain(|change| match store.get(&change.key) {
                Ok(before) => before.as_deref() != change.value.as_deref(),
                Err(reason) => {
                    drop(self.unread.set(StoreFailed { task: *number, reason }));
                    true
                }
            });
            by_key.clear();
        }
    }

    /// What the batch has changed, once it is settled: one change a key, none where the batch has left it as it was.
    pub(crate) fn changes(&self) -> impl Iterator<Item = (i32, &Change)> {
        self.tasks.iter().flat_map(|(number, task)| task.changes.iter().map(move |change| (*number, change)))
    }

    /// Forgets the changes of the batch.
    pub(crate) fn clear(&mut self) {
        for (number, task) in &mut self.tasks {
            task.time = task.committed_time;
            let TaskState { store, changes, timers, .. } = task;
            for Change { key, .. } in changes.iter().filter(|change| is_reserved(&change.key)) {
                match store.get(key) {
                    Ok(value) => timers.set(key, value.as_deref()),
                    Err(reason) => drop(self.unread.set(StoreFailed { task: *number, reason })),
                }
            }
            task.forget();
        }
    }

    /// Makes the changes of the batch, once it is settled, the committed state. `ends` says how far in the changelog they reach: of a task whose end is not known
    /// the checkpoint stays, and what is behind it is the same when it is read again.
    ///
    /// # Errors
    /// The tasks whose stores did not take it. They have none any more.
    pub(crate) fn commit(&mut self, ends: &Ends, now: i64) -> Result<(), Vec<StoreFailed>> {
        let mut failures = Vec::new();
        for (number, task) in &mut self.tasks {
            task.committed_time = task.time;
            if task.changes.is_empty() {
                continue;
            }
            let known = ends.get(number).copied().or(task.store.checkpoint().map(|checkpoint| checkpoint.position));
            let checkpoint = Checkpoint { position: known.unwrap_or(Position(0)), owned_until: now };
            let mut changes =
                task.changes.iter().map(|change| (&*change.key, change.value.as_deref()) as ChangeRef<'_>);
            if let Err(reason) = task.store.apply(&mut changes, checkpoint) {
                failures.push(StoreFailed { task: *number, reason });
            }
            // The timers are those of the batch already.
            task.forget();
        }
        for failure in &failures {
            self.tasks.remove(&failure.task);
        }
        if failures.is_empty() { Ok(()) } else { Err(failures) }
    }

    /// Says that nobody else has written to a task's changelog partition until now, unless that was said less than `often` ago, or so long ago that it
    /// may not be true.
    ///
    /// # Errors
    /// As those of [`TaskStates::commit`].
    pub(crate) fn own(
        &mut self,
        task: i32,
        often: Duration,
        stale: impl Fn(Checkpoint) -> bool,
        now: i64,
    ) -> Result<(), Vec<StoreFailed>> {
        let Some(TaskState { store, .. }) = self.tasks.get_mut(&task) else { return Ok(()) };
        let Some(checkpoint) = store.checkpoint() else { return Ok(()) };
        let is_fresh = i128::from(now - checkpoint.owned_until) < often.as_millis() as i128;
        if is_fresh || stale(checkpoint) {
            return Ok(());
        }
        store.apply(&mut std::iter::empty(), Checkpoint { owned_until: now, ..checkpoint }).map_err(|reason| {
            self.tasks.remove(&task);
            vec![StoreFailed { task, reason }]
        })
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

    /// The committed state of a key of a task, whatever the batch has changed.
    ///
    /// # Errors
    /// As those of [`Store::get`].
    pub(crate) fn committed(&self, task: i32, key: &[u8]) -> Result<Option<Value<'_>>, Failed> {
        self.tasks.get(&task).map_or(Ok(None), |task| task.store.get(key))
    }

    /// Takes a task's store away, without what the batch has changed.
    pub(crate) fn close(&mut self, task: i32) -> Option<Box<dyn Store>> {
        self.tasks.remove(&task).map(|task| task.store)
    }
}

impl TaskState {
    fn forget(&mut self) {
        self.changes.clear();
        self.by_key.clear();
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

    const START: Checkpoint = Checkpoint { position: Position(1), owned_until: 0 };

    fn get(states: &TaskStates, key: &[u8]) -> Option<Vec<u8>> {
        states.get(key).map(|value| value.to_vec())
    }

    fn states() -> TaskStates {
        let mut states = TaskStates::default();
        for task in [0, 1] {
            let mut store = Memory::default();
            let kept = (b"kept".as_slice(), Some(b"1".as_slice()));
            store.apply(&mut std::iter::once(kept), START).expect("memory takes it");
            states.open(task, Box::new(store));
        }
        states
    }

    #[test]
    fn a_record_sees_the_changes_before_it_and_an_aborted_batch_leaves_none() {
        let mut states = states();
        states.set(b"kept", Some(b"2".to_vec()), 0);
        assert_eq!(get(&states, b"kept"), Some(b"2".to_vec()));
        states.set(b"kept", None, 1);
        assert_eq!(get(&states, b"kept"), None);
        states.clear();
        assert_eq!(get(&states, b"kept"), Some(b"1".to_vec()));
    }

    #[test]
    fn a_batch_writes_one_change_a_key_and_none_where_nothing_changed() {
        let mut states = states();
        states.set(b"new", Some(b"1".to_vec()), 0);
        states.set(b"new", Some(b"2".to_vec()), 1);
        states.set(b"kept", Some(b"3".to_vec()), 2);
        states.set(b"kept", Some(b"1".to_vec()), 3);
        states.set(b"never there", None, 4);
        states.settle();
        let changes: Vec<_> = states.changes().collect();
        assert_eq!(changes.len(), 1);
        assert_eq!((changes[0].0, &*changes[0].1.key, changes[0].1.source), (0, b"new".as_slice(), 1));
    }

    #[test]
    fn tasks_do_not_share_a_key() {
        let mut states = states();
        states.set_current(1);
        states.set(b"kept", None, 0);
        states.settle();
        states.commit(&Ends::from([(1, Position(7))]), 5).expect("memory takes it");
        assert!(states.get(b"kept").is_none() && states.committed(1, b"kept").is_ok_and(|value| value.is_none()));
        let checkpoint = |task: i32| states.tasks[&task].store.checkpoint();
        assert_eq!(checkpoint(1), Some(Checkpoint { position: Position(7), owned_until: 5 }));
        assert_eq!(checkpoint(0), Some(START), "nothing was changed there");
        states.set_current(0);
        assert_eq!(get(&states, b"kept"), Some(b"1".to_vec()));
    }

    #[test]
    fn timers_are_those_of_the_store_after_it_was_away_and_after_an_aborted_batch() {
        let mut states = states();
        let due = |states: &TaskStates| states.due(0, 10).map(|(due, time)| (due.at, time)).collect::<Vec<_>>();
        let timer = |name: &str, at| SetTimer { clock: Clock::Stream, name: name.to_owned(), at: Some(at) };
        states.set_current(0);
        states.advance(Some(5));
        states.set_timer(b"kept", &timer("a", 3), 0);
        states.keep_time(0, 0);
        states.settle();
        states.commit(&Ends::new(), 5).expect("memory takes it");
        states.advance(Some(9));
        states.set_timer(b"kept", &timer("a", 4), 0);
        states.set_timer(b"kept", &timer("b", 8), 1);
        assert_eq!(due(&states), [(4, Some(9)), (8, Some(9))]);
        states.clear();
        assert_eq!(due(&states), [(3, Some(5))]);
        let store = states.close(0).expect("it was open");
        assert_eq!((due(&states).len(), store.keys().expect("memory")), (0, 1));
        states.open(0, store);
        assert_eq!(due(&states), [(3, Some(5))]);
    }

    /// A disk that fails.
    struct Broken;

    impl Store for Broken {
        fn get(&self, _: &[u8]) -> Result<Option<Value<'_>>, Failed> {
            Err(Failed("unreadable".to_owned()))
        }

        fn apply(&mut self, _: &mut dyn Iterator<Item = ChangeRef<'_>>, _: Checkpoint) -> Result<(), Failed> {
            Err(Failed("full".to_owned()))
        }

        fn checkpoint(&self) -> Option<Checkpoint> {
            Some(START)
        }

        fn timers(&self, _: &mut dyn FnMut(&[u8], &[u8])) -> Result<(), Failed> {
            Err(Failed("unreadable".to_owned()))
        }

        fn keys(&self) -> Result<usize, Failed> {
            Err(Failed("unreadable".to_owned()))
        }

        fn wipe(self: Box<Self>) -> Result<(), Failed> {
            Ok(())
        }
    }

    #[test]
    fn a_store_that_does_not_take_what_is_committed_is_closed_and_the_others_are_not() {
        let mut states = states();
        states.open(1, Box::new(Broken));
        for task in [0, 1] {
            states.set_current(task);
            states.set(b"new", Some(b"1".to_vec()), 0);
        }
        let failures = states.commit(&Ends::new(), 5).expect_err("the disk is full");
        assert_eq!(failures.iter().map(|failure| failure.task).collect::<Vec<_>>(), [1]);
        assert!(
            states.is_open(0) && !states.is_open(1) && states.committed(0, b"new").is_ok_and(|value| value.is_some())
        );
        let own = |states: &mut TaskStates, task| states.own(task, Duration::ZERO, |_| false, 9);
        own(&mut states, 0).expect("memory takes it");
        states.open(1, Box::new(Broken));
        assert!(own(&mut states, 1).is_err() && !states.is_open(1));
    }

    #[test]
    fn a_store_that_cannot_be_read_is_told_before_anything_is_committed() {
        let mut states = states();
        assert!(states.take_unread().is_none());
        states.open(1, Box::new(Broken));
        assert_eq!(states.take_unread().map(|failure| failure.task), Some(1), "its timers are not known");
        states.set_current(1);
        assert!(states.take_unread().is_none());
        assert!(states.get(b"kept").is_none());
        assert_eq!(states.take_unread().map(|failure| failure.task), Some(1));
        states.set(b"kept", None, 0);
        states.settle();
        assert_eq!(states.take_unread().map(|failure| failure.task), Some(1));
    }

    #[test]
    fn a_store_is_owned_on_only_while_that_is_sure() {
        let mut states = states();
        let until = |states: &TaskStates| states.tasks[&0].store.checkpoint().map(|checkpoint| checkpoint.owned_until);
        states.own(0, Duration::from_millis(10), |_| false, 9).expect("memory takes it");
        assert_eq!(until(&states), Some(0), "it is fresh");
        states.own(0, Duration::from_millis(10), |_| true, 10).expect("memory takes it");
        assert_eq!(until(&states), Some(0), "it was left for too long");
        states.own(0, Duration::from_millis(10), |_| false, 10).expect("memory takes it");
        assert_eq!(until(&states), Some(10));
    }
}
