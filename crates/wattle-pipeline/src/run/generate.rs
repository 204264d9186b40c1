//! Records made up: all with one value, numbered from 0.

use serde::{Deserialize, Serialize};
use wattle::{Batch, BatchLimits, Error, Fill, Resume, Source};

use super::file::record;
use super::unreadable;
use crate::spec::GenerateInput;

pub(super) struct GenerateSource {
    input: GenerateInput,
    /// Records made so far.
    made: u64,
    /// Those that were made before the last batch.
    before: u64,
}

/// The cursor's record in the changelog, of a source whose records are numbered.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Made {
    version: u32,
    pub(super) records: u64,
}

const VERSION: u32 = 1;

impl Made {
    /// Reads what [`Made::encode`] wrote for this kind of source.
    pub(super) fn decode(cursor: &[u8], source: &str) -> Result<Self, Error> {
        let made: Option<Made> = serde_json::from_slice(cursor).ok();
        made.filter(|made| made.version == VERSION).ok_or_else(|| unreadable(source, VERSION))
    }

    pub(super) fn encode(records: u64) -> Vec<u8> {
        serde_json::to_vec(&Made { version: VERSION, records }).expect("numbers have a JSON form")
    }
}

impl GenerateSource {
    pub(super) fn new(input: GenerateInput) -> Self {
        GenerateSource { input, made: 0, before: 0 }
    }
}

impl Source for GenerateSource {
    /// With an interval: one `batch_size` a call. Without one: as much as a batch may hold.
    fn fill(&mut self, batch: &mut Batch, limits: &BatchLimits) -> Result<Fill, Error> {
        let left = self.input.count.map_or(u64::MAX, |count| count.saturating_sub(self.made));
        let default = if self.input.interval.is_some() { 1 } else { u64::MAX };
        let size = self.input.batch_size.unwrap_or(default).min(left);
        self.before = self.made;
        while self.made - self.before < size && batch.len() < limits.records() && batch.byte_len() < limits.bytes() {
            batch.push(0, &record(&self.input.value, i64::try_from(self.made).unwrap_or(i64::MAX)));
            self.made += 1;
        }
        if self.input.count.is_some_and(|count| self.made >= count) {
            return Ok(Fill::End);
        }
        Ok(self.input.interval.map_or(Fill::More, Fill::Wait))
    }

    fn topics(&self) -> Vec<String> {
        vec!["generate".to_owned()]
    }
}

impl Resume for GenerateSource {
    fn resume(&mut self, cursor: Option<&[u8]>) -> Result<(), Error> {
        self.made = cursor.map_or(Ok(0), |cursor| Made::decode(cursor, "generate").map(|made| made.records))?;
        Ok(())
    }

    fn cursor(&self, records: usize) -> Vec<u8> {
        Made::encode(self.before + records as u64)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn input(interval: Option<Duration>, count: Option<u64>, batch_size: Option<u64>) -> GenerateInput {
        GenerateInput { value: b"{}".to_vec(), interval, count, batch_size }
    }

    fn fills(source: &mut GenerateSource, calls: usize) -> Vec<(Vec<i64>, Fill)> {
        let limits = BatchLimits { max_poll_records: Some(5), ..BatchLimits::default() };
        let call = |_| {
            let mut batch = Batch::new(source.topics());
            let fill = source.fill(&mut batch, &limits).unwrap();
            ((0..batch.len()).map(|i| batch.get(i).offset.0).collect(), fill)
        };
        (0..calls).map(call).collect()
    }

    #[test]
    fn a_remainder_is_produced() {
        let second = Duration::from_secs(1);
        let mut source = GenerateSource::new(input(Some(second), Some(5), Some(2)));
        let expected = [(vec![0, 1], Fill::Wait(second)), (vec![2, 3], Fill::Wait(second)), (vec![4], Fill::End)];
        assert_eq!(fills(&mut source, 3), expected);
    }

    #[test]
    fn without_an_interval_batches_are_full() {
        let mut source = GenerateSource::new(input(None, Some(7), None));
        assert_eq!(fills(&mut source, 2), [(vec![0, 1, 2, 3, 4], Fill::More), (vec![5, 6], Fill::End)]);
        let mut source = GenerateSource::new(input(None, None, Some(2)));
        assert_eq!(fills(&mut source, 2), [(vec![0, 1], Fill::More), (vec![2, 3], Fill::More)]);
    }

    #[test]
    fn an_interval_alone_gives_one_record_each() {
        let second = Duration::from_secs(1);
        let mut source = GenerateSource::new(input(Some(second), None, None));
        assert_eq!(fills(&mut source, 2), [(vec![0], Fill::Wait(second)), (vec![1], Fill::Wait(second))]);
    }

    #[test]
    fn a_cursor_counts_the_records_that_are_done() {
        let mut source = GenerateSource::new(input(None, Some(7), None));
        fills(&mut source, 1);
        let cursor = source.cursor(3);
        assert_eq!(cursor, br#"{"version":1,"records":3}"#);
        let mut again = GenerateSource::new(input(None, Some(7), None));
        again.resume(Some(&cursor)).unwrap();
        assert_eq!(fills(&mut again, 1), [(vec![3, 4, 5, 6], Fill::End)]);
        let mut fewer = GenerateSource::new(input(None, Some(2), None));
        fewer.resume(Some(&cursor)).unwrap();
        assert_eq!(fills(&mut fewer, 1), [(vec![], Fill::End)]);
        assert!(matches!(fewer.resume(Some(b"{}")), Err(Error::Cursor { .. })));
    }
}
