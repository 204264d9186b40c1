//! Pipeline files are checked offline, completely, and with a place and a remedy for each problem; streams without Kafka run.

#![allow(clippy::unwrap_used)]

mod examples;
mod guarantee;
mod keys;
mod mistakes;
mod outputs;
mod processors;
mod routing;
mod run;
mod substitution;
mod support;
