//! The folder of states on disk. It belongs to one process at a time.
//!
//! ```text
//! lock                  locked by the process that uses the folder
//! owner                 that process's id, host and application id, for who is refused
//! task-{number}/        the store of a task: a database of its own
//! ```

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};

use crate::error::Error;

/// A folder that this process owns until it is dropped.
#[derive(Debug)]
pub(crate) struct StateFolder {
    path: PathBuf,
    /// Locked; the system unlocks it however the process ends.
    _lock: File,
}

impl StateFolder {
    /// Opens or creates it.
    ///
    /// # Errors
    /// [`Error::StateFolder`] where another process has it; [`Error::Io`].
    pub(crate) fn open(path: &Path, application: &str) -> Result<Self, Error> {
        let failed = |what: &str, path: &Path| {
            let what = format!("{what} {}", path.display());
            move |source| Error::Io { what, source }
        };
        fs::create_dir_all(path).map_err(failed("create the state folder", path))?;
        let file = path.join("lock");
        let lock = File::options().write(true).create(true).truncate(false).open(&file);
        let lock = lock.map_err(failed("open", &file))?;
        let owner = path.join("owner");
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::Error(source)) => return Err(failed("lock", &file)(source)),
            Err(TryLockError::WouldBlock) => {
                let owner = fs::read_to_string(&owner).unwrap_or_default();
                return Err(Error::StateFolder { path: path.to_owned(), owner: owner.trim().to_owned() });
            }
        }
        let host = nix::unistd::gethostname().unwrap_or_default();
        let text =
            format!("process {} on {}, application id {application}\n", std::process::id(), host.to_string_lossy());
        // Renamed into its place, so that who is refused reads all of it.
        let new = path.join("owner.new");
        fs::write(&new, text).and_then(|()| fs::rename(&new, &owner)).map_err(failed("write", &owner))?;
        Ok(StateFolder { path: path.to_owned(), _lock: lock })
    }

    /// Where the store of a task is.
    pub(crate) fn task(&self, number: i32) -> PathBuf {
        self.path.join(format!("task-{number}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_in_use_is_refused_with_its_owner() {
        let path = std::env::temp_dir().join(format!("wattle-folder-{}", std::process::id()));
        let folder = StateFolder::open(&path, "counter").expect("it is free");
        let refused = StateFolder::open(&path, "other").expect_err("it is in use").to_string();
        for word in [format!("process {}", std::process::id()).as_str(), "application id counter"] {
            assert!(refused.contains(word), "{word}: {refused}");
        }
        drop(folder);
        StateFolder::open(&path, "other").expect("it is free again");
        fs::remove_dir_all(&path).expect("ours");
    }
}
