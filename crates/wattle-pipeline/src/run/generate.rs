//! Records made up: all with one value, numbered from 0.

use wattle::{Batch, BatchLimits, Error, Fill, Source};

use super::file::record;
use crate::spec::GenerateInput;

pub(super) struct GenerateSource {
    input: GenerateInput,
    /// Records made so far.
    made: u64,
}

impl GenerateSource {
    pub(super) fn new(input: GenerateInput) -> Self {
        GenerateSource { input, made: 0 }
    }
}

impl Source for GenerateSource {
    /// With an interval: one `batch_size` a call. Without one: as much as a batch may hold.
    fn fill(&mut self, batch: &mut Batch, limits: &BatchLimits) -> Result<Fill, Error> {
        let left = self.input.count.map_or(u64::MAX, |count| count - self.made);
        let default = if self.input.interval.is_some() { 1 } else { u64::MAX };
        let size = self.input.batch_size.unwrap_or(default).min(left);
        let before = batch.len() as u64;
        while (batch.len() as u64) - before < size
            && batch.len() < limits.max_poll_records
            && batch.byte_len() < limits.max_bytes
        {
            batch.push(0, &record(&self.input.value, i64::try_from(self.made).unwrap_or(i64::MAX)));
            self.made += 1;
        }
        if self.input.count == Some(self.made) {
            return Ok(Fill::End);
        }
        Ok(self.input.interval.map_or(Fill::More, Fill::Wait))
    }

    fn topics(&self) -> Vec<String> {
        vec!["generate".to_owned()]
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
        let limits = BatchLimits { max_poll_records: 5, ..BatchLimits::default() };
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
}
