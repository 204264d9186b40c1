//! Counts the records of each key, and says meanwhile how often it has counted one of them: a line on stdout each time when the answer changes. The
//! count is the committed one. Where another process has the key's partition, the line says so.
//!
//! With `wattle broker` running (it says where), and the topics there (`wattle create clicks counts --brokers 127.0.0.1:9092`):
//!
//! ```text
//! cargo run --release -p wattle --example ask -- \
//!     --brokers 127.0.0.1:9092 --input clicks --output counts --application-id counter --ask ada
//! ```

mod common;

use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use wattle::{Message, Next, Output, Record, StageError, StatefulTransformer, States};

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
        let Input { i } = record.json()?;
        let n = count.unwrap_or(0) + 1;
        out.send(Message::to(self.output.as_str()).key(record.key).json(&Counted { k: record.key_text()?, n, i })?);
        Ok(Next::Set(n))
    }
}

fn watch(states: &States<u64>, key: &str) {
    let mut last = String::new();
    loop {
        let answer = match states.get_by_key(key) {
            Ok(count) => count.unwrap_or(0).to_string(),
            Err(error) => error.to_string(),
        };
        if answer != last {
            println!("{answer}");
            last = answer;
        }
        thread::sleep(Duration::from_millis(5));
    }
}

fn main() -> ExitCode {
    tracing_subscriber::fmt().with_writer(std::io::stderr).with_target(false).init();
    common::run(
        ["--brokers", "--input", "--output", "--application-id", "--ask"],
        |[brokers, input, output, id, key], builder| {
            let app = builder
                .application_id(id)
                .brokers(brokers)
                .input_topics([input])
                .output_topics([output.clone()])
                .session_timeout(Duration::from_secs(6))
                .build_stateful(Count { output })?;
            let states = app.states();
            thread::spawn(move || watch(&states, &key));
            Ok(app)
        },
    )
}
