//! Faults on demand: hooks that observe, delay, hold, drop or refuse requests by kind.
//!
//! A hook counts when it takes effect, and its guard panics if it never did: a fault test that injected nothing fails.

mod hook;
mod outcome;

pub use hook::{Hook, On};
pub(crate) use outcome::{After, Before};

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use kafka_protocol::messages::{ApiKey, RequestKind};

use crate::api::{self, Client};
use crate::control::outcome::Control;
use crate::core::Core;
use crate::types::Code;

/// All hooks of a broker; they stay over its restarts.
#[derive(Debug, Default)]
pub(crate) struct Controls {
    rules: Mutex<Rules>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Rules {
    next: u64,
    /// In the order in which they were set.
    active: Vec<Rule>,
}

#[derive(Clone, Debug)]
struct Rule {
    number: u64,
    filter: Filter,
    action: Action,
    fired: u64,
    /// Held requests go on.
    released: bool,
}

/// Which requests.
#[derive(Clone, Debug)]
struct Filter {
    key: ApiKey,
    mentions: Option<String>,
    client: Option<String>,
    skip: u64,
    times: u64,
}

/// What happens to a request.
#[derive(Clone, Debug)]
enum Action {
    Observe,
    Delay(Duration),
    DelayAnswer(Duration),
    Hold,
    HoldAnswer,
    DropRequest,
    DropAnswer,
    Refuse(Code),
    RefuseAfterwards(Code),
    RefusePartition { topic: String, partition: i32, code: Code },
}

impl Action {
    /// Decides the answer: of several such hooks only the first applies.
    fn is_final(&self) -> bool {
        matches!(self, Self::DropRequest | Self::DropAnswer | Self::Refuse(_) | Self::RefuseAfterwards(_))
    }
}

impl Controls {
    fn lock(&self) -> MutexGuard<'_, Rules> {
        self.rules.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(self: &Arc<Self>, filter: Filter, action: Action) -> Hook {
        let mut rules = self.lock();
        let number = rules.next;
        rules.next += 1;
        rules.active.push(Rule { number, filter, action, fired: 0, released: false });
        Hook::new(self.clone(), number)
    }

    /// The hooks that apply to a request; each has used up one of its times.
    pub(crate) fn of(&self, core: &Core, key: ApiKey, request: &RequestKind, client: &Client) -> Control<'_> {
        let mut chosen = Vec::new();
        let mut decided = false;
        let candidates: Vec<Rule> = self.lock().active.iter().filter(|rule| rule.filter.key == key).cloned().collect();
        for rule in candidates {
            let matches = rule.filter.client.as_ref().is_none_or(|wanted| *wanted == client.id)
                && rule.filter.mentions.as_ref().is_none_or(|name| api::mentions(core, request, name))
                && outcome::can_apply(&rule.action, request)
                && !(decided && rule.action.is_final());
            if matches && self.take(rule.number) {
                decided |= rule.action.is_final();
                chosen.push((rule.number, rule.action));
            }
        }
        Control::new(self, chosen)
    }

    /// Uses up one time of a hook, if it has one left.
    fn take(&self, number: u64) -> bool {
        let mut rules = self.lock();
        let Some(rule) = rules.active.iter_mut().find(|rule| rule.number == number) else { return false };
        if rule.filter.skip > 0 {
            rule.filter.skip -= 1;
            return false;
        }
        if rule.filter.times == 0 {
            return false;
        }
        rule.filter.times -= 1;
        true
    }

    /// A hook has taken effect.
    fn fire(&self, number: u64) {
        if let Some(rule) = self.lock().active.iter_mut().find(|rule| rule.number == number) {
            rule.fired += 1;
        }
        self.changed.notify_all();
    }

    /// Whoever is delayed or held looks whether the broker stops.
    pub(crate) fn wake_all(&self) {
        drop(self.lock());
        self.changed.notify_all();
    }

    /// Waits for `time`, or until the broker stops.
    fn delay(&self, core: &Core, time: Duration) {
        self.pause(core, Some(time), |_| false);
    }

    /// Waits until the hook is released or removed, or the broker stops.
    fn hold(&self, core: &Core, number: u64) {
        self.pause(core, None, |rules| {
            rules.active.iter().find(|rule| rule.number == number).is_none_or(|rule| rule.released)
        });
    }

    fn pause(&self, core: &Core, time: Option<Duration>, over: impl Fn(&Rules) -> bool) {
        let until = time.map(|time| Instant::now() + time);
        let mut rules = self.lock();
        while !core.is_stopping() && !over(&rules) {
            rules = match until.map(|until| until.saturating_duration_since(Instant::now())) {
                None => self.changed.wait(rules).unwrap_or_else(PoisonError::into_inner),
                Some(left) if left.is_zero() => return,
                Some(left) => self.changed.wait_timeout(rules, left).unwrap_or_else(PoisonError::into_inner).0,
            };
        }
    }
}
