//! The data folder: whose it is, who uses it, and where things are in it.
//!
//! ```text
//! wattle-broker                        magic and version byte
//! lock                                 locked by the broker that uses the folder
//! owner                                that broker's process id and address, for who is refused
//! journal
//! topics/{topic}/{topic id}/{partition}/{first offset}.log
//! ```

use std::fs::{self, File, TryLockError};
use std::io::Write;
use std::path::{Path, PathBuf};

use uuid::Uuid;

use crate::error::Error;

const VERSION: &[u8; 8] = b"WATTLEB\x01";
/// What a broker that died while it created the folder may leave.
const BEGINNINGS: [&str; 5] = ["lock", "owner", "owner.new", "wattle-broker", "wattle-broker.new"];

/// A folder that this broker owns until it is dropped.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    /// Where the broker before us answered; empty if there was none, or if it had not got so far.
    former_address: String,
    /// Locked; the system unlocks it however the process ends.
    lock: File,
}

impl Drop for Folder {
    /// Closing the file is not enough: a child of this process that has been forked and does not run its program yet holds the file too, and the lock with it.
    fn drop(&mut self) {
        drop(self.lock.unlock());
    }
}

impl Folder {
    /// Opens or creates it. A folder with other things in it, or of another version, is refused, and so is one that a living broker uses: the error says
    /// at which address.
    pub(crate) fn open(path: &Path, address: &str) -> Result<Self, Error> {
        fs::create_dir_all(path).map_err(Error::io(path, "create it"))?;
        let path = &path.canonicalize().map_err(Error::io(path, "find it"))?;
        let is_new = check_version(path)?;
        let lock = lock(path)?;
        let former_address = owner(path).map(|(_, address)| address).unwrap_or_default();
        let this = Self { path: path.clone(), former_address, lock };
        this.set_address(address)?;
        if is_new {
            write_whole(&path.join("wattle-broker"), VERSION)?;
        }
        Ok(this)
    }

    /// Where this broker answers, for others that want the folder.
    pub(crate) fn set_address(&self, address: &str) -> Result<(), Error> {
        write_whole(&self.path.join("owner"), format!("{} {address}\n", std::process::id()).as_bytes())
    }

    /// Where the folder's broker answered before this one.
    pub(crate) fn former_address(&self) -> &str {
        &self.former_address
    }

    /// The folder itself.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The folder of a partition. Names are nested, not joined: a long topic and its id do not fit in one file name.
    pub(crate) fn partition(&self, topic: &str, id: Uuid, partition: i32) -> PathBuf {
        self.topic(topic, id).join(partition.to_string())
    }

    /// Removes what a deleted topic leaves.
    pub(crate) fn remove_topic(&self, topic: &str, id: Uuid) -> Result<(), Error> {
        let path = self.topic(topic, id);
        if path.exists() {
            fs::remove_dir_all(&path).map_err(Error::io(&path, "remove it"))?;
        }
        if let Some(parent) = path.parent() {
            // another topic of the same name, before or after this one, may still be in it
            fs::remove_dir(parent).ok();
        }
        Ok(())
    }

    /// Removes the folders of topics that are not `known`: the process died between the journal and the files.
    pub(crate) fn remove_unknown_topics(&self, known: impl Fn(&str, Uuid) -> bool) -> Result<(), Error> {
        for topic in names(&self.path.join("topics"))? {
            for id in names(&self.path.join("topics").join(&topic))? {
                if let Ok(id) = Uuid::parse_str(&id)
                    && !known(&topic, id)
                {
                    tracing::info!(topic, %id, "removed what a deleted topic left");
                    self.remove_topic(&topic, id)?;
                }
            }
        }
        Ok(())
    }

    fn topic(&self, topic: &str, id: Uuid) -> PathBuf {
        self.path.join("topics").join(topic).join(id.to_string())
    }
}

/// Makes renames and new files in the folder of `path` last.
pub(crate) fn sync_folder(path: &Path) -> Result<(), Error> {
    let Some(folder) = path.parent() else { return Ok(()) };
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(Error::io(folder, "sync it"))
}

/// Whether the folder is new; refuses it if it is not a broker's.
fn check_version(path: &Path) -> Result<bool, Error> {
    let foreign = |reason: String| Error::Foreign { path: path.to_owned(), reason };
    let file = path.join("wattle-broker");
    if !file.exists() {
        match names(path)?.into_iter().find(|name| !BEGINNINGS.contains(&name.as_str())) {
            None => return Ok(true),
            // Another broker may have created the folder between the two looks: then the version file is there now.
            Some(_) if file.exists() => {}
            Some(name) => return Err(foreign(format!("it is not empty, there is {name}"))),
        }
    }
    let version = fs::read(&file).map_err(Error::io(&file, "read it"))?;
    match version.strip_prefix(&VERSION[..7]) {
        Some([version]) if *version == VERSION[7] => Ok(false),
        Some([version]) => Err(foreign(format!("it has version {version}, this broker knows {}", VERSION[7]))),
        _ => Err(foreign("its version file says something else".into())),
    }
}

fn lock(path: &Path) -> Result<File, Error> {
    let file = path.join("lock");
    let options = File::options().write(true).create(true).truncate(false).open(&file);
    let lock = options.map_err(Error::io(&file, "create it"))?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(TryLockError::Error(source)) => Err(Error::Io { path: file, what: "lock it", source }),
        Err(TryLockError::WouldBlock) => {
            let (pid, address) = owner(path).unwrap_or((0, "an address that it has not told yet".to_owned()));
            Err(Error::InUse { folder: path.to_owned(), address, pid })
        }
    }
}

/// Process id and address of the broker that has the folder, or had it last; `None` before it has told its address.
fn owner(path: &Path) -> Option<(u32, String)> {
    let text = fs::read_to_string(path.join("owner")).ok()?;
    let (pid, address) = text.trim_end().split_once(' ')?;
    Some((pid.parse().ok()?, address.to_owned()))
}

/// Writes a small file so that a reader sees all of it or none.
fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let new = path.with_extension("new");
    let written = File::create(&new).and_then(|mut file| file.write_all(bytes));
    written.and_then(|()| fs::rename(&new, path)).map_err(Error::io(path, "write it"))
}

/// What is in a folder; nothing if there is none.
fn names(folder: &Path) -> Result<Vec<String>, Error> {
    if !folder.exists() {
        return Ok(vec![]);
    }
    let mut names = vec![];
    for entry in fs::read_dir(folder).map_err(Error::io(folder, "list it"))? {
        let name = entry.map_err(Error::io(folder, "list it"))?.file_name();
        names.push(name.to_string_lossy().into_owned());
    }
    names.sort_unstable();
    Ok(names)
}

#[cfg(test)]
pub(crate) mod testing {
    use std::path::{Path, PathBuf};

    /// A folder that is removed in the end.
    #[derive(Debug)]
    pub(crate) struct Temporary(PathBuf);

    impl Temporary {
        pub(crate) fn new() -> Self {
            let path = std::env::temp_dir().join(format!("wattle-broker-{}", uuid::Uuid::new_v4()));
            std::fs::create_dir_all(&path).unwrap();
            Self(path)
        }

        pub(crate) fn path(&self) -> &Path {
            &self.0
        }
    }

    impl Drop for Temporary {
        fn drop(&mut self) {
            std::fs::remove_dir_all(&self.0).unwrap();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::testing::Temporary;
    use super::*;

    #[test]
    fn a_folder_has_one_owner_who_can_be_found() {
        let parent = Temporary::new();
        let path = parent.path().join("deep/data");
        let folder = Folder::open(&path, "127.0.0.1:1").unwrap();
        folder.set_address("127.0.0.1:9092").unwrap();
        match Folder::open(&path, "other") {
            Err(Error::InUse { address, pid, .. }) => {
                assert_eq!((address.as_str(), pid), ("127.0.0.1:9092", std::process::id()));
            }
            other => panic!("{other:?}"),
        }
        drop(folder);
        // what is left of an owner that died does not count
        assert!(path.join("owner").exists());
        Folder::open(&path, "127.0.0.1:2").unwrap();
    }

    #[test]
    fn foreign_folders_are_left_alone() {
        let path = Temporary::new();
        let path = path.path();
        fs::write(path.join("thesis.txt"), "").unwrap();
        let error = Folder::open(path, "").unwrap_err();
        assert!(matches!(&error, Error::Foreign { reason, .. } if reason.contains("thesis.txt")), "{error}");
        assert_eq!(names(path).unwrap(), ["thesis.txt"]);
        fs::remove_file(path.join("thesis.txt")).unwrap();
        for (version, said) in
            [(&b"WATTLEB\x02"[..], "version 2"), (b"", "something else"), (b"other", "something else")]
        {
            fs::write(path.join("wattle-broker"), version).unwrap();
            let error = Folder::open(path, "").unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
    }

    #[test]
    fn a_folder_whose_creation_was_cut_short_is_ours() {
        let path = Temporary::new();
        for name in BEGINNINGS {
            if name != "wattle-broker" {
                fs::write(path.path().join(name), "").unwrap();
            }
        }
        Folder::open(path.path(), "").unwrap();
        assert_eq!(fs::read(path.path().join("wattle-broker")).unwrap(), VERSION);
    }

    #[test]
    fn folders_of_deleted_topics_go() {
        let path = Temporary::new();
        let folder = Folder::open(path.path(), "").unwrap();
        let [kept, deleted, alone] = [(); 3].map(|()| Uuid::new_v4());
        let name = "t".repeat(249);
        for (topic, id) in [(&name[..], kept), (&name, deleted), ("alone", alone)] {
            fs::create_dir_all(folder.partition(topic, id, 0)).unwrap();
        }
        folder.remove_unknown_topics(|topic, id| topic == name && id == kept).unwrap();
        assert!(folder.partition(&name, kept, 0).exists());
        assert_eq!(names(&path.path().join("topics")).unwrap(), [name]);
    }
}
