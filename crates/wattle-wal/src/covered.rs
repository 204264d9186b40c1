//! Up to where entries are done with, for sources whose sink keeps no position. Written with every batch and not synced: an older one means that entries are
//! processed again, which is at least once; where the sink keeps the position, that decides.
//!
//! Two places take turns, so that one of them is whole whenever the process ends.

use crc32c::{crc32c, crc32c_append};
use uuid::Uuid;

use crate::disk::{Disk, DiskFile};
use crate::error::Error;

/// The file.
pub(crate) const NAME: &str = "covered";
/// Where the two places are: a disk writes each as a whole.
const PLACES: [u64; 2] = [0, 512];
const SIZE: usize = 12;

/// The file, open.
pub(crate) struct Covered {
    file: Box<dyn DiskFile>,
    id: Uuid,
    /// The place that is written next.
    turn: usize,
}

impl Covered {
    /// Opens or creates it. The position is 0 where none was written.
    pub(crate) fn open(disk: &dyn Disk, exists: bool, id: Uuid) -> Result<(Self, u64), Error> {
        let path = disk.path().join(NAME);
        if !exists {
            let file = disk.create(NAME).map_err(Error::io("create", &path))?;
            return Ok((Covered { file, id, turn: 0 }, 0));
        }
        let file = disk.open(NAME).map_err(Error::io("open", &path))?;
        let length = file.length().map_err(Error::io("read", &path))?;
        let mut positions = [None; 2];
        for (place, position) in PLACES.into_iter().zip(&mut positions) {
            let mut bytes = [0; SIZE];
            if place + SIZE as u64 <= length {
                file.read_at(&mut bytes, place).map_err(Error::io("read", &path))?;
                *position = decode(bytes, id);
            }
        }
        let turn = usize::from(positions[0] > positions[1]);
        if length > 0 && positions == [None; 2] {
            let path = path.display();
            tracing::warn!(
                "{path} is damaged: without a position of the sink's, the log is processed from its first entry"
            );
        }
        Ok((Covered { file, id, turn }, positions.into_iter().flatten().max().unwrap_or(0)))
    }

    /// Writes a position.
    pub(crate) fn write(&mut self, disk: &dyn Disk, position: u64) -> Result<(), Error> {
        let written = self.file.write_at(&encode(position, self.id), PLACES[self.turn]);
        self.turn = 1 - self.turn;
        written.map_err(Error::io("write", &disk.path().join(NAME)))
    }

    /// What was written is on the disk.
    pub(crate) fn sync(&self, disk: &dyn Disk) -> Result<(), Error> {
        self.file.sync().map_err(Error::io("sync", &disk.path().join(NAME)))
    }
}

fn encode(position: u64, id: Uuid) -> [u8; SIZE] {
    let mut bytes = [0; SIZE];
    bytes[..8].copy_from_slice(&position.to_le_bytes());
    let sum = crc32c_append(crc32c(id.as_bytes()), &bytes[..8]);
    bytes[8..].copy_from_slice(&sum.to_le_bytes());
    bytes
}

/// `None` where it was not written for this log.
fn decode(bytes: [u8; SIZE], id: Uuid) -> Option<u64> {
    let [a, b, c, d, e, f, g, h, ..] = bytes;
    let position = u64::from_le_bytes([a, b, c, d, e, f, g, h]);
    (encode(position, id) == bytes).then_some(position)
}
