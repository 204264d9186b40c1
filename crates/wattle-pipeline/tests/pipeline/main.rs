//! Pipeline files are checked offline, completely, and with a place and a remedy for each problem; streams without Kafka run.

#![allow(clippy::unwrap_used)]

mod arkflow;
mod boundaries;
mod cases;
mod connect;
mod durability;
mod examples;
mod formats;
mod guarantee;
mod keys;
mod memory;
mod mistakes;
mod mqtt;
mod outputs;
mod processors;
mod pushed;
mod routing;
mod run;
mod sql;
mod substitution;
mod support;
