//! A request to stop: seen by loops, by threads that wait, and by futures.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch;

/// Asks for a clean stop. Clones share the request; it cannot be taken back.
#[derive(Clone, Debug)]
pub struct Stop {
    asked: Arc<watch::Sender<bool>>,
    /// Loops see it as asked from then on.
    deadline: Option<Instant>,
}

impl Default for Stop {
    fn default() -> Self {
        Stop { asked: Arc::new(watch::Sender::new(false)), deadline: None }
    }
}

impl Stop {
    /// Nothing is asked yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// One for loops, that comes by itself.
    pub(crate) fn after(time: Duration) -> Self {
        Stop { deadline: Some(Instant::now() + time), ..Self::default() }
    }

    /// Asks to stop.
    pub fn stop(&self) {
        self.asked.send_replace(true);
    }

    /// Whether a stop was asked for.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        *self.asked.borrow() || self.deadline.is_some_and(|at| Instant::now() >= at)
    }

    /// Waits for the request.
    pub fn stopped(&self) -> impl Future<Output = ()> + Send {
        let mut receiver = self.asked.subscribe();
        async move {
            // An error means that no sender is left, so that nobody can ask any more; the future's owner holds one.
            receiver.wait_for(|stopped| *stopped).await.map_or((), |_| ())
        }
    }

    /// The same, on its own.
    pub(crate) async fn into_stopped(self) {
        self.stopped().await;
    }

    /// Blocks until the request comes, or for this long. Not for threads of an async runtime.
    pub fn wait(&self, time: Duration) {
        let deadline = Instant::now() + time;
        while !self.is_stopped() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            std::thread::sleep(left.min(Duration::from_millis(20)));
        }
    }
}
