//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::contender::Kind;
use crate::count::Counter;

/// Measures Wattle, a plain librdkafka loop and Kafka Streams side by side on a Kafka of its own.
///
/// Each contender copies the same records exactly once, in a process of its own. Exit code 1 means that one of them did not
/// deliver every record once; a target that is missed is only said.
#[derive(Debug, Parser)]
#[command(name = "wattle-bench", version, args_conflicts_with_subcommands = true, max_term_width = 110)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) compare: CompareArgs,
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Keyed state: the library's count example against Kafka Streams and Flechtwerk
    Count(CountArgs),
    /// Wattle alone with several values of max_poll_records, to choose its default
    BatchSize(BatchSizeArgs),
    /// How long the partitions of a killed process stand still
    Takeover(TakeoverArgs),
    /// What one Wattle process with many partitions costs: threads, descriptors, memory, start and stop
    Partitions(PartitionsArgs),
    /// The write-ahead log alone, in each sync mode
    Wal(WalArgs),
    /// Requests through the write-ahead log into Kafka, in each sync mode
    Ingest(IngestArgs),
    /// The plain loop itself, as a contender
    #[command(hide = true)]
    RawLoop(RawLoopArgs),
    /// One log under load, in a process of its own
    #[command(hide = true)]
    WalLoad(WalLoadArgs),
}

/// What is copied.
#[derive(Clone, Debug, Args)]
pub(crate) struct LoadArgs {
    /// Records that each contender is given
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) records: u64,
    /// Bytes of a record's value
    #[arg(long, value_name = "BYTES", default_value_t = 100, value_parser = clap::value_parser!(u64).range(60..))]
    pub(crate) size: u64,
    /// Repeat everything so often and report medians; the order rotates
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) rounds: u32,
}

impl LoadArgs {
    /// `size` for memory.
    pub(crate) fn bytes(&self) -> usize {
        usize::try_from(self.size).unwrap_or(usize::MAX)
    }
}

#[derive(Debug, Args)]
pub(crate) struct CompareArgs {
    #[command(flatten)]
    pub(crate) load: LoadArgs,
    /// Numbers of partitions of the input and of the output; latency is measured over one partition too
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_values_t = [4, 64], value_parser = clap::value_parser!(i32).range(1..))]
    pub(crate) partitions: Vec<i32>,
    /// Only these contenders
    #[arg(long, value_enum, value_name = "LIST", value_delimiter = ',', default_values_t = Kind::ALL)]
    pub(crate) only: Vec<Kind>,
    /// Length of each latency measurement at 1 000 records/s; 0 leaves them out
    #[arg(long, value_name = "SECONDS", default_value_t = 20)]
    pub(crate) latency_seconds: u64,
    /// Also write the table as Markdown
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct CountArgs {
    #[command(flatten)]
    pub(crate) load: LoadArgs,
    /// Numbers of distinct keys of the load
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_values_t = [10_000, 1_000_000], value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) keys: Vec<u64>,
    /// Partitions of the input and of the output
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(i32).range(1..))]
    pub(crate) partitions: i32,
    /// Only these contenders
    #[arg(long, value_enum, value_name = "LIST", value_delimiter = ',', default_values_t = Counter::ALL)]
    pub(crate) only: Vec<Counter>,
    /// Length of each latency measurement at 1 000 records/s; 0 leaves them out
    #[arg(long, value_name = "SECONDS", default_value_t = 20)]
    pub(crate) latency_seconds: u64,
    /// Also write the table as Markdown
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct BatchSizeArgs {
    #[command(flatten)]
    pub(crate) load: LoadArgs,
    /// Partitions of the input and of the output
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(i32).range(1..))]
    pub(crate) partitions: i32,
    /// Values of max_poll_records
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_values_t = [500, 2_000, 5_000, 10_000, 20_000])]
    pub(crate) sizes: Vec<u64>,
    /// Only these
    #[arg(long, value_enum, value_name = "LIST", value_delimiter = ',', default_values_t = [Kind::Pipeline, Kind::Stage])]
    pub(crate) only: Vec<Kind>,
}

#[derive(Debug, Args)]
pub(crate) struct TakeoverArgs {
    /// Kills in each scope
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) rounds: u32,
    /// Transaction scopes
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_values = ["task", "worker"])]
    pub(crate) scopes: Vec<String>,
    /// Measure this command instead of building the one of this checkout
    #[arg(long, value_name = "FILE")]
    pub(crate) wattle: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct PartitionsArgs {
    /// Numbers of partitions of the input and of the output
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_values_t = [4, 64, 256], value_parser = clap::value_parser!(i32).range(1..))]
    pub(crate) partitions: Vec<i32>,
    /// Only these of Wattle's pipelines
    #[arg(long, value_enum, value_name = "LIST", value_delimiter = ',', default_values_t = [Kind::Pipeline, Kind::PipelineWorker])]
    pub(crate) only: Vec<Kind>,
    /// How long each process is watched without load, and under it
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) seconds: u64,
    /// Records a second of the light load, over all partitions
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) rate: u64,
    /// Repeat everything so often and report medians
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) rounds: u32,
    /// Also write the table as Markdown
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct WalArgs {
    #[command(flatten)]
    pub(crate) load: WalLoad,
    /// Only these modes
    #[arg(long, value_enum, value_name = "LIST", value_delimiter = ',', default_values_t = [Sync::PerEntry, Sync::GroupCommit, Sync::Periodic])]
    pub(crate) only: Vec<Sync>,
    /// The log's limit on disk
    #[arg(long, value_name = "MIB", default_value_t = 128, value_parser = clap::value_parser!(u64).range(64..))]
    pub(crate) max_mib: u64,
    /// Repeat everything so often and report medians
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) rounds: u32,
}

#[derive(Debug, Args)]
pub(crate) struct IngestArgs {
    /// Records
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) records: u64,
    /// Bytes of a record
    #[arg(long, value_name = "BYTES", default_value_t = 100, value_parser = clap::value_parser!(u64).range(60..10_000))]
    pub(crate) size: u64,
    /// Records of a request, a line each
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..1000))]
    pub(crate) lines: u64,
    /// Clients, each of which waits for its answer
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u64).range(1..1000))]
    pub(crate) clients: u64,
    /// Only these modes
    #[arg(long, value_enum, value_name = "LIST", value_delimiter = ',', default_values_t = [Sync::PerEntry, Sync::GroupCommit, Sync::Periodic])]
    pub(crate) only: Vec<Sync>,
    /// The log's limit on disk
    #[arg(long, value_name = "MIB", default_value_t = 128, value_parser = clap::value_parser!(u64).range(64..))]
    pub(crate) max_mib: u64,
}

/// What is appended.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct WalLoad {
    /// Entries
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) entries: u64,
    /// Bytes of an entry
    #[arg(long, value_name = "BYTES", default_value_t = 200, value_parser = clap::value_parser!(u64).range(1..1_000_000))]
    pub(crate) size: u64,
    /// Appenders, each of which waits until its entry is accepted
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) appenders: u64,
}

/// A sync mode of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub(crate) enum Sync {
    PerEntry,
    GroupCommit,
    /// Every 50 ms
    Periodic,
}

#[derive(Debug, Args)]
pub(crate) struct WalLoadArgs {
    pub(crate) folder: PathBuf,
    #[arg(value_enum)]
    pub(crate) sync: Sync,
    pub(crate) max_mib: u64,
    #[command(flatten)]
    pub(crate) load: WalLoad,
}

#[derive(Debug, Args)]
pub(crate) struct RawLoopArgs {
    pub(crate) brokers: String,
    pub(crate) input: String,
    pub(crate) output: String,
    pub(crate) group: String,
    /// One loop a partition; without it one loop for all of them
    #[arg(long, value_name = "PARTITIONS")]
    pub(crate) each: Option<i32>,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_definition_is_sound() {
        Cli::command().debug_assert();
    }
}
