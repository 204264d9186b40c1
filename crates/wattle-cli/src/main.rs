//! The `wattle` command: `run` and `check` pipelines, `tail` a topic.

mod args;
mod check;
mod failure;
mod json;
mod log;
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
    let result = match cli.command {
        Command::Run(args) => run::run(&args, &mut status),
        Command::Check(args) => check::run(&args),
        Command::Tail(args) => tail::run(&args, &status),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            status.failure(&failure);
            ExitCode::from(failure.exit as u8)
        }
    }
}
