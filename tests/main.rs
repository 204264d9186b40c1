//! End to end: what Wattle promises, one module a promise, with separate `wattle` processes; and what it needs of a broker. All of it
//! on every kind of broker: `kafka::NAME` is a test of Wattle on a real Kafka, `kafka::conformance::NAME` a test of that Kafka.
//! `kafka::worker::NAME`, `kafka::consumer::NAME` and `kafka::consumer::worker::NAME` are the same promise where the pipelines have
//! another transaction scope, or another group protocol, than the default.
//!
//! With the first argument `chaos` it is a command: a storm of faults by seed, docs/guides/chaos.md.
//!
//! `WATTLE_REQUIRE_KAFKA=1` fails the tests of a broker, or of a database, whose prerequisites are missing, instead of skipping them. `WATTLE_FULL=1`
//! runs the full numbers, and every promise about delivery under the group protocol `consumer` too. `WATTLE_BIN` names the binary under test; without it, it is built with the profile of this test.
//! `WATTLE_KEEP=1` keeps the folder with the brokers' data and logs.
#![allow(clippy::unwrap_used, reason = "all of it is test")]

mod chaos;
mod conformance;
mod harness;
mod promise;
mod promises;

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Arc;

use harness::broker::{KINDS, Kind};
use harness::context::Context;
use harness::mode::Mode;
use harness::room::Room;
use libtest_mimic::{Arguments, Trial};
use promise::Promise;

/// More than the machine has cores: most tests wait for a session to expire or a broker to start.
const THREADS: usize = 4;

fn main() -> ExitCode {
    if let Some(worker) = conformance::worker() {
        return worker;
    }
    if let Some(verdict) = chaos::command() {
        return verdict;
    }
    harness::failure::keep_panics();
    let mut arguments = Arguments::from_args();
    arguments.test_threads = arguments.test_threads.or(Some(THREADS));
    let context = Arc::new(Context::new().expect("a temporary folder and a shell"));
    let trials = KINDS.iter().flat_map(|&kind| trials(kind, &context, arguments.list)).collect();
    let conclusion = libtest_mimic::run(&arguments, mixed(trials));
    context.finish();
    context.print_slowest();
    conclusion.exit_code()
}

/// Those of each module and kind of broker spread over the whole run: neighbours would want the same, a broker for themselves or all of the
/// machine, and wait for each other.
fn mixed(trials: Vec<Trial>) -> Vec<Trial> {
    let mut modules: BTreeMap<(String, String), Vec<Trial>> = BTreeMap::new();
    for trial in trials {
        let broker = trial.name().split("::").next().unwrap_or_default().to_owned();
        modules.entry((trial.kind().to_owned(), broker)).or_default().push(trial);
    }
    let place = |index: usize, count: usize| (2 * index + 1) * 1_000_000 / (2 * count);
    let placed = modules.into_values().flat_map(|trials| {
        let count = trials.len();
        trials.into_iter().enumerate().map(move |(index, trial)| (place(index, count), trial))
    });
    let mut placed: Vec<_> = placed.collect();
    placed.sort_by_key(|(place, _)| *place);
    placed.into_iter().map(|(_, trial)| trial).collect()
}

/// Those of one kind of broker. Where it cannot start they are ignored, or fail if they are required.
fn trials(kind: Kind, context: &Arc<Context>, list: bool) -> Vec<Trial> {
    let missing = if list { None } else { (kind.missing)() };
    let required = std::env::var_os("WATTLE_REQUIRE_KAFKA").is_some_and(|value| value == "1");
    if let Some(what) = missing {
        println!("{}: the tests on {kind} ({what})", if required { "FAILED" } else { "SKIPPED" });
    }
    let no_postgres = if list { None } else { harness::postgres::missing() };
    if let Some(what) = no_postgres {
        println!("{}: the tests with PostgreSQL on {kind} ({what})", if required { "FAILED" } else { "SKIPPED" });
    }
    let trial = |mode: Mode, suite: &str, promise: Promise| {
        let missing = missing.or(no_postgres.filter(|_| promise.module == "postgres"));
        let context = Arc::clone(context);
        let mut path = mode.words();
        path.insert(0, kind.name);
        let name = format!("{}::{suite}{}", path.join("::"), promise.name);
        let timed = name.clone();
        let body = move || match missing {
            Some(what) => Err(what.into()),
            None => {
                let room = Room::new(Arc::clone(&context), kind, mode, promise.name);
                Ok(context.timed(timed, || (promise.test)(&room))?)
            }
        };
        Trial::test(name, body).with_kind(promise.module).with_ignored_flag(missing.is_some() && !required)
    };
    let here = |mode| move |promise: &Promise| promise.is_for(kind, mode, context.full());
    let promises = Mode::of(kind.protocols)
        .flat_map(|mode| promises::all().into_iter().filter(here(mode)).map(move |promise| trial(mode, "", promise)));
    let conformance = conformance::all().into_iter().filter(here(Mode::PLAIN));
    promises.chain(conformance.map(|promise| trial(Mode::PLAIN, "conformance::", promise))).collect()
}
