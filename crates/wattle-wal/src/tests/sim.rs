//! A disk in memory that loses power as the worst of the real ones do: of what was not synced, any sectors of any write may be there, and any changes of names. It
//! also fills up, fails and stalls when it is told to.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use fastrand::Rng;

use crate::disk::{Disk, DiskFile};

const SECTOR: usize = 512;

#[derive(Clone, Default)]
pub(crate) struct Sim(Arc<(Mutex<World>, Condvar)>);

#[derive(Clone, Default)]
pub(crate) struct World {
    files: Vec<File>,
    names: BTreeMap<String, usize>,
    synced_names: BTreeMap<String, usize>,
    /// Changes of names since the last sync.
    changes: Vec<Change>,
    /// Most bytes in all files.
    pub(crate) capacity: Option<usize>,
    /// Syncs of files fail; what they did not write is forgotten, as a real system does.
    pub(crate) syncs_fail: bool,
    /// Syncs of files wait.
    pub(crate) syncs_stall: bool,
    /// The same behind so many.
    pub(crate) stall_behind: Option<usize>,
    /// Syncs of files that have begun, and that have ended well.
    pub(crate) syncs: (usize, usize),
    pub(crate) longest_read: usize,
    /// For a test to set.
    pub(crate) is_finished: bool,
}

#[derive(Clone)]
enum Change {
    Create(String, usize),
    Rename(String, String, usize),
    Remove(String),
}

#[derive(Clone, Default)]
struct File {
    bytes: Vec<u8>,
    synced: Vec<u8>,
    dirty: BTreeSet<usize>,
}

impl Sim {
    pub(crate) fn world(&self) -> MutexGuard<'_, World> {
        self.0.0.lock().unwrap()
    }

    /// Changes how it behaves.
    pub(crate) fn set(&self, change: impl FnOnce(&mut World)) {
        change(&mut self.world());
        self.0.1.notify_all();
    }

    /// Waits until the world is so.
    pub(crate) fn until(&self, condition: impl Fn(&World) -> bool) {
        drop(self.0.1.wait_while(self.world(), |world| !condition(world)).unwrap());
    }

    /// What the next process finds when this one is killed now: everything that was written, synced or not.
    pub(crate) fn killed(&self) -> Sim {
        let mut world = self.world().clone();
        (world.syncs, world.longest_read, world.capacity) = ((0, 0), 0, None);
        (world.syncs_fail, world.syncs_stall, world.stall_behind) = (false, false, None);
        Sim(Arc::new((Mutex::new(world), Condvar::new())))
    }

    /// What the next process finds when the power goes now.
    pub(crate) fn power_lost(&self, rng: &mut Rng) -> Sim {
        let next = self.killed();
        let mut world = next.world();
        for change in std::mem::take(&mut world.changes) {
            if rng.bool() {
                change.apply(&mut world.synced_names);
            }
        }
        world.names = world.synced_names.clone();
        world.files.iter_mut().for_each(|file| file.lose_power(rng));
        drop(world);
        next
    }

    pub(crate) fn bytes(&self, name: &str) -> Vec<u8> {
        let world = self.world();
        world.files[world.names[name]].bytes.clone()
    }

    /// Puts other bytes in, on the disk for sure.
    pub(crate) fn replace(&self, name: &str, bytes: Vec<u8>) {
        let mut world = self.world();
        let file = world.names[name];
        world.files[file] = File { synced: bytes.clone(), bytes, dirty: BTreeSet::new() };
    }

    /// The names of segments, in order.
    pub(crate) fn segments(&self) -> Vec<String> {
        self.world().names.keys().filter(|name| name.ends_with(".wal")).cloned().collect()
    }
}

impl World {
    fn change(&mut self, change: Change) {
        change.apply(&mut self.names);
        self.changes.push(change);
    }

    /// Whether a sync that has begun waits.
    pub(crate) fn is_stalled(&self) -> bool {
        self.syncs_stall || self.stall_behind.is_some_and(|count| self.syncs.0 > count)
    }

    pub(crate) fn in_segments(&self) -> usize {
        let segments = self.names.iter().filter(|(name, _)| name.ends_with(".wal"));
        segments.map(|(_, file)| self.files[*file].bytes.len()).sum()
    }

    pub(crate) fn total(&self) -> usize {
        self.names.values().map(|file| self.files[*file].bytes.len()).sum()
    }
}

impl Change {
    fn apply(&self, names: &mut BTreeMap<String, usize>) {
        match self {
            Change::Create(name, file) => drop(names.insert(name.clone(), *file)),
            Change::Rename(from, to, file) => {
                names.retain(|name, there| name != from || there != file);
                names.insert(to.clone(), *file);
            }
            Change::Remove(name) => drop(names.remove(name)),
        }
    }
}

impl File {
    fn lose_power(&mut self, rng: &mut Rng) {
        let (short, long) = (self.bytes.len().min(self.synced.len()), self.bytes.len().max(self.synced.len()));
        let length = match rng.u8(..3) {
            0 => short,
            1 => long,
            _ => rng.usize(short..=long),
        };
        // What a truncation took may come back.
        let mut after = self.synced.clone();
        after.resize(length, 0);
        for sector in std::mem::take(&mut self.dirty) {
            let from = (sector * SECTOR).min(length);
            let until = (from + SECTOR).min(length).min(self.bytes.len());
            if from < until && rng.bool() {
                after[from..until].copy_from_slice(&self.bytes[from..until]);
            }
        }
        (self.bytes, self.synced) = (after.clone(), after);
    }
}

impl Disk for Sim {
    fn path(&self) -> &Path {
        Path::new("/sim")
    }

    fn names(&self) -> io::Result<Vec<String>> {
        Ok(self.world().names.keys().cloned().collect())
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        let file = self.world().names.get(name).copied().ok_or(ErrorKind::NotFound)?;
        Ok(Box::new(Open { sim: self.clone(), file }))
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        let mut world = self.world();
        let file = world.files.len();
        world.files.push(File::default());
        world.change(Change::Create(name.to_owned(), file));
        Ok(Box::new(Open { sim: self.clone(), file }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut world = self.world();
        let file = *world.names.get(from).ok_or(ErrorKind::NotFound)?;
        world.change(Change::Rename(from.to_owned(), to.to_owned(), file));
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut world = self.world();
        world.names.get(name).ok_or(ErrorKind::NotFound)?;
        world.change(Change::Remove(name.to_owned()));
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut world = self.world();
        world.synced_names = world.names.clone();
        world.changes.clear();
        Ok(())
    }
}

struct Open {
    sim: Sim,
    file: usize,
}

impl DiskFile for Open {
    fn length(&self) -> io::Result<u64> {
        Ok(self.sim.world().files[self.file].bytes.len() as u64)
    }

    fn read_at(&self, bytes: &mut [u8], at: u64) -> io::Result<()> {
        let mut world = self.sim.world();
        world.longest_read = world.longest_read.max(bytes.len());
        let at = at as usize;
        let found = world.files[self.file].bytes.get(at..at + bytes.len()).ok_or(ErrorKind::UnexpectedEof)?;
        bytes.copy_from_slice(found);
        Ok(())
    }

    fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        let mut world = self.sim.world();
        let at = at as usize;
        let total = world.total();
        let grows = (at + bytes.len()).saturating_sub(world.files[self.file].bytes.len());
        let lacking = world.capacity.map_or(0, |capacity| (total + grows).saturating_sub(capacity));
        // A full disk takes what it can.
        let written = bytes.len() - lacking.min(bytes.len());
        let file = &mut world.files[self.file];
        if file.bytes.len() < at + written {
            file.bytes.resize(at + written, 0);
        }
        file.bytes[at..at + written].copy_from_slice(&bytes[..written]);
        if written > 0 {
            file.dirty.extend(at / SECTOR..=(at + written - 1) / SECTOR);
        }
        if lacking > 0 { Err(ErrorKind::StorageFull.into()) } else { Ok(()) }
    }

    fn set_length(&self, length: u64) -> io::Result<()> {
        self.sim.world().files[self.file].bytes.resize(length as usize, 0);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let (lock, changed) = &*self.sim.0;
        let mut world = lock.lock().unwrap();
        world.syncs.0 += 1;
        changed.notify_all();
        world = changed.wait_while(world, |world| world.is_stalled()).unwrap();
        let fails = world.syncs_fail;
        let file = &mut world.files[self.file];
        file.dirty.clear();
        if fails {
            return Err(io::Error::other("input/output error"));
        }
        file.synced = file.bytes.clone();
        world.syncs.1 += 1;
        changed.notify_all();
        Ok(())
    }
}
