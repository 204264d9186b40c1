//! What the examples share: a command line of `--name value` pairs, and a run that ends with Ctrl-C or SIGTERM.

use std::collections::BTreeMap;
use std::error::Error;
use std::process::ExitCode;
use std::thread;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use wattle::{App, AppBuilder, Stateful, StatefulTransformer, Stop, TransactionScope};

/// Runs `main` with the values of exactly these arguments; `--transaction-scope` and `--state-dir` may be there too.
pub(crate) fn run<const N: usize, T: StatefulTransformer>(
    names: [&str; N],
    main: impl FnOnce([String; N], AppBuilder) -> Result<App<Stateful<T>>, wattle::Error>,
) -> ExitCode {
    // First, so that a signal never ends the process half way.
    let stop = stop_by_signal();
    match stop.and_then(|stop| arguments(names).and_then(|(values, builder)| Ok(main(values, builder)?.run(&stop)?))) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn arguments<const N: usize>(names: [&str; N]) -> Result<([String; N], AppBuilder), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let mut given = BTreeMap::new();
    for pair in arguments.chunks(2) {
        let [name, value] = pair else { return Err(format!("{} needs a value", pair[0]).into()) };
        given.insert(name.clone(), value.clone());
    }
    let scope = match given.remove("--transaction-scope").as_deref() {
        None | Some("task") => TransactionScope::Task,
        Some("worker") => TransactionScope::Worker,
        Some(other) => return Err(format!("--transaction-scope is task or worker, not {other}").into()),
    };
    let mut builder = App::builder().transaction_scope(scope);
    if let Some(folder) = given.remove("--state-dir") {
        builder = builder.state_dir(folder);
    }
    let values = names.map(|name| given.remove(name).ok_or(name));
    if let Some(missing) = values.iter().find_map(|value| value.as_ref().err()) {
        return Err(format!("{missing} is missing").into());
    }
    if let Some(name) = given.keys().next() {
        return Err(format!("{name} is not known").into());
    }
    Ok((values.map(|value| value.unwrap_or_default().clone()), builder))
}

fn stop_by_signal() -> Result<Stop, Box<dyn Error>> {
    let stop = Stop::new();
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    let asked = stop.clone();
    thread::spawn(move || signals.forever().take(1).for_each(|_| asked.stop()));
    Ok(stop)
}
