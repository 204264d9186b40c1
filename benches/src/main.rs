//! Wattle beside a plain librdkafka loop and Kafka Streams, in one run on one real broker.
//!
//! `compare`, `count`, `batch_size` and `partitions` say what is measured in which order; `throughput` and `latency` measure one contender,
//! which is a process of its own (`contender`, `process`) between topics of our own broker (`scratch`, `broker`, `kafka`).

mod args;
mod batch_size;
mod bound;
mod broker;
mod compare;
mod contender;
mod count;
mod ingest;
mod kafka;
mod kit;
mod latency;
mod machine;
mod partitions;
mod process;
mod raw;
mod report;
mod row;
mod scratch;
mod setting;
mod stats;
mod takeover;
mod throughput;
mod wal;

use std::process::ExitCode;

use clap::Parser;

use args::{Cli, Command};

/// Nobody handles a failure of the benchmark; it is read.
pub(crate) type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let outcome = match cli.command {
        Some(Command::RawLoop(args)) => raw::run(&args).map(|()| true),
        Some(Command::WalLoad(args)) => wal::load::run(&args).map(|()| true),
        _ if cfg!(debug_assertions) => Err("a debug build measures nothing of use: run it with --release".into()),
        Some(Command::Count(args)) => count::run(&args),
        Some(Command::BatchSize(args)) => batch_size::run(&args),
        Some(Command::Takeover(args)) => takeover::run(&args),
        Some(Command::Partitions(args)) => partitions::run(&args),
        Some(Command::Wal(args)) => wal::run(&args),
        Some(Command::Ingest(args)) => ingest::run(&args),
        None => compare::run(&cli.compare),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
