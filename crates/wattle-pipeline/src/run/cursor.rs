//! The cursor of a file: how far it is read, and a fingerprint of every byte before. Names and inode numbers do not tell a file: a copy
//! and a checkout have others, and a file that was replaced may have the same. What was read does, and reading it again costs a
//! start one pass over it.

use std::hash::Hasher as _;
use std::io::{self, BufRead};
use std::path::Path;

use serde::{Deserialize, Serialize};
use twox_hash::XxHash64;
use wattle::Error;

/// The cursor's record in the changelog.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FileCursor {
    version: u32,
    /// Bytes that are read.
    offset: u64,
    /// Lines that are read.
    pub(super) lines: i64,
    /// Records that they made.
    records: u64,
    /// xxHash64 of the bytes, hexadecimal.
    xxh64: String,
    /// Whether the last line ended with the file and not with a line break.
    pub(super) unended: bool,
}

const VERSION: u32 = 1;

/// Follows a reader from line to line, and remembers the place behind each record of a batch.
pub(super) struct Trail {
    here: Mark,
    hasher: XxHash64,
    batch: Vec<Mark>,
    /// Whether a batch has begun that has no record yet.
    begins: bool,
}

#[derive(Clone, Copy, Default)]
struct Mark {
    offset: u64,
    lines: i64,
    records: u64,
    hash: u64,
    unended: bool,
}

impl FileCursor {
    pub(super) fn decode(bytes: &[u8], path: &Path) -> Result<Self, Error> {
        let cursor: Result<FileCursor, _> = serde_json::from_slice(bytes);
        cursor.ok().filter(|cursor| cursor.version == VERSION).ok_or_else(|| Error::Cursor {
            text: format!(
                "the cursor of {} cannot be read: it is none of version {VERSION}. Use the version of wattle that wrote it, or a newer one",
                path.display()
            ),
        })
    }

    /// The refusal of a file that is not the one of this cursor.
    pub(super) fn refuse(&self, path: &Path, found: &str) -> Error {
        let FileCursor { offset, lines, .. } = self;
        let text = format!(
            "{} has changed before the committed position (line {lines}, byte {offset}): {found}. Only the end of a file may grow while it \
             is read exactly once. Nothing behind that position was written. Bring the file back as it was; or, to read it from its beginning, rename it, or \
             give the stream another transactional_id",
            path.display()
        );
        Error::Cursor { text }
    }
}

impl Trail {
    /// Before the first line.
    pub(super) fn new() -> Self {
        Trail { here: Mark::default(), hasher: XxHash64::with_seed(0), batch: Vec::new(), begins: false }
    }

    /// Reads up to the cursor. Where the bytes are not those of the cursor, says what is different.
    pub(super) fn follow(&mut self, cursor: &FileCursor, reader: &mut impl BufRead) -> io::Result<Result<(), String>> {
        let mut left = cursor.offset;
        while left > 0 {
            let bytes = reader.fill_buf()?;
            if bytes.is_empty() {
                return Ok(Err(format!("it has only {} bytes now", cursor.offset - left)));
            }
            let length = bytes.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            self.hasher.write(&bytes[..length]);
            reader.consume(length);
            left -= length as u64;
        }
        if format!("{:016x}", self.hasher.finish()) != cursor.xxh64 {
            return Ok(Err("the bytes before it are others than those that were read".to_owned()));
        }
        let &FileCursor { offset, lines, records, unended, .. } = cursor;
        self.here = Mark { offset, lines, records, hash: 0, unended };
        Ok(Ok(()))
    }

    /// A batch begins. The places of the one before are there until it has a record.
    pub(super) fn begin_batch(&mut self) {
        self.begins = true;
    }

    /// Bytes were read that are not the begin of a line: the rest of one that had no end.
    pub(super) fn read(&mut self, bytes: &[u8]) {
        self.hasher.write(bytes);
        self.here.offset += bytes.len() as u64;
    }

    /// A line was read; `bytes` with its end.
    pub(super) fn read_line(&mut self, bytes: &[u8]) {
        self.read(bytes);
        self.here.lines += 1;
        self.here.unended = !bytes.ends_with(b"\n");
    }

    /// The last line was a record.
    pub(super) fn record(&mut self) {
        if std::mem::take(&mut self.begins) {
            self.batch.clear();
        }
        self.here.records += 1;
        self.batch.push(Mark { hash: self.hasher.finish(), ..self.here });
    }

    /// The cursor behind the first `records` records of the batch, at least one.
    pub(super) fn cursor(&self, records: usize) -> Vec<u8> {
        let Mark { offset, lines, records, hash, unended } = self.batch[records - 1];
        let cursor = FileCursor { version: VERSION, offset, lines, records, xxh64: format!("{hash:016x}"), unended };
        serde_json::to_vec(&cursor).expect("numbers and texts have a JSON form")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cursor(lines: &[&[u8]]) -> FileCursor {
        let mut trail = Trail::new();
        for line in lines {
            trail.read_line(line);
            trail.record();
        }
        FileCursor::decode(&trail.cursor(lines.len()), Path::new("f")).unwrap()
    }

    fn follow(cursor: &FileCursor, mut text: &[u8]) -> Result<Vec<u8>, String> {
        let followed = Trail::new().follow(cursor, &mut text).unwrap();
        followed.map(|()| text.to_vec())
    }

    #[test]
    fn a_cursor_is_small_json() {
        let mut trail = Trail::new();
        trail.read_line(b"{}\n");
        trail.record();
        trail.read_line(b"\n");
        trail.read_line(b"1");
        trail.record();
        let text = |records| String::from_utf8(trail.cursor(records)).unwrap();
        let expected = r#"{"version":1,"offset":3,"lines":1,"records":1,"xxh64":"7d441b099c11d3ba","unended":false}"#;
        assert_eq!(text(1), expected);
        assert!(text(2).starts_with(r#"{"version":1,"offset":5,"lines":3,"records":2,"#), "{}", text(2));
        assert!(text(2).ends_with(r#""unended":true}"#), "{}", text(2));
    }

    #[test]
    fn a_file_that_grew_is_followed() {
        let cursor = cursor(&[b"{}\n", b"{\"a\":1}\n"]);
        assert_eq!(follow(&cursor, b"{}\n{\"a\":1}\n"), Ok(Vec::new()));
        assert_eq!(follow(&cursor, b"{}\n{\"a\":1}\nmore"), Ok(b"more".to_vec()));
    }

    #[test]
    fn a_file_that_changed_is_not() {
        let cursor = cursor(&[b"{}\n", b"{\"a\":1}\n"]);
        for (text, found) in [
            (&b"{}\n"[..], "only 3 bytes"),
            (b"", "only 0 bytes"),
            (b"{}\n{\"a\":2}\n", "are others"),
            (b"[]\n{\"a\":1}\nmore", "are others"),
            (b"{}\n\n{\"a\":1}\nmore", "are others"),
        ] {
            let problem = follow(&cursor, text).unwrap_err();
            assert!(problem.contains(found), "{problem}");
        }
    }

    #[test]
    fn a_cursor_of_another_version_is_refused() {
        let newer = br#"{"version":2,"offset":0,"lines":0,"records":0,"xxh64":"","unended":false}"#;
        for bytes in [&b""[..], b"{}", newer] {
            assert!(matches!(FileCursor::decode(bytes, Path::new("f")), Err(Error::Cursor { .. })));
        }
    }
}
