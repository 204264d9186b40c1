//! End to end: one module a promise, on a real Kafka, with separate `wattle` processes.
//!
//! `WATTLE_REQUIRE_KAFKA=1` fails where the broker's prerequisites are missing, instead of skipping. `WATTLE_FULL=1` runs the
//! full numbers. `WATTLE_BIN` names the binary under test; without it, it is built with the profile of this test.
//! `WATTLE_KEEP=1` keeps the folder with the brokers' data and logs.
#![allow(clippy::unwrap_used, reason = "all of it is test")]

mod harness;
mod promises;

use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::time::{Duration, Instant};

use harness::context::Context;
use harness::room::Room;
use libtest_mimic::{Arguments, Trial};

/// More than the machine has cores: most tests wait for a session to expire or a broker to start.
const THREADS: usize = 3;

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    arguments.test_threads = arguments.test_threads.or(Some(THREADS));
    if let (Some(missing), false) = (missing(), arguments.list) {
        let required = std::env::var_os("WATTLE_REQUIRE_KAFKA").is_some_and(|value| value == "1");
        println!("{}: the real-Kafka floor ({missing})", if required { "FAILED" } else { "SKIPPED" });
        return if required { ExitCode::FAILURE } else { ExitCode::SUCCESS };
    }
    let context = Arc::new(Context::new().expect("a temporary folder and a shell"));
    let conclusion = libtest_mimic::run(&arguments, trials(&context));
    context.finish();
    conclusion.exit_code()
}

fn trials(context: &Arc<Context>) -> Vec<Trial> {
    let trial = |(module, name, test): (_, &'static str, promises::Promise)| {
        let context = Arc::clone(context);
        let run = move || {
            let begin = Instant::now();
            test(&Room::new(context, name));
            if begin.elapsed() > Duration::from_secs(30) {
                eprintln!("slow: {name} took {} s", begin.elapsed().as_secs());
            }
            Ok(())
        };
        Trial::test(name, run).with_kind(module)
    };
    promises::all().into_iter().map(trial).collect()
}

/// What a broker needs and this machine lacks.
fn missing() -> Option<&'static str> {
    let answer = |program, argument| Command::new(program).arg(argument).output().ok();
    let java = answer("java", "-version").map(|output| String::from_utf8_lossy(&output.stderr).into_owned());
    let version = java.as_deref().and_then(|text| text.split('"').nth(1)).and_then(|version| version.split('.').next());
    if version.and_then(|major| major.parse().ok()).is_none_or(|major: u32| major < 17) {
        return Some("java 17 not found");
    }
    answer("mvn", "-v").is_none().then_some("mvn not found")
}
