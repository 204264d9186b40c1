//! `wattle check`: from a file to a plan, without a broker unless it is asked to connect.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use wattle::Exit;
use wattle_pipeline::{Context, Plan};

use crate::args::CheckArgs;
use crate::embedded::Embedded;
use crate::failure::Failure;
use crate::status::Status;

/// Prints the plan, and with `--connect` what the clusters say.
pub(crate) fn run(args: &CheckArgs, status: &Status, embedded: &mut Option<Embedded>) -> Result<(), Failure> {
    let mut plan = load(&args.file, args.brokers.get())?;
    print(&plan.to_string())?;
    if !args.connect {
        return Ok(());
    }
    // The embedded broker's topics are made by a run.
    if let Some(topics) = plan.embedded_topics() {
        let broker = embedded.insert(Embedded::open(*status)?);
        plan.set_embedded_address(broker.address());
        broker.create_missing(&topics, status)?;
    }
    let connected = wattle_pipeline::connect(&plan, &args.file);
    let facts: Vec<_> = connected.facts.iter().map(|(stream, fact)| format!("{stream}: {fact}\n")).collect();
    print(&facts.concat())?;
    match connected.problems {
        None => Ok(()),
        Some(problems) => Err(Failure { exit: connected.exit, ..problems.into() }),
    }
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
