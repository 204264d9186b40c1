//! The strongest earthquake of each network so far, and an alert whenever there is a stronger one.
//!
//! In one terminal `cargo run --release -- broker`; it says where it listens. In another one, in the same folder, so that the file is loaded into
//! that broker, whose address the second command names:
//!
//! ```text
//! cargo run --release -- run examples/library.yaml --drain
//! cargo run --release -p wattle --example earthquakes -- \
//!     --brokers 127.0.0.1:9092 --input quakes-by-network --output strongest --alerts quake-alerts --application-id strongest
//! cargo run --release -- tail strongest --from-beginning --brokers 127.0.0.1:9092
//! ```
//!
//! On a Kafka create the input with `retention.ms=-1` first: the records are of 2018.

mod common;

use std::process::ExitCode;

use serde::{Deserialize, Serialize};
use wattle::kafka::NewTopics;
use wattle::{Message, Next, Output, Record, StageError, StatefulTransformer};

struct Strongest {
    output: String,
    alerts: String,
}

/// A quake, as it is read, kept and written.
#[derive(Clone, Deserialize, Serialize)]
struct Quake {
    id: String,
    time: i64,
    /// Not all are measured.
    mag: Option<f64>,
    place: String,
}

impl StatefulTransformer for Strongest {
    type State = Quake;

    async fn transform(
        &self,
        record: &Record<'_>,
        strongest: Option<Quake>,
        out: &mut Output,
    ) -> Result<Next<Quake>, StageError> {
        let quake: Quake = record.json()?;
        let Some(mag) = quake.mag else { return Ok(Next::Keep) };
        let before = strongest.and_then(|strongest| strongest.mag);
        if before.is_some_and(|before| before >= mag) {
            return Ok(Next::Keep);
        }
        out.send(Message::to(self.output.as_str()).key(record.key).json(&quake)?);
        if let Some(before) = before {
            let text = format!("{mag} after {before}: {}", quake.place);
            out.send(Message::to(self.alerts.as_str()).key(record.key).value(text.as_bytes()));
        }
        Ok(Next::Set(quake))
    }
}

fn main() -> ExitCode {
    let names = ["--brokers", "--input", "--output", "--alerts", "--application-id"];
    common::run(names, |[brokers, input, output, alerts, id], builder| {
        NewTopics::of(3).create(&brokers, [&output, &alerts])?; // those that are missing
        builder
            .application_id(id)
            .brokers(brokers)
            .input_topics([input])
            .output_topics([output.clone(), alerts.clone()])
            .build_stateful(Strongest { output, alerts })
    })
}
