//! A folder that one process at a time uses: the lock, and who has it.
//!
//! ```text
//! lock      locked by the process that uses the folder
//! owner     who that is, for who is refused
//! ```
//!
//! What else is in the folder is its user's affair. A crate of its own, because the crates that have such folders must not depend on each other.

use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

/// The file that is locked.
pub const LOCK: &str = "lock";
/// The file that says who has the folder, or had it last; and what a process that died while it wrote it may leave.
pub const OWNER: [&str; 2] = ["owner", "owner.new"];

/// A folder that this process has until it is dropped.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    /// Locked; the system unlocks it however the process ends.
    lock: File,
}

/// Why a folder cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Another process has it.
    #[error("{} is in use by {owner}", path.display())]
    InUse {
        /// The folder.
        path: PathBuf,
        /// What its process has written about itself; empty before it has.
        owner: String,
    },
    /// The disk does not do what it was asked for.
    #[error("{what}: {source}")]
    Io {
        /// What could not be done, with the path.
        what: String,
        /// Why not.
        #[source]
        source: io::Error,
    },
}

impl Drop for Folder {
    /// Closing the file is not enough: a child of this process that has been forked and does not run its program yet holds the file too, and the lock with it.
    fn drop(&mut self) {
        drop(self.lock.unlock());
    }
}

impl Folder {
    /// Creates it where it is missing, and takes it. `user` is what the process says about itself beside its id and host: `application id counter`.
    ///
    /// # Errors
    /// [`Error::InUse`] where another process has it.
    pub fn take(path: &Path, user: &str) -> Result<Self, Error> {
        create(path).map_err(failed("create the folder", path))?;
        let file = path.join(LOCK);
        let lock = File::options().write(true).create(true).truncate(false).open(&file);
        let this = Self::locked(path, lock.map_err(failed("open", &file))?)?;
        let host = nix::unistd::gethostname().unwrap_or_default();
        let text = format!("process {} on {}, {user}\n", std::process::id(), host.to_string_lossy());
        // Renamed into its place, so that who is refused reads all of it.
        let [owner, new] = OWNER.map(|name| path.join(name));
        fs::write(&new, text).and_then(|()| fs::rename(&new, &owner)).map_err(failed("write", &owner))?;
        Ok(this)
    }

    /// Takes one that was taken before, and changes nothing in it; `None` where there is no file `lock`.
    ///
    /// # Errors
    /// [`Error::InUse`] where another process has it.
    pub fn existing(path: &Path) -> Result<Option<Self>, Error> {
        let file = path.join(LOCK);
        match File::open(&file) {
            Ok(lock) => Self::locked(path, lock).map(Some),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(source) => Err(failed("open", &file)(source)),
        }
    }

    fn locked(path: &Path, lock: File) -> Result<Self, Error> {
        match lock.try_lock() {
            Ok(()) => Ok(Folder { path: path.to_owned(), lock }),
            Err(TryLockError::Error(source)) => Err(failed("lock", &path.join(LOCK))(source)),
            Err(TryLockError::WouldBlock) => Err(Error::InUse { path: path.to_owned(), owner: owner(path) }),
        }
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Who has it, or had it last, as that process has written it.
    #[must_use]
    pub fn owner(&self) -> String {
        owner(&self.path)
    }
}

/// Creates it and what is above it, for good: a file in it that is synced would be lost with it.
fn create(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    let above = path.parent().filter(|above| !above.as_os_str().is_empty()).unwrap_or(Path::new("."));
    create(above)?;
    match fs::create_dir(path) {
        // Another process was quicker.
        Err(error) if error.kind() == ErrorKind::AlreadyExists && path.is_dir() => {}
        other => other?,
    }
    File::open(above)?.sync_all()
}

fn owner(path: &Path) -> String {
    fs::read_to_string(path.join(OWNER[0])).unwrap_or_default().trim().to_owned()
}

fn failed(what: &str, path: &Path) -> impl FnOnce(io::Error) -> Error + use<> {
    let what = format!("{what} {}", path.display());
    move |source| Error::Io { what, source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_in_use_is_refused_with_its_owner() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("deep/folder");
        let folder = Folder::take(&path, "application id counter").unwrap();
        for refused in [Folder::take(&path, "other").unwrap_err(), Folder::existing(&path).unwrap_err()] {
            let text = refused.to_string();
            for word in [format!("process {}", std::process::id()).as_str(), "application id counter"] {
                assert!(text.contains(word), "{word}: {text}");
            }
        }
        // As a child has it between its fork and its exec.
        let held = folder.lock.try_clone().unwrap();
        drop(folder);
        let folder = Folder::take(&path, "other").unwrap();
        drop(held);
        assert!(folder.owner().ends_with("other"), "{}", folder.owner());
    }

    #[test]
    fn a_folder_that_cannot_be_is_named() {
        let parent = tempfile::tempdir().unwrap();
        let file = parent.path().join("file");
        fs::write(&file, "").unwrap();
        for path in [file.clone(), file.join("below")] {
            let refused = Folder::take(&path, "").unwrap_err().to_string();
            assert!(refused.contains(path.to_str().unwrap()), "{refused}");
        }
    }

    #[test]
    fn looking_for_a_folder_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        assert!(Folder::existing(&folder.path().join("missing")).unwrap().is_none());
        assert!(Folder::existing(folder.path()).unwrap().is_none());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
