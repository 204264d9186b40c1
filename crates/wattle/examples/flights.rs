//! Delays of flights by their origin: how many, mean, deviation and worst, in minutes, brought up to date by every flight. What is no flight goes
//! to a dead-letter topic.
//!
//! In one terminal `cargo run --release -- broker`; it says where it listens. In another one, in the same folder, so that the file is loaded into
//! that broker, whose address the second command names:
//!
//! ```text
//! cargo run --release -- run examples/library.yaml --drain
//! cargo run --release -p wattle --example flights -- \
//!     --brokers 127.0.0.1:9092 --input flights --output delays --errors flight-errors --application-id delays
//! cargo run --release -- tail delays --from-beginning --brokers 127.0.0.1:9092
//! ```

mod common;

use std::process::ExitCode;

use serde::{Deserialize, Serialize};
use wattle::kafka::NewTopics;
use wattle::{Message, Next, Output, Record, StageError, StatefulTransformer};

struct Delays {
    output: String,
}

#[derive(Deserialize)]
struct Flight {
    delay: f64,
}

/// By Welford's method, which needs no flight but the last.
#[derive(Default, Deserialize, Serialize)]
struct Statistics {
    flights: u64,
    mean: f64,
    squares: f64,
    worst: f64,
}

#[derive(Serialize)]
struct Delay<'a> {
    origin: &'a str,
    flights: u64,
    mean: f64,
    deviation: f64,
    worst: f64,
}

impl Statistics {
    fn add(&mut self, delay: f64) {
        self.flights += 1;
        let before = delay - self.mean;
        self.mean += before / self.flights as f64;
        self.squares += before * (delay - self.mean);
        self.worst = self.worst.max(delay);
    }
}

impl StatefulTransformer for Delays {
    type State = Statistics;

    async fn transform(
        &self,
        record: &Record<'_>,
        statistics: Option<Statistics>,
        out: &mut Output,
    ) -> Result<Next<Statistics>, StageError> {
        let (origin, Flight { delay }) = (record.key_text()?, record.json()?);
        let mut statistics = statistics.unwrap_or_default();
        statistics.add(delay);
        let Statistics { flights, mean, squares, worst } = statistics;
        let deviation = (squares / flights as f64).sqrt();
        out.send(Message::to(self.output.as_str()).key(record.key).json(&Delay {
            origin,
            flights,
            mean,
            deviation,
            worst,
        })?);
        Ok(Next::Set(statistics))
    }
}

fn main() -> ExitCode {
    let names = ["--brokers", "--input", "--output", "--errors", "--application-id"];
    common::run(names, |[brokers, input, output, errors, id], builder| {
        NewTopics::of(3).create(&brokers, [&output, &errors])?; // those that are missing
        builder
            .application_id(id)
            .brokers(brokers)
            .input_topics([input])
            .output_topics([output.clone()])
            .dead_letter_topic(errors)
            .build_stateful(Delays { output })
    })
}
