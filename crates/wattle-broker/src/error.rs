//! What can go wrong with the broker itself. What a client is refused with is a protocol code instead.

use std::io;
use std::path::{Path, PathBuf};

/// Of the broker as a whole.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Nothing can listen there.
    #[error("cannot listen on {address}")]
    Listen {
        /// As it was given.
        address: String,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// Another broker uses the folder.
    #[error("the folder {} is used by the broker of process {pid} on {address}", folder.display())]
    InUse {
        /// As it was given.
        folder: PathBuf,
        /// Where the other broker answers; empty while it starts.
        address: String,
        /// The other broker's process.
        pid: u32,
    },
    /// Not written by this broker, or by a version that this one does not know.
    #[error("{} is not a data folder of this broker: {reason}; choose an empty or new folder", path.display())]
    Foreign {
        /// The folder, or the file in it.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// Damaged in the middle, which a crash cannot do.
    #[error("{} is corrupt at byte {at}: {reason}; restore it, or remove the folder to start anew", path.display())]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// The first byte that cannot be read.
        at: u64,
        /// What is wrong with it.
        reason: String,
    },
    /// A read or write failed.
    #[error("{}: cannot {what}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What was to be done with it.
        what: &'static str,
        /// Why it could not.
        #[source]
        source: io::Error,
    },
    /// A topic's setting has no such name or value.
    #[error("topic setting {name}={value}: {reason}")]
    Setting {
        /// Its name, as Kafka writes it.
        name: String,
        /// As it was given.
        value: String,
        /// What would be right.
        reason: String,
    },
    /// A topic to begin with cannot be.
    #[error("topic {name}: {reason}")]
    Topic {
        /// As it was given.
        name: String,
        /// What would be right.
        reason: String,
    },
}

impl Error {
    /// For `map_err`: what could not be done with `path`.
    pub(crate) fn io(path: &Path, what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { path: path.to_owned(), what, source }
    }
}
