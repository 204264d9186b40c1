//! Which transactions of a partition are open, and which ones aborted: what a `read_committed` reader is told.

use std::collections::BTreeMap;

/// Of one partition.
#[derive(Debug, Default)]
pub(crate) struct Transactions {
    /// First offset by producer id.
    open: BTreeMap<i64, i64>,
    /// In the order of their markers.
    aborted: Vec<Aborted>,
}

/// A transaction whose records nobody is to see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Aborted {
    pub(crate) producer: i64,
    pub(crate) first: i64,
    /// Of its marker.
    pub(crate) marker: i64,
    /// The first unstable offset when it had ended: whatever aborts later begins here or after.
    stable: i64,
}

impl Transactions {
    /// The first offset of the oldest open transaction.
    pub(crate) fn first_open(&self) -> Option<i64> {
        self.open.values().min().copied()
    }

    pub(crate) fn is_open(&self, producer: i64) -> bool {
        self.open.contains_key(&producer)
    }

    /// Producers with an open transaction.
    pub(crate) fn open(&self) -> impl Iterator<Item = i64> + '_ {
        self.open.keys().copied()
    }

    /// A transactional batch was written.
    pub(crate) fn begin(&mut self, producer: i64, first: i64) {
        self.open.entry(producer).or_insert(first);
    }

    /// A marker was written. Without records before it, it ends nothing.
    pub(crate) fn end(&mut self, producer: i64, commit: bool, marker: i64) {
        let Some(first) = self.open.remove(&producer) else { return };
        if !commit {
            let stable = self.first_open().unwrap_or(marker + 1);
            self.aborted.push(Aborted { producer, first, marker, stable });
        }
    }

    /// Those that touch offsets from `from` to before `end`: producer and first offset, by first offset.
    pub(crate) fn aborted_within(&self, from: i64, end: i64) -> Vec<(i64, i64)> {
        let mut found = vec![];
        for aborted in &self.aborted[self.aborted.partition_point(|aborted| aborted.marker < from)..] {
            if aborted.first < end {
                found.push((aborted.producer, aborted.first));
            }
            if aborted.stable >= end {
                break;
            }
        }
        found.sort_unstable_by_key(|(_, first)| *first);
        found
    }

    /// All that aborted.
    pub(crate) fn aborted(&self) -> &[Aborted] {
        &self.aborted
    }

    /// The log begins at `start` now.
    pub(crate) fn trim(&mut self, start: i64) {
        let gone = self.aborted.partition_point(|aborted| aborted.marker < start);
        self.aborted.drain(..gone);
    }

    /// Compaction removed these markers, and all records of theirs before.
    pub(crate) fn forget(&mut self, markers: &std::collections::HashSet<i64>) {
        self.aborted.retain(|aborted| !markers.contains(&aborted.marker));
    }
}
