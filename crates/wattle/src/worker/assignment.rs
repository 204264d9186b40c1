//! Who may commit: the tasks that are ours, and the lanes that are committing right now. Invariant W5 lives here.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::stop::Stop;
use crate::invariant::w5_no_permit_outlives_a_revocation;

/// One stay of a task with this process. What belongs to an older one is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Incarnation(u64);

/// The tasks that this process owns.
///
/// The race that this settles: the consumer's thread learns that the partitions go to somebody else, while a lane is about to
/// commit. Either the lane asks for its permit first; then [`Assignment::revoke`] finds it in `committing` and waits, so that
/// the commit ends before the group hears that we have let go. Or the revocation comes first; then the task is not owned
/// any more when the lane asks, and the lane drops its batch. There is no third order, since both hold the lock.
#[derive(Debug, Default)]
pub(crate) struct Assignment {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    last: u64,
    owned: BTreeMap<i32, Owned>,
    /// The lanes with a permit, and the tasks that it is for.
    committing: BTreeMap<i32, BTreeSet<i32>>,
}

#[derive(Debug)]
struct Owned {
    incarnation: Incarnation,
    cancel: Stop,
}

/// Leave to commit for a lane; none of its tasks is let go of while it lives, except after the bound of [`Assignment::revoke`].
pub(crate) struct Permit<'a> {
    assignment: &'a Assignment,
    lane: i32,
}

impl Assignment {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A task is ours from now on. The [`Stop`] is given when it is not any more.
    pub(crate) fn assign(&self, task: i32) -> (Incarnation, Stop) {
        let mut state = self.lock();
        state.last += 1;
        let owned = Owned { incarnation: Incarnation(state.last), cancel: Stop::new() };
        let result = (owned.incarnation, owned.cancel.clone());
        state.owned.insert(task, owned);
        result
    }

    /// A new incarnation of a task that is still ours; `None` if it is not.
    pub(crate) fn renew(&self, task: i32, old: Incarnation) -> Option<Incarnation> {
        let mut state = self.lock();
        state.last += 1;
        let next = Incarnation(state.last);
        let owned = state.owned.get_mut(&task).filter(|owned| owned.incarnation == old)?;
        owned.incarnation = next;
        Some(next)
    }

    pub(crate) fn is_current(&self, task: i32, incarnation: Incarnation) -> bool {
        self.lock().owned.get(&task).is_some_and(|owned| owned.incarnation == incarnation)
    }

    /// Whether a task is ours, in any incarnation.
    pub(crate) fn owns(&self, task: i32) -> bool {
        self.lock().owned.contains_key(&task)
    }

    /// Whether nothing is ours.
    pub(crate) fn is_empty(&self) -> bool {
        self.lock().owned.is_empty()
    }

    /// Leave to commit, if every task is still ours in this incarnation.
    pub(crate) fn permit(&self, lane: i32, tasks: impl IntoIterator<Item = (i32, Incarnation)>) -> Option<Permit<'_>> {
        let mut state = self.lock();
        let mut numbers = BTreeSet::new();
        for (task, incarnation) in tasks {
            state.owned.get(&task).filter(|owned| owned.incarnation == incarnation)?;
            numbers.insert(task);
        }
        let before = state.committing.insert(lane, numbers);
        assert!(before.is_none(), "a lane has one commit at a time");
        Some(Permit { assignment: self, lane })
    }

    /// Lets go of those of our tasks: no permit is given for one of them from now on, stages that wait in them are stopped, and commits of
    /// theirs that are under way are waited for, at most for `bound`. Commits of other tasks go on untouched. Returns the tasks, and how
    /// many lanes were still committing some of them then: their fate is up to the fence of the next owner.
    pub(crate) fn revoke(&self, which: impl Fn(i32) -> bool, bound: Duration) -> (Vec<i32>, usize) {
        let deadline = Instant::now() + bound;
        let mut state = self.lock();
        let tasks: Vec<i32> = state.owned.keys().copied().filter(|task| which(*task)).collect();
        for task in &tasks {
            if let Some(owned) = state.owned.remove(task) {
                owned.cancel.stop();
            }
        }
        let affected = |committing: &BTreeSet<i32>| tasks.iter().any(|task| committing.contains(task));
        while state.committing.values().any(affected) {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        // Their permits are void from here on.
        let before = state.committing.len();
        state.committing.retain(|_, committing| !affected(committing));
        let left = before - state.committing.len();
        w5_no_permit_outlives_a_revocation(&tasks, state.committing.values().flatten());
        (tasks, left)
    }
}

impl Permit<'_> {
    /// Whether a revocation still waits for this commit, or none has come. False after its bound has passed.
    pub(crate) fn holds(&self) -> bool {
        self.assignment.lock().committing.contains_key(&self.lane)
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        self.assignment.lock().committing.remove(&self.lane);
        self.assignment.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_revoked_task_gets_no_permit() {
        let assignment = Assignment::default();
        let (incarnation, cancel) = assignment.assign(3);
        assert!(assignment.permit(3, [(3, incarnation)]).is_some());
        assert_eq!(assignment.revoke(|_| true, Duration::ZERO), (vec![3], 0));
        assert!(cancel.is_stopped());
        assert!(assignment.permit(3, [(3, incarnation)]).is_none());
        let (next, _) = assignment.assign(3);
        assert!(assignment.permit(3, [(3, incarnation)]).is_none(), "an older incarnation");
        assert!(assignment.permit(3, [(3, next)]).is_some());
    }

    #[test]
    fn a_revocation_waits_for_a_commit_under_way() {
        let assignment = Assignment::default();
        let (incarnation, _) = assignment.assign(0);
        let permit = assignment.permit(0, [(0, incarnation)]).expect("ours");
        assert!(permit.holds());
        assert_eq!(assignment.revoke(|_| true, Duration::ZERO), (vec![0], 1), "bounded");
        assert!(!permit.holds(), "the bound has passed");
        drop(permit);
        let (incarnation, _) = assignment.assign(0);
        let permit = assignment.permit(0, [(0, incarnation)]).expect("ours");
        std::thread::scope(|scope| {
            let revoke = scope.spawn(|| assignment.revoke(|_| true, Duration::from_secs(60)));
            drop(permit);
            assert_eq!(revoke.join().expect("no panic"), (vec![0], 0));
        });
    }

    #[test]
    fn a_revocation_concerns_its_own_tasks_and_no_others() {
        let assignment = Assignment::default();
        let [zero, one, two] = [0, 1, 2].map(|task| assignment.assign(task));
        let both = assignment.permit(0, [(0, zero.0), (1, one.0)]).expect("ours");
        let other = assignment.permit(2, [(2, two.0)]).expect("ours");
        assert_eq!(assignment.revoke(|task| task == 1, Duration::ZERO), (vec![1], 1), "it meets one of the commits");
        assert!(one.1.is_stopped() && !zero.1.is_stopped() && !two.1.is_stopped());
        assert!(!both.holds() && other.holds());
        drop(both);
        assert!(assignment.permit(0, [(0, zero.0), (1, one.0)]).is_none(), "a batch with a task that is gone");
        assert!(assignment.permit(0, [(0, zero.0)]).is_some(), "a batch without it");
        assert_eq!(assignment.revoke(|task| task == 0, Duration::from_secs(60)), (vec![0], 0), "waits for no other");
        assert!(assignment.owns(2) && !assignment.owns(1));
    }
}
