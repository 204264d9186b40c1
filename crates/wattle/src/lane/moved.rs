//! Where the tasks of a lane stand once their records are processed, and where they stand though none has come.

use std::collections::{BTreeMap, BTreeSet};

use super::Lane;
use crate::error::Error;
use crate::invariant;
use crate::kafka::{Position, TopicPartition};
use crate::stage::Transformer;
use crate::task::Lifecycle;

impl<S: Transformer> Lane<S> {
    /// The positions to commit once the first `until` records of the batch are done. Those of tasks of which a timer has `fired` are there
    /// also where they have not moved: they are the fence of what it has changed.
    pub(super) fn positions_behind(
        &self,
        until: usize,
        fired: &BTreeSet<i32>,
    ) -> Result<Vec<(TopicPartition, Position)>, Error> {
        let mut next: BTreeMap<(i32, usize), Position> = BTreeMap::new();
        // Only what is behind everything that was taken may be rounded up to the consumer's position, which passes markers.
        if until == self.batch.len() {
            next = self.behind_markers()?;
        }
        for number in fired {
            for (topic, committed) in self.tasks[number].committed.iter().flatten().enumerate() {
                next.entry((*number, topic)).or_insert(*committed);
            }
        }
        for index in 0..until {
            let record = self.batch.get(index);
            let position =
                next.entry((record.partition, self.batch.topic_index(index))).or_insert(record.offset.next());
            *position = (*position).max(record.offset.next());
        }
        // Of each partition's records a prefix is done, so that one look is enough.
        if until < self.batch.len() {
            let record = self.batch.get(until);
            if let Some(position) = next.get(&(record.partition, self.batch.topic_index(until))) {
                invariant::w4_no_position_passes_an_unprocessed_record(*position, record.offset);
            }
        }
        Ok(next
            .into_iter()
            .map(|((task, topic), position)| (self.tasks[&task].partitions[topic].clone(), position))
            .collect())
    }

    /// Positions of running tasks that the consumer has moved past what is committed, with nothing taken in between that is not
    /// processed or held.
    pub(super) fn behind_markers(&self) -> Result<BTreeMap<(i32, usize), Position>, Error> {
        let mut moved = BTreeMap::new();
        for (number, task) in self.tasks.iter().filter(|(_, task)| task.lifecycle() == Lifecycle::Running) {
            let positions = self.shared.consumer.position(&task.partitions).map_err(|source| Error::Kafka {
                what: format!("{}: read the consumer's position", self.name()),
                source,
            })?;
            for (topic, (position, committed)) in positions.into_iter().zip(task.committed.iter().flatten()).enumerate()
            {
                let is_held = self.held.as_ref().is_some_and(|held| held.is_held((*number, topic)));
                if let Some(position) = position.filter(|position| position > committed && !is_held) {
                    moved.insert((*number, topic), position);
                }
            }
        }
        Ok(moved)
    }

    /// Commits positions that only markers and aborted records have moved, so that the lag of a quiet input reaches 0.
    pub(super) fn commit_markers(&mut self) -> Result<(), Error> {
        self.output.clear();
        let positions = self.positions_behind(0, &BTreeSet::new())?;
        if positions.is_empty() {
            self.show_positions(&[]);
        } else {
            self.commit(&positions)?;
        }
        Ok(())
    }
}
