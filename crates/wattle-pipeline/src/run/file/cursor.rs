//! The cursor of a file: how far it is read, and a fingerprint of every byte before. Names and inode numbers do not tell a file: a copy
//! and a checkout have others, and a file that was replaced may have the same. What was read does, and reading it again costs a
//! start one pass over it.

use std::hash::Hasher as _;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};
use twox_hash::XxHash64;
use wattle::Error;

use super::rows::Rows;
use crate::run::unreadable;
use crate::spec::{CsvFormat, FileFormat};

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
    /// Of a file that is followed: one that takes its name has another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) inode: Option<u64>,
    /// How its lines were read: [`way`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    way: Option<String>,
}

const VERSION: u32 = 1;

/// Tells how lines are read from any other way.
pub(super) fn way(format: &FileFormat) -> String {
    let FileFormat::Csv(CsvFormat { delimiter, columns }) = format else { return "lines".to_owned() };
    let mut hasher = XxHash64::with_seed(u64::from(*delimiter));
    // Nothing in a name looks like the end of one.
    columns.iter().flatten().for_each(|name| hasher.write(format!("{name:?},").as_bytes()));
    format!("csv {:016x}", hasher.finish())
}

/// Follows a reader from line to line, and remembers the place behind each record of a batch.
pub(super) struct Trail {
    here: Mark,
    hasher: XxHash64,
    batch: Vec<Mark>,
    way: String,
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
    inode: Option<u64>,
}

impl FileCursor {
    pub(super) fn decode(bytes: &[u8], path: &Path) -> Result<Self, Error> {
        let cursor: Result<FileCursor, _> = serde_json::from_slice(bytes);
        let cursor = cursor.ok().filter(|cursor| cursor.version == VERSION);
        cursor.ok_or_else(|| unreadable(&path.display().to_string(), VERSION))
    }

    /// Whether what is before it was read in another way. Of an older cursor that is not known.
    pub(super) fn was_read_otherwise(&self, way: &str) -> bool {
        self.way.as_deref().is_some_and(|before| before != way)
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
    /// Before the first line. `inode`: of a file that is followed.
    pub(super) fn new(inode: Option<u64>, way: String) -> Self {
        let (here, hasher) = (Mark { inode, ..Mark::default() }, XxHash64::with_seed(0));
        Trail { here, hasher, batch: Vec::new(), way, begins: false }
    }

    /// Before the first line of the next file. The batch goes on.
    pub(super) fn next_file(&mut self, inode: Option<u64>) {
        let next = Trail::new(inode, std::mem::take(&mut self.way));
        *self = Trail { batch: std::mem::take(&mut self.batch), begins: self.begins, ..next };
    }

    /// Goes on to the cursor. Where the bytes are not those of the cursor, says what is different.
    pub(super) fn follow(&mut self, cursor: &FileCursor, rows: &mut Rows) -> io::Result<Result<(), String>> {
        let others = || Ok(Err("the bytes before it are others than those that were read".to_owned()));
        let Some(left) = cursor.offset.checked_sub(self.here.offset) else { return others() };
        let missing = rows.pass(left, |bytes| self.hasher.write(bytes))?;
        if missing > 0 {
            return Ok(Err(format!("it has only {} bytes now", cursor.offset - missing)));
        }
        if format!("{:016x}", self.hasher.finish()) != cursor.xxh64 {
            return others();
        }
        let &FileCursor { offset, lines, records, unended, .. } = cursor;
        self.here = Mark { offset, lines, records, unended, ..self.here };
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

    /// A line, or a row of so many, was read; `bytes` with its end. `is_ended`: it has one.
    pub(super) fn row(&mut self, bytes: &[u8], lines: i64, is_ended: bool) {
        self.read(bytes);
        self.here.lines += lines;
        self.here.unended = !is_ended;
    }

    /// It was a record.
    pub(super) fn record(&mut self) {
        if std::mem::take(&mut self.begins) {
            self.batch.clear();
        }
        self.here.records += 1;
        self.batch.push(Mark { hash: self.hasher.finish(), ..self.here });
    }

    /// The cursor behind the first `records` records of the batch, at least one.
    pub(super) fn cursor(&self, records: usize) -> Vec<u8> {
        let Mark { offset, lines, records, hash, unended, inode } = self.batch[records - 1];
        let xxh64 = format!("{hash:016x}");
        let way = Some(self.way.clone());
        let cursor = FileCursor { version: VERSION, offset, lines, records, xxh64, unended, inode, way };
        serde_json::to_vec(&cursor).expect("numbers and texts have a JSON form")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trail(lines: &[&str]) -> Trail {
        let mut trail = Trail::new(None, way(&FileFormat::Lines));
        for line in lines {
            trail.row(line.as_bytes(), 1, line.ends_with('\n'));
            if *line != "\n" {
                trail.record();
            }
        }
        trail
    }

    #[test]
    fn a_cursor_is_small_json() {
        let trail = trail(&["{}\n", "\n", "1"]);
        let text = |records| String::from_utf8(trail.cursor(records)).unwrap();
        let expected = r#"{"version":1,"offset":3,"lines":1,"records":1,"xxh64":"7d441b099c11d3ba","unended":false,"way":"lines"}"#;
        assert_eq!(text(1), expected);
        assert!(text(2).starts_with(r#"{"version":1,"offset":5,"lines":3,"records":2,"#), "{}", text(2));
        assert!(text(2).ends_with(r#""unended":true,"way":"lines"}"#), "{}", text(2));
    }

    #[test]
    fn a_batch_may_have_lines_of_two_files() {
        let mut trail = trail(&["{}\n"]);
        trail.next_file(Some(7));
        trail.row(b"1\n", 1, true);
        trail.record();
        let cursor = |records| FileCursor::decode(&trail.cursor(records), Path::new("f")).unwrap();
        assert_eq!((cursor(1).offset, cursor(1).inode), (3, None));
        assert_eq!((cursor(2).offset, cursor(2).lines, cursor(2).inode), (2, 1, Some(7)));
    }

    #[test]
    fn another_delimiter_and_other_columns_are_another_way() {
        let csv = |delimiter, columns: &[&str]| {
            let columns = (!columns.is_empty()).then(|| columns.iter().map(|&name| name.to_owned()).collect());
            way(&FileFormat::Csv(CsvFormat { delimiter, columns }))
        };
        let ways =
            [csv(b',', &[]), csv(b';', &[]), csv(b',', &["a", "b"]), csv(b',', &["a\",\"b"]), csv(b',', &["b", "a"])];
        assert_eq!(ways.iter().collect::<std::collections::BTreeSet<_>>().len(), ways.len());
        assert_eq!(csv(b',', &["a", "b"]), ways[2]);
        let cursor = FileCursor::decode(&trail(&["{}\n"]).cursor(1), Path::new("f")).unwrap();
        assert!(cursor.was_read_otherwise(&ways[0]) && !cursor.was_read_otherwise("lines"));
        assert!(!FileCursor { way: None, ..cursor }.was_read_otherwise(&ways[0]), "nobody knows");
    }

    #[test]
    fn a_cursor_of_another_version_is_refused() {
        let newer = br#"{"version":2,"offset":0,"lines":0,"records":0,"xxh64":"","unended":false}"#;
        for bytes in [&b""[..], b"{}", newer] {
            assert!(matches!(FileCursor::decode(bytes, Path::new("f")), Err(Error::Cursor { .. })));
        }
    }
}
