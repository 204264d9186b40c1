//! The transaction coordinator: transactional ids, epochs, partitions and pending positions of open transactions. Pure: it decides, `core` applies.

mod state;
#[cfg(test)]
mod tests;

pub(crate) use state::{Open, Phase, Transaction};

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::types::{Code, Committed, Millis, Producer, TopicPartition};

/// How long an id without a transaction is remembered: Kafka's `transactional.id.expiration.ms`.
const REMEMBERED: Millis = 7 * 24 * 60 * 60 * 1000;

/// A transactional id as the journal keeps it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Image {
    pub(crate) id: String,
    pub(crate) transaction: Transaction,
}

/// A transaction that is to end now: `core` writes the markers with this producer (after a fence or a timeout its epoch is the raised one) and applies the positions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Ended {
    pub(crate) id: String,
    pub(crate) producer: Producer,
    pub(crate) commit: bool,
    pub(crate) partitions: Vec<TopicPartition>,
    /// By group; empty where it aborted.
    pub(crate) offsets: Vec<(String, Vec<(TopicPartition, Committed)>)>,
}

/// All transactional ids, and the producer ids given so far.
#[derive(Debug)]
pub(crate) struct Transactions {
    ids: BTreeMap<String, Transaction>,
    next_producer_id: i64,
    max_timeout: Millis,
}

impl Default for Transactions {
    fn default() -> Self {
        Self { ids: BTreeMap::new(), next_producer_id: 0, max_timeout: 15 * 60 * 1000 }
    }
}

impl Transactions {
    /// From the journal.
    pub(crate) fn restore(&mut self, image: Image, now: Millis) {
        let Image { id, mut transaction } = image;
        self.restore_producer_ids(transaction.producer.id + 1);
        transaction.used = transaction.used.min(now);
        if let Some(open) = transaction.open_mut() {
            // The clock may have been moved forward before the restart.
            open.since = open.since.min(now);
        }
        self.ids.insert(id, transaction);
    }

    /// From the journal.
    pub(crate) fn restore_producer_ids(&mut self, next: i64) {
        self.next_producer_id = self.next_producer_id.max(next);
    }

    /// The state of an id, for the journal.
    pub(crate) fn image(&self, id: &str) -> Option<Image> {
        self.ids.get(id).map(|transaction| Image { id: id.to_owned(), transaction: transaction.clone() })
    }

    /// Everything, for a snapshot, and the next producer id.
    pub(crate) fn snapshot(&self) -> (Vec<Image>, i64) {
        (self.ids.keys().filter_map(|id| self.image(id)).collect(), self.next_producer_id)
    }

    /// The longest timeout that a producer may ask for.
    pub(crate) fn max_timeout(&self) -> Millis {
        self.max_timeout
    }

    /// Sets the longest timeout that a producer may ask for.
    pub(crate) fn set_max_timeout(&mut self, timeout: Millis) {
        self.max_timeout = timeout;
    }

    /// All ids.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&String, &Transaction)> {
        self.ids.iter()
    }

    /// An id, if it is known.
    pub(crate) fn get(&self, id: &str) -> Option<&Transaction> {
        self.ids.get(id)
    }

    /// A fresh producer id; the next one is to be journaled.
    pub(crate) fn new_producer_id(&mut self) -> i64 {
        let id = self.next_producer_id;
        self.next_producer_id += 1;
        id
    }

    /// Fences earlier producers of the id, aborts what they left open, and returns the producer to go on with. `known` is what the
    /// caller says that it is already, when it only wants its next epoch.
    pub(crate) fn initialise(
        &mut self,
        id: &str,
        known: Option<Producer>,
        timeout: Millis,
        now: Millis,
    ) -> Result<(Producer, Option<Ended>), Code> {
        if id.is_empty() {
            return Err(Code::InvalidRequest);
        }
        if timeout <= 0 || timeout > self.max_timeout {
            return Err(Code::InvalidTransactionTimeout);
        }
        let next = &mut self.next_producer_id;
        let mut new_producer_id = || {
            *next += 1;
            *next - 1
        };
        let Some(transaction) = self.ids.get_mut(id) else {
            let transaction = Transaction::new(new_producer_id(), timeout, now);
            let producer = transaction.producer;
            self.ids.insert(id.to_owned(), transaction);
            return Ok((producer, None));
        };
        if let Some(known) = known
            && transaction.check_known(known)?
        {
            return Ok((transaction.producer, None));
        }
        let ended = transaction.initialise(id, known, timeout, new_producer_id, now);
        Ok((transaction.producer, ended))
    }

    /// Adds partitions to the open transaction, beginning it if need be. Returns whether anything changed.
    pub(crate) fn add_partitions(
        &mut self,
        id: &str,
        producer: Producer,
        partitions: Vec<TopicPartition>,
        now: Millis,
    ) -> Result<bool, Code> {
        let transaction = self.checked(id, producer)?;
        let known = |open: &Open| partitions.iter().all(|partition| open.partitions.contains(partition));
        if transaction.open().is_some_and(known) {
            return Ok(false);
        }
        transaction.begin(now).partitions.extend(partitions);
        Ok(true)
    }

    /// Says that positions of this group are going to be sent. Returns whether anything changed.
    pub(crate) fn add_group(&mut self, id: &str, producer: Producer, group: &str, now: Millis) -> Result<bool, Code> {
        let transaction = self.checked(id, producer)?;
        if transaction.open().is_some_and(|open| open.groups.contains(group)) {
            return Ok(false);
        }
        transaction.begin(now).groups.insert(group.to_owned());
        Ok(true)
    }

    /// Whether positions of this group may be sent now.
    pub(crate) fn may_hold(&self, id: &str, producer: Producer, group: &str) -> Result<(), Code> {
        self.open_of(id, producer, |open| open.groups.contains(group))
    }

    /// Holds positions until the transaction ends; [`Transactions::may_hold`] was asked.
    pub(crate) fn hold(&mut self, id: &str, group: &str, offsets: Vec<(TopicPartition, Committed)>) {
        if let Some(open) = self.ids.get_mut(id).and_then(Transaction::open_mut) {
            open.offsets.entry(group.to_owned()).or_default().extend(offsets);
        }
    }

    /// Ends the open transaction. `None`: it ended so before, and there is nothing to do.
    pub(crate) fn end(
        &mut self,
        id: &str,
        producer: Producer,
        commit: bool,
        now: Millis,
    ) -> Result<Option<Ended>, Code> {
        self.checked(id, producer)?.end(id, commit, now)
    }

    /// Whether this producer may write transactionally to this partition now.
    pub(crate) fn may_produce(&self, id: &str, producer: Producer, partition: &TopicPartition) -> Result<(), Code> {
        self.open_of(id, producer, |open| open.partitions.contains(partition))
    }

    /// Whether an open transaction holds a position of this group and partition.
    pub(crate) fn holds(&self, group: &str, partition: &TopicPartition) -> bool {
        let mut open = self.ids.values().filter_map(Transaction::open);
        open.any(|open| open.offsets.get(group).is_some_and(|offsets| offsets.contains_key(partition)))
    }

    /// Transactions whose time is over: they are ended here (epoch raised); `core` applies each. Ids that were idle for long are forgotten.
    pub(crate) fn expire(&mut self, now: Millis) -> Vec<Ended> {
        let overdue = |t: &Transaction| t.open().is_some_and(|open| now - open.since >= t.timeout);
        let ended = (self.ids.iter_mut()).filter(|(_, t)| overdue(t)).filter_map(|(id, t)| {
            t.used = now;
            t.fence(id)
        });
        let ended = ended.collect();
        self.ids.retain(|_, t| t.open().is_some() || now - t.used < REMEMBERED);
        ended
    }

    /// A topic was deleted: open transactions forget its partitions and positions.
    pub(crate) fn forget_topic(&mut self, topic: &str) {
        for open in self.ids.values_mut().filter_map(Transaction::open_mut) {
            open.partitions.retain(|partition| partition.topic != topic);
            for offsets in open.offsets.values_mut() {
                offsets.retain(|partition, _| partition.topic != topic);
            }
        }
    }

    fn checked(&mut self, id: &str, producer: Producer) -> Result<&mut Transaction, Code> {
        if id.is_empty() {
            return Err(Code::InvalidRequest);
        }
        let transaction = self.ids.get_mut(id).ok_or(Code::InvalidProducerIdMapping)?;
        transaction.check(producer)?;
        Ok(transaction)
    }

    /// The checks of a write: an old epoch is not named a fence there, in Kafka.
    fn open_of(&self, id: &str, producer: Producer, holds: impl FnOnce(&Open) -> bool) -> Result<(), Code> {
        let transaction = self.ids.get(id).ok_or(Code::InvalidProducerIdMapping)?;
        transaction.check(producer).map_err(|code| match code {
            Code::ProducerFenced => Code::InvalidProducerEpoch,
            code => code,
        })?;
        if transaction.open().is_some_and(holds) { Ok(()) } else { Err(Code::InvalidTxnState) }
    }
}
