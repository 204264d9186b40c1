//! The first error of any thread of a worker; the worker's loop raises it.

use std::sync::{Mutex, PoisonError};

use crate::error::Error;

#[derive(Debug, Default)]
pub(crate) struct Fatal(Mutex<Option<Error>>);

impl Fatal {
    /// Keeps the first error; a later one is a consequence, or will come again.
    pub(crate) fn raise(&self, error: Error) {
        let mut slot = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &*slot {
            None => *slot = Some(error),
            Some(_) => tracing::error!("after the first error: {error}"),
        }
    }

    pub(crate) fn take(&self) -> Option<Error> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}
