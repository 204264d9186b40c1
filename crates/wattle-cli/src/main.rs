//! The `wattle` command: `run` and `check` pipelines, `create`, `produce` to and `tail` topics, `inspect` and `reset` an application,
//! serve as a `broker`.

mod args;
mod broker;
mod check;
mod connect;
mod create;
mod embedded;
mod failure;
mod inspect;
mod json;
mod log;
mod produce;
mod run;
mod signals;
mod status;
mod tail;
mod text;

use std::process::ExitCode;

use clap::Parser;

use crate::args::{Cli, Command};
use crate::status::Status;

fn main() -> ExitCode {
    let cli = Cli::parse();
    log::init(&cli.log);
    let mut status = Status::new(&cli.log);
    let mut embedded = None;
    let result = match cli.command {
        Command::Run(args) => run::run(&args, &mut status, &mut embedded),
        Command::Check(args) => check::run(&args),
        Command::Tail(args) => tail::run(&args, &status, &mut embedded),
        Command::Create(args) => create::run(&args, &status, &mut embedded),
        Command::Produce(args) => produce::run(&args, &status, &mut embedded),
        Command::Inspect(args) => inspect::inspect(&args, &status, &mut embedded),
        Command::Reset(args) => inspect::reset(&args, &status, &mut embedded),
        Command::Broker(args) => broker::run(&args, status),
    };
    let code = match result {
        Ok(()) => 0,
        Err(failure) => {
            status.failure(&failure);
            failure.exit as u8
        }
    };
    if let Some(broker) = embedded {
        signals::end_with(code);
        broker.leave(&status);
    }
    ExitCode::from(code)
}
