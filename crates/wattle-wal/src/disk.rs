//! What the log asks of a disk: the files of one folder. A seam, so that tests can take the power away and let syncs fail.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use wattle_folder::Folder;

/// A folder of files.
pub(crate) trait Disk: Send + Sync {
    fn path(&self) -> &Path;

    /// The names of all files, in no order.
    fn names(&self) -> io::Result<Vec<String>>;

    /// Opens one that is there, for reading and writing.
    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>>;

    /// Creates an empty one; one that is there is emptied.
    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>>;

    /// Gives a file another name, in the place of the one that has it. An open file stays the same.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    fn remove(&self, name: &str) -> io::Result<()>;

    /// What was created, renamed and removed is so for good.
    fn sync(&self) -> io::Result<()>;
}

/// A file of it.
pub(crate) trait DiskFile: Send + Sync {
    fn length(&self) -> io::Result<u64>;

    fn read_at(&self, bytes: &mut [u8], at: u64) -> io::Result<()>;

    fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<()>;

    fn set_length(&self, length: u64) -> io::Result<()>;

    /// What was written is on the disk. After an error nobody knows what is, also not by asking again: the system forgets what it could not write.
    fn sync(&self) -> io::Result<()>;
}

impl Disk for Folder {
    fn path(&self) -> &Path {
        Folder::path(self)
    }

    fn names(&self) -> io::Result<Vec<String>> {
        let entries = fs::read_dir(self.path())?;
        entries.map(|entry| entry.map(|entry| entry.file_name().to_string_lossy().into_owned())).collect()
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        let file = File::options().read(true).write(true).open(self.path().join(name))?;
        Ok(Box::new(file))
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        let mut options = File::options();
        let file = options.read(true).write(true).create(true).truncate(true).open(self.path().join(name))?;
        Ok(Box::new(file))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.path().join(from), self.path().join(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.path().join(name))
    }

    fn sync(&self) -> io::Result<()> {
        File::open(self.path())?.sync_all()
    }
}

impl DiskFile for File {
    fn length(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn read_at(&self, bytes: &mut [u8], at: u64) -> io::Result<()> {
        self.read_exact_at(bytes, at)
    }

    fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        self.write_all_at(bytes, at)
    }

    fn set_length(&self, length: u64) -> io::Result<()> {
        self.set_len(length)
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_data()
    }
}
