//! Reminds of each record once, some time later: a timer by the wall clock for each, exactly once whatever dies meanwhile. A record is JSON,
//! `{"i": number, "after": milliseconds}`; without `after` it is `i % 20 * 100`. The reminder is `{"k": key, "i": i}` with the same key.
//!
//! With `wattle broker` running (it says where), and the topics there (`wattle create orders reminders --brokers 127.0.0.1:9092`):
//!
//! ```text
//! cargo run --release -p wattle --example reminders -- \
//!     --brokers 127.0.0.1:9092 --input orders --output reminders --application-id reminders
//! ```

mod common;

use std::process::ExitCode;

use serde::{Deserialize, Serialize};
use wattle::{Clock, Message, Next, Output, Record, StageError, StatefulTransformer, Timer};

struct Reminders {
    output: String,
}

#[derive(Deserialize)]
struct Order {
    i: i64,
    after: Option<i64>,
}

#[derive(Serialize)]
struct Reminder<'a> {
    k: &'a str,
    i: i64,
}

impl StatefulTransformer for Reminders {
    /// How many reminders of a key are still to come.
    type State = u64;

    async fn transform(
        &self,
        record: &Record<'_>,
        open: Option<u64>,
        out: &mut Output,
    ) -> Result<Next<u64>, StageError> {
        let order: Order = record.json()?;
        record.key_text()?;
        let now = out.now(Clock::Wall).unwrap_or_default();
        out.set_timer(Clock::Wall, &order.i.to_string(), now + order.after.unwrap_or(order.i % 20 * 100))?;
        Ok(Next::Set(open.unwrap_or(0) + 1))
    }

    async fn on_timer(&self, timer: &Timer<'_>, open: Option<u64>, out: &mut Output) -> Result<Next<u64>, StageError> {
        let reminder = Reminder { k: std::str::from_utf8(timer.key)?, i: timer.name.parse()? };
        out.send(Message::to(self.output.as_str()).key(timer.key).json(&reminder)?);
        Ok(match open {
            Some(open @ 2..) => Next::Set(open - 1),
            _ => Next::Delete,
        })
    }
}

fn main() -> ExitCode {
    common::run(["--brokers", "--input", "--output", "--application-id"], |[brokers, input, output, id], builder| {
        builder
            .application_id(id)
            .brokers(brokers)
            .input_topics([input])
            .output_topics([output.clone()])
            .session_timeout(std::time::Duration::from_secs(6))
            .build_stateful(Reminders { output })
    })
}
