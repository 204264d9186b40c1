//! Ends what dead workers have left open. In scope `worker` the transactional id of a dead process is nobody's, so that its open
//! transaction would hold the positions in it until its timeout. Every position that we commit names its [`Holder`], and a lane commits the positions of a
//! task before the first record of it (`lane/starter.rs`), so that whoever holds a position open has left its name there.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use super::shared::Shared;
use crate::config::Delivery;
use crate::error::Error;
use crate::kafka::{self, Holder, Producer, TopicPartition};

/// One question to the broker.
const ASK: Duration = Duration::from_secs(5);

/// The same id is not fenced again before this time: where it does not help, somebody else holds the positions.
const AGAIN: Duration = Duration::from_secs(10);

/// The holders whose transactions were ended, or could not be, and when.
pub(crate) type Ended = Mutex<BTreeMap<Holder, Instant>>;

impl<S> Shared<S> {
    /// Called while somebody waits for the positions of `waiting`: fences the ids of holders that are no members of the group, which
    /// aborts what they have open.
    ///
    /// This never decides about exactness: whoever waits reads stable positions afterwards, behind whatever has become of the transaction.
    /// At worst a process that was expelled from the group, and lives, is fenced a moment before it hears of that.
    pub(crate) fn end_orphans(&self, waiting: &[TopicPartition]) {
        // One at a time is enough; the others only wait.
        let Ok(mut ended) = self.ended.try_lock() else { return };
        ended.retain(|_, at| at.elapsed() < AGAIN);
        let orphans = match self.orphans(waiting, &ended) {
            Ok(orphans) => orphans,
            Err(error) => {
                tracing::debug!(stream = %self.config.name, "ask whose transaction holds positions: {error}");
                return;
            }
        };
        for orphan in orphans {
            let (stream, id, client) = (&self.config.name, &orphan.transactional_id, &orphan.client_id);
            match self.end(id) {
                Ok(()) => tracing::info!(
                    %stream,
                    transactional_id = %id,
                    "ended what the id may have had open: {client} is not in the group any more"
                ),
                Err(error) => tracing::warn!(
                    %stream,
                    transactional_id = %id,
                    "could not end what the id may have open, so that its timeout will: {error}"
                ),
            }
            ended.insert(orphan, Instant::now());
        }
    }

    fn end(&self, id: &str) -> Result<(), Error> {
        let producer = Producer::new(&self.producer_config(id))?;
        let fenced = producer.init_transactions(self.config.patience());
        fenced.map_err(|source| Error::Kafka { what: format!("{id}: init_transactions"), source })
    }

    fn orphans(
        &self,
        waiting: &[TopicPartition],
        ended: &BTreeMap<Holder, Instant>,
    ) -> Result<BTreeSet<Holder>, kafka::Error> {
        let Delivery::ExactlyOnce { transactional_id } = &self.config.delivery else { return Ok(BTreeSet::new()) };
        // A pending position does not say whose it is, only the one before it does. A dead worker's name stands at some of
        // the other partitions, if not at this one.
        let mut found = self.view.holders(&self.all_partitions(), ASK)?;
        found.retain(|holder| {
            !ended.contains_key(holder) && may_be_ended(&holder.transactional_id, transactional_id, waiting)
        });
        if found.is_empty() {
            return Ok(found);
        }
        let group = self.view.group(ASK)?;
        // In a rebalance the members are not told yet.
        found.retain(|holder| group.stable && !holder.is_in(&group));
        Ok(found)
    }
}

/// Whether an id is of this application, and not of a task that is not ours: whoever has that task fences the id itself, and must not
/// be thrown out.
fn may_be_ended(id: &str, prefix: &str, waiting: &[TopicPartition]) -> bool {
    let Some(end) = id.strip_prefix(prefix).and_then(|rest| rest.strip_prefix('-')) else { return false };
    end.parse::<i32>().map_or(true, |task| waiting.iter().any(|(_, number)| *number == task))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_other_applications_and_of_tasks_elsewhere_are_left_alone() {
        let waiting = [("t".into(), 3)];
        for (id, expected) in [
            ("app-0f3c", true),
            ("app-one", true),
            ("app-3", true),
            ("app-4", false),
            ("app", false),
            ("apple-1f", false),
            ("other-0f3c", false),
        ] {
            assert_eq!(may_be_ended(id, "app", &waiting), expected, "{id}");
        }
    }
}
