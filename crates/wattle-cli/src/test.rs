//! `wattle test`: the tests of a pipeline file, without a broker.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use wattle::Exit;
use wattle_pipeline::{CaseEnd, add_cases, run_cases};

use crate::args::TestArgs;
use crate::check::{env, load, print};
use crate::failure::Failure;

/// Brokers for files that name none: nothing connects.
const NOWHERE: &str = "localhost:9092";

/// Runs the `tests` of the file and of the one beside it, and prints how each has ended.
pub(crate) fn run(args: &TestArgs) -> Result<(), Failure> {
    let mut plan = load(&args.file, Some(NOWHERE.to_owned()))?;
    let beside = beside(&args.file);
    match fs::read_to_string(&beside) {
        Ok(text) => add_cases(&mut plan, &text, &beside, &env)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(Failure::refused(format!("cannot read the tests {}: {error}", beside.display()))),
    }
    if !plan.has_cases() {
        let text = format!(
            "no tests: neither has {} a list  tests:  nor is there a file {}",
            args.file.display(),
            beside.display()
        );
        return Err(Failure::refused(text));
    }
    let ends = run_cases(plan);
    print(&report(&ends))?;
    let failed = ends.iter().filter(|end| !end.differences.is_empty()).count();
    if failed == 0 {
        Ok(())
    } else {
        Err(Failure::new(Exit::Failed, format!("{failed} of {} tests failed", ends.len())))
    }
}

/// `orders.yaml` → `orders.tests.yaml`.
fn beside(file: &Path) -> PathBuf {
    let extension = file.extension().map_or("yaml".into(), |extension| extension.to_string_lossy());
    file.with_extension(format!("tests.{extension}"))
}

fn report(ends: &[CaseEnd]) -> String {
    let mut text = String::new();
    for end in ends {
        let failed = !end.differences.is_empty();
        let place = if failed { format!("   {}:{}", end.file.display(), end.line) } else { String::new() };
        let word = if failed { "FAILED" } else { "ok" };
        writeln!(text, "{word:<6}   {}{place}", end.name).expect("a String takes all text");
        for difference in &end.differences {
            writeln!(text, "         {difference}").expect("a String takes all text");
        }
    }
    text
}
