//! What a test writes to set a hook, and the guard that it gets.

use std::sync::{Arc, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use kafka_protocol::messages::ApiKey;

use crate::api;
use crate::control::{Action, Controls, Filter};
use crate::types::Code;

/// Requests of one kind, narrowed down; the last call says what happens to them and returns the [`Hook`].
///
/// Of several hooks that apply to a request, all delays, holds and observers take effect, and of those that drop or refuse, the first one that was set.
#[derive(Debug)]
#[must_use = "nothing happens until the last call says what"]
pub struct On {
    controls: Arc<Controls>,
    filter: Filter,
    times: Option<u64>,
}

impl On {
    pub(crate) fn new(controls: Arc<Controls>, key: ApiKey) -> Self {
        assert!(api::versions(key).is_some(), "the broker does not offer {key:?}: the hook could never fire");
        let filter = Filter { key, mentions: None, client: None, skip: 0, times: 1 };
        Self { controls, filter, times: None }
    }

    /// Only requests that carry this transactional id, group or topic.
    pub fn matching(mut self, name: impl Into<String>) -> Self {
        self.filter.mentions = Some(name.into());
        self
    }

    /// Only requests of clients with this `client.id`.
    pub fn client(mut self, id: impl Into<String>) -> Self {
        self.filter.client = Some(id.into());
        self
    }

    /// Not the first `n` of them.
    pub fn after(mut self, n: u64) -> Self {
        self.filter.skip = n;
        self
    }

    /// So many of them; otherwise 1, or all for [`On::observe`].
    pub fn times(mut self, n: u64) -> Self {
        self.times = Some(n);
        self
    }

    /// Only counts them.
    pub fn observe(mut self) -> Hook {
        self.times = self.times.or(Some(u64::MAX));
        self.act(Action::Observe)
    }

    /// Handles them so much later (real time).
    pub fn delay(self, time: Duration) -> Hook {
        self.act(Action::Delay(time))
    }

    /// Handles them at once and answers so much later (real time).
    pub fn delay_answer(self, time: Duration) -> Hook {
        self.act(Action::DelayAnswer(time))
    }

    /// Does not handle them until [`Hook::release`].
    pub fn hold(self) -> Hook {
        self.act(Action::Hold)
    }

    /// Handles them at once and does not answer until [`Hook::release`].
    pub fn hold_answer(self) -> Hook {
        self.act(Action::HoldAnswer)
    }

    /// Closes the connection instead of handling them.
    pub fn drop_request(self) -> Hook {
        self.act(Action::DropRequest)
    }

    /// Handles them, then closes the connection instead of answering: the client cannot know the outcome.
    pub fn drop_answer(self) -> Hook {
        self.act(Action::DropAnswer)
    }

    /// Answers `code` in all parts of the response instead of handling them.
    pub fn refuse(self, code: Code) -> Hook {
        self.act(Action::Refuse(code))
    }

    /// Handles them, then answers `code` in all parts of the response.
    pub fn refuse_afterwards(self, code: Code) -> Hook {
        self.act(Action::RefuseAfterwards(code))
    }

    /// Answers `code` for one partition of a Produce request that writes to it, and handles the others.
    ///
    /// # Panics
    /// If it is not about [`ApiKey::Produce`].
    pub fn refuse_partition(self, topic: impl Into<String>, partition: i32, code: Code) -> Hook {
        assert_eq!(self.filter.key, ApiKey::Produce, "only Produce can be refused in part");
        self.act(Action::RefusePartition { topic: topic.into(), partition, code })
    }

    fn act(mut self, action: Action) -> Hook {
        self.filter.times = self.times.unwrap_or(1);
        assert!(self.filter.times > 0, "a hook for no request could never fire");
        self.controls.add(self.filter, action)
    }
}

/// A hook that is set, until it is dropped.
///
/// # Panics
/// When it is dropped without ever having taken effect, unless the thread panics already.
#[derive(Debug)]
#[must_use = "a hook that is dropped at once never fires"]
pub struct Hook {
    controls: Arc<Controls>,
    number: u64,
    /// An explicit removal does not complain.
    removed: bool,
}

impl Hook {
    pub(crate) fn new(controls: Arc<Controls>, number: u64) -> Self {
        Self { controls, number, removed: false }
    }

    /// How often it has taken effect.
    pub fn fired(&self) -> u64 {
        let rules = self.controls.lock();
        rules.active.iter().find(|rule| rule.number == self.number).map_or(0, |rule| rule.fired)
    }

    /// Waits until it has taken effect `n` times; false if it has not within `timeout`.
    #[must_use]
    pub fn wait_fired(&self, n: u64, timeout: Duration) -> bool {
        let until = Instant::now() + timeout;
        let mut rules = self.controls.lock();
        while !rules.active.iter().any(|rule| rule.number == self.number && rule.fired >= n) {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            rules = self.controls.changed.wait_timeout(rules, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    /// Lets go what [`On::hold`] or [`On::hold_answer`] holds, and what would be held later.
    pub fn release(&self) {
        if let Some(rule) = self.controls.lock().active.iter_mut().find(|rule| rule.number == self.number) {
            rule.released = true;
        }
        self.controls.changed.notify_all();
    }

    /// Removes it, without complaint if it has never taken effect. Returns how often it has.
    pub fn remove(mut self) -> u64 {
        self.removed = true;
        self.take_out()
    }

    fn take_out(&self) -> u64 {
        let mut rules = self.controls.lock();
        let at = rules.active.iter().position(|rule| rule.number == self.number);
        let fired = at.map_or(0, |at| rules.active.remove(at).fired);
        drop(rules);
        self.controls.changed.notify_all();
        fired
    }
}

impl Drop for Hook {
    fn drop(&mut self) {
        if !self.removed && self.take_out() == 0 && !thread::panicking() {
            panic!("a hook was never reached: the fault that this test is about did not happen");
        }
    }
}
