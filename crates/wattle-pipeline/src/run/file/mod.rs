//! A file as a source: each line that is not blank is a record, or each row of CSV; the number of its line is the offset. A file is read to its end, whose
//! last line needs no line break; it is the last one of the run then, even if the file grows meanwhile. Or it is followed: what has no line break yet is
//! held, and a file that takes the name of another one is read from its beginning when the other one is finished.

mod csv;
mod cursor;
mod rotation;
mod rows;

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use wattle::{Batch, BatchLimits, Error, Fill, Offset, Record, Resume, Source};

use self::cursor::{FileCursor, Trail, way};
use self::rotation::{Look, POLL, Rotation};
use self::rows::{Content, Rows};
use crate::spec::{FileFormat, FileInput};

pub(crate) struct FileSource {
    path: PathBuf,
    format: FileFormat,
    rows: Rows,
    /// Lines read so far.
    lines: i64,
    /// Nothing more is read.
    at_end: bool,
    /// Where it is followed.
    rotation: Option<Rotation>,
    /// A file that is followed ends, too.
    drain: bool,
    /// From [`Resume::resume`] on: without cursors there is nothing to trace.
    trail: Option<Trail>,
    /// The cursor stands behind a line that had no end, and has none yet.
    unended: Option<FileCursor>,
}

/// What there is to read.
enum Next {
    /// A line or a row.
    Row,
    Nothing(Fill),
}

impl FileSource {
    pub(crate) fn open(input: &FileInput, drain: bool) -> Result<Self, Error> {
        let rows = Rows::new(open(&input.path)?, &input.format);
        let rotation = input.is_followed.then(|| Rotation::new(&input.path));
        let (path, format) = (input.path.clone(), input.format.clone());
        Ok(FileSource { path, format, rows, lines: 0, at_end: false, rotation, drain, trail: None, unended: None })
    }

    fn begin(&mut self, file: File) {
        self.rows = Rows::new(file, &self.format);
        (self.lines, self.at_end, self.unended) = (0, false, None);
    }

    /// The inode of the file, where it matters.
    fn inode(&self) -> Result<Option<u64>, Error> {
        let Some(_) = &self.rotation else { return Ok(None) };
        let found = self.rows.file().metadata().map_err(|source| failed("look at", &self.path, source))?;
        Ok(Some(found.ino()))
    }

    /// Another file begins.
    fn go_on_with(&mut self, file: File) -> Result<(), Error> {
        self.begin(file);
        let inode = self.inode()?;
        if let Some(trail) = &mut self.trail {
            trail.next_file(inode);
        }
        Ok(())
    }

    /// Goes to the next line or row.
    fn next(&mut self) -> Result<Next, Error> {
        loop {
            if self.at_end {
                return Ok(Next::Nothing(Fill::End));
            }
            if let Some(rotation) = &mut self.rotation
                && rotation.is_written_anew(self.rows.file(), self.rows.position())?
            {
                self.begin_again()?;
            }
            if self.rows.read().map_err(|source| self.unreadable(source))? {
                return Ok(Next::Row);
            }
            if let Some(next) = self.at_file_end()? {
                return Ok(next);
            }
        }
    }

    /// The file ends here, for now or for good. `None`: the next one begins.
    fn at_file_end(&mut self) -> Result<Option<Next>, Error> {
        let Some(rotation) = &mut self.rotation else {
            self.at_end = true;
            return Ok(Some(if self.rows.finish() { Next::Row } else { Next::Nothing(Fill::End) }));
        };
        let (file, position) = (self.rows.file(), self.rows.position());
        let next = match rotation.look(file, position)? {
            Look::Finished if self.rows.finish() => return Ok(Some(Next::Row)),
            Look::Finished => rotation.next(self.rows.file(), position)?,
            Look::Cut => {
                self.begin_again()?;
                return Ok(None);
            }
            Look::Same | Look::Gone if self.drain => return Ok(Some(Next::Nothing(Fill::End))),
            Look::Same | Look::Gone | Look::Replaced => None,
        };
        let Some(file) = next else { return Ok(Some(Next::Nothing(Fill::Wait(POLL)))) };
        tracing::info!(
            "{} is another file now: line {} was the last one of the one before",
            self.path.display(),
            self.lines
        );
        self.go_on_with(file)?;
        Ok(None)
    }

    /// What of the file was not read is not there any more.
    fn begin_again(&mut self) -> Result<(), Error> {
        let (path, line) = (self.path.display(), self.lines);
        tracing::warn!("{path} was cut, or written anew, behind line {line}: it is read from its beginning");
        self.go_on_with(open(&self.path)?)
    }

    /// Adds what was read.
    fn take(&mut self, batch: &mut Batch) -> Result<(), Error> {
        let (offset, text) = (self.lines + 1, self.rows.text());
        if let Some(cursor) = self.unended.take() {
            if !text.trim_ascii().is_empty() {
                return Err(grown(&cursor, &self.path));
            }
            if let Some(trail) = &mut self.trail {
                trail.read(text);
            }
            return Ok(());
        }
        self.lines += self.rows.lines();
        if let Some(trail) = &mut self.trail {
            trail.row(text, self.rows.lines(), self.rows.is_ended());
        }
        match self.rows.content() {
            Ok(Content::Nothing | Content::Header) => return Ok(()),
            Ok(Content::Record(value)) => batch.push(0, &record(value, offset)),
            Ok(Content::Invalid(value, reason)) => {
                batch.push(0, &record(value, offset));
                batch.refuse_last(reason);
            }
            Err(problem) => return Err(no_header(&self.path, offset, &problem)),
        }
        if let Some(trail) = &mut self.trail {
            trail.record();
        }
        Ok(())
    }

    /// Goes behind the cursor.
    fn follow(&mut self, cursor: FileCursor, trail: &mut Trail) -> Result<(), Error> {
        let path = self.path.clone();
        let failed = |source| failed("read again", &path, source);
        while self.rows.needs_header() {
            if !self.rows.read().map_err(failed)? {
                return Err(cursor.refuse(&path, &format!("it has only {} bytes now", self.rows.position())));
            }
            trail.row(self.rows.text(), self.rows.lines(), true);
            self.rows.content().map_err(|problem| no_header(&path, 1, &problem))?;
        }
        if let Err(found) = trail.follow(&cursor, &mut self.rows).map_err(failed)? {
            return Err(cursor.refuse(&path, &found));
        }
        self.lines = cursor.lines;
        if !cursor.unended {
            return Ok(());
        }
        let is_ended = self.rows.read().map_err(failed)?;
        if !self.rows.text().trim_ascii().is_empty() {
            return Err(grown(&cursor, &path));
        }
        if !is_ended && self.rotation.is_some() {
            self.unended = Some(cursor);
        } else {
            // Without an end the line may still grow: what comes behind it is read another time.
            self.at_end = !is_ended;
            trail.read(self.rows.text());
        }
        Ok(())
    }

    fn unreadable(&self, source: io::Error) -> Error {
        Error::Io { what: format!("read {}:{}", self.path.display(), self.lines + 1), source }
    }
}

/// Refuses what has no place that could be found again. Asked before it is opened: the opening of a pipe waits for a writer.
pub(super) fn check_regular(path: &Path) -> Result<(), Error> {
    if fs::metadata(path).map_err(|source| failed("open", path, source))?.is_file() {
        return Ok(());
    }
    let path = path.display();
    let text = format!(
        "{path} is no regular file, and a start could not find its place in it again: read a regular file; or remove mode: tail, and \
         exactly_once from a kafka output"
    );
    Err(Error::Cursor { text })
}

fn open(path: &Path) -> Result<File, Error> {
    File::open(path).map_err(|source| failed("open", path, source))
}

fn failed(what: &str, path: &Path, source: io::Error) -> Error {
    Error::Io { what: format!("{what} {}", path.display()), source }
}

fn no_header(path: &Path, line: i64, problem: &str) -> Error {
    let source =
        io::Error::new(io::ErrorKind::InvalidData, format!("the first row cannot name the columns: {problem}"));
    Error::Io { what: format!("read {}:{line}", path.display()), source }
}

fn grown(cursor: &FileCursor, path: &Path) -> Error {
    cursor.refuse(path, &format!("line {} had no end when it was read, and has grown since", cursor.lines))
}

impl Resume for FileSource {
    fn resume(&mut self, cursor: Option<&[u8]>) -> Result<(), Error> {
        let cursor = cursor.map(|bytes| FileCursor::decode(bytes, &self.path)).transpose()?;
        let inode = cursor.as_ref().and_then(|cursor| cursor.inode).filter(|_| self.rotation.is_some());
        let file = match inode {
            Some(inode) => rotation::find(&self.path, inode)?,
            None => {
                check_regular(&self.path)?;
                open(&self.path)?
            }
        };
        self.begin(file);
        self.rotation = self.rotation.take().map(|_| Rotation::new(&self.path));
        let way = way(&self.format);
        let mut trail = Trail::new(self.inode()?, way.clone());
        if let Some(cursor) = cursor {
            if cursor.was_read_otherwise(&way) {
                tracing::warn!(
                    "{} is read in another way from now on (format, delimiter or columns have changed): what was read up to line {} stays what it was, and is not \
                     read again",
                    self.path.display(),
                    cursor.lines
                );
            }
            self.follow(cursor, &mut trail)?;
        }
        self.trail = Some(trail);
        Ok(())
    }

    fn cursor(&self, records: usize) -> Vec<u8> {
        self.trail.as_ref().expect("resumed before it was filled").cursor(records)
    }
}

impl Source for FileSource {
    fn fill(&mut self, batch: &mut Batch, limits: &BatchLimits) -> Result<Fill, Error> {
        if let Some(trail) = &mut self.trail {
            trail.begin_batch();
        }
        while batch.len() < limits.records() && batch.byte_len() < limits.bytes() {
            match self.next()? {
                Next::Row => self.take(batch)?,
                Next::Nothing(fill) => return Ok(fill),
            }
        }
        Ok(Fill::More)
    }

    fn topics(&self) -> Vec<String> {
        vec![self.path.display().to_string()]
    }
}

/// A record with nothing but a value and an offset.
pub(super) fn record(value: &[u8], offset: i64) -> Record<'_> {
    let offset = Offset(offset);
    Record { topic: "", partition: 0, offset, timestamp: None, key: None, value: Some(value), headers: &[] }
}

#[cfg(test)]
mod tests;
