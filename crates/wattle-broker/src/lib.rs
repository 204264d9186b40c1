#![doc = include_str!("../README.md")]

mod api;
mod broker;
mod clock;
mod control;
mod core;
mod error;
mod folder;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzzing;
mod group;
mod housekeeping;
mod journal;
mod log;
mod recovery;
mod server;
mod topic;
mod transaction;
mod types;

pub use broker::{Broker, Builder};
pub use control::{Hook, On};
pub use error::Error;
pub use kafka_protocol::ResponseError as Code;
pub use kafka_protocol::messages::ApiKey;
