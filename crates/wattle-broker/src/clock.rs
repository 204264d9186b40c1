//! The broker's time: the machine's, moved forward by tests.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::types::Millis;

/// All timeouts, timestamps and retention are measured by this clock.
#[derive(Debug, Default)]
pub(crate) struct Clock {
    ahead: AtomicI64,
}

impl Clock {
    /// Now.
    pub(crate) fn now(&self) -> Millis {
        let machine = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        i64::try_from(machine.as_millis()).unwrap_or(i64::MAX) + self.ahead.load(Ordering::Relaxed)
    }

    /// Moves it forward. Whoever waits has to be woken afterwards.
    pub(crate) fn advance(&self, by: Duration) {
        self.ahead.fetch_add(i64::try_from(by.as_millis()).unwrap_or(i64::MAX), Ordering::Relaxed);
    }
}
