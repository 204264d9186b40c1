//! A write-ahead log as a source: an entry's number is the offset of its records, and the cursor is the place behind a record.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use wattle::{Batch, BatchLimits, CursorName, Error, Fill, LogTrouble, Offset, Resume, Source};
use wattle_wal::{Log, Position, Reader, Sequence};

use super::super::pushed::Doors;
use super::super::unreadable;
use super::envelope::unpack;
use super::{Ended, end};
use crate::spec::Durability;

/// How long is waited for an entry before a stop is looked for.
const GLANCE: Duration = Duration::from_millis(50);

/// Gives what is in the log, and what comes.
pub(crate) struct LogSource {
    log: Arc<Log>,
    /// What the records' topic is called.
    name: String,
    reader: Reader,
    /// Records of an entry that are done with already.
    done: Option<Place>,
    /// The places behind the records of the last batch that has some.
    places: Vec<Place>,
    /// Whether nothing will come any more.
    ended: Ended,
    /// Lets records in, once the position is found.
    ready: Option<Doors>,
}

/// A place in the log: behind `records` records of the entry at `position`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    position: u64,
    records: usize,
}

/// The cursor's record in the changelog.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct LogCursor {
    version: u32,
    position: u64,
    records: usize,
}

const VERSION: u32 = 1;

/// Opens the log of a stream.
pub(crate) fn open(stream: &str, durability: &Durability) -> Result<Arc<Log>, Error> {
    let Durability { path, options, here: _ } = durability;
    Log::open(&path.value, &format!("stream {stream}"), options.clone()).map(Arc::new).map_err(trouble)
}

/// An error of the log as one of the stream.
pub(crate) fn trouble(error: wattle_wal::Error) -> Error {
    use wattle_wal::Error as Wal;
    let trouble = match &error {
        Wal::InUse { .. } => LogTrouble::InUse,
        Wal::Foreign { .. } | Wal::Damaged { .. } | Wal::OutOfRange { .. } => LogTrouble::Damaged,
        _ => LogTrouble::Broken,
    };
    Error::Log { trouble, text: error.to_string() }
}

impl LogSource {
    /// Goes on where the log says that entries are not done with.
    pub(crate) fn new(log: Arc<Log>, name: String, ended: Ended) -> Result<Self, Error> {
        let reader = log.reader(None).map_err(trouble)?;
        Ok(LogSource { log, name, reader, done: None, places: Vec::new(), ended, ready: None })
    }

    /// What is to be done once it has come to its position.
    pub(crate) fn when_ready(&mut self, doors: Doors) {
        self.ready = Some(doors);
    }

    /// What its cursor is called. A position in another log never applies.
    pub(crate) fn cursor_name(log: &Log) -> CursorName {
        CursorName { source: "wal".to_owned(), topic: log.id().to_string(), partition: 0 }
    }

    /// Reads the next entry into the batch; false where there is none.
    fn read(&mut self, batch: &mut Batch) -> Result<bool, Error> {
        let Some(entry) = self.reader.read().map_err(trouble)? else { return Ok(false) };
        let Sequence(sequence) = entry.sequence;
        // A loss of power may have taken the entry that was half done (`periodic`); what comes instead has another number.
        let skip = self.done.filter(|done| done.position == sequence).map_or(0, |done| done.records);
        let mut seen = 0;
        let offset = Offset(i64::try_from(sequence).unwrap_or(i64::MAX));
        let unpacked = unpack(entry.bytes, offset, |record| {
            seen += 1;
            if seen > skip {
                if batch.is_empty() {
                    self.places.clear();
                }
                batch.push(0, record);
                self.places.push(Place { position: sequence, records: seen });
            }
        });
        unpacked.map_err(|error| Error::Log {
            trouble: LogTrouble::Damaged,
            text: format!("entry {sequence} of the write-ahead log of {} cannot be read: {error}", self.name),
        })?;
        if let Some(last) = self.places.last_mut().filter(|_| seen > skip) {
            *last = Place { position: sequence + 1, records: 0 };
        }
        Ok(true)
    }
}

impl Source for LogSource {
    fn fill(&mut self, batch: &mut Batch, limits: &BatchLimits) -> Result<Fill, Error> {
        let mut waited = false;
        while batch.len() < limits.records() && batch.byte_len() < limits.bytes() {
            // Looked at first: what came before it ended is there then.
            let ended = self.ended.get().is_some();
            if self.read(batch)? {
                continue;
            }
            if ended && let Some(ended) = self.ended.get() {
                return if batch.is_empty() { end(ended, &self.name) } else { Ok(Fill::More) };
            }
            if !batch.is_empty() || std::mem::replace(&mut waited, true) {
                break;
            }
            self.reader.wait(GLANCE);
        }
        Ok(Fill::More)
    }

    fn topics(&self) -> Vec<String> {
        vec![self.name.clone()]
    }

    fn delivered(&mut self, records: usize) -> Result<(), Error> {
        let Some(place) = records.checked_sub(1).map(|last| self.places[last]) else { return Ok(()) };
        self.log.cover(Position(place.position)).map_err(trouble)
    }
}

impl Resume for LogSource {
    fn resume(&mut self, cursor: Option<&[u8]>) -> Result<(), Error> {
        let place = cursor.map(decode).transpose()?;
        self.reader = self.log.reader(place.map(|place| Position(place.position))).map_err(trouble)?;
        self.done = place;
        self.ready.take().map_or(Ok(()), |doors| doors())
    }

    fn cursor(&self, records: usize) -> Vec<u8> {
        let Place { position, records } = self.places[records - 1];
        let cursor = LogCursor { version: VERSION, position, records };
        serde_json::to_vec(&cursor).expect("numbers have a JSON form")
    }
}

fn decode(bytes: &[u8]) -> Result<Place, Error> {
    let cursor: Option<LogCursor> = serde_json::from_slice(bytes).ok();
    let cursor = cursor.filter(|cursor| cursor.version == VERSION);
    let cursor = cursor.ok_or_else(|| unreadable("a write-ahead log", VERSION))?;
    Ok(Place { position: cursor.position, records: cursor.records })
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;
    use wattle_wal::Options;

    use super::super::Envelope;
    use super::*;

    /// A log with three entries: of one record, of three, and of two.
    fn log(folder: &TempDir) -> Arc<Log> {
        let log = Log::open(folder.path(), "test", Options::default()).unwrap();
        for values in [&["a"][..], &["b", "c", "d"], &["e", "f"]] {
            let mut envelope = Envelope::new(Some(1));
            values.iter().for_each(|value| envelope.push(None, Some(value.as_bytes()), &[]));
            log.try_append(envelope.into_bytes()).unwrap().wait().unwrap();
        }
        Arc::new(log)
    }

    fn source(log: &Arc<Log>) -> LogSource {
        LogSource::new(log.clone(), "test".to_owned(), Ended::new(Ok(()).into())).unwrap()
    }

    fn fill(source: &mut LogSource, records: usize) -> Vec<(i64, String)> {
        let limits = BatchLimits { max_poll_records: Some(records), ..BatchLimits::default() };
        let mut batch = Batch::new(source.topics());
        source.fill(&mut batch, &limits).unwrap();
        let record = |i| (batch.get(i).offset.0, String::from_utf8_lossy(batch.get(i).value.unwrap()).into_owned());
        (0..batch.len()).map(record).collect()
    }

    fn texts(records: Vec<(i64, String)>) -> String {
        records.into_iter().map(|(_, text)| text).collect()
    }

    #[test]
    fn records_are_let_in_when_the_position_is_found_and_not_before() {
        let folder = TempDir::new().unwrap();
        let mut source = source(&log(&folder));
        let open = Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let doors = open.clone();
        source.when_ready(Box::new(move || {
            doors.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            Ok(())
        }));
        let of_a_newer_log = LogCursor { version: VERSION, position: 60, records: 0 };
        let error = source.resume(Some(&serde_json::to_vec(&of_a_newer_log).unwrap())).unwrap_err();
        assert!(matches!(error, Error::Log { trouble: LogTrouble::Damaged, .. }), "{error}");
        assert_eq!(open.load(std::sync::atomic::Ordering::Relaxed), 0);
        source.resume(None).unwrap();
        source.resume(None).unwrap();
        assert_eq!(open.load(std::sync::atomic::Ordering::Relaxed), 1);
    }

    #[test]
    fn records_of_an_entry_share_its_number_and_are_not_torn_apart() {
        let folder = TempDir::new().unwrap();
        let mut source = source(&log(&folder));
        let expected = [(0, "a"), (1, "b"), (1, "c"), (1, "d")].map(|(offset, text)| (offset, text.to_owned()));
        assert_eq!(fill(&mut source, 2), expected);
        assert_eq!(texts(fill(&mut source, 2)), "ef");
    }

    #[test]
    fn a_cursor_is_exact_also_between_records_of_an_entry() {
        let folder = TempDir::new().unwrap();
        let log = log(&folder);
        let mut first = source(&log);
        fill(&mut first, 100);
        let rest = ["bcdef", "cdef", "def", "ef", "f", ""];
        for (records, rest) in (1..).zip(rest) {
            let cursor = first.cursor(records);
            let mut again = source(&log);
            again.resume(Some(&cursor)).unwrap();
            assert_eq!(texts(fill(&mut again, 100)), rest, "{}", String::from_utf8_lossy(&cursor));
            // Again behind a record of the same entry.
            if records == 2 {
                again.resume(Some(&cursor)).unwrap();
                fill(&mut again, 1);
                assert_eq!(again.cursor(1), first.cursor(3));
                assert_eq!(again.cursor(2), first.cursor(4));
            }
        }
        assert_eq!(first.cursor(1), br#"{"version":1,"position":1,"records":0}"#);
        assert_eq!(first.cursor(3), br#"{"version":1,"position":1,"records":2}"#);
        assert!(matches!(first.resume(Some(b"{}")), Err(Error::Cursor { .. })));
        let beyond = first.resume(Some(br#"{"version":1,"position":9,"records":0}"#));
        assert!(matches!(beyond, Err(Error::Log { trouble: LogTrouble::Damaged, .. })), "{beyond:?}");
    }

    #[test]
    fn what_is_delivered_is_not_given_again() {
        let folder = TempDir::new().unwrap();
        let log = log(&folder);
        let mut first = source(&log);
        fill(&mut first, 100);
        first.delivered(0).unwrap();
        assert_eq!(texts(fill(&mut source(&log), 100)), "abcdef");
        first.delivered(1).unwrap();
        assert_eq!(texts(fill(&mut source(&log), 100)), "bcdef");
        first.delivered(3).unwrap();
        assert_eq!(texts(fill(&mut source(&log), 100)), "bcdef", "an entry is done with as a whole");
        first.delivered(6).unwrap();
        drop(first);
        drop(log);
        let log = Arc::new(Log::open(folder.path(), "test", Options::default()).unwrap());
        assert_eq!(texts(fill(&mut source(&log), 100)), "", "over a restart too");
    }
}
