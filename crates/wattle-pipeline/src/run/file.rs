//! A file as a source: each line that is not blank is a record, its line number the offset.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use wattle::{Batch, BatchLimits, Error, Fill, Offset, Record, Source};

/// A line that is longer is an error: nothing in a file may fill the memory.
const LONGEST_LINE: u64 = 16 << 20;

pub(super) struct FileSource<R> {
    name: String,
    reader: R,
    line: Vec<u8>,
    /// Lines read so far.
    lines: i64,
}

impl FileSource<BufReader<File>> {
    pub(super) fn open(path: &Path) -> Result<Self, Error> {
        let name = path.display().to_string();
        match File::open(path) {
            Ok(file) => Ok(FileSource::new(name, BufReader::with_capacity(1 << 17, file))),
            Err(source) => Err(Error::Io { what: format!("open {name}"), source }),
        }
    }
}

impl<R: BufRead> FileSource<R> {
    fn new(name: String, reader: R) -> Self {
        FileSource { name, reader, line: Vec::new(), lines: 0 }
    }

    /// Reads the next line into `self.line`, without its end; false at the end of the file.
    fn read_line(&mut self) -> io::Result<bool> {
        self.line.clear();
        let length = (&mut self.reader).take(LONGEST_LINE + 1).read_until(b'\n', &mut self.line)?;
        if length == 0 {
            return Ok(false);
        }
        self.lines += 1;
        if self.line.last() == Some(&b'\n') {
            self.line.pop();
            if self.line.last() == Some(&b'\r') {
                self.line.pop();
            }
        } else if length as u64 > LONGEST_LINE {
            let text = format!("the line is longer than {} MiB", LONGEST_LINE >> 20);
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        }
        Ok(true)
    }
}

impl<R: BufRead + Send> Source for FileSource<R> {
    fn fill(&mut self, batch: &mut Batch, limits: &BatchLimits) -> Result<Fill, Error> {
        while batch.len() < limits.max_poll_records && batch.byte_len() < limits.max_bytes {
            match self.read_line() {
                Ok(true) if self.line.trim_ascii().is_empty() => {}
                Ok(true) => batch.push(0, &record(&self.line, self.lines)),
                Ok(false) => return Ok(Fill::End),
                Err(source) => {
                    return Err(Error::Io { what: format!("read {}:{}", self.name, self.lines.max(1)), source });
                }
            }
        }
        Ok(Fill::More)
    }

    fn topics(&self) -> Vec<String> {
        vec![self.name.clone()]
    }
}

/// A record with nothing but a value and an offset.
pub(super) fn record(value: &[u8], offset: i64) -> Record<'_> {
    let offset = Offset(offset);
    Record { topic: "", partition: 0, offset, timestamp: None, key: None, value: Some(value), headers: &[] }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &[u8], max_poll_records: usize) -> Vec<Vec<(i64, String)>> {
        let mut source = FileSource::new("f".to_owned(), text);
        let limits = BatchLimits { max_poll_records, ..BatchLimits::default() };
        let mut batches = Vec::new();
        loop {
            let mut batch = Batch::new(source.topics());
            let fill = source.fill(&mut batch, &limits).unwrap();
            let record = |i| {
                let record = batch.get(i);
                (record.offset.0, String::from_utf8_lossy(record.value.unwrap()).into_owned())
            };
            batches.push((0..batch.len()).map(record).collect());
            if fill == Fill::End {
                return batches;
            }
        }
    }

    #[test]
    fn blank_lines_count_but_are_no_records() {
        let batches = lines(b"{\"a\":1}\n\n  \t\n[2]\r\n 3", 100);
        assert_eq!(batches, [[(1, "{\"a\":1}".into()), (4, "[2]".into()), (5, " 3".into())]]);
    }

    #[test]
    fn a_batch_ends_at_its_limit() {
        assert_eq!(lines(b"1\n2\n3\n", 2).iter().map(Vec::len).collect::<Vec<_>>(), [2, 1]);
        assert_eq!(lines(b"", 2), [[]]);
    }

    #[test]
    fn a_line_without_end_is_refused_with_its_number() {
        let text = [b"1\n".to_vec(), vec![b'x'; (LONGEST_LINE + 1) as usize]].concat();
        let mut source = FileSource::new("f".to_owned(), &text[..]);
        let error = source.fill(&mut Batch::new(source.topics()), &BatchLimits::default()).unwrap_err();
        assert!(error.to_string().contains("f:2: the line is longer than 16 MiB"), "{error}");
    }

    #[test]
    fn a_missing_file_is_named() {
        let Err(error) = FileSource::open(Path::new("no/such.jsonl")) else { panic!("must fail") };
        assert!(error.to_string().contains("open no/such.jsonl"), "{error}");
    }
}
