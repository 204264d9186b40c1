//! `tests` of a file: records into a stream's processors, and what comes out. Offline: the chain runs as in a task, in memory.

mod diff;
mod read;

use std::collections::HashMap;
use std::path::PathBuf;

pub(crate) use read::read;
use wattle::testing::{StageDriver, TestMessage, TestRecord};

use crate::chain::Chain;
use crate::plan::{Plan, StreamPlan};
use crate::problem::Place;

/// One test of a file.
pub(crate) struct Case {
    name: String,
    /// Where it is written; the file, unless it is the pipeline's.
    place: Place,
    file: PathBuf,
    /// The stream's id.
    stream: String,
    input: Vec<TestRecord>,
    expected: Expected,
}

enum Expected {
    /// These, in this order.
    Messages(Vec<Message>),
    /// A failure whose text has this part.
    Failure(String),
}

/// What a message must be; what is `None` is not compared.
struct Message {
    topic: String,
    key: Option<Option<String>>,
    value: Option<Option<String>>,
    /// Headers that must be there; others may be too.
    headers: Vec<(String, Option<String>)>,
    timestamp: Option<i64>,
}

/// How a test has ended.
#[derive(Clone, Debug)]
pub struct CaseEnd {
    /// What the file calls it.
    pub name: String,
    /// Where it is written.
    pub file: PathBuf,
    /// The line there, from 1.
    pub line: usize,
    /// What differs, one line each; nothing where it has passed.
    pub differences: Vec<String>,
}

/// Runs all tests of a plan, in the order of the file.
#[must_use]
pub fn run_cases(mut plan: Plan) -> Vec<CaseEnd> {
    let cases = std::mem::take(&mut plan.cases);
    let mut drivers: HashMap<_, _> =
        plan.streams.into_iter().map(|stream| (stream.id().to_owned(), driver(stream))).collect();
    let run = |case: Case| {
        let driver = drivers.get_mut(&case.stream).expect("the reader knows the streams");
        let result = driver.pipe_batch(case.input).map(|()| driver.take_messages()).map_err(|error| error.to_string());
        let differences = case.expected.differences(&result);
        CaseEnd { name: case.name, file: case.file, line: case.place.line, differences }
    };
    cases.into_iter().map(run).collect()
}

fn driver(stream: StreamPlan) -> StageDriver<Chain> {
    let mut stream = stream.into_stream();
    let dead_letters = stream.error_output.take().map(|errors| errors.topic.value);
    let mut driver = StageDriver::new(stream.chain());
    if let Some(gather) = stream.batch.gather {
        driver = driver.gather(gather);
    }
    match dead_letters {
        Some(topic) => driver.dead_letter_topic(topic),
        None => driver,
    }
}

impl Expected {
    fn differences(&self, found: &Result<Vec<TestMessage>, String>) -> Vec<String> {
        match (self, found) {
            (Expected::Failure(part), Err(text)) if text.contains(part) => Vec::new(),
            (Expected::Failure(part), Err(text)) => vec![format!("error: expected a text with {part:?}, got: {text}")],
            (Expected::Failure(part), Ok(messages)) => {
                let count = messages.len();
                vec![format!(
                    "error: expected a failure with {part:?}, got {count} record{}",
                    if count == 1 { "" } else { "s" }
                )]
            }
            (Expected::Messages(_), Err(text)) => vec![format!("failed: {text}")],
            (Expected::Messages(expected), Ok(found)) => diff::messages(expected, found),
        }
    }
}
