//! The folder of states on disk. It belongs to one process at a time.
//!
//! ```text
//! lock                  locked by the process that uses the folder
//! owner                 that process's id, host and application id, for who is refused
//! task-{number}/        the store of a task: a database of its own
//! ```

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use wattle_folder::{Folder, OWNER};

use crate::error::Error;

/// A folder that this process owns until it is dropped.
#[derive(Debug)]
pub(crate) struct StateFolder(Folder);

impl StateFolder {
    /// Opens or creates it.
    ///
    /// # Errors
    /// [`Error::StateFolder`] where another process has it; [`Error::Io`].
    pub(crate) fn open(path: &Path, application: &str) -> Result<Self, Error> {
        Folder::take(path, &format!("application id {application}")).map(StateFolder).map_err(refused)
    }

    /// Locks one that is there, and changes nothing in it; `None` where there is none.
    ///
    /// # Errors
    /// As those of [`StateFolder::open`]; [`Error::Config`] where it is a folder for something else.
    pub(crate) fn existing(path: &Path) -> Result<Option<Self>, Error> {
        if !path.exists() {
            return Ok(None);
        }
        let Some(folder) = Folder::existing(path).map_err(refused)? else {
            let problem = format!("state_dir {} is no folder of states: it has no file lock", path.display());
            return Err(Error::Config { problems: vec![problem] });
        };
        Ok(Some(StateFolder(folder)))
    }

    /// Who has it, or had it last: process id, host and application id.
    pub(crate) fn owner(&self) -> String {
        self.0.owner()
    }

    /// The tasks that have a store here.
    pub(crate) fn tasks(&self) -> Result<Vec<i32>, Error> {
        let mut tasks = Vec::new();
        for entry in fs::read_dir(self.path()).map_err(failed("read", self.path()))? {
            let name = entry.map_err(failed("read", self.path()))?.file_name();
            tasks.extend(name.to_str().and_then(|name| name.strip_prefix("task-")?.parse::<i32>().ok()));
        }
        tasks.sort_unstable();
        Ok(tasks)
    }

    /// Removes what processes have put there, and the folder itself if nothing else is in it.
    pub(crate) fn remove(self) -> Result<(), Error> {
        for task in self.tasks()? {
            let store = self.task(task);
            fs::remove_dir_all(&store).map_err(failed("remove", &store))?;
        }
        for name in OWNER {
            let file = self.path().join(name);
            match fs::remove_file(&file) {
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(failed("remove", &file)(error)),
                _ => {}
            }
        }
        // The lock goes only with its folder. A process that has opened it just now, and gets it when we end, would otherwise have a lock that
        // the next one does not see.
        if fs::read_dir(self.path()).map_err(failed("read", self.path()))?.count() == 1 {
            fs::remove_dir_all(self.path()).map_err(failed("remove", self.path()))?;
        }
        Ok(())
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    /// Where the store of a task is.
    pub(crate) fn task(&self, number: i32) -> PathBuf {
        self.path().join(format!("task-{number}"))
    }
}

fn refused(error: wattle_folder::Error) -> Error {
    match error {
        wattle_folder::Error::InUse { path, owner } => Error::StateFolder { path, owner },
        wattle_folder::Error::Io { what, source } => Error::Io { what, source },
    }
}

fn failed(what: &str, path: &Path) -> impl FnOnce(std::io::Error) -> Error + use<> {
    let what = format!("{what} {}", path.display());
    move |source| Error::Io { what, source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_removed_with_its_stores_and_not_with_what_is_somebody_elses() {
        let path = std::env::temp_dir().join(format!("wattle-removed-{}", std::process::id()));
        assert!(StateFolder::existing(&path).expect("nothing is there").is_none());
        for kept in [false, true] {
            let folder = StateFolder::open(&path, "counter").expect("it is free");
            fs::create_dir_all(folder.task(7)).expect("writable");
            assert!(matches!(StateFolder::existing(&path), Err(Error::StateFolder { .. })), "it is in use");
            drop(folder);
            if kept {
                fs::write(path.join("thesis.txt"), "chapter one").expect("writable");
            }
            let folder = StateFolder::existing(&path).expect("it is free").expect("it is there");
            assert_eq!((folder.tasks().expect("readable"), folder.owner().contains("counter")), (vec![7], true));
            folder.remove().expect("removable");
            let left = fs::read_dir(&path).map_or(0, Iterator::count);
            assert_eq!(left, if kept { 2 } else { 0 }, "the lock and the text, or nothing");
        }
        fs::remove_file(path.join("lock")).expect("ours");
        assert!(matches!(StateFolder::existing(&path), Err(Error::Config { .. })), "for something else");
        fs::remove_dir_all(&path).expect("ours");
    }

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
