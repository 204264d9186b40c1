//! Messages that the pipeline file gives, numbered from 0.

use wattle::{Batch, BatchLimits, Error, Fill, Resume, Source};

use super::file::record;
use super::generate::Made;
use crate::spec::MemoryInput;

pub(super) struct MemorySource {
    messages: Vec<Vec<u8>>,
    /// Messages given so far.
    given: usize,
    /// Those that were given before the last batch.
    before: usize,
}

impl MemorySource {
    pub(super) fn new(input: MemoryInput) -> Self {
        MemorySource { messages: input.messages, given: 0, before: 0 }
    }
}

impl Source for MemorySource {
    fn fill(&mut self, batch: &mut Batch, limits: &BatchLimits) -> Result<Fill, Error> {
        self.before = self.given;
        while batch.len() < limits.records() && batch.byte_len() < limits.bytes() {
            // A cursor may be behind the last one, where the file gave more before.
            let Some(message) = self.messages.get(self.given) else { return Ok(Fill::End) };
            batch.push(0, &record(message, i64::try_from(self.given).unwrap_or(i64::MAX)));
            self.given += 1;
        }
        Ok(Fill::More)
    }

    fn topics(&self) -> Vec<String> {
        vec!["memory".to_owned()]
    }
}

impl Resume for MemorySource {
    fn resume(&mut self, cursor: Option<&[u8]>) -> Result<(), Error> {
        let given = cursor.map_or(Ok(0), |cursor| Made::decode(cursor, "memory").map(|made| made.records))?;
        self.given = usize::try_from(given).unwrap_or(usize::MAX);
        Ok(())
    }

    fn cursor(&self, records: usize) -> Vec<u8> {
        Made::encode((self.before + records) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(messages: &[&str]) -> MemorySource {
        MemorySource::new(MemoryInput { messages: messages.iter().map(|text| text.as_bytes().to_vec()).collect() })
    }

    fn fill(source: &mut MemorySource) -> (Vec<(i64, String)>, Fill) {
        let limits = BatchLimits { max_poll_records: Some(2), ..BatchLimits::default() };
        let mut batch = Batch::new(source.topics());
        let fill = source.fill(&mut batch, &limits).unwrap();
        let record = |i| (batch.get(i).offset.0, String::from_utf8_lossy(batch.get(i).value.unwrap()).into_owned());
        ((0..batch.len()).map(record).collect(), fill)
    }

    #[test]
    fn messages_are_given_once_and_in_order() {
        let mut source = source(&["a", "", "c"]);
        assert_eq!(fill(&mut source), (vec![(0, "a".to_owned()), (1, String::new())], Fill::More));
        assert_eq!(fill(&mut source), (vec![(2, "c".to_owned())], Fill::End));
        assert_eq!(fill(&mut source), (vec![], Fill::End));
    }

    #[test]
    fn a_cursor_counts_the_messages_that_are_done() {
        let mut first = source(&["a", "b", "c"]);
        fill(&mut first);
        let cursor = first.cursor(1);
        assert_eq!(cursor, br#"{"version":1,"records":1}"#);
        let mut again = source(&["a", "b", "c"]);
        again.resume(Some(&cursor)).unwrap();
        assert_eq!(fill(&mut again).0, [(1, "b".to_owned()), (2, "c".to_owned())]);
        let mut fewer = source(&[]);
        fewer.resume(Some(&cursor)).unwrap();
        assert_eq!(fill(&mut fewer), (vec![], Fill::End));
        assert!(matches!(fewer.resume(Some(b"{}")), Err(Error::Cursor { .. })));
    }
}
