//! Counts the records of each key, exactly once, until Ctrl-C or SIGTERM. Records are JSON objects with a number `i`; for each it writes
//! `{"k": key, "n": count so far, "i": i}` with the same key. A null value forgets the key. Start it several times: the processes share the partitions.
//!
//! With `wattle broker` running (it says where), the topics there (`wattle create clicks counts --brokers 127.0.0.1:9092`), and records in `clicks`
//! (`wattle produce clicks` for some by hand, `wattle run` of a pipeline, or any producer):
//!
//! ```text
//! cargo run --release -p wattle --example count -- \
//!     --brokers 127.0.0.1:9092 --input clicks --output counts --application-id counter [--transaction-scope task|worker] \
//!     [--state-dir FOLDER]
//! ```

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::thread;

use serde::{Deserialize, Serialize};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use wattle::{App, Message, Next, Output, Record, StageError, StatefulTransformer, Stop, TransactionScope};

struct Count {
    output: String,
}

#[derive(Deserialize)]
struct Input {
    i: u64,
}

#[derive(Serialize)]
struct Counted<'a> {
    k: &'a str,
    n: u64,
    i: u64,
}

impl StatefulTransformer for Count {
    type State = u64;

    async fn transform(
        &self,
        record: &Record<'_>,
        count: Option<u64>,
        out: &mut Output,
    ) -> Result<Next<u64>, StageError> {
        let Some(value) = record.value else { return Ok(Next::Delete) };
        let Input { i } = serde_json::from_slice(value)?;
        let k = std::str::from_utf8(record.key.unwrap_or_default())?;
        let n = count.unwrap_or(0) + 1;
        out.send(Message::to(self.output.as_str()).key(record.key).json(&Counted { k, n, i })?);
        Ok(Next::Set(n))
    }
}

fn main() -> ExitCode {
    tracing_subscriber::fmt().with_writer(std::io::stderr).with_target(false).init();
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn std::error::Error>> {
    // First, so that a signal never ends the process half way.
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    let stop = Stop::new();
    let asked = stop.clone();
    thread::spawn(move || signals.forever().take(1).for_each(|_| asked.stop()));

    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let mut given = BTreeMap::new();
    for pair in arguments.chunks(2) {
        let [name, value] = pair else { return Err(format!("{} needs a value", pair[0]).into()) };
        given.insert(name.as_str(), value.as_str());
    }
    let mut take = |name: &str| given.remove(name).ok_or_else(|| format!("{name} is missing"));
    let (brokers, input, output, id) =
        (take("--brokers")?, take("--input")?, take("--output")?, take("--application-id")?);
    let scope = match given.remove("--transaction-scope") {
        None | Some("task") => TransactionScope::Task,
        Some("worker") => TransactionScope::Worker,
        Some(other) => return Err(format!("--transaction-scope is task or worker, not {other}").into()),
    };
    let state_dir = given.remove("--state-dir");
    if let Some(name) = given.keys().next() {
        return Err(format!("{name} is not known").into());
    }

    let mut app = App::builder()
        .application_id(id)
        .brokers(brokers)
        .input_topics(input.split(','))
        .output_topics([output])
        .transaction_scope(scope)
        .consumer_property("session.timeout.ms", "6000");
    if let Some(folder) = state_dir {
        app = app.state_dir(folder);
    }
    let app = app.build_stateful(Count { output: output.to_owned() })?;

    app.run(&stop)?;
    Ok(())
}
