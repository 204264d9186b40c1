//! The `wattle` command: `run`, `check` and `test` pipelines, `create`, `produce` to and `tail` topics, `inspect` and `reset` an application,
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
mod test;
mod text;

use std::process::ExitCode;

use clap::Parser;

use crate::args::{Cli, Command};
use crate::status::Status;

fn main() -> ExitCode {
    signals::catch();
    let cli = Cli::parse();
    if !cli.command.listens() {
        signals::let_go();
    }
    // Read first: the file may say what becomes of the log.
    let plan = match &cli.command {
        Command::Run(args) => Some(check::load(&args.file, args.brokers.get())),
        _ => None,
    };
    let logging = plan.as_ref().and_then(|plan| Some(&plan.as_ref().ok()?.logging));
    let settings = log::Settings::of(&cli.log, logging);
    let opened = log::init(&settings);
    let mut status = Status::new(&settings);
    let mut embedded = None;
    let result = opened.and_then(|()| match cli.command {
        Command::Run(args) => {
            let plan = plan.expect("it was read above")?;
            run::run(&args, plan, &mut status, &mut embedded)
        }
        Command::Check(args) => check::run(&args, &status, &mut embedded),
        Command::Test(args) => test::run(&args),
        Command::Schema => check::print(&wattle_pipeline::schema()),
        Command::Tail(args) => tail::run(&args, &status, &mut embedded),
        Command::Create(args) => create::run(&args, &status, &mut embedded),
        Command::Produce(args) => produce::run(&args, &status, &mut embedded),
        Command::Inspect(args) => inspect::inspect(&args, &status, &mut embedded),
        Command::Reset(args) => inspect::reset(&args, &status, &mut embedded),
        Command::Broker(args) => broker::run(&args, status),
    });
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
