//! The only place that touches librdkafka.

mod error;
mod position;
mod record;

pub use error::{Error, Verdict};
pub use position::{Offset, Position};
pub use record::{Batch, Header, Record};
