//! One transactional id: its producer, its epochs, and the transaction that is open.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::types::{Code, Committed, Millis, Producer, TopicPartition};

use super::Ended;

/// The last epoch that a producer id can have; it is kept for a last fence, and never given to a producer.
const LAST_EPOCH: i16 = i16::MAX;

/// What the id is doing. A transaction ends within one request, so Kafka's states in between do not exist here.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Phase {
    /// No transaction since the producer was initialised.
    Empty,
    Ongoing(Open),
    Committed,
    Aborted,
}

impl Phase {
    /// Kafka's name.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Phase::Empty => "Empty",
            Phase::Ongoing(_) => "Ongoing",
            Phase::Committed => "CompleteCommit",
            Phase::Aborted => "CompleteAbort",
        }
    }
}

/// An open transaction.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Open {
    pub(crate) since: Millis,
    pub(crate) partitions: BTreeSet<TopicPartition>,
    /// Groups whose positions may be sent.
    pub(crate) groups: BTreeSet<String>,
    /// Positions by group: pending until the end.
    pub(crate) offsets: BTreeMap<String, BTreeMap<TopicPartition, Committed>>,
}

/// A transactional id.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Transaction {
    pub(crate) producer: Producer,
    /// The producer that asked for its next epoch and got `producer`: it may have missed the answer, and ask again.
    before: Option<Producer>,
    pub(crate) timeout: Millis,
    pub(crate) phase: Phase,
    /// When it was last used.
    pub(super) used: Millis,
}

impl Transaction {
    /// A new id.
    pub(super) fn new(producer_id: i64, timeout: Millis, now: Millis) -> Self {
        Self { producer: Producer { id: producer_id, epoch: 0 }, before: None, timeout, phase: Phase::Empty, used: now }
    }

    /// Checks the producer that asks for its next epoch. Returns true where it has it already, and only missed the answer.
    pub(super) fn check_known(&self, known: Producer) -> Result<bool, Code> {
        if known == self.producer {
            Ok(false)
        } else if Some(known) == self.before {
            Ok(true)
        } else {
            Err(Code::ProducerFenced)
        }
    }

    /// Gives the next epoch, or a new producer id when there is none left, and aborts what is open; the markers of that have an epoch of
    /// their own in between, as in Kafka, so that neither producer can be taken for the other.
    pub(super) fn initialise(
        &mut self,
        id: &str,
        known: Option<Producer>,
        timeout: Millis,
        new_producer_id: impl FnOnce() -> i64,
        now: Millis,
    ) -> Option<Ended> {
        let ended = self.fence(id);
        self.producer = if self.producer.epoch >= LAST_EPOCH - 1 {
            Producer { id: new_producer_id(), epoch: 0 }
        } else {
            Producer { id: self.producer.id, epoch: self.producer.epoch + 1 }
        };
        self.before = known;
        self.timeout = timeout;
        self.phase = Phase::Empty;
        self.used = now;
        ended
    }

    /// Checks who asks.
    pub(super) fn check(&self, producer: Producer) -> Result<(), Code> {
        if producer.id != self.producer.id {
            Err(Code::InvalidProducerIdMapping)
        } else if producer.epoch != self.producer.epoch {
            Err(Code::ProducerFenced)
        } else {
            Ok(())
        }
    }

    /// The open transaction, begun if need be.
    pub(super) fn begin(&mut self, now: Millis) -> &mut Open {
        self.used = now;
        if !matches!(self.phase, Phase::Ongoing(_)) {
            self.phase = Phase::Ongoing(Open { since: now, ..Open::default() });
        }
        match &mut self.phase {
            Phase::Ongoing(open) => open,
            Phase::Empty | Phase::Committed | Phase::Aborted => unreachable!("it was begun above"),
        }
    }

    /// The open transaction.
    pub(super) fn open(&self) -> Option<&Open> {
        match &self.phase {
            Phase::Ongoing(open) => Some(open),
            Phase::Empty | Phase::Committed | Phase::Aborted => None,
        }
    }

    /// The open transaction.
    pub(super) fn open_mut(&mut self) -> Option<&mut Open> {
        match &mut self.phase {
            Phase::Ongoing(open) => Some(open),
            Phase::Empty | Phase::Committed | Phase::Aborted => None,
        }
    }

    /// Ends the open transaction. `None`: it ended that way before, and the answer was lost.
    pub(super) fn end(&mut self, id: &str, commit: bool, now: Millis) -> Result<Option<Ended>, Code> {
        let after = if commit { Phase::Committed } else { Phase::Aborted };
        match std::mem::replace(&mut self.phase, after) {
            Phase::Ongoing(open) => {
                self.used = now;
                Ok(Some(ended(id, self.producer, commit, open)))
            }
            before if before == self.phase => Ok(None),
            before => {
                self.phase = before;
                Err(Code::InvalidTxnState)
            }
        }
    }

    /// Aborts what is open with a raised epoch, so that its producer cannot go on.
    pub(super) fn fence(&mut self, id: &str) -> Option<Ended> {
        if !matches!(self.phase, Phase::Ongoing(_)) {
            return None;
        }
        self.producer.epoch = self.producer.epoch.saturating_add(1);
        self.before = None;
        match std::mem::replace(&mut self.phase, Phase::Aborted) {
            Phase::Ongoing(open) => Some(ended(id, self.producer, false, open)),
            Phase::Empty | Phase::Committed | Phase::Aborted => None,
        }
    }
}

fn ended(id: &str, producer: Producer, commit: bool, open: Open) -> Ended {
    let offsets = if commit { open.offsets } else { BTreeMap::new() };
    Ended {
        id: id.to_owned(),
        producer,
        commit,
        partitions: open.partitions.into_iter().collect(),
        offsets: offsets.into_iter().map(|(group, offsets)| (group, offsets.into_iter().collect())).collect(),
    }
}
