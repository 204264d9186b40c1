//! Outputs that are no Kafka topics, behind the core's [`Sink`]: at least once. What such an output refuses goes to the error output, a Kafka
//! topic, or stops the stream.

use std::sync::Arc;

use wattle::{Batch, Error, KafkaSink, Output, Record, Sent, Sink, StageError, Stop, dead_letter};

use super::retry::Condition;

/// Writes somewhere.
pub(super) trait Target: Send {
    /// Writes the messages in their order. Returns true where all of them are durable or in `refused`, or the first one that is refused was
    /// the last to be tried; false where `stop` came first.
    ///
    /// # Errors
    /// Where no message can be written any more.
    fn write(
        &mut self,
        batch: &Batch,
        messages: &[Sent<'_>],
        refused: &mut Refusals,
        stop: &Stop,
    ) -> Result<bool, Error>;
}

/// Messages that the output did not take.
#[derive(Default)]
pub(super) struct Refusals {
    list: Vec<Refused>,
    /// Whether there is a place for them.
    has_place: bool,
}

impl Refusals {
    /// Adds one. Returns whether others are worth an attempt.
    pub(super) fn add(&mut self, source: usize, reason: String) -> bool {
        self.list.push(Refused { source, reason });
        self.has_place
    }
}

struct Refused {
    /// Index in its batch of the record that it was made from.
    source: usize,
    reason: String,
}

/// Where records go that were not processed, or not taken.
pub(super) struct DeadLetters {
    pub(super) topic: String,
    pub(super) sink: KafkaSink,
}

pub(super) struct OutsideSink<T> {
    target: T,
    dead_letters: Option<DeadLetters>,
    condition: Arc<Condition>,
}

impl<T: Target> OutsideSink<T> {
    pub(super) fn new(target: T, dead_letters: Option<DeadLetters>, condition: Arc<Condition>) -> Self {
        OutsideSink { target, dead_letters, condition }
    }

    fn stopped(&self, batch: &Batch, refused: &Refused) -> Error {
        let Record { topic, partition, offset, .. } = batch.get(refused.source);
        let text = format!(
            "{} did not take a record made from {topic}/{partition} offset {offset}: {}. Its position is not committed, so that a restart sends it \
             again. Mend the receiver or the record, or set error_output to move such records aside",
            self.condition.output(),
            refused.reason,
        );
        Error::Undelivered { text }
    }
}

impl<T: Target> Sink for OutsideSink<T> {
    fn deliver(&mut self, batch: &Batch, output: &Output, stop: &Stop) -> Result<bool, Error> {
        let dead = self.dead_letters.as_ref().map(|dead| dead.topic.as_str());
        let (failed, messages): (Vec<_>, Vec<_>) = output.iter().partition(|message| Some(message.topic) == dead);
        let mut refused = Refusals { list: Vec::new(), has_place: dead.is_some() };
        if !self.target.write(batch, &messages, &mut refused, stop)? {
            return Ok(false);
        }
        let mut refused = refused.list;
        let Some(dead) = &mut self.dead_letters else {
            return refused.first().map_or(Ok(true), |refused| Err(self.stopped(batch, refused)));
        };
        if failed.is_empty() && refused.is_empty() {
            return Ok(true);
        }
        // Of a record that became several, one refusal is enough.
        refused.dedup_by_key(|refused| refused.source);
        let mut letters = Output::default();
        for message in &failed {
            letters.made_from(message.source);
            letters.send((*message).into());
        }
        for Refused { source, reason } in &refused {
            letters.made_from(*source);
            letters.send(dead_letter(
                &batch.get(*source),
                &dead.topic,
                &StageError::new(reason.as_str()).in_stage("output"),
            ));
        }
        self.condition.refused(refused.len());
        dead.sink.deliver_letters(batch, letters, stop)
    }
}
