//! Calls into the client that have not come back in their time. Nothing can interrupt them, but somebody has to notice.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::error::Error;

#[derive(Debug, Default)]
pub(crate) struct Watchdog(Mutex<BTreeMap<i32, Watched>>);

#[derive(Debug)]
struct Watched {
    what: &'static str,
    since: Instant,
    limit: Duration,
}

/// The call is over when this is dropped.
pub(crate) struct Guard<'a> {
    watchdog: &'a Watchdog,
    lane: i32,
}

impl Watchdog {
    pub(crate) fn watch(&self, lane: i32, what: &'static str, limit: Duration) -> Guard<'_> {
        let watched = Watched { what, since: Instant::now(), limit };
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(lane, watched);
        Guard { watchdog: self, lane }
    }

    /// A call that is overdue.
    pub(crate) fn bite(&self) -> Option<Error> {
        let calls = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (lane, watched) = calls.iter().find(|(_, watched)| watched.since.elapsed() > watched.limit)?;
        let what = format!("{} of lane {lane} hangs: the call", watched.what);
        Some(Error::Stuck { what, within: watched.limit })
    }
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        self.watchdog.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.lane);
    }
}
