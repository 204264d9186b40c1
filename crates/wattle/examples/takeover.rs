//! Takes the place of a Flechtwerk transformer, which is stopped: the same group, transactional ids and changelog, and the same bytes in it. Adds up the
//! numbers of each key: for `{"x": number}` it writes `{"count": so many, "key": key, "total": sum}` with the same key. A null value forgets the
//! key.
//!
//! ```text
//! cargo run --release -p wattle --example takeover -- \
//!     --brokers 127.0.0.1:9092 --input readings --output totals --application-id ID-OF-THE-PREDECESSOR
//! ```

mod common;

use std::process::ExitCode;

use serde::{Deserialize, Serialize};
use wattle::{Codec, FlechtwerkJson, Message, Next, Output, Record, StageError, StatefulTransformer};

struct Totals {
    output: String,
}

#[derive(Deserialize)]
struct Reading {
    x: f64,
}

#[derive(Default, Serialize, Deserialize)]
struct Total {
    total: f64,
    count: u64,
}

#[derive(Serialize, Deserialize)]
struct Totalled {
    key: String,
    #[serde(flatten)]
    total: Total,
}

impl StatefulTransformer for Totals {
    type State = FlechtwerkJson<Total>;

    async fn transform(
        &self,
        record: &Record<'_>,
        state: Option<FlechtwerkJson<Total>>,
        out: &mut Output,
    ) -> Result<Next<FlechtwerkJson<Total>>, StageError> {
        if record.value.is_none() {
            return Ok(Next::Delete);
        }
        let Reading { x } = record.json()?;
        let FlechtwerkJson(Total { total, count }) = state.unwrap_or_default();
        let (total, count) = (total + x, count + 1);
        let key = record.key_text()?.to_owned();
        let mut value = Vec::new();
        FlechtwerkJson(Totalled { key, total: Total { total, count } }).encode(&mut value)?;
        out.send(Message::to(self.output.as_str()).key(record.key).value(value.as_slice()));
        Ok(Next::Set(FlechtwerkJson(Total { total, count })))
    }
}

fn main() -> ExitCode {
    tracing_subscriber::fmt().with_writer(std::io::stderr).with_target(false).init();
    common::run(["--brokers", "--input", "--output", "--application-id"], |[brokers, input, output, id], builder| {
        builder
            .application_id(id)
            .brokers(brokers)
            .input_topics([input])
            .output_topics([output.clone()])
            .build_stateful(Totals { output })
    })
}
