//! Reads a segment frame by frame, and judges what it finds where no frame is.

use std::ops::Range;
use std::path::PathBuf;

use crate::disk::DiskFile;
use crate::error::Error;
use crate::frame::{Frame, HEADER};
use crate::segment::NUMBERS;

/// What is read at a time, unless an entry is longer: the memory of a replay.
pub(crate) const WINDOW: usize = 128 << 10;
/// What a disk writes as a whole.
const SECTOR: u64 = 512;

/// A segment, and a moving piece of it in memory.
pub(crate) struct Scan {
    pub(crate) path: PathBuf,
    file: Box<dyn DiskFile>,
    /// The first number that it may have.
    base: u64,
    /// The lowest number that may come.
    next: u64,
    window: Vec<u8>,
    /// Where the window begins.
    from: u64,
    /// The entry found last, in the window.
    entry: Range<usize>,
}

/// What is at a place.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// An entry; its bytes are [`Scan::entry`].
    Entry { sequence: u64, size: u64 },
    /// The end of a complete segment, and the first number of the next.
    Seal { next: u64 },
    /// The end of the file.
    End,
    /// Something else.
    Bad(&'static str),
}

impl Scan {
    pub(crate) fn new(path: PathBuf, file: Box<dyn DiskFile>, base: u64) -> Self {
        Scan { path, file, base, next: base, window: Vec::new(), from: 0, entry: 0..0 }
    }

    /// The file, for who has read it.
    pub(crate) fn into_file(self) -> Box<dyn DiskFile> {
        self.file
    }

    /// The bytes of the entry that was found last.
    pub(crate) fn entry(&self) -> &[u8] {
        &self.window[self.entry.clone()]
    }

    /// What is at `at`, in a file that ends at `end`.
    pub(crate) fn frame(&mut self, at: u64, end: u64) -> Result<Found, Error> {
        let left = end - at;
        if left == 0 {
            return Ok(Found::End);
        }
        if left < HEADER as u64 {
            return Ok(Found::Bad("it ends within a frame"));
        }
        let Some(frame) = Frame::parse(self.bytes(at, HEADER, end)?) else {
            return Ok(Found::Bad("no frame begins there"));
        };
        if frame.size() > left {
            return Ok(Found::Bad("it ends within an entry"));
        }
        let entry = &self.bytes(at, frame.size() as usize, end)?[HEADER..];
        if !frame.holds(entry) {
            return Ok(Found::Bad("the entry is not what was written"));
        }
        // Entries of a segment are numbered without a gap: another one in the place of this would hide those between.
        let is_sealed_at_start = frame.is_seal() && frame.sequence == self.base.saturating_add(NUMBERS);
        if frame.sequence != self.next && !is_sealed_at_start || !self.may_have(&frame) {
            return Ok(Found::Bad("its number is out of order"));
        }
        if frame.is_seal() {
            return Ok(Found::Seal { next: frame.sequence });
        }
        let start = (at - self.from) as usize + HEADER;
        self.entry = start..start + frame.length();
        self.next = frame.sequence + 1;
        Ok(Found::Entry { sequence: frame.sequence, size: frame.size() })
    }

    fn may_have(&self, frame: &Frame) -> bool {
        let last = self.base.saturating_add(NUMBERS - u64::from(!frame.is_seal()));
        (self.next..=last).contains(&frame.sequence)
    }

    /// Whether what is at `at` can be a write that the end of the process or a loss of power has cut short, so that nobody was told that it is there.
    /// Otherwise it was changed later.
    ///
    /// - An intact frame behind says up to where the file was on the disk when it was written. Is that past `at`, then this place was on the disk as well.
    ///   (That a frame is intact is not enough: of the pages of one write, a loss of power may leave the later ones.)
    /// - What ends too early was cut short.
    /// - What has its length, but is wrong, can only have sectors that never were written: they are zero. Anything else is damage, and is never cut:
    ///   it may be an entry that was accepted.
    pub(crate) fn is_torn(&mut self, at: u64, size: u64) -> Result<bool, Error> {
        if self.is_vouched_for(at, size)? {
            return Ok(false);
        }
        let left = size - at;
        if left < HEADER as u64 {
            return Ok(true);
        }
        let length = match Frame::parse(self.bytes(at, HEADER, size)?) {
            Some(frame) if frame.size() > left => return Ok(true),
            Some(frame) if frame.holds(&self.bytes(at, frame.size() as usize, size)?[HEADER..]) => return Ok(false),
            Some(frame) => frame.size() as usize,
            None => HEADER,
        };
        let to_boundary = (SECTOR - at % SECTOR) as usize;
        let (first, rest) = self.bytes(at, length, size)?.split_at(to_boundary.min(length));
        Ok([first].into_iter().chain(rest.chunks(SECTOR as usize)).any(|sector| sector.iter().all(|byte| *byte == 0)))
    }

    /// Whether an intact frame behind `at` says that `at` was on the disk.
    fn is_vouched_for(&mut self, at: u64, size: u64) -> Result<bool, Error> {
        for place in at + 1..(size + 1).saturating_sub(HEADER as u64).max(at + 1) {
            let header = self.bytes(place, HEADER, size)?;
            // The cheap look first: there may be 30 million places.
            let durable = u64::from(u32::from_le_bytes([header[16], header[17], header[18], header[19]]));
            if durable <= at || durable > place {
                continue;
            }
            if let Some(frame) = Frame::parse(header)
                && frame.size() <= size - place
                && self.may_have(&frame)
                && frame.holds(&self.bytes(place, frame.size() as usize, size)?[HEADER..])
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// `length` bytes from `at` on, which are before `end`.
    fn bytes(&mut self, at: u64, length: usize, end: u64) -> Result<&[u8], Error> {
        if at < self.from || at + length as u64 > self.from + self.window.len() as u64 {
            let take = (length.max(WINDOW) as u64).min(end - at) as usize;
            self.window.resize(take, 0);
            self.from = at;
            let read = self.file.read_at(&mut self.window, at);
            if let Err(error) = read {
                self.window.clear();
                return Err(Error::io("read", &self.path)(error));
            }
        }
        let start = (at - self.from) as usize;
        Ok(&self.window[start..start + length])
    }
}
