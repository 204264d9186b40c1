//! What parts of a stream tell those who watch it: health checks and metrics.

use std::sync::{Arc, Weak};

use wattle_wal::{Log, Status};

/// A part of a stream that can be in trouble.
pub(super) trait Part: Send + Sync {
    /// What is wrong with it right now.
    fn problem(&self) -> Option<String>;

    /// What it measures.
    fn gauges(&self) -> Vec<Gauge>;
}

/// A number of a stream.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gauge {
    /// Without the prefix `wattle_`, and for a counter without `_total`.
    pub(super) name: &'static str,
    pub(super) help: &'static str,
    pub(super) is_counter: bool,
    pub(super) value: f64,
}

impl Gauge {
    pub(super) fn counter(name: &'static str, help: &'static str, value: u64) -> Self {
        Gauge { name, help, is_counter: true, value: value as f64 }
    }

    pub(super) fn now(name: &'static str, help: &'static str, value: f64) -> Self {
        Gauge { name, help, is_counter: false, value }
    }
}

/// A write-ahead log, as long as it is open.
pub(super) struct LogPart(Weak<Log>);

impl LogPart {
    pub(super) fn of(log: &Arc<Log>) -> Arc<dyn Part> {
        Arc::new(LogPart(Arc::downgrade(log)))
    }

    fn status(&self) -> Option<Status> {
        self.0.upgrade().map(|log| log.status())
    }
}

impl Part for LogPart {
    fn problem(&self) -> Option<String> {
        let Status { bytes, max_bytes, refuses, .. } = self.status()?;
        if let Some(error) = refuses {
            return Some(format!("the write-ahead log accepts nothing: {error}"));
        }
        // Near its bound it waits for the output: a segment is free only when all of it is done with.
        let is_full = bytes >= max_bytes - max_bytes / 20;
        is_full.then(|| format!("the write-ahead log is full: {bytes} of {max_bytes} bytes wait for the output"))
    }

    fn gauges(&self) -> Vec<Gauge> {
        let Some(Status { bytes, max_bytes, .. }) = self.status() else { return Vec::new() };
        vec![
            Gauge::gauge("wal_bytes", "Bytes in the write-ahead log.", bytes as f64),
            Gauge::gauge("wal_max_bytes", "The most that the write-ahead log may have.", max_bytes as f64),
        ]
    }
}
