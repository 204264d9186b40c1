//! Reads a file line by line, or row by row. What is not whole yet is held until the rest of it has come.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _};

use super::csv::Csv;
use crate::spec::FileFormat;

/// A line, or a row, that is longer is an error: nothing in a file may fill the memory.
const LONGEST: u64 = 16 << 20;

pub(super) struct Rows {
    reader: BufReader<File>,
    format: Format,
    /// The line or the row that was read last, with its end.
    text: Vec<u8>,
    /// Lines of it that are whole.
    lines: i64,
    /// Where its last line begins.
    line: usize,
    is_whole: bool,
    /// Whether it has ended by itself, and not with the file.
    is_ended: bool,
    /// Bytes read from the file, those of `text` among them.
    position: u64,
}

enum Format {
    Lines,
    Csv(Box<Csv>),
}

/// What a line or a row is.
pub(super) enum Content<'a> {
    /// No record: a blank line.
    Nothing,
    Header,
    Record(&'a [u8]),
    /// With the reason.
    Invalid(&'a [u8], String),
}

impl Rows {
    pub(super) fn new(file: File, format: &FileFormat) -> Self {
        let format = match format {
            FileFormat::Lines => Format::Lines,
            FileFormat::Csv(csv) => Format::Csv(Box::new(Csv::new(csv))),
        };
        let reader = BufReader::with_capacity(1 << 17, file);
        Rows { reader, format, text: Vec::new(), lines: 0, line: 0, is_whole: true, is_ended: true, position: 0 }
    }

    pub(super) fn file(&self) -> &File {
        self.reader.get_ref()
    }

    /// Bytes of the file that are read, those that are held among them.
    pub(super) fn position(&self) -> u64 {
        self.position
    }

    /// Goes to the next line or row. False where the file ends before the end of it; more may come then.
    pub(super) fn read(&mut self) -> io::Result<bool> {
        if self.is_whole {
            self.clear();
        }
        loop {
            let room = (LONGEST + 1).saturating_sub(self.text.len() as u64);
            let length = (&mut self.reader).take(room).read_until(b'\n', &mut self.text)?;
            self.position += length as u64;
            if length == 0 && room > 0 {
                return Ok(false);
            }
            let is_ended = self.text.ends_with(b"\n");
            if is_ended {
                self.lines += 1;
                self.is_whole = self.is_last_line();
                if self.is_whole {
                    return Ok(true);
                }
                self.line = self.text.len();
            }
            if self.text.len() as u64 > LONGEST {
                let what = if matches!(self.format, Format::Csv(_)) { "row" } else { "line" };
                let text = format!("the {what} is longer than {} MiB", LONGEST >> 20);
                return Err(io::Error::new(io::ErrorKind::InvalidData, text));
            }
            if !is_ended {
                return Ok(false);
            }
        }
    }

    /// Gives the last line of a row to its parser.
    fn is_last_line(&mut self) -> bool {
        match &mut self.format {
            Format::Lines => true,
            Format::Csv(_) if self.line == 0 && is_empty(&self.text) => true,
            Format::Csv(csv) => csv.line(&self.text[self.line..]),
        }
    }

    /// Nothing comes any more, so that what is held is the last line or row. False where nothing is held.
    pub(super) fn finish(&mut self) -> bool {
        if self.is_whole || self.text.is_empty() {
            return false;
        }
        (self.is_whole, self.is_ended) = (true, false);
        let rest = self.text.len() > self.line;
        self.lines += i64::from(rest);
        if let Format::Csv(csv) = &mut self.format
            && !(rest && csv.line(&self.text[self.line..]))
        {
            csv.end();
        }
        true
    }

    /// Forgets what was read last.
    fn clear(&mut self) {
        self.text.clear();
        (self.lines, self.line, self.is_whole, self.is_ended) = (0, 0, false, true);
        if let Format::Csv(csv) = &mut self.format {
            csv.begin();
        }
    }

    /// The bytes of the line or row, with its end.
    pub(super) fn text(&self) -> &[u8] {
        &self.text
    }

    /// How many lines they are.
    pub(super) fn lines(&self) -> i64 {
        self.lines
    }

    /// False where the file has ended within it.
    pub(super) fn is_ended(&self) -> bool {
        self.is_ended
    }

    pub(super) fn needs_header(&self) -> bool {
        matches!(&self.format, Format::Csv(csv) if csv.needs_header())
    }

    /// # Errors
    /// Where a header cannot be one.
    pub(super) fn content(&mut self) -> Result<Content<'_>, String> {
        let text = without_end(&self.text);
        Ok(match &mut self.format {
            Format::Lines if text.trim_ascii().is_empty() => Content::Nothing,
            Format::Lines => Content::Record(text),
            Format::Csv(_) if text.is_empty() => Content::Nothing,
            Format::Csv(csv) if csv.needs_header() => {
                csv.header()?;
                Content::Header
            }
            Format::Csv(csv) => match csv.object() {
                Ok(object) => Content::Record(object),
                Err(problem) => Content::Invalid(text, problem),
            },
        })
    }

    /// Passes over so many bytes, and shows them. Returns how many of them are missing.
    pub(super) fn pass(&mut self, length: u64, mut show: impl FnMut(&[u8])) -> io::Result<u64> {
        let mut left = length;
        while left > 0 {
            let bytes = self.reader.fill_buf()?;
            if bytes.is_empty() {
                break;
            }
            let taken = bytes.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            show(&bytes[..taken]);
            self.reader.consume(taken);
            left -= taken as u64;
        }
        self.position += length - left;
        if let Format::Csv(csv) = &mut self.format {
            csv.go_on();
        }
        Ok(left)
    }
}

fn is_empty(line: &[u8]) -> bool {
    without_end(line).is_empty()
}

fn without_end(text: &[u8]) -> &[u8] {
    match text.strip_suffix(b"\n") {
        Some(text) => text.strip_suffix(b"\r").unwrap_or(text),
        None => text,
    }
}
