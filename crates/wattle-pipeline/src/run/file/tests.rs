//! Files in a folder of their own, read as a stream reads them.

use super::*;

use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::spec::CsvFormat;

type Found = Vec<(i64, String)>;

fn input(path: &Path, format: FileFormat, is_followed: bool) -> FileInput {
    FileInput { name: String::new(), path: path.to_owned(), here: crate::yaml::Given::default(), format, is_followed }
}

fn lines_of(path: &Path) -> FileSource {
    FileSource::open(&input(path, FileFormat::Lines, false), false).unwrap()
}

fn csv() -> FileFormat {
    FileFormat::Csv(CsvFormat { delimiter: b',', columns: None })
}

fn fill(source: &mut FileSource, limits: &BatchLimits) -> Result<(Fill, Found), Error> {
    let mut batch = Batch::new(source.topics());
    let fill = source.fill(&mut batch, limits)?;
    let record = |i| {
        let record = batch.get(i);
        (record.offset.0, String::from_utf8_lossy(record.value.unwrap()).into_owned())
    };
    Ok((fill, (0..batch.len()).map(record).collect()))
}

/// The file's records, the cursor behind the last of them.
fn read(source: &mut FileSource) -> (Found, Vec<u8>) {
    let (fill, records) = fill(source, &BatchLimits::default()).unwrap();
    assert_eq!(fill, Fill::End);
    let cursor = if records.is_empty() { Vec::new() } else { source.cursor(records.len()) };
    (records, cursor)
}

/// What a second run reads of a file that has become `later`, or why it refuses to.
fn twice(first: &str, later: &str) -> Result<Found, String> {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("f");
    fs::write(&path, first).unwrap();
    let mut source = lines_of(&path);
    source.resume(None).unwrap();
    let (records, cursor) = read(&mut source);
    assert!(!records.is_empty());
    fs::write(&path, later).unwrap();
    if !first.ends_with('\n') {
        assert_eq!(read(&mut source).0, [], "half a line is never followed by its other half");
    }
    source.resume(Some(&cursor)).map_err(|error| error.to_string())?;
    Ok(read(&mut source).0)
}

#[test]
fn a_file_goes_on_where_it_grew() {
    let three = Ok(vec![(4, "3".to_owned())]);
    assert_eq!(twice("1\n\n2\n", "1\n\n2\n3\n"), three);
    assert_eq!(twice("1\n\n2\n", "1\n\n2\n"), Ok(Vec::new()));
    let text = twice("1\n\n2\n", "1\n\n3\n3\n").unwrap_err();
    assert!(text.contains("(line 3, byte 5): the bytes before it are others"), "{text}");
    let text = twice("1\n\n2\n", "1\n").unwrap_err();
    assert!(text.contains("it has only 2 bytes now"), "{text}");
}

#[test]
fn a_last_line_without_end_may_get_one_and_nothing_else() {
    for ended in ["1\n2\n3\n", "1\n2\r\n3\n", "1\n2 \n3"] {
        assert_eq!(twice("1\n2", ended), Ok(vec![(3, "3".to_owned())]), "{ended:?}");
    }
    for unended in ["1\n2", "1\n2 ", "1\n2\r"] {
        assert_eq!(twice("1\n2", unended), Ok(Vec::new()), "{unended:?}");
    }
    for longer in ["1\n23\n", "1\n2 3", "1\n2,"] {
        let text = twice("1\n2", longer).unwrap_err();
        assert!(text.contains("line 2 had no end when it was read, and has grown since"), "{text}");
    }
    // Blanks are no record, so that they are read again.
    assert_eq!(twice("1\n ", "1\n 2\n"), Ok(vec![(2, " 2".to_owned())]));
}

#[test]
fn a_cursor_in_the_middle_of_a_batch_is_exact() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("f");
    fs::write(&path, "1\n\n2\n3\n").unwrap();
    let mut source = lines_of(&path);
    source.resume(None).unwrap();
    read(&mut source);
    let cursor = source.cursor(1);
    source.resume(Some(&cursor)).unwrap();
    assert_eq!(read(&mut source).0, [(3, "2".to_owned()), (4, "3".to_owned())]);
}

#[test]
fn a_restart_within_a_file_of_csv_knows_its_header_and_its_line() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("f");
    let text = "\na,b\n1,\"x\ny\"\n\n2,z\n3\n";
    fs::write(&path, text).unwrap();
    let mut source = FileSource::open(&input(&path, csv(), false), false).unwrap();
    source.resume(None).unwrap();
    let all = read(&mut source).0;
    let expected = [(3, r#"{"a":"1","b":"x\ny"}"#), (6, r#"{"a":"2","b":"z"}"#), (7, "3")];
    assert_eq!(all, expected.map(|(line, text)| (line, text.to_owned())));
    for done in 1..3 {
        source.resume(None).unwrap();
        read(&mut source);
        let cursor = source.cursor(done);
        source.resume(Some(&cursor)).unwrap();
        assert_eq!(read(&mut source).0, all[done..]);
    }
    let cursor = source.cursor(1);
    fs::write(&path, text.replace("a,b", "a,c")).unwrap();
    assert!(source.resume(Some(&cursor)).unwrap_err().to_string().contains("the bytes before it are others"));
    fs::write(&path, "a,a\n1,2\n").unwrap();
    source.resume(None).unwrap();
    let text = fill(&mut source, &BatchLimits::default()).map(drop).map_err(|error| format!("{error:?}")).unwrap_err();
    assert!(text.contains("f:1") && text.contains("two columns are named"), "{text}");
}

#[test]
fn a_byte_order_mark_within_a_file_is_text_wherever_a_run_begins() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("f");
    let columns = vec!["a".to_owned(), "b".to_owned()];
    let format = FileFormat::Csv(CsvFormat { delimiter: b',', columns: Some(columns) });
    fs::write(&path, "\u{feff}1,2\n\u{feff}3,4\n5\r6\n\u{feff}7,8\n").unwrap();
    let mut source = FileSource::open(&input(&path, format, false), false).unwrap();
    source.resume(None).unwrap();
    let all = read(&mut source).0;
    let values: Vec<_> = all.iter().map(|(_, value)| value.as_str()).collect();
    let marked = "{\"a\":\"\u{feff}3\",\"b\":\"4\"}";
    assert_eq!(values, [r#"{"a":"1","b":"2"}"#, marked, "5\r6", &marked.replace('3', "7").replace('4', "8")]);
    for done in 1..4 {
        source.resume(None).unwrap();
        read(&mut source);
        let cursor = source.cursor(done);
        source.resume(Some(&cursor)).unwrap();
        assert_eq!(read(&mut source).0, all[done..], "behind {done} rows");
    }
}

#[test]
fn a_quoted_field_without_end_is_the_last_row() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("f");
    fs::write(&path, "a,b\n1,2\n3,\"4\n5,6\n").unwrap();
    let mut source = FileSource::open(&input(&path, csv(), false), false).unwrap();
    source.resume(None).unwrap();
    let (records, cursor) = read(&mut source);
    assert_eq!(records[1], (3, "3,\"4\n5,6".to_owned()));
    fs::write(&path, "a,b\n1,2\n3,\"4\n5,6\n\"\n").unwrap();
    let text = source.resume(Some(&cursor)).unwrap_err().to_string();
    assert!(text.contains("line 4 had no end when it was read, and has grown since"), "{text}");
}

/// A file that is followed.
struct Followed {
    folder: TempDir,
    source: FileSource,
    cursor: Vec<u8>,
}

impl Followed {
    fn begin(text: &str, drain: bool) -> Self {
        let folder = TempDir::new().unwrap();
        fs::write(folder.path().join("log"), text).unwrap();
        let mut source = FileSource::open(&input(&folder.path().join("log"), FileFormat::Lines, true), drain).unwrap();
        source.resume(None).unwrap();
        Followed { folder, source, cursor: Vec::new() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn append(&self, name: &str, text: &str) {
        use std::io::Write as _;
        let file = fs::OpenOptions::new().append(true).create(true).open(self.path(name));
        file.unwrap().write_all(text.as_bytes()).unwrap();
    }

    fn rename(&self, from: &str, to: &str) {
        fs::rename(self.path(from), self.path(to)).unwrap();
    }

    fn once(&mut self) -> Result<(Fill, Found), String> {
        let found = fill(&mut self.source, &BatchLimits::default()).map_err(|error| error.to_string())?;
        if !found.1.is_empty() {
            self.cursor = self.source.cursor(found.1.len());
        }
        Ok(found)
    }

    /// What comes next, where it is waited for.
    fn next(&mut self) -> Result<Found, String> {
        let end = Instant::now() + Duration::from_secs(20);
        loop {
            let (_, found) = self.once()?;
            if !found.is_empty() {
                return Ok(found);
            }
            assert!(Instant::now() < end, "nothing comes");
        }
    }

    fn restart(&mut self) -> Result<(), String> {
        self.source.resume(Some(&self.cursor)).map_err(|error| error.to_string())
    }
}

fn found(records: &[(i64, &str)]) -> Found {
    records.iter().map(|(line, text)| (*line, (*text).to_owned())).collect()
}

#[test]
fn a_line_is_held_until_it_has_its_end() {
    let mut log = Followed::begin("1\n2", false);
    assert_eq!(log.once(), Ok((Fill::Wait(POLL), found(&[(1, "1")]))));
    log.append("log", "0");
    assert_eq!(log.once(), Ok((Fill::Wait(POLL), Vec::new())));
    log.append("log", "0\n3");
    assert_eq!(log.once(), Ok((Fill::Wait(POLL), found(&[(2, "200")]))));
    log.restart().unwrap();
    log.append("log", "\n");
    assert_eq!(log.once(), Ok((Fill::Wait(POLL), found(&[(3, "3")]))));
}

#[test]
fn a_file_that_is_drained_ends_where_it_ends() {
    let mut log = Followed::begin("1\n2", true);
    assert_eq!(log.once(), Ok((Fill::End, found(&[(1, "1")]))));
    log.restart().unwrap();
    log.append("log", "\n");
    assert_eq!(log.once(), Ok((Fill::End, found(&[(2, "2")]))));
}

#[test]
fn a_file_that_was_renamed_is_finished_before_the_next_one() {
    let mut log = Followed::begin("1\n2\n", false);
    assert_eq!(log.next(), Ok(found(&[(1, "1"), (2, "2")])));
    log.rename("log", "log.1");
    assert_eq!(log.once(), Ok((Fill::Wait(POLL), Vec::new())), "nothing has the name");
    log.append("log", "4\n");
    assert_eq!(log.once(), Ok((Fill::Wait(POLL), Vec::new())), "the old one may not be finished");
    log.append("log.1", "3");
    assert_eq!(log.next(), Ok(found(&[(3, "3"), (1, "4")])), "its last line needs no end any more");
    log.append("log", "5\n");
    assert_eq!(log.next(), Ok(found(&[(2, "5")])));
    log.restart().unwrap();
    log.append("log", "6\n");
    assert_eq!(log.next(), Ok(found(&[(3, "6")])));
}

#[test]
fn a_restart_after_a_rename_finishes_the_old_one_or_says_that_it_cannot() {
    let mut log = Followed::begin("1\n2\n", false);
    log.next().unwrap();
    log.append("log", "3\n");
    log.rename("log", "log.1");
    log.append("log", "4\n");
    log.restart().unwrap();
    assert_eq!(log.next(), Ok(found(&[(3, "3")])));
    // Renamed once more before it is looked at: log.1 was never read.
    log.rename("log.1", "log.2");
    log.rename("log", "log.1");
    log.append("log", "5\n");
    log.restart().unwrap();
    let text = log.next().unwrap_err();
    assert!(text.contains("log.1 may be one that nobody has read"), "{text}");
    fs::remove_file(log.path("log.1")).unwrap();
    log.restart().unwrap();
    assert_eq!(log.next(), Ok(found(&[(1, "5")])));
    fs::remove_file(log.path("log.2")).unwrap();
    log.restart().unwrap();
    // Its beginning is the same, but the file is another one.
    log.rename("log", "other");
    log.append("log", "5\n6\n");
    let text = log.restart().unwrap_err();
    assert!(text.contains("is not the file that was read") && text.contains("no file beside it"), "{text}");
}

#[test]
fn files_that_have_the_name_for_a_moment_are_read_in_their_order() {
    let mut log = Followed::begin("1\n", false);
    log.next().unwrap();
    for (line, last) in [("2\n", "log.1"), ("3\n", "log.2"), ("4\n", "log.3")] {
        log.rename("log", last);
        log.append("log", line);
        assert_eq!(log.once(), Ok((Fill::Wait(POLL), Vec::new())), "the first one may not be finished");
    }
    // Wherever they are by then.
    fs::remove_file(log.path("log.2")).unwrap();
    log.rename("log.3", "other");
    for line in ["2", "3", "4"] {
        assert_eq!(log.next(), Ok(found(&[(1, line)])));
    }
    log.restart().unwrap();
    log.append("log", "5\n");
    assert_eq!(log.next(), Ok(found(&[(2, "5")])));
}

#[test]
fn a_file_that_is_compressed_beside_the_next_one_is_none_between() {
    let mut log = Followed::begin("1\n", false);
    log.next().unwrap();
    log.rename("log", "log.1");
    log.append("log", "2\n");
    log.append("log.1.gz", "half of it");
    assert_eq!(log.next(), Ok(found(&[(1, "2")])));
    // Its writer has not changed to the new one.
    log.append("log.1", "late\n");
    let text = log.once().unwrap_err();
    assert!(text.contains("has grown behind byte 2"), "{text}");
}

#[test]
fn a_file_that_was_cut_begins_again() {
    for again in ["7\n", "7\n8\n9\n"] {
        let mut log = Followed::begin("1\n2\n", false);
        log.next().unwrap();
        assert_eq!(log.once(), Ok((Fill::Wait(POLL), Vec::new())));
        fs::write(log.path("log"), again).unwrap();
        assert_eq!(log.next().unwrap()[0], (1, "7".to_owned()));
        log.restart().unwrap();
        fs::write(log.path("log"), "0\n").unwrap();
        assert!(log.restart().unwrap_err().contains("has changed before the committed position"));
    }
}

#[test]
fn what_cannot_be_read_again_is_refused() {
    for path in ["/dev/null", "/dev"] {
        assert!(matches!(check_regular(Path::new(path)), Err(Error::Cursor { .. })), "{path}");
    }
}

fn lines(text: &[u8], max_poll_records: usize) -> Vec<Found> {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("f");
    fs::write(&path, text).unwrap();
    let mut source = lines_of(&path);
    let limits = BatchLimits { max_poll_records: Some(max_poll_records), ..BatchLimits::default() };
    let mut batches = Vec::new();
    loop {
        let (fill, found) = fill(&mut source, &limits).unwrap();
        batches.push(found);
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
fn a_line_or_row_without_end_is_refused_with_its_number() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("f");
    let long = vec![b'x'; (16 << 20) + 1];
    let row = [b"\"\n\n".to_vec(), long.clone()].concat();
    for (format, text, what) in [(FileFormat::Lines, long, "line"), (csv(), row, "row")] {
        fs::write(&path, [b"1\n", &text[..]].concat()).unwrap();
        let mut source = FileSource::open(&input(&path, format, false), false).unwrap();
        let error = source.fill(&mut Batch::new(source.topics()), &BatchLimits::default()).unwrap_err();
        let text = error.to_string();
        assert!(text.contains(&format!("f:2: the {what} is longer than 16 MiB")), "{text}");
    }
}

#[test]
fn a_missing_file_is_named() {
    let missing = input(Path::new("no/such.jsonl"), FileFormat::Lines, false);
    let Err(error) = FileSource::open(&missing, false) else { panic!("must fail") };
    assert!(error.to_string().contains("open no/such.jsonl"), "{error}");
}
