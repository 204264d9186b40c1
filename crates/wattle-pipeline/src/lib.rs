//! Pipelines described in YAML: text → [`plan()`] (pure, offline, every problem at once) → [`start()`] (threads) → [`Running`].
//!
//! # Layout
//! `yaml` (text → nodes with places → typed values) → `spec` (values → checked streams) → `plan` (what will run, and its
//! guarantee) → `chain` (processors: compiled by the plan, run by the tasks) → `run` (threads, sources, sinks, draining).

mod arkflow;
mod chain;
mod guarantee;
mod http;
mod plan;
mod problem;
mod run;
mod spec;
mod yaml;

pub use plan::{Context, Plan, StreamPlan, plan};
pub use problem::{Problem, Problems};
pub use run::{Outcome, RunOptions, Running, StreamEnd, StreamHandle, start};
pub use spec::{EMBEDDED, Logging};
