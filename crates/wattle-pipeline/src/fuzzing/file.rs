//! Files: lines and rows of CSV, read at once, while they are written, and by a run that goes on where another one was.

use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::thread::ThreadId;

use wattle::{Batch, BatchLimits, Error, Fill, Resume as _, Source as _};

use crate::run::FileSource;
use crate::spec::{CsvFormat, FileFormat, FileInput};

const FOLLOWED: u8 = 1;
const CSV: u8 = 2;
const COLUMNS: u8 = 4;
const DELIMITERS: [u8; 4] = [b',', b';', b'\t', b'|'];

/// Reads the bytes behind the first three as a file; those say in which format, where a writer pauses, and where a run ends.
///
/// # Panics
/// Where a record is not the line that the file has there; where the file has other records when it grows while it is read, or when a run goes on behind a
/// record of another one; where a row that is written by the rules is read as another one.
pub fn file(input: &[u8]) {
    let [format, pause, end, text @ ..] = input else { return };
    let is_followed = format & FOLLOWED > 0;
    let delimiter = DELIMITERS[usize::from(format >> 6)];
    let columns = (format & COLUMNS > 0).then(|| vec!["a".to_owned(), "b".to_owned()]);
    let is_csv = format & CSV > 0;
    let format =
        if is_csv { FileFormat::Csv(CsvFormat { delimiter, columns: columns.clone() }) } else { FileFormat::Lines };
    let place = Place::new();
    place.write(text);
    let whole = read(&place, &format, false, None, 1 + usize::from(*end));
    if !is_csv {
        assert_eq!(whole, Ok(lines(text)));
    } else if !text.contains(&b'"') && !text.contains(&b'\r') && !begins_with_mark(text) {
        assert_eq!(whole.clone().ok(), rows(text, delimiter, columns));
    }
    let Ok(whole) = whole else { return };
    grows(&place, &format, text, usize::from(*pause), &whole);
    goes_on(&place, &format, is_followed, usize::from(*end), &whole);
    if is_csv {
        quoted(&place, text, delimiter);
    }
}

/// Whether the first line that is not blank begins with a byte order mark, which is not of it.
fn begins_with_mark(text: &[u8]) -> bool {
    let begin = text.iter().position(|byte| *byte != b'\n').unwrap_or(text.len());
    text[begin..].starts_with("\u{feff}".as_bytes())
}

/// The line of a record, and the record.
type Found = Vec<(i64, Vec<u8>)>;

/// Reads to the end of the file in batches of so many records.
fn read(
    place: &Place,
    format: &FileFormat,
    is_followed: bool,
    cursor: Option<&[u8]>,
    most: usize,
) -> Result<Found, String> {
    let mut source = place.open(format, is_followed);
    source.resume(cursor).map_err(|error| error.to_string())?;
    rest(&mut source, most, &mut |_, _| {}).map_err(|error| error.to_string())
}

/// Shows `each` the source behind each batch, with the number of its records.
fn rest(source: &mut FileSource, most: usize, each: &mut dyn FnMut(&FileSource, usize)) -> Result<Found, Error> {
    let limits = BatchLimits { max_poll_records: Some(most), ..BatchLimits::default() };
    let mut found = Vec::new();
    loop {
        let mut batch = Batch::new(source.topics());
        let fill = source.fill(&mut batch, &limits)?;
        let records = (0..batch.len()).map(|index| batch.get(index));
        found.extend(records.map(|record| (record.offset.0, record.value.expect("it has one").to_vec())));
        if !batch.is_empty() {
            each(source, batch.len());
        }
        if fill != Fill::More {
            return Ok(found);
        }
    }
}

/// What is written in two pieces, while it is read.
fn grows(place: &Place, format: &FileFormat, text: &[u8], pause: usize, whole: &Found) {
    let (first, second) = text.split_at(pause.min(text.len()));
    place.write(first);
    let mut source = place.open(format, true);
    source.resume(None).expect("a file at its beginning");
    let mut found = rest(&mut source, 7, &mut |_, _| {}).expect("what is sound as a whole is sound");
    place.append(second);
    found.extend(rest(&mut source, 7, &mut |_, _| {}).expect("what is sound as a whole is sound"));
    // What has no end yet is held.
    assert!(whole.starts_with(&found) && whole.len() - found.len() <= 1, "{found:?} of {whole:?}");
}

/// A run behind each of the records on which another one has ended.
fn goes_on(place: &Place, format: &FileFormat, is_followed: bool, end: usize, whole: &Found) {
    let most = 1 + end % 5;
    let mut cursors = Vec::new();
    let mut source = place.open(format, is_followed);
    source.resume(None).expect("a file at its beginning");
    let found = rest(&mut source, most, &mut |source, records| {
        cursors.extend((1..=records).map(|record| source.cursor(record)));
    });
    let found = found.expect("what is sound as a whole is sound");
    assert_eq!(cursors.len(), found.len());
    assert!(is_followed || found == *whole);
    if let Some(cursor) = cursors.get(end % cursors.len().max(1)) {
        let done = end % cursors.len() + 1;
        assert_eq!(read(place, format, is_followed, Some(cursor), most), Ok(found[done..].to_vec()), "of {whole:?}");
    }
}

/// The lines that are not blank.
fn lines(text: &[u8]) -> Found {
    let all = text.split(|byte| *byte == b'\n').count() as i64;
    let lines = (1..).zip(text.split(|byte| *byte == b'\n')).filter(|(_, line)| !line.trim_ascii().is_empty());
    // What has no end is no end.
    let without_return = |number, line: &[u8]| line.strip_suffix(b"\r").filter(|_| number < all).map(<[u8]>::to_vec);
    lines.map(|(number, line)| (number, without_return(number, line).unwrap_or_else(|| line.to_vec()))).collect()
}

/// The rows of a text without quotes; `None` where the first one cannot name the columns.
fn rows(text: &[u8], delimiter: u8, columns: Option<Vec<String>>) -> Option<Found> {
    let mut columns = columns;
    let mut found = Vec::new();
    for (number, line) in (1..).zip(text.split(|byte| *byte == b'\n')).filter(|(_, line)| !line.is_empty()) {
        let fields: Option<Vec<_>> = line
            .split(|byte| *byte == delimiter)
            .map(|field| std::str::from_utf8(field).ok().map(str::to_owned))
            .collect();
        let Some(columns) = &columns else {
            let names = fields?;
            if names.iter().enumerate().any(|(index, name)| names[..index].contains(name)) {
                return None;
            }
            columns = Some(names);
            continue;
        };
        found.push((
            number,
            match fields.filter(|fields| fields.len() == columns.len()) {
                Some(fields) => object(columns, &fields),
                None => line.to_vec(),
            },
        ));
    }
    Some(found)
}

fn object(columns: &[String], fields: &[String]) -> Vec<u8> {
    let member = |(name, value): (&String, &String)| {
        serde_json::to_string(name).expect("a text") + ":" + &serde_json::to_string(value).expect("a text")
    };
    let members: Vec<_> = columns.iter().zip(fields).map(member).collect();
    format!("{{{}}}", members.join(",")).into_bytes()
}

/// A row whose fields are pieces of the text, in quotes where they need them.
fn quoted(place: &Place, text: &[u8], delimiter: u8) {
    let text = String::from_utf8_lossy(text);
    let fields: Vec<_> = text.split('\0').map(str::to_owned).collect();
    let columns: Vec<_> = (0..fields.len()).map(|index| index.to_string()).collect();
    let field = |field: &String| match field.contains(['"', '\r', '\n', char::from(delimiter), '\u{feff}'])
        || fields.len() == 1
    {
        true => format!("\"{}\"", field.replace('"', "\"\"")),
        false => field.clone(),
    };
    let row: Vec<_> = fields.iter().map(field).collect();
    place.write((row.join(&char::from(delimiter).to_string()) + "\n").as_bytes());
    let format = FileFormat::Csv(CsvFormat { delimiter, columns: Some(columns.clone()) });
    assert_eq!(read(place, &format, false, None, 9), Ok(vec![(1, object(&columns, &fields))]));
}

/// A file in a folder of this thread.
struct Place(PathBuf);

impl Place {
    fn new() -> Self {
        let thread: ThreadId = std::thread::current().id();
        let folder = std::env::temp_dir().join(format!("wattle-fuzz-{}-{thread:?}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder for temporary files");
        Place(folder.join("f"))
    }

    fn write(&self, text: &[u8]) {
        fs::write(&self.0, text).expect("a file");
    }

    fn append(&self, text: &[u8]) {
        let file: Result<File, _> = OpenOptions::new().append(true).open(&self.0);
        file.and_then(|mut file| file.write_all(text)).expect("a file");
    }

    fn open(&self, format: &FileFormat, is_followed: bool) -> FileSource {
        let (path, format): (&Path, _) = (&self.0, format.clone());
        let here = crate::yaml::Given::default();
        let input = FileInput { name: String::new(), path: path.to_owned(), here, format, is_followed };
        FileSource::open(&input, true).expect("a file")
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let folder = self.0.parent().expect("in a folder");
        fs::remove_dir_all(folder).unwrap_or_default();
    }
}
