//! What can go wrong, in words that an operator can act on.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::number::Position;

/// Why the log does not do what it was asked for.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The settings cannot work.
    #[error("the write-ahead log is refused: {}", problems.join("; "))]
    Options {
        /// Each says what and what to do.
        problems: Vec<String>,
    },
    /// Another process has the folder.
    #[error(
        "the write-ahead log {} is in use by {}: give every stream a folder of its own, or stop the other process",
        path.display(),
        if owner.is_empty() { "a process that has not told yet which" } else { owner.as_str() }
    )]
    InUse {
        /// The folder.
        path: PathBuf,
        /// Process id, host and stream, as it has written them.
        owner: String,
    },
    /// The folder is for something else.
    #[error(
        "{} is no folder of a write-ahead log: it has {name} in it. Nothing was changed; give the log a folder of its own", path.display()
    )]
    Foreign {
        /// The folder.
        path: PathBuf,
        /// What does not belong there.
        name: String,
    },
    /// Entries that were accepted cannot be read.
    #[error(
        "the write-ahead log is damaged: {} at byte {at}: {reason}. Nothing was changed. Entries there were accepted and may not have been \
         processed yet. Bring the file back from a copy; or give them up: move the whole folder away, and the stream begins with an empty log",
        path.display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where in it, in bytes.
        at: u64,
        /// What is wrong there.
        reason: String,
    },
    /// A position that the log does not have any more, or not yet.
    #[error(
        "the write-ahead log {} cannot go on at {asked}: it has entries from {first} up to {end}. {}",
        path.display(),
        if asked.0 > end.0 {
            "More than that was processed: the folder is older than the committed position. Bring the newer folder back; or move this one away, and the \
             stream begins with an empty log"
        } else {
            "Entries before were processed once, and are deleted: the committed position was set back"
        }
    )]
    OutOfRange {
        /// The folder.
        path: PathBuf,
        /// The position.
        asked: Position,
        /// The first that the log can go on at.
        first: Position,
        /// The last that the log can go on at.
        end: Position,
    },
    /// The log has grown to its limit. It goes on as soon as entries are processed.
    #[error(
        "the write-ahead log {} is full: max_bytes is {max_bytes}. Entries are accepted again when older ones are processed",
        path.display()
    )]
    Full {
        /// The folder.
        path: PathBuf,
        /// The limit.
        max_bytes: u64,
    },
    /// Entries come faster than the disk takes them.
    #[error("the write-ahead log is busy: entries come faster than the disk takes them")]
    Busy,
    /// The disk is full. The log goes on as soon as there is room.
    #[error("the disk of the write-ahead log {} is full ({reason}): nothing was accepted. Make room, and it goes on by itself", path.display())]
    DiskFull {
        /// The folder.
        path: PathBuf,
        /// What the system says.
        reason: Arc<str>,
    },
    /// An entry that no segment can hold.
    #[error("an entry of {length} bytes is too long for the write-ahead log: segment_bytes allows {limit}")]
    TooLong {
        /// Its bytes.
        length: usize,
        /// The most that one may have.
        limit: u64,
    },
    /// A write or a sync has failed; what the disk has since is not known, and the log accepts nothing more.
    #[error(
        "the write-ahead log {} accepts nothing more: {reason}. What was accepted before is safe. Look after the disk, and start again",
        path.display()
    )]
    Broken {
        /// The folder.
        path: PathBuf,
        /// What has failed.
        reason: Arc<str>,
    },
    /// It was closed.
    #[error("the write-ahead log is closed")]
    Closed,
    /// The system refused something else.
    #[error("{what}: {source}")]
    Io {
        /// What could not be done, with the path.
        what: String,
        /// Why not.
        #[source]
        source: Arc<io::Error>,
    },
}

impl Error {
    pub(crate) fn io(what: &str, path: &Path) -> impl FnOnce(io::Error) -> Error + use<> {
        let what = format!("{what} {}", path.display());
        move |source| Error::Io { what, source: Arc::new(source) }
    }

    pub(crate) fn damaged(path: &Path, at: u64, reason: impl Into<String>) -> Error {
        Error::Damaged { path: path.to_owned(), at, reason: reason.into() }
    }
}

/// Whether the disk has no room, which changes when somebody makes some.
pub(crate) fn is_disk_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

impl From<wattle_folder::Error> for Error {
    fn from(error: wattle_folder::Error) -> Self {
        match error {
            wattle_folder::Error::InUse { path, owner } => Error::InUse { path, owner },
            wattle_folder::Error::Io { what, source } => Error::Io { what, source: Arc::new(source) },
        }
    }
}
