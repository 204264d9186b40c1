//! Waiting: always for a condition that can be seen, always with a deadline.

use std::thread;
use std::time::{Duration, Instant};

/// What most conditions get. Generous, since the machine may be busy: a test that passes does not wait for it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// The first `Some` of `look`.
///
/// # Panics
/// After `patience`, saying what never came.
pub(crate) fn wait_for<T>(what: &str, patience: Duration, mut look: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + patience;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < end, "waited {patience:?} in vain: {what}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// Returns when `holds` does.
///
/// # Panics
/// After `patience`, saying what never came.
pub(crate) fn wait_until(what: &str, patience: Duration, mut holds: impl FnMut() -> bool) {
    wait_for(what, patience, || holds().then_some(()));
}
