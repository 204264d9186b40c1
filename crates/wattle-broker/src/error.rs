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
        address: String,
        #[source]
        source: io::Error,
    },
    /// Another broker uses the folder. `address` is where it answers.
    #[error("the folder {} is used by the broker of process {pid} on {address}", folder.display())]
    InUse { folder: PathBuf, address: String, pid: u32 },
    /// Not written by this broker, or by a version that this one does not know.
    #[error("{} is not a data folder of this broker: {reason}; choose an empty or new folder", path.display())]
    Foreign { path: PathBuf, reason: String },
    /// Damaged in the middle, which a crash cannot do.
    #[error("{} is corrupt at byte {at}: {reason}; restore it, or remove the folder to start anew", path.display())]
    Corrupt { path: PathBuf, at: u64, reason: String },
    /// A read or write failed.
    #[error("{}: cannot {what}", path.display())]
    Io {
        path: PathBuf,
        what: &'static str,
        #[source]
        source: io::Error,
    },
    /// A topic's setting has no such name or value.
    #[error("topic setting {name}={value}: {reason}")]
    Setting { name: String, value: String, reason: String },
    /// A topic to begin with cannot be.
    #[error("topic {name}: {reason}")]
    Topic { name: String, reason: String },
}

impl Error {
    /// For `map_err`: what could not be done with `path`.
    pub(crate) fn io(path: &Path, what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { path: path.to_owned(), what, source }
    }
}
