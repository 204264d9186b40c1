//! Connections: listening, one thread a connection, frames in and out. What a request means is `api/`'s; what a test does to it is `control/`'s.

mod address;
mod clients;
mod connection;
mod frame;
mod lengths;
mod listener;
mod session;

pub(crate) use address::Address;
pub(crate) use clients::Clients;
pub(crate) use frame::MAX_REQUEST_BYTES;
#[cfg(test)]
pub(crate) use frame::encode;
#[cfg(any(test, fuzzing))]
pub(crate) use frame::{decode, head, read};
pub(crate) use listener::{Accepting, Listen, Listener};
#[cfg(any(test, fuzzing))]
pub(crate) use session::{End, Session};
