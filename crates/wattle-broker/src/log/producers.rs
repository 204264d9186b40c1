//! What the log remembers of its producers: the epoch, and the last batches' sequences, so that what is sent again is not written again.

use std::collections::{HashMap, VecDeque};

use super::batch::Header;
use crate::types::{Code, Millis};

/// Kafka's, and the most that idempotent clients have in flight.
const BATCHES: usize = 5;
/// A producer that was silent for this long is forgotten, as in Kafka.
const FORGET_AFTER: Millis = 24 * 60 * 60 * 1000;
/// However many there were: beyond it the longest silent go first.
const MOST: usize = 10_000;

/// By producer id.
#[derive(Debug, Default)]
pub(crate) struct Producers {
    known: HashMap<i64, Known>,
}

#[derive(Debug)]
struct Known {
    epoch: i16,
    /// The sequence that has to come; `None` where only a marker is left of what it wrote, and any is accepted.
    next: Option<i32>,
    /// The newest at the back; empty right after the epoch was raised.
    batches: VecDeque<Sent>,
    seen: Millis,
}

/// A batch that is in the log.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent {
    first: i32,
    last: i32,
    pub(crate) base: i64,
    last_offset: i64,
    pub(crate) max_timestamp: Millis,
}

impl Producers {
    /// Whether a batch of an idempotent producer may be written: `Some` if it is there already.
    pub(crate) fn check(&self, header: &Header) -> Result<Option<Sent>, (Code, String)> {
        let Some(known) = self.known.get(&header.producer.id) else { return Ok(None) };
        let (first, last) = (header.sequence, header.last_sequence());
        if header.producer.epoch == known.epoch
            && let Some(sent) = known.batches.iter().find(|sent| (sent.first, sent.last) == (first, last))
        {
            return Ok(Some(*sent));
        }
        self.check_epoch(header)?;
        let expected = if header.producer.epoch == known.epoch { known.next } else { Some(0) };
        if let Some(expected) = expected
            && first != expected
        {
            let text = format!(
                "producer {} epoch {} sent sequence {first}, expected {expected}",
                header.producer.id, header.producer.epoch
            );
            return Err((Code::OutOfOrderSequenceNumber, text));
        }
        Ok(None)
    }

    fn check_epoch(&self, header: &Header) -> Result<(), (Code, String)> {
        match self.known.get(&header.producer.id) {
            Some(known) if header.producer.epoch < known.epoch => {
                let text = format!(
                    "producer {} has epoch {} now, not {}",
                    header.producer.id, known.epoch, header.producer.epoch
                );
                Err((Code::InvalidProducerEpoch, text))
            }
            _ => Ok(()),
        }
    }

    /// Takes account of a batch in the log. A marker raises the epoch: what its old incarnation still sends is refused.
    pub(crate) fn note(&mut self, header: &Header, now: Millis) {
        if header.producer.id < 0 {
            return;
        }
        let fresh = || Known { epoch: header.producer.epoch, next: None, batches: VecDeque::new(), seen: now };
        let known = self.known.entry(header.producer.id).or_insert_with(fresh);
        known.seen = now;
        if header.producer.epoch > known.epoch {
            known.epoch = header.producer.epoch;
            known.next = Some(0);
            known.batches.clear();
        }
        if header.is_control() || header.producer.epoch < known.epoch {
            return;
        }
        if known.batches.len() == BATCHES {
            known.batches.pop_front();
        }
        known.next = Some(header.last_sequence().wrapping_add(1) & i32::MAX);
        known.batches.push_back(Sent {
            first: header.sequence,
            last: header.last_sequence(),
            base: header.base,
            last_offset: header.last(),
            max_timestamp: header.max_timestamp,
        });
    }

    /// Whether this batch has to stay, be it without records, so that the producer is known after the next open.
    pub(crate) fn needs(&self, header: &Header) -> bool {
        let Some(known) = self.known.get(&header.producer.id) else { return false };
        match known.batches.back() {
            Some(sent) => sent.last_offset == header.last(),
            None => header.is_control() && header.producer.epoch == known.epoch,
        }
    }

    /// Forgets those that were silent for long, except the `busy`.
    pub(crate) fn forget_idle(&mut self, now: Millis, busy: impl Fn(i64) -> bool) {
        self.known.retain(|id, known| now.saturating_sub(known.seen) < FORGET_AFTER || busy(*id));
        if self.known.len() > MOST {
            let mut seen: Vec<_> = self.known.iter().map(|(id, known)| (known.seen, *id)).collect();
            seen.sort_unstable();
            let surplus = seen.len() - MOST;
            for (_, id) in seen.iter().filter(|(_, id)| !busy(*id)).take(surplus) {
                self.known.remove(id);
            }
        }
    }
}
