//! `wattle check`: from a file to a plan, without a broker.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use wattle::Exit;
use wattle_pipeline::{Context, Plan};

use crate::args::CheckArgs;
use crate::failure::Failure;

/// Prints the plan.
pub(crate) fn run(args: &CheckArgs) -> Result<(), Failure> {
    let plan = load(&args.file, args.brokers.get())?;
    print(&plan.to_string())
}

/// Writes results to stdout. Whoever does not read them to the end has seen enough.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    match write!(io::stdout().lock(), "{text}") {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::new(Exit::Failed, format!("cannot write to stdout: {error}")))
        }
        _ => Ok(()),
    }
}

/// A variable of the process, for `${VAR}`.
pub(crate) fn env(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// Reads and plans a pipeline file.
pub(crate) fn load(file: &Path, brokers: Option<String>) -> Result<Plan, Failure> {
    let text = fs::read_to_string(file)
        .map_err(|error| Failure::refused(format!("cannot read the pipeline file {}: {error}", file.display())))?;
    Ok(wattle_pipeline::plan(&text, &Context { file, brokers, env: &env })?)
}
