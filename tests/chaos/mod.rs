//! A storm of faults by seed: what `cargo chaos` runs, and what the promises of the module `night` run in short.
//!
//! `plan` draws the faults, `storm` runs them against processes that work all the time, `strike` is what each of them does and how it is seen to
//! have happened, `stage` is what runs in the processes and how its outputs are judged, `report` is what it has cost; `command` reads arguments.

mod command;
mod plan;
mod report;
mod stage;
mod storm;
mod strike;

pub(crate) use command::command;
pub(crate) use plan::{Options, plan};
pub(crate) use stage::Stage;
pub(crate) use storm::run;
