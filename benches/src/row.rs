//! What is measured of each contender, and how.

use crate::contender::{Commits, Contender};
use crate::latency::{Latency, RATE};
use crate::setting::Setting;
use crate::stats::median;
use crate::throughput::Throughput;
use crate::{Result, latency, throughput};

/// One contender.
pub(crate) struct Row<C> {
    pub(crate) contender: C,
    pub(crate) runs: Vec<Run>,
    /// Why there is nothing, or nothing more.
    pub(crate) error: Option<String>,
}

/// One round of a contender.
#[derive(Default)]
pub(crate) struct Run {
    pub(crate) throughput: Option<Throughput>,
    pub(crate) latency: Option<Latency>,
}

/// Every number is the median of the rounds; `None` where it was not measured, or the row is an error.
impl<C: Contender> Row<C> {
    pub(crate) fn new(contender: C) -> Self {
        Row { contender, runs: Vec::new(), error: None }
    }

    fn median(&self, value: impl Fn(&Run) -> Option<f64>) -> Option<f64> {
        let values = self.runs.iter().filter_map(value);
        median(values).filter(|_| self.error.is_none())
    }

    pub(crate) fn rate(&self) -> Option<f64> {
        self.median(|run| Some(run.throughput.as_ref()?.rate))
    }

    pub(crate) fn cpu(&self) -> Option<f64> {
        self.median(|run| Some(run.throughput.as_ref()?.usage.cpu.as_secs_f64()))
    }

    /// Most memory that was resident.
    pub(crate) fn megabytes(&self) -> Option<f64> {
        self.median(|run| Some(run.throughput.as_ref()?.usage.peak as f64 / 1e6))
    }

    pub(crate) fn p50(&self) -> Option<f64> {
        self.median(|run| Some(run.latency?.p50))
    }

    pub(crate) fn p99(&self) -> Option<f64> {
        self.median(|run| Some(run.latency?.p99))
    }

    /// Median of a commit at full load.
    pub(crate) fn commit_full(&self) -> Option<f64> {
        self.median(|run| p50(run.throughput.as_ref()?.commits))
    }

    /// Median of a commit at the steady rate.
    pub(crate) fn commit_steady(&self) -> Option<f64> {
        self.median(|run| p50(run.latency?.commits))
    }
}

fn p50(commits: Option<Commits>) -> Option<f64> {
    Some(commits?.p50)
}

/// The ratio of two numbers.
pub(crate) fn ratio(value: Option<f64>, base: Option<f64>) -> Option<f64> {
    Some(value? / base?)
}

/// One round over several contenders.
pub(crate) struct Round {
    pub(crate) number: usize,
    pub(crate) partitions: i32,
    /// Whether they take the whole load too, and not only the steady stream.
    pub(crate) full_load: bool,
    /// None where it is 0.
    pub(crate) latency_seconds: u64,
}

impl Round {
    /// Measures everybody. Whoever comes first has a cooler machine; so they take turns.
    pub(crate) fn measure_all<C: Contender>(&self, setting: &Setting, rows: &mut [Row<C>]) {
        let count = rows.len();
        for turn in 0..count {
            let row = &mut rows[(self.number + turn) % count];
            if row.error.is_some() {
                continue;
            }
            match self.measure(setting, row.contender) {
                Ok(run) => row.runs.push(run),
                Err(error) => {
                    eprintln!("{}, partitions {}: {error}", row.contender.title(), self.partitions);
                    row.error = Some(error.to_string());
                }
            }
        }
    }

    fn measure(&self, setting: &Setting, contender: impl Contender) -> Result<Run> {
        let partitions = self.partitions;
        let title = format!("{}, partitions {partitions}", contender.title());
        let name = format!("{}-{partitions}-{}", contender.name(), self.number);
        let mut run = Run::default();
        if self.full_load {
            let throughput = throughput::measure(setting, contender, &name, partitions, None)?;
            eprintln!("{title}: {throughput}");
            run.throughput = Some(throughput);
        }
        if self.latency_seconds > 0 {
            let name = format!("{name}-latency");
            let latency = latency::measure(setting, contender, &name, partitions, self.latency_seconds)?;
            eprintln!("{title}: {RATE} records/s: {latency}");
            run.latency = Some(latency);
        }
        Ok(run)
    }
}
