//! State on disk: a database (fjall) of its own for each task. So a failed write or damage is one task's affair: its store is closed, opened
//! anew or wiped while the others run on, and their lanes do not meet in one journal.
//!
//! A batch is one write of the database's journal, flushed to the operating system and not to the disk: a process that is killed loses nothing,
//! a machine that is lost some batches, which are read again from the changelog, since the checkpoint is lost with them.

use std::cell::RefCell;
use std::fs;
use std::path::{Path, PathBuf};

use fjall::{Database, Keyspace, KeyspaceCreateOptions};
use serde::{Deserialize, Serialize};

use super::cache::Cache;
use super::timers::TIMERS;
use super::{ChangeRef, Checkpoint, Failed, RESERVED, Store, Value, is_reserved};
use crate::kafka::Position;

/// Entries beside the states: all of them begin with [`RESERVED`].
const ORIGIN: &[u8] = b"\0wattle.origin";
const CHECKPOINT: &[u8] = b"\0wattle.checkpoint";
/// Stands for the empty key, which the database does not take.
const EMPTY: &[u8] = b"\0wattle.empty";

/// Whose state a store holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Origin {
    pub(crate) application: String,
    pub(crate) topic: String,
    /// The topic's id; empty where the broker tells none.
    pub(crate) topic_id: String,
    pub(crate) partition: i32,
}

/// The store of a task on disk. It has no files before there is something to keep.
pub(crate) struct Disk {
    path: PathBuf,
    origin: Origin,
    /// For blocks that were read.
    cache_bytes: u64,
    files: Option<Files>,
    recent: RefCell<Cache>,
    checkpoint: Option<Checkpoint>,
}

struct Files {
    states: Keyspace,
    database: Database,
}

impl Disk {
    /// Opens what is at `path`, or nothing where nothing is. What cannot be read, or is another origin's, is removed; the text says why.
    ///
    /// # Errors
    /// Where somebody has it open, or it cannot be removed.
    pub(crate) fn open(path: &Path, origin: Origin, cache_bytes: u64) -> Result<(Self, Option<String>), Failed> {
        let (files, recent, checkpoint) = (None, RefCell::default(), None);
        let mut this = Disk { path: path.to_owned(), origin, cache_bytes, files, recent, checkpoint };
        if !path.exists() {
            return Ok((this, None));
        }
        let reason = match this.read() {
            Ok(()) => return Ok((this, None)),
            Err(fjall::Error::Locked) => return Err(failed(fjall::Error::Locked)),
            Err(fjall::Error::Io(error)) if error.kind() == std::io::ErrorKind::InvalidData => error.to_string(),
            Err(error) => format!("it cannot be read: {}", failed(error)),
        };
        this.files = None;
        remove(path)?;
        Ok((this, Some(reason)))
    }

    /// `InvalidData` says that it is readable, and why it does not fit.
    fn read(&mut self) -> fjall::Result<()> {
        let misfit = |why: String| Err(std::io::Error::new(std::io::ErrorKind::InvalidData, why).into());
        let files = Files::open(&self.path, self.cache_bytes)?;
        let Some((origin, checkpoint)) = files.facts()? else {
            return misfit("it has no checkpoint".to_owned());
        };
        if let Some(why) = origin.differs(&self.origin) {
            return misfit(why);
        }
        (self.files, self.checkpoint) = (Some(files), Some(checkpoint));
        Ok(())
    }

    /// Whose store is at `path`, and how far it reaches. It stays as it is.
    ///
    /// # Errors
    /// Where it cannot be read.
    pub(crate) fn look(path: &Path) -> Result<(Origin, Checkpoint), Failed> {
        let files = Files::open(path, 1 << 20).map_err(failed)?;
        files.facts().map_err(failed)?.ok_or_else(|| Failed("it has no checkpoint".to_owned()))
    }

    fn write(&mut self, changes: &[ChangeRef<'_>], checkpoint: Checkpoint) -> fjall::Result<()> {
        let is_new = self.files.is_none();
        let files = match self.files.take() {
            Some(files) => files,
            None => Files::open(&self.path, self.cache_bytes)?,
        };
        let Files { states, database } = self.files.insert(files);
        let mut batch = database.batch();
        if is_new {
            let origin = serde_json::to_vec(&self.origin).map_err(std::io::Error::from)?;
            batch.insert(states, ORIGIN, origin);
        }
        for (key, value) in changes {
            match value {
                Some(value) => batch.insert(states, stored(key), *value),
                None => batch.remove(states, stored(key)),
            }
        }
        batch.insert(states, CHECKPOINT, encode(checkpoint));
        batch.commit()
    }
}

impl Files {
    fn open(path: &Path, cache_bytes: u64) -> fjall::Result<Self> {
        let database =
            Database::builder(path).cache_size(cache_bytes).worker_threads(1).max_cached_files(Some(64)).open()?;
        // A start reads again what the journal has and the tables have not, so this bounds it too.
        let options = || KeyspaceCreateOptions::default().max_memtable_size(8 << 20);
        let states = database.keyspace("states", options)?;
        Ok(Files { states, database })
    }

    /// What the store says of itself.
    fn facts(&self) -> fjall::Result<Option<(Origin, Checkpoint)>> {
        let (origin, checkpoint) = (self.states.get(ORIGIN)?, self.states.get(CHECKPOINT)?);
        let origin = origin.and_then(|bytes| serde_json::from_slice(&bytes).ok());
        Ok(origin.zip(checkpoint.as_deref().and_then(decode)))
    }
}

impl Store for Disk {
    fn get(&self, key: &[u8]) -> Result<Option<Value<'_>>, Failed> {
        let Some(Files { states, .. }) = &self.files else { return Ok(None) };
        if let Some(known) = self.recent.borrow().get(key) {
            return Ok(known.map(Value::Disk));
        }
        let value = states.get(stored(key)).map_err(failed)?;
        self.recent.borrow_mut().put(key, value.as_ref());
        Ok(value.map(Value::Disk))
    }

    fn apply(
        &mut self,
        changes: &mut dyn Iterator<Item = ChangeRef<'_>>,
        checkpoint: Checkpoint,
    ) -> Result<(), Failed> {
        let mut changes: Vec<ChangeRef<'_>> = changes.collect();
        // Neighbours in the table in memory are found from one another: an eighth of the time of a stage with a million keys.
        changes.sort_unstable_by_key(|(key, _)| *key);
        if self.files.is_some() || !changes.is_empty() {
            self.write(&changes, checkpoint).map_err(failed)?;
        }
        let recent = self.recent.get_mut();
        for (key, value) in changes {
            recent.update(key, value);
        }
        self.checkpoint = Some(checkpoint);
        Ok(())
    }

    fn checkpoint(&self) -> Option<Checkpoint> {
        self.checkpoint
    }

    fn timers(&self, visit: &mut dyn FnMut(&[u8], &[u8])) -> Result<(), Failed> {
        let Some(Files { states, .. }) = &self.files else { return Ok(()) };
        for entry in states.prefix(TIMERS) {
            let (key, value) = entry.into_inner().map_err(failed)?;
            visit(&key, &value);
        }
        Ok(())
    }

    fn keys(&self) -> Result<usize, Failed> {
        let Some(Files { states, .. }) = &self.files else { return Ok(0) };
        let mut count = 0;
        for entry in states.iter() {
            let key = entry.key().map_err(failed)?;
            count += usize::from(!is_reserved(&key) || *key == *EMPTY);
        }
        Ok(count)
    }

    fn wipe(mut self: Box<Self>) -> Result<(), Failed> {
        self.files = None;
        if self.path.exists() { remove(&self.path) } else { Ok(()) }
    }
}

impl Origin {
    /// Why a store of this origin is not one of `ours`.
    pub(crate) fn differs(&self, ours: &Origin) -> Option<String> {
        let say = |what: &str, there: &dyn std::fmt::Display, here: &dyn std::fmt::Display| {
            Some(format!("it is of the {what} {there}, not {here}"))
        };
        if self.application != ours.application {
            return say("application", &self.application, &ours.application);
        }
        if self.topic != ours.topic {
            return say("changelog topic", &self.topic, &ours.topic);
        }
        if self.partition != ours.partition {
            return say("partition", &self.partition, &ours.partition);
        }
        if self.topic_id != ours.topic_id {
            let (there, here) = (&self.topic_id, &ours.topic_id);
            return Some(format!("the changelog topic was made anew: its id is {here}, and was {there}"));
        }
        None
    }
}

/// The key under which the database has a state.
fn stored(key: &[u8]) -> &[u8] {
    debug_assert!(EMPTY.starts_with(RESERVED));
    if key.is_empty() { EMPTY } else { key }
}

pub(crate) fn encode(Checkpoint { position, owned_until }: Checkpoint) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&position.0.to_be_bytes());
    bytes[8..].copy_from_slice(&owned_until.to_be_bytes());
    bytes
}

pub(crate) fn decode(bytes: &[u8]) -> Option<Checkpoint> {
    let (position, owned_until) = bytes.split_first_chunk::<8>()?;
    let owned_until = owned_until.try_into().ok()?;
    Some(Checkpoint { position: Position(i64::from_be_bytes(*position)), owned_until: i64::from_be_bytes(owned_until) })
}

fn remove(path: &Path) -> Result<(), Failed> {
    fs::remove_dir_all(path).map_err(|error| Failed(format!("remove {}: {error}", path.display())))
}

fn failed(error: fjall::Error) -> Failed {
    Failed(match error {
        fjall::Error::Io(error) => error.to_string(),
        fjall::Error::Poisoned => "a write before failed".to_owned(),
        fjall::Error::Locked => "it is open already".to_owned(),
        fjall::Error::Storage(error) => format!("its tables: {error}"),
        other => format!("the database is damaged ({other})"),
    })
}

#[cfg(test)]
mod tests {
    use super::super::timers::TIME;
    use super::*;
    use crate::stage::Clock;

    /// A folder that is gone with the test.
    struct Temporary(PathBuf);

    impl Temporary {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("wattle-disk-{}-{name}", std::process::id()));
            drop(fs::remove_dir_all(&path)); // what a killed run has left
            Temporary(path)
        }

        fn open(&self, origin: Origin) -> (Box<Disk>, Option<String>) {
            let (store, why) = Disk::open(&self.0, origin, 1 << 20).expect("it can be opened");
            (Box::new(store), why)
        }
    }

    impl Drop for Temporary {
        fn drop(&mut self) {
            drop(fs::remove_dir_all(&self.0));
        }
    }

    fn origin() -> Origin {
        Origin { application: "a".into(), topic: "a-changelog".into(), topic_id: "1".into(), partition: 3 }
    }

    fn at(position: i64) -> Checkpoint {
        Checkpoint { position: Position(position), owned_until: 7 }
    }

    fn apply(store: &mut Disk, changes: &[ChangeRef<'_>], position: i64) {
        store.apply(&mut changes.iter().copied(), at(position)).expect("the disk takes it");
    }

    fn get(store: &Disk, key: &[u8]) -> Option<Vec<u8>> {
        store.get(key).expect("the disk can be read").map(|value| value.to_vec())
    }

    #[test]
    fn what_was_applied_is_there_when_it_is_opened_again() {
        let folder = Temporary::new("again");
        let (mut store, _) = folder.open(origin());
        apply(&mut store, &[(b"", Some(b"empty")), (b"a", Some(b"1")), (b"b", Some(b"2"))], 5);
        apply(&mut store, &[(b"a", None), (b"b", Some(b"3"))], 9);
        drop(store);
        let (store, why) = folder.open(origin());
        assert_eq!((why, store.checkpoint(), store.keys().expect("readable")), (None, Some(at(9)), 2));
        let found = [b"".as_slice(), b"a", b"b"].map(|key| get(&store, key));
        assert_eq!(found, [Some(b"empty".to_vec()), None, Some(b"3".to_vec())]);
    }

    #[test]
    fn timers_are_found_again_and_are_not_counted_as_states() {
        let folder = Temporary::new("timers");
        let (mut store, _) = folder.open(origin());
        let [timer, gone] = ["a", "b"].map(|key| super::super::timers::stored(Clock::Wall, "t", key.as_bytes()));
        apply(&mut store, &[(b"", Some(b"1")), (b"a", Some(b"1")), (&timer, Some(b"5")), (&gone, Some(b"6"))], 5);
        apply(&mut store, &[(&gone, None), (TIME, Some(b"4"))], 9);
        drop(store);
        let (store, _) = folder.open(origin());
        let mut found = Vec::new();
        store.timers(&mut |key, value| found.push((key.to_vec(), value.to_vec()))).expect("readable");
        assert_eq!(found, [(TIME.to_vec(), b"4".to_vec()), (timer, b"5".to_vec())]);
        assert_eq!(store.keys().expect("readable"), 2);
    }

    #[test]
    fn a_task_without_state_has_no_files() {
        let folder = Temporary::new("none");
        let (mut store, _) = folder.open(origin());
        apply(&mut store, &[], 5);
        assert_eq!((get(&store, b"a"), store.checkpoint(), folder.0.exists()), (None, Some(at(5)), false));
    }

    #[test]
    fn a_store_of_another_origin_is_wiped_with_the_reason() {
        let other = |change: fn(&mut Origin)| {
            let mut origin = origin();
            change(&mut origin);
            origin
        };
        let others = [
            (other(|origin| origin.application = "b".into()), "of the application a, not b"),
            (other(|origin| origin.topic = "b-changelog".into()), "changelog topic a-changelog"),
            (other(|origin| origin.partition = 4), "partition 3, not 4"),
            (other(|origin| origin.topic_id = "2".into()), "made anew: its id is 2, and was 1"),
        ];
        for (other, reason) in others {
            let folder = Temporary::new("other");
            let (mut store, _) = folder.open(origin());
            apply(&mut store, &[(b"a", Some(b"1"))], 5);
            drop(store);
            let (store, why) = folder.open(other);
            assert!(why.as_ref().is_some_and(|why| why.contains(reason)), "{reason}: {why:?}");
            assert_eq!((get(&store, b"a"), store.checkpoint()), (None, None));
        }
    }

    #[test]
    fn a_store_that_cannot_be_read_is_wiped_with_the_reason() {
        let folder = Temporary::new("damaged");
        let damage: [fn(&Path); 3] = [
            |path| fs::write(path.join("version"), b"nonsense").expect("writable"),
            |path| fs::remove_dir_all(path.join("keyspaces")).expect("removable"),
            |path| {
                for entry in fs::read_dir(path.join("keyspaces")).expect("readable") {
                    for file in fs::read_dir(entry.expect("readable").path()).expect("readable") {
                        let file = file.expect("readable").path();
                        if file.is_file() {
                            fs::write(file, b"nonsense").expect("writable");
                        }
                    }
                }
            },
        ];
        for damage in damage {
            let (mut store, _) = folder.open(origin());
            apply(&mut store, &[(b"a", Some(b"1"))], 5);
            drop(store);
            damage(&folder.0);
            let (store, why) = folder.open(origin());
            assert!(why.is_some_and(|why| why.contains("cannot be read") || why.contains("no checkpoint")));
            assert_eq!((get(&store, b"a"), store.checkpoint()), (None, None));
        }
    }

    #[test]
    fn what_is_torn_off_the_journal_takes_its_checkpoint_along() {
        let folder = Temporary::new("torn");
        let (mut store, _) = folder.open(origin());
        for n in 1..=100_u8 {
            apply(&mut store, &[(b"n", Some(&[n])), (&[n], Some(&[n]))], i64::from(n));
        }
        drop(store);
        let journal = folder.0.join("0.jnl");
        let bytes = fs::read(&journal).expect("a journal");
        let used = bytes.iter().rposition(|byte| *byte != 0).expect("it is used");
        fs::write(&journal, &bytes[..used * 2 / 3]).expect("writable");
        let (store, why) = folder.open(origin());
        let Some(Checkpoint { position: Position(reached), .. }) = store.checkpoint() else { panic!("{why:?}") };
        assert!((1..100).contains(&reached), "{reached}");
        let reached = u8::try_from(reached).expect("below 100");
        let found = [reached, reached + 1].map(|n| get(&store, &[n]));
        assert_eq!((get(&store, b"n"), found), (Some(vec![reached]), [Some(vec![reached]), None]));
    }

    #[test]
    fn a_wiped_store_leaves_no_files() {
        let folder = Temporary::new("wiped");
        let (mut store, _) = folder.open(origin());
        apply(&mut store, &[(b"a", Some(b"1"))], 5);
        assert!(folder.0.exists());
        store.wipe().expect("removable");
        assert!(!folder.0.exists());
    }
}
