//! A write-ahead log for sources that cannot be replayed, such as an HTTP server: what it has accepted is durable before the source is told so, and is read
//! from there, as often as it takes.
//!
//! # Use
//! A source appends, and answers its client when [`Log::append`] returns. A stream reads with a [`Reader`], whose [`Position`] is committed with the
//! results; then it says with [`Log::cover`] that everything before is done with. After a restart the reader goes on at the committed position:
//! what was accepted and not processed comes first, and what is accepted meanwhile comes behind it.
//!
//! # What it keeps
//! - An entry that was accepted is read once by a reader that goes on where the last one has committed, in the order of acceptance.
//! - A number is never used twice, whatever a loss of power has taken.
//! - A write that was cut short is taken away, since nobody was told; anything else that is wrong is never repaired in silence.
//! - After a failed sync nothing is accepted any more: the system forgets what it could not write, and asking again would be told that all is well.
//!
//! # Layout
//! `log` (the door) → `state` (shared; admission and its limits) → `writer` (one thread) → `frame` in a `segment` → `disk`; back by `reader` → `scan`. `recover`
//! is the start, `covered` the mark of what is done with.
//!
//! ```text
//! lock, owner                    who has the folder
//! 00000000000000000000.wal …     segments, named by their first number
//! covered                        up to where entries are done with
//! ```

mod covered;
mod disk;
mod error;
mod frame;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzzing;
mod log;
mod number;
mod options;
mod reader;
mod recover;
mod scan;
mod segment;
mod state;
#[cfg(test)]
mod tests;
mod writer;

pub use error::Error;
pub use log::{Accepted, Log, Status};
pub use number::{Position, Sequence};
pub use options::{Options, SyncMode};
pub use reader::{Entry, Reader};
pub use uuid::Uuid;
