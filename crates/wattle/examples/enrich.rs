//! Looks something up for each record, which takes its time, and counts the records of each key meanwhile. While one waits, records of other keys go on;
//! what comes out has the order of the input all the same. Records that are no JSON with a number `i` are skipped.
//! A number `takes_ms` says how long the answer takes.
//!
//! With `wattle broker` running (it says where), and the topics there (`wattle create clicks enriched --brokers 127.0.0.1:9092`):
//!
//! ```text
//! cargo run --release -p wattle --example enrich -- \
//!     --brokers 127.0.0.1:9092 --input clicks --output enriched --application-id enrich
//! ```

mod common;

use std::process::ExitCode;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use wattle::{Invalid, Message, Next, OnInvalid, Output, Record, StageError, StatefulTransformer};

struct Enrich {
    output: String,
}

#[derive(Deserialize)]
struct Click {
    i: u64,
    takes_ms: Option<u64>,
}

#[derive(Serialize)]
struct Enriched<'a> {
    k: &'a str,
    n: u64,
    i: u64,
}

/// Stands for a question to another service.
async fn look_up(i: u64, takes_ms: Option<u64>) {
    tokio::time::sleep(Duration::from_millis(takes_ms.unwrap_or(i % 5))).await;
}

impl StatefulTransformer for Enrich {
    type State = u64;

    fn on_invalid(&self, _: &Invalid<'_>) -> OnInvalid {
        OnInvalid::Skip
    }

    async fn transform(
        &self,
        record: &Record<'_>,
        count: Option<u64>,
        out: &mut Output,
    ) -> Result<Next<u64>, StageError> {
        let (k, Click { i, takes_ms }) = (record.key_text()?, record.json()?);
        look_up(i, takes_ms).await;
        let n = count.unwrap_or(0) + 1;
        out.send(Message::to(self.output.as_str()).key(record.key).json(&Enriched { k, n, i })?);
        Ok(Next::Set(n))
    }
}

fn main() -> ExitCode {
    common::run(["--brokers", "--input", "--output", "--application-id"], |[brokers, input, output, id], builder| {
        builder
            .application_id(id)
            .brokers(brokers)
            .input_topics([input])
            .output_topics([output.clone()])
            .session_timeout(Duration::from_secs(6))
            .build_stateful(Enrich { output })
    })
}
