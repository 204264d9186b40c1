//! The processors of a stream: programs over records, compiled by the plan, run by the tasks.

mod compile;
pub(crate) mod json;
pub(crate) mod key;
mod nesting;
mod processor;
mod route;
mod run;
mod target;

#[cfg(feature = "postgres")]
pub(crate) use compile::mask;
pub(crate) use json::check as check_json;
pub(crate) use key::Key;
pub(crate) use processor::{Item, Processor, read};
pub(crate) use route::Route;
pub(crate) use run::{Chain, Values};

#[cfg(test)]
mod tests;
