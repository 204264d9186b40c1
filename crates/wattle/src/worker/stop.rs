//! A request to stop: seen by loops, by threads that wait, and by futures.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

/// Asks for a clean stop. Clones share the request; it cannot be taken back.
#[derive(Clone, Debug)]
pub struct Stop(Arc<watch::Sender<bool>>);

impl Default for Stop {
    fn default() -> Self {
        Stop(Arc::new(watch::Sender::new(false)))
    }
}

impl Stop {
    /// Nothing is asked yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Asks to stop.
    pub fn stop(&self) {
        self.0.send_replace(true);
    }

    /// Whether a stop was asked for.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits for the request.
    pub fn stopped(&self) -> impl Future<Output = ()> + Send {
        let mut receiver = self.0.subscribe();
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
        let deadline = std::time::Instant::now() + time;
        while !self.is_stopped() {
            let left = deadline.saturating_duration_since(std::time::Instant::now());
            if left.is_zero() {
                return;
            }
            std::thread::sleep(left.min(Duration::from_millis(20)));
        }
    }
}
