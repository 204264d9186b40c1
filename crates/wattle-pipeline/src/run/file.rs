//! A file as a source: each line that is not blank is a record, its line number the offset. The last line needs no end; it is the last
//! of the run then, even if the file grows meanwhile.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use wattle::{Batch, BatchLimits, Error, Fill, Offset, Record, Resume, Source};

use super::cursor::{FileCursor, Trail};

/// A line that is longer is an error: nothing in a file may fill the memory.
const LONGEST_LINE: u64 = 16 << 20;

pub(super) struct FileSource<R> {
    path: PathBuf,
    reader: R,
    line: Vec<u8>,
    /// Lines read so far.
    lines: i64,
    /// Whether a line without an end was read.
    at_end: bool,
    /// From [`Resume::resume`] on: without cursors there is nothing to follow.
    trail: Option<Trail>,
}

impl FileSource<BufReader<File>> {
    pub(super) fn open(path: &Path) -> Result<Self, Error> {
        Ok(FileSource::new(path.to_owned(), BufReader::with_capacity(1 << 17, open(path)?)))
    }
}

/// Refuses what has no place that could be found again. Asked before it is opened: the opening of a pipe waits for a writer.
pub(super) fn check_regular(path: &Path) -> Result<(), Error> {
    if fs::metadata(path).map_err(|source| failed("open", path, source))?.is_file() {
        return Ok(());
    }
    let path = path.display();
    let text = format!(
        "{path} is no regular file, and a start could not find its place in it again: read a regular file, or remove exactly_once from a kafka output"
    );
    Err(Error::Cursor { text })
}

fn open(path: &Path) -> Result<File, Error> {
    File::open(path).map_err(|source| failed("open", path, source))
}

fn failed(what: &str, path: &Path, source: io::Error) -> Error {
    Error::Io { what: format!("{what} {}", path.display()), source }
}

impl<R: BufRead> FileSource<R> {
    fn new(path: PathBuf, reader: R) -> Self {
        FileSource { path, reader, line: Vec::new(), lines: 0, at_end: false, trail: None }
    }

    /// Reads the next line into `self.line`, without its end; false at the end of the file.
    fn read_line(&mut self) -> io::Result<bool> {
        if self.at_end || !self.read_to_line_end()? {
            return Ok(false);
        }
        self.lines += 1;
        if let Some(trail) = &mut self.trail {
            trail.read_line(&self.line);
        }
        if self.line.last() == Some(&b'\n') {
            self.line.pop();
            if self.line.last() == Some(&b'\r') {
                self.line.pop();
            }
        } else {
            self.at_end = true;
        }
        Ok(true)
    }

    /// Reads up to and including the next line break into `self.line`; false if there is nothing.
    fn read_to_line_end(&mut self) -> io::Result<bool> {
        self.line.clear();
        let length = (&mut self.reader).take(LONGEST_LINE + 1).read_until(b'\n', &mut self.line)?;
        if length as u64 > LONGEST_LINE && self.line.last() != Some(&b'\n') {
            let text = format!("the line is longer than {} MiB", LONGEST_LINE >> 20);
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        }
        Ok(length > 0)
    }

    /// Goes behind the cursor.
    fn follow(&mut self, cursor: &FileCursor) -> Result<(), Error> {
        let path = self.path.clone();
        let failed = |source| failed("read again", &path, source);
        let mut trail = Trail::new();
        if let Err(found) = trail.follow(cursor, &mut self.reader).map_err(failed)? {
            return Err(cursor.refuse(&self.path, &found));
        }
        self.lines = cursor.lines;
        if cursor.unended {
            self.read_to_line_end().map_err(failed)?;
            if !self.line.trim_ascii().is_empty() {
                let found = format!("line {} had no end when it was read, and has grown since", cursor.lines);
                return Err(cursor.refuse(&self.path, &found));
            }
            // Without an end the line may still grow: what comes behind it is read another time.
            self.at_end = !self.line.ends_with(b"\n");
            trail.read(&self.line);
        }
        self.trail = Some(trail);
        Ok(())
    }
}

impl Resume for FileSource<BufReader<File>> {
    fn resume(&mut self, cursor: Option<&[u8]>) -> Result<(), Error> {
        check_regular(&self.path)?;
        let reader = BufReader::with_capacity(1 << 17, open(&self.path)?);
        *self = FileSource { trail: Some(Trail::new()), ..FileSource::new(std::mem::take(&mut self.path), reader) };
        match cursor {
            Some(bytes) => self.follow(&FileCursor::decode(bytes, &self.path)?),
            None => Ok(()),
        }
    }

    fn cursor(&self, records: usize) -> Vec<u8> {
        self.trail.as_ref().expect("resumed before it was filled").cursor(records)
    }
}

impl<R: BufRead + Send> Source for FileSource<R> {
    fn fill(&mut self, batch: &mut Batch, limits: &BatchLimits) -> Result<Fill, Error> {
        if let Some(trail) = &mut self.trail {
            trail.begin_batch();
        }
        while batch.len() < limits.records() && batch.byte_len() < limits.bytes() {
            match self.read_line() {
                Ok(true) if self.line.trim_ascii().is_empty() => {}
                Ok(true) => {
                    batch.push(0, &record(&self.line, self.lines));
                    if let Some(trail) = &mut self.trail {
                        trail.record();
                    }
                }
                Ok(false) => return Ok(Fill::End),
                Err(source) => {
                    return Err(Error::Io { what: format!("read {}:{}", self.path.display(), self.lines + 1), source });
                }
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
mod tests {
    use super::*;

    /// The file's records, the cursor behind the last of them.
    fn read(source: &mut FileSource<BufReader<File>>) -> (Vec<(i64, String)>, Vec<u8>) {
        let mut batch = Batch::new(source.topics());
        assert_eq!(source.fill(&mut batch, &BatchLimits::default()).unwrap(), Fill::End);
        let record = |i| {
            let record = batch.get(i);
            (record.offset.0, String::from_utf8_lossy(record.value.unwrap()).into_owned())
        };
        let cursor = if batch.is_empty() { Vec::new() } else { source.cursor(batch.len()) };
        ((0..batch.len()).map(record).collect(), cursor)
    }

    /// What a second run reads of a file that has become `later`, or why it refuses to.
    fn twice(name: &str, first: &str, later: &str) -> Result<Vec<(i64, String)>, String> {
        let path = std::env::temp_dir().join(format!("wattle-file-{}-{name}", std::process::id()));
        std::fs::write(&path, first).unwrap();
        let mut source = FileSource::open(&path).unwrap();
        source.resume(None).unwrap();
        let (records, cursor) = read(&mut source);
        assert!(!records.is_empty());
        std::fs::write(&path, later).unwrap();
        if !first.ends_with('\n') {
            assert_eq!(read(&mut source).0, [], "half a line is never followed by its other half");
        }
        let result = source.resume(Some(&cursor)).map_err(|error| error.to_string());
        let result = result.map(|()| read(&mut source).0);
        std::fs::remove_file(&path).unwrap();
        result
    }

    #[test]
    fn a_file_goes_on_where_it_grew() {
        let three = Ok(vec![(4, "3".to_owned())]);
        assert_eq!(twice("grown", "1\n\n2\n", "1\n\n2\n3\n"), three);
        assert_eq!(twice("same", "1\n\n2\n", "1\n\n2\n"), Ok(Vec::new()));
        let text = twice("edited", "1\n\n2\n", "1\n\n3\n3\n").unwrap_err();
        assert!(text.contains("(line 3, byte 5): the bytes before it are others"), "{text}");
        let text = twice("cut", "1\n\n2\n", "1\n").unwrap_err();
        assert!(text.contains("it has only 2 bytes now"), "{text}");
    }

    #[test]
    fn a_last_line_without_end_may_get_one_and_nothing_else() {
        for ended in ["1\n2\n3\n", "1\n2\r\n3\n", "1\n2 \n3"] {
            assert_eq!(twice("ended", "1\n2", ended), Ok(vec![(3, "3".to_owned())]), "{ended:?}");
        }
        for unended in ["1\n2", "1\n2 ", "1\n2\r"] {
            assert_eq!(twice("unended", "1\n2", unended), Ok(Vec::new()), "{unended:?}");
        }
        for longer in ["1\n23\n", "1\n2 3", "1\n2,"] {
            let text = twice("longer", "1\n2", longer).unwrap_err();
            assert!(text.contains("line 2 had no end when it was read, and has grown since"), "{text}");
        }
        // Blanks are no record, so that they are read again.
        assert_eq!(twice("blank", "1\n ", "1\n 2\n"), Ok(vec![(2, " 2".to_owned())]));
    }

    #[test]
    fn a_cursor_in_the_middle_of_a_batch_is_exact() {
        let path = std::env::temp_dir().join(format!("wattle-file-{}-middle", std::process::id()));
        std::fs::write(&path, "1\n\n2\n3\n").unwrap();
        let mut source = FileSource::open(&path).unwrap();
        source.resume(None).unwrap();
        read(&mut source);
        let cursor = source.cursor(1);
        source.resume(Some(&cursor)).unwrap();
        assert_eq!(read(&mut source).0, [(3, "2".to_owned()), (4, "3".to_owned())]);
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn what_cannot_be_read_again_is_refused() {
        for path in ["/dev/null", "/dev"] {
            assert!(matches!(check_regular(Path::new(path)), Err(Error::Cursor { .. })), "{path}");
        }
    }

    fn lines(text: &[u8], max_poll_records: usize) -> Vec<Vec<(i64, String)>> {
        let mut source = FileSource::new("f".into(), text);
        let limits = BatchLimits { max_poll_records: Some(max_poll_records), ..BatchLimits::default() };
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
        let mut source = FileSource::new("f".into(), &text[..]);
        let error = source.fill(&mut Batch::new(source.topics()), &BatchLimits::default()).unwrap_err();
        assert!(error.to_string().contains("f:2: the line is longer than 16 MiB"), "{error}");
    }

    #[test]
    fn a_missing_file_is_named() {
        let Err(error) = FileSource::open(Path::new("no/such.jsonl")) else { panic!("must fail") };
        assert!(error.to_string().contains("open no/such.jsonl"), "{error}");
    }
}
