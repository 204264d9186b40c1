//! One file for each family of requests. A handler takes the decoded request and returns the answer, or `Dropped` where no answer may be sent.

mod groups;
mod offsets;
mod transactions;

use crate::error::Error;

/// The request is not answered: the broker stops, or a write failed.
#[derive(Debug)]
pub(crate) struct Dropped;

impl From<Error> for Dropped {
    fn from(_: Error) -> Self {
        Dropped
    }
}

/// Who asks.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    /// From the request's header.
    pub(crate) id: String,
    /// Address.
    pub(crate) host: String,
}
