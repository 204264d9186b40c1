//! A single-node broker that speaks the Kafka protocol, in the process or behind `wattle broker`.
//!
//! For first runs and tests. Not for production: no replication, TLS or SASL.

mod api;
mod clock;
mod core;
mod error;
mod folder;
mod group;
mod journal;
mod log;
mod server;
mod topic;
mod transaction;
mod types;

pub use error::Error;
