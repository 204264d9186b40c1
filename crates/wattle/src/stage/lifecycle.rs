//! A stage's first and last moment in a process: [`Transformer::open`] before anything is read, [`Transformer::close`] behind everything.

use std::future::Future;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};

use super::{StageError, Transformer};
use crate::error::Error;
use crate::worker::Stop;

/// The runtime of a stage that is open. It has a thread, so that connections which [`Transformer::open`] has begun go on while the stage's
/// records are processed elsewhere.
pub(crate) struct Opened(Runtime);

impl Opened {
    /// Opens a stage; `None` where `stop` came first.
    pub(crate) fn open<S: Transformer>(name: &str, stage: &mut S, stop: &Stop) -> Result<Option<Self>, Error> {
        let runtime = Builder::new_multi_thread().worker_threads(1).thread_name("stage").enable_all().build();
        let runtime = runtime.map_err(|source| Error::Io { what: "start the runtime of the stage".into(), source })?;
        let stopped = stop.stopped();
        let done = runtime.block_on(async {
            tokio::select! {
                result = stage.open() => Some(result),
                () = stopped => None,
            }
        });
        match done {
            Some(Ok(())) => Ok(Some(Opened(runtime))),
            Some(Err(reason)) => Err(failed(name, "open", &reason)),
            None => Ok(None),
        }
    }

    /// Closes it, within `patience`.
    pub(crate) fn close<S: Transformer>(self, name: &str, stage: &S, patience: Duration) -> Result<(), Error> {
        let done = self.0.block_on(bounded(patience, stage.close()));
        // Not its drop, which would wait for blocking work of the stage's, however long that takes.
        self.0.shutdown_background();
        match done {
            Some(result) => result.map_err(|reason| failed(name, "close", &reason)),
            None => Err(Error::Stuck { what: format!("{name}: closing its stage"), within: patience }),
        }
    }
}

async fn bounded<F: Future>(patience: Duration, future: F) -> Option<F::Output> {
    tokio::time::timeout(patience, future).await.ok()
}

fn failed(name: &str, step: &'static str, reason: &StageError) -> Error {
    Error::Stage { name: name.to_owned(), step, reason: reason.to_string() }
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;
    use crate::kafka::Record;
    use crate::stage::Output;

    #[derive(Default)]
    struct Connected {
        refuse: bool,
        hang: bool,
        open: bool,
        closed: AtomicBool,
    }

    impl Transformer for Connected {
        async fn open(&mut self) -> Result<(), StageError> {
            tokio::spawn(async {}).await?;
            self.open = !self.refuse;
            if self.refuse { Err(StageError::new("no database")) } else { Ok(()) }
        }

        async fn close(&self) -> Result<(), StageError> {
            self.closed.store(true, Ordering::Relaxed);
            if self.hang { pending().await } else { Ok(()) }
        }

        async fn transform(&self, _: &Record<'_>, _: &mut Output) -> Result<(), StageError> {
            Ok(())
        }
    }

    #[test]
    fn a_stage_is_opened_and_closed_or_the_error_says_which_failed() {
        let mut stage = Connected::default();
        let opened = Opened::open("app", &mut stage, &Stop::new()).expect("it opens").expect("nothing stops it");
        assert!(stage.open);
        opened.close("app", &stage, Duration::from_secs(5)).expect("it closes");
        assert!(stage.closed.load(Ordering::Relaxed));
        let mut refuses = Connected { refuse: true, ..Connected::default() };
        let error = Opened::open("app", &mut refuses, &Stop::new()).err().expect("it refuses").to_string();
        assert!(error.contains("open") && error.contains("no database"), "{error}");
    }

    #[test]
    fn a_stage_that_does_not_close_is_given_up() {
        let mut stage = Connected { hang: true, ..Connected::default() };
        let opened = Opened::open("app", &mut stage, &Stop::new()).expect("it opens").expect("nothing stops it");
        let error = opened.close("app", &stage, Duration::from_millis(1)).expect_err("it hangs");
        assert!(matches!(error, Error::Stuck { .. }), "{error}");
    }
}
