//! What parts of a stream tell those who watch it: health checks and metrics.

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

    pub(super) fn gauge(name: &'static str, help: &'static str, value: f64) -> Self {
        Gauge { name, help, is_counter: false, value }
    }
}
