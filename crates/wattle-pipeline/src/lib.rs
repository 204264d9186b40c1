//! Pipelines described in YAML: text → [`plan()`] (pure, offline, every problem at once) → [`start()`] (threads) → [`Running`].
//!
//! # Layout
//! `yaml` (text → nodes with places → typed values) → `spec` (values → checked streams) → `plan` (what will run, and its
//! guarantee) → `chain` (processors: compiled by the plan, run by the tasks) → `run` (threads, sources, sinks, draining).
//! `http` is the server of those who are asked by others, `mqtt` the protocol of a subscriber.

mod arkflow;
mod cases;
mod chain;
mod connect;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzzing;
mod guarantee;
mod http;
mod mqtt;
mod plan;
mod problem;
mod run;
mod schema;
mod spec;
mod yaml;

pub use cases::{CaseEnd, run_cases};
pub use connect::{Connected, connect};
pub use plan::{Context, Plan, StreamPlan, add_cases, plan};
pub use problem::{Problem, Problems};
pub use run::{Outcome, RunOptions, Running, StreamEnd, StreamHandle, start};
pub use schema::schema;
pub use spec::{EMBEDDED, Logging};
