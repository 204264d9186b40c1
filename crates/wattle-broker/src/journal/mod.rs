//! Everything but the records, durable over `kill -9`: one checksummed entry a change, replaced by a snapshot before it grows too long.

mod entry;

pub(crate) use entry::Entry;

use std::path::Path;

use crate::error::Error;

/// The open journal; `memory()` keeps nothing.
#[derive(Debug)]
pub(crate) struct Journal {}

impl Journal {
    /// For a broker without a folder.
    pub(crate) fn memory() -> Self {
        todo!()
    }

    /// Opens or creates `folder/journal` and hands every entry to `each`, in order. A torn tail is cut (and logged), a corrupt middle, a foreign
    /// file or an unknown version is refused with the place.
    pub(crate) fn open(_folder: &Path, _each: impl FnMut(Entry)) -> Result<Self, Error> {
        todo!()
    }

    /// Writes one entry, whole or not at all as far as [`Journal::open`] can see. On an error the broker must stop.
    pub(crate) fn append(&mut self, _entry: &Entry) -> Result<(), Error> {
        todo!()
    }

    /// Whether it has grown enough (several times the last snapshot, and some MB) for [`Journal::replace`].
    pub(crate) fn is_long(&self) -> bool {
        todo!()
    }

    /// Replaces everything by these entries, atomically (a new file, synced and renamed).
    pub(crate) fn replace(&mut self, _entries: impl Iterator<Item = Entry>) -> Result<(), Error> {
        todo!()
    }
}
