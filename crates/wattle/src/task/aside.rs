//! Records that were put aside instead of being processed, because the stage wanted it so (skipped) or failed on them (dead letters): counted, and
//! said now and then.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::error::Error;
use crate::kafka::{Batch, Mark, Record, Refused};
use crate::lane::RefusedRecord;
use crate::stage::{Output, StageError};

/// Between two lines about records of one kind.
const REMIND: Duration = Duration::from_secs(60);

/// Marks the records of which an output is larger than its topic takes: processed again, they are dead letters. Of one whose dead letter is itself too
/// large the next one is short. False where that helps nothing, so that the error stays.
pub(crate) fn put_aside(error: &Error, output: &Output, batch: &mut Batch, dead_letter_topic: Option<&str>) -> bool {
    let (Error::Refused { oversized, .. }, Some(dead_letters)) = (error, dead_letter_topic) else { return false };
    let mut news = false;
    for (index, reason) in oversized {
        let message = output.get(*index);
        // A timer has no record that could go there.
        if message.source < batch.len() {
            let mark = batch.mark_mut(message.source);
            if message.topic == dead_letters {
                news |= !std::mem::replace(&mut mark.is_cut, true);
            } else if mark.refused.is_none() {
                mark.refused = Some(Refused { reason: reason.clone().into(), stage: Some("output") });
                news = true;
            }
        }
    }
    news
}

/// Marks of [`put_aside`] on records that are not committed yet: a broker that has refused one may have to be left for a new start, which reads
/// them again.
#[derive(Debug)]
pub(crate) struct Marks<K>(BTreeMap<K, Mark>);

impl<K: Ord> Marks<K> {
    pub(crate) fn new() -> Self {
        Marks(BTreeMap::new())
    }

    /// Takes the marks of a batch over; `key` names a record by its index.
    pub(crate) fn keep(&mut self, batch: &Batch, from: usize, key: impl Fn(usize) -> K) {
        for index in from..batch.len() {
            let mark = batch.mark(index);
            // What its source refuses, it refuses again.
            if mark.is_cut || mark.refused.as_ref().is_some_and(|refused| refused.stage.is_some()) {
                self.0.insert(key(index), mark.clone());
            }
        }
    }

    /// Puts them on the records of a batch.
    pub(crate) fn apply(&self, batch: &mut Batch, key: impl Fn(&Batch, usize) -> K) {
        if self.0.is_empty() {
            return;
        }
        for index in 0..batch.len() {
            if let Some(mark) = self.0.get(&key(batch, index)) {
                *batch.mark_mut(index) = mark.clone();
            }
        }
    }

    /// The first `done` records of the batch are committed.
    pub(crate) fn forget(&mut self, done: usize, key: impl Fn(usize) -> K) {
        if !self.0.is_empty() {
            (0..done).for_each(|index| drop(self.0.remove(&key(index))));
        }
    }

    /// Leaves those that still have a name.
    pub(crate) fn rename(&mut self, name: impl Fn(K) -> Option<K>) {
        let marks = std::mem::take(&mut self.0);
        self.0 = marks.into_iter().filter_map(|(key, mark)| Some((name(key)?, mark))).collect();
    }
}

/// Batches that are cut with care behind a refusal.
const CAREFUL: usize = 100;

/// After a broker has refused an output for its size, outputs that may be too large are sent at the ends of batches. A refusal ends a transaction, so that one
/// is found at a time: what that costs is then no more than what is between two of them, and what is before it is committed.
#[derive(Debug, Default)]
pub(crate) struct Care {
    alone_above: usize,
    batches: usize,
}

impl Care {
    /// Something was put aside for this.
    pub(crate) fn learn(&mut self, error: &Error) {
        if let Error::Refused { alone_above: Some(bytes), .. } = error {
            (self.alone_above, self.batches) = (*bytes, CAREFUL);
        }
    }

    /// A batch is committed.
    pub(crate) fn committed(&mut self) {
        self.batches = self.batches.saturating_sub(1);
    }

    /// A batch ends behind a record of more bytes of outputs; where outputs are gathered, behind each that has some.
    pub(crate) fn cut_above(&self, is_gathered: bool) -> Option<usize> {
        (self.batches > 0).then_some(if is_gathered { 0 } else { self.alone_above })
    }
}

/// What was put aside in a batch.
#[derive(Clone, Debug, Default)]
pub(crate) struct Aside {
    pub(crate) skipped: Tally,
    pub(crate) dead_letters: Tally,
}

/// How many, and which was the last.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) count: usize,
    last: String,
}

impl Tally {
    pub(crate) fn add(&mut self, record: &Record<'_>, reason: &StageError) {
        self.count += 1;
        self.last = format!("{}/{} offset {}: {reason}", record.topic, record.partition, record.offset);
    }

    fn append(&mut self, more: Tally) {
        if more.count > 0 {
            *self = Tally { count: self.count + more.count, last: more.last };
        }
    }
}

impl Aside {
    /// Adds records that the output has refused and put elsewhere. Returns how many messages were made from them, and how many records they are.
    pub(crate) fn refused(&mut self, records: Vec<RefusedRecord>, batch: &Batch, output: &Output) -> (usize, usize) {
        let (letters, mut messages) = (records.len(), 0);
        for RefusedRecord { source, reason } in records {
            messages += output.iter().filter(|message| message.source == source).count();
            self.dead_letters.add(&batch.get(source), &reason);
        }
        (messages, letters)
    }

    /// Adds those of a later batch.
    pub(crate) fn append(&mut self, other: Aside) {
        self.skipped.append(other.skipped);
        self.dead_letters.append(other.dead_letters);
    }
}

/// What there is to say. The first is said at once, the others once a minute and at the end.
#[derive(Debug, Default)]
pub(crate) struct AsideLog {
    skipped: Unsaid,
    dead_letters: Unsaid,
}

#[derive(Debug, Default)]
struct Unsaid {
    tally: Tally,
    said: Option<Instant>,
}

impl AsideLog {
    /// Notes records whose positions are committed.
    pub(crate) fn note(&mut self, stream: &str, aside: Aside) {
        self.skipped.note(aside.skipped, |tally| say_skipped(stream, tally));
        self.dead_letters.note(aside.dead_letters, |tally| say_dead(stream, tally));
    }

    /// Says what is left to say.
    pub(crate) fn say(&mut self, stream: &str) {
        self.skipped.say(|tally| say_skipped(stream, tally));
        self.dead_letters.say(|tally| say_dead(stream, tally));
    }
}

fn say_skipped(stream: &str, Tally { count, last }: &Tally) {
    tracing::warn!(%stream, count, "skipped records that are invalid, the last one {last}");
}

fn say_dead(stream: &str, Tally { count, last }: &Tally) {
    tracing::warn!(%stream, count, "moved records to the dead-letter topic, the last one {last}");
}

impl Unsaid {
    fn note(&mut self, more: Tally, log: impl Fn(&Tally)) {
        if more.count == 0 {
            return;
        }
        self.tally.append(more);
        if self.said.is_none_or(|at| at.elapsed() >= REMIND) {
            self.say(log);
        }
    }

    fn say(&mut self, log: impl Fn(&Tally)) {
        let tally = std::mem::take(&mut self.tally);
        if tally.count > 0 {
            self.said = Some(Instant::now());
            log(&tally);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn care_begins_with_a_refusal_and_ends_after_some_batches_without_one() {
        let refused = |alone_above| Error::Refused { text: String::new(), oversized: Vec::new(), alone_above };
        let mut care = Care::default();
        care.learn(&refused(None));
        assert_eq!(care.cut_above(false), None, "no broker has refused it");
        care.learn(&refused(Some(1000)));
        assert_eq!((care.cut_above(false), care.cut_above(true)), (Some(1000), Some(0)));
        (1..CAREFUL).for_each(|_| care.committed());
        care.learn(&refused(Some(1000)));
        (1..CAREFUL).for_each(|_| care.committed());
        assert_eq!(care.cut_above(false), Some(1000));
        care.committed();
        assert_eq!(care.cut_above(false), None);
    }
}
