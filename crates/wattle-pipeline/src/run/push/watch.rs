//! What a write-ahead log tells those who watch its stream.

use std::sync::{Arc, Weak};

use wattle_wal::{Log, Status};

use super::super::part::{Gauge, Part};

/// A log that is watched, as long as its stream has it.
pub(crate) struct LogPart(Weak<Log>);

/// Above this share of its limit a log will soon refuse what comes.
const NEARLY: f64 = 0.9;

impl LogPart {
    pub(crate) fn of(log: &Arc<Log>) -> Self {
        LogPart(Arc::downgrade(log))
    }

    fn status(&self) -> Option<Status> {
        self.0.upgrade().map(|log| log.status())
    }
}

impl Part for LogPart {
    fn problem(&self) -> Option<String> {
        let Status { bytes, max_bytes, refuses, .. } = self.status()?;
        let is_nearly_full = bytes as f64 > NEARLY * max_bytes as f64;
        let nearly_full = || {
            format!(
                "the write-ahead log has {bytes} of {max_bytes} bytes: the output is behind, and nothing is accepted when it is full"
            )
        };
        refuses.map(|error| error.to_string()).or_else(|| is_nearly_full.then(nearly_full))
    }

    fn gauges(&self) -> Vec<Gauge> {
        let Some(Status { bytes, max_bytes, .. }) = self.status() else { return Vec::new() };
        vec![
            Gauge::now("wal_bytes", "Bytes of the write-ahead log on disk.", bytes as f64),
            Gauge::now("wal_max_bytes", "The most bytes that the write-ahead log may have.", max_bytes as f64),
        ]
    }
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;
    use wattle_wal::Options;

    use super::*;

    #[test]
    fn a_log_tells_its_bytes_and_that_it_is_nearly_full() {
        let folder = TempDir::new().unwrap();
        let options = Options { max_bytes: 16 << 10, segment_bytes: 4 << 10, ..Options::default() };
        let log = Arc::new(Log::open(folder.path(), "test", options).unwrap());
        let part = LogPart::of(&log);
        assert_eq!(part.problem(), None);
        while let Ok(accepted) = log.try_append(vec![b'x'; 1000]) {
            accepted.wait().unwrap();
        }
        let problem = part.problem().unwrap();
        assert!(problem.contains("of 16384 bytes") && problem.contains("the output is behind"), "{problem}");
        let value = |name: &str| part.gauges().iter().find(|gauge| gauge.name == name).unwrap().value;
        assert!(value("wal_bytes") > 0.9 * value("wal_max_bytes"));
        let mut reader = log.reader(None).unwrap();
        while reader.read().unwrap().is_some() {}
        log.cover(reader.position()).unwrap();
        assert_eq!(part.problem(), None);
        assert!(value("wal_bytes") < 0.5 * value("wal_max_bytes"));
        drop((reader, log));
        assert!(part.gauges().is_empty(), "a log that is closed has nothing to tell");
    }
}
