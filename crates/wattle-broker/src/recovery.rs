//! From a folder back to the state: the journal is replayed, then the logs are opened, then the end of the last transaction is completed.

use std::collections::BTreeMap;
use std::sync::Arc;

use uuid::Uuid;

use crate::core::{State, Topic};
use crate::error::Error;
use crate::folder::Folder;
use crate::group::Groups;
use crate::journal::{Entry, Journal};
use crate::topic::TopicConfig;
use crate::transaction::Transactions;
use crate::types::{Millis, Producer, TopicPartition};

/// What was found.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Recovered {
    pub(crate) topics: usize,
    pub(crate) bytes: u64,
    pub(crate) entries: u64,
}

/// Opens the folder's state, or an empty one in memory.
pub(crate) fn recover(folder: Option<Arc<Folder>>, now: Millis) -> Result<(State, Recovered), Error> {
    let mut replay = Replay::default();
    let journal = match &folder {
        Some(folder) => Journal::open(folder.path(), |entry| replay.apply(entry, now))?,
        None => Journal::memory(),
    };
    let entries = replay.entries;
    let mut state = State {
        cluster_id: replay.cluster_id.unwrap_or_else(Uuid::new_v4),
        topics: BTreeMap::new(),
        groups: replay.groups,
        transactions: replay.transactions,
        journal,
        broken: None,
        folder,
    };
    if replay.cluster_id.is_none() {
        state.journal(&Entry::Cluster { id: state.cluster_id })?;
    }
    for (name, found) in replay.topics {
        let config = TopicConfig::parse(&found.set)?;
        state.topics.insert(name.clone(), Topic { id: found.id, set: found.set, config, partitions: Vec::new() });
        state.open_partitions(&name, found.partitions, now)?;
        for (partition, offset) in found.starts {
            if let Some(log) = state.partition_mut(&name, partition) {
                log.delete_before(offset)?;
            }
        }
    }
    if let Some(unfinished) = replay.unfinished {
        unfinished.complete(&mut state, now)?;
    }
    if let Some(folder) = &state.folder {
        folder.remove_unknown_topics(|name, id| state.topics.get(name).is_some_and(|topic| topic.id == id))?;
    }
    let bytes = state.topics.values().flat_map(|topic| &topic.partitions).map(|log| log.bytes()).sum();
    let recovered = Recovered { topics: state.topics.len(), bytes, entries };
    Ok((state, recovered))
}

/// Everything as entries: what a journal is replaced by.
pub(crate) fn snapshot(state: &State) -> Vec<Entry> {
    let mut entries = vec![Entry::Cluster { id: state.cluster_id }];
    for (name, topic) in &state.topics {
        let partitions = i32::try_from(topic.partitions.len()).unwrap_or(i32::MAX);
        let (id, config) = (topic.id, topic.set.clone());
        entries.push(Entry::TopicCreated { name: name.clone(), id, partitions, config });
        for (partition, log) in (0..).zip(&topic.partitions).filter(|(_, log)| log.start() > 0) {
            let partition = TopicPartition { topic: name.clone(), partition };
            entries.push(Entry::LogStart { partition, offset: log.start() });
        }
    }
    let (images, next) = state.transactions.snapshot();
    entries.push(Entry::ProducerIds { next });
    entries.extend(images.into_iter().map(Entry::Transaction));
    for (image, offsets) in state.groups.snapshot() {
        let group = image.name.clone();
        entries.push(Entry::Group(image));
        entries.push(Entry::Offsets { group, offsets });
    }
    entries
}

/// A topic as the journal tells it.
struct Found {
    id: Uuid,
    partitions: i32,
    set: BTreeMap<String, String>,
    starts: BTreeMap<i32, i64>,
}

#[derive(Default)]
struct Replay {
    cluster_id: Option<Uuid>,
    topics: BTreeMap<String, Found>,
    groups: Groups,
    transactions: Transactions,
    /// The journal's last entry ended a transaction: its markers may be missing.
    unfinished: Option<Unfinished>,
    entries: u64,
}

impl Replay {
    fn apply(&mut self, entry: Entry, now: Millis) {
        self.entries += 1;
        self.unfinished = None;
        match entry {
            Entry::Cluster { id } => self.cluster_id = Some(id),
            Entry::TopicCreated { name, id, partitions, config } => {
                self.topics.insert(name, Found { id, partitions, set: config, starts: BTreeMap::new() });
            }
            Entry::TopicConfigured { name, config } => {
                if let Some(topic) = self.topics.get_mut(&name) {
                    topic.set = config;
                }
            }
            Entry::TopicGrown { name, partitions } => {
                if let Some(topic) = self.topics.get_mut(&name) {
                    topic.partitions = partitions;
                }
            }
            Entry::TopicDeleted { name } => {
                self.topics.remove(&name);
                self.groups.forget_topic(&name);
                self.transactions.forget_topic(&name);
            }
            Entry::LogStart { partition, offset } => {
                if let Some(topic) = self.topics.get_mut(&partition.topic) {
                    topic.starts.insert(partition.partition, offset);
                }
            }
            Entry::ProducerIds { next } => self.transactions.restore_producer_ids(next),
            Entry::Transaction(image) => self.transactions.restore(image, now),
            Entry::TransactionEnded { image, ended, markers } => {
                self.transactions.restore(image, now);
                if ended.commit {
                    for (group, offsets) in ended.offsets {
                        self.groups.commit(&group, offsets);
                    }
                }
                self.unfinished = Some(Unfinished { producer: ended.producer, commit: ended.commit, markers });
            }
            Entry::Group(image) => self.groups.restore(image, now),
            Entry::GroupDeleted { name } => self.groups.remove(&name),
            Entry::Offsets { group, offsets } => self.groups.commit(&group, offsets),
            Entry::OffsetsDeleted { group, partitions } => self.groups.forget(&group, &partitions),
        }
    }
}

/// Markers that a crash may have come before. Only those of the last entry can be missing: they are written under the same lock as the entry.
struct Unfinished {
    producer: Producer,
    commit: bool,
    markers: Vec<(TopicPartition, i64)>,
}

impl Unfinished {
    fn complete(self, state: &mut State, now: Millis) -> Result<(), Error> {
        for (at, offset) in self.markers {
            let Some(log) = state.partition_mut(&at.topic, at.partition) else { continue };
            if log.end() <= offset {
                let written = log.append_marker(self.producer, self.commit, now)?;
                let (topic, partition) = (at.topic, at.partition);
                tracing::info!(topic, partition, offset = written, "completed the end of a transaction");
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;
    use crate::log::Header;
    use crate::types::Isolation;

    const NOW: Millis = 1_000;

    fn at() -> TopicPartition {
        TopicPartition { topic: "t".into(), partition: 0 }
    }

    fn open(folder: &TempDir) -> State {
        let folder = Folder::open(folder.path(), "nowhere").expect("a folder");
        recover(Some(Arc::new(folder)), NOW).expect("recovered").0
    }

    /// A transaction of one batch is open.
    fn begun(folder: &TempDir) -> (State, Producer) {
        let mut state = open(folder);
        state.create_topic("t", 1, BTreeMap::new(), NOW).expect("created");
        let (producer, _) = state.transactions.initialise("id", None, 60_000, NOW).expect("a producer");
        state.transactions.add_partitions("id", producer, vec![at()], NOW).expect("added");
        let image = state.transactions.image("id").expect("known");
        state.journal(&Entry::Transaction(image)).expect("written");
        let header = Header {
            base: 0,
            size: 0,
            crc: 0,
            attributes: 0x10,
            last_delta: 0,
            base_timestamp: NOW,
            max_timestamp: NOW,
            producer,
            sequence: 0,
            count: 1,
        };
        let topic = state.topics.get_mut("t").expect("created");
        let appended = topic.partitions[0].append(header.encode(b"a record").into(), &topic.config, NOW);
        assert_eq!(appended.expect("appended").base_offset, 0);
        (state, producer)
    }

    #[test]
    fn markers_that_a_crash_came_before_are_written_at_the_start() {
        for commit in [true, false] {
            let folder = TempDir::new().expect("a folder");
            let (mut state, producer) = begun(&folder);
            let ended = state.transactions.end("id", producer, commit, NOW).expect("it may end").expect("it was open");
            let image = state.transactions.image("id").expect("known");
            let entry = Entry::TransactionEnded { image, ended, markers: vec![(at(), 1)] };
            state.journal(&entry).expect("written");
            drop(state);

            // Only once, however often it starts.
            for _ in 0..2 {
                let state = open(&folder);
                let log = state.partition("t", 0).expect("the partition");
                assert_eq!((log.end(), log.last_stable()), (2, 2), "commit {commit}");
                let read = log.read(0, 1_000, true, Isolation::ReadCommitted).expect("read");
                assert_eq!(read.aborted.len(), usize::from(!commit));
            }
        }
    }

    #[test]
    fn a_transaction_that_was_open_is_open_again() {
        let folder = TempDir::new().expect("a folder");
        let (state, producer) = begun(&folder);
        drop(state);
        let state = open(&folder);
        assert_eq!(state.transactions.may_produce("id", producer, &at()), Ok(()));
        let log = state.partition("t", 0).expect("the partition");
        assert_eq!((log.end(), log.last_stable()), (1, 0));
    }

    #[test]
    fn a_snapshot_is_the_same_state() {
        let folder = TempDir::new().expect("a folder");
        let (mut state, producer) = begun(&folder);
        let ended = state.transactions.end("id", producer, true, NOW).expect("it may end").expect("it was open");
        state.end_transaction(ended, NOW).expect("ended");
        state.grow_topic("t", 3, NOW).expect("grown");
        state.journal(&Entry::LogStart { partition: at(), offset: 1 }).expect("written");
        state.partition_mut("t", 0).expect("the partition").delete_before(1).expect("deleted");
        let entries = snapshot(&state);
        state.journal.replace(entries.clone().into_iter()).expect("replaced");
        drop(state);
        let state = open(&folder);
        assert_eq!(snapshot(&state), entries);
        assert_eq!(state.topics["t"].partitions.len(), 3);
        assert_eq!(state.partition("t", 0).expect("the partition").start(), 1);
    }
}
