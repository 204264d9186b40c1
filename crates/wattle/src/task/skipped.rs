//! Records that were passed over because the stage wanted it so: counted, and said now and then.

use std::time::{Duration, Instant};

use crate::kafka::Record;
use crate::stage::StageError;

/// Between two lines about skipped records.
const REMIND: Duration = Duration::from_secs(60);

/// How many, and which was the last.
#[derive(Debug, Default)]
pub(crate) struct Skipped {
    pub(crate) count: u64,
    last: String,
}

impl Skipped {
    pub(crate) fn add(&mut self, record: &Record<'_>, reason: &StageError) {
        self.count += 1;
        self.last = format!("{}/{} offset {}: {reason}", record.topic, record.partition, record.offset);
    }
}

/// What there is to say of skipped records. The first is said at once, the others once a minute and at the end.
#[derive(Debug, Default)]
pub(crate) struct SkipLog {
    unsaid: Skipped,
    said: Option<Instant>,
}

impl SkipLog {
    /// Notes records whose positions are committed.
    pub(crate) fn note(&mut self, stream: &str, skipped: Skipped) {
        if skipped.count == 0 {
            return;
        }
        self.unsaid = Skipped { count: self.unsaid.count + skipped.count, last: skipped.last };
        if self.said.is_none_or(|at| at.elapsed() >= REMIND) {
            self.say(stream);
        }
    }

    /// Says what is left to say.
    pub(crate) fn say(&mut self, stream: &str) {
        let Skipped { count, last } = std::mem::take(&mut self.unsaid);
        if count > 0 {
            self.said = Some(Instant::now());
            tracing::warn!(%stream, count, "skipped records that are invalid, the last one {last}");
        }
    }
}
