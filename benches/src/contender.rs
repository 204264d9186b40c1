//! What is compared: how each contender is started, and what it tells at its end.

use std::fmt;
use std::fs;
use std::process::Command;

use clap::ValueEnum;
use serde_json::Value;

use crate::Result;
use crate::kafka::{self, KEYS, Ledger};
use crate::kit::Program;
use crate::process::Process;
use crate::setting::Setting;

/// One who is measured: it makes a record of every record of a topic, exactly once, in a process of its own.
pub(crate) trait Contender: Copy {
    /// Its name in what is printed.
    fn title(self) -> String;
    /// Its name in those of topics, groups and files.
    fn name(self) -> String;
    /// What it is run with.
    fn program(self) -> Program;
    /// Distinct keys of the load that it is given.
    fn keys(self) -> u64;
    fn start(self, setting: &Setting, job: &Job) -> Result<Process>;
    /// The topics that it has made for itself, when it was called `name`.
    fn own_topics(self, name: &str) -> Vec<String>;
    /// The number of the record that a record of its output is of; `None` where that was not of the load.
    fn number(self, output: Option<&[u8]>) -> Option<u64>;
    /// An error unless the topic is what comes out for so many records of the load.
    fn check(self, brokers: &str, output: &str, records: u64) -> Result<()>;
}

/// One who copies a topic exactly once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    /// One plain loop, one transaction for all partitions
    Raw,
    /// A plain loop for each partition, as many transactions as Wattle has
    RawEach,
    /// Kafka Streams
    Kstreams,
    /// `wattle run` with a pipeline without processors, a transaction for each partition
    Pipeline,
    /// The same with one transaction for all partitions
    PipelineWorker,
    /// The library's copy example, a transaction for each partition
    Stage,
    /// The same with one transaction for all partitions
    StageWorker,
}

impl Kind {
    pub(crate) const ALL: [Kind; 7] = [
        Kind::Raw,
        Kind::RawEach,
        Kind::Kstreams,
        Kind::Pipeline,
        Kind::PipelineWorker,
        Kind::Stage,
        Kind::StageWorker,
    ];

    /// Its name in tables.
    pub(crate) const fn label(self) -> &'static str {
        match self {
            Kind::Raw => "plain loop",
            Kind::RawEach => "plain loop, one a partition",
            Kind::Kstreams => "Kafka Streams",
            Kind::Pipeline => "Wattle pipeline, scope task",
            Kind::PipelineWorker => "Wattle pipeline, scope worker",
            Kind::Stage => "Wattle stage, scope task",
            Kind::StageWorker => "Wattle stage, scope worker",
        }
    }

    /// Wattle's transaction scope; `None` for the others.
    pub(crate) const fn scope(self) -> Option<&'static str> {
        match self {
            Kind::Pipeline | Kind::Stage => Some("task"),
            Kind::PipelineWorker | Kind::StageWorker => Some("worker"),
            Kind::Raw | Kind::RawEach | Kind::Kstreams => None,
        }
    }

    /// Whether it is the `wattle` command.
    pub(crate) const fn is_pipeline(self) -> bool {
        matches!(self, Kind::Pipeline | Kind::PipelineWorker)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Raw => "raw",
            Kind::RawEach => "raw-each",
            Kind::Kstreams => "kstreams",
            Kind::Pipeline => "pipeline",
            Kind::PipelineWorker => "pipeline-worker",
            Kind::Stage => "stage",
            Kind::StageWorker => "stage-worker",
        })
    }
}

/// What one run of a contender is to do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Job<'a> {
    /// Of this run alone: consumer group, transactional id, names of files.
    pub(crate) name: &'a str,
    pub(crate) input: &'a str,
    pub(crate) output: &'a str,
    pub(crate) partitions: i32,
    /// For Wattle; `None` leaves its default.
    pub(crate) max_poll_records: Option<u64>,
}

impl Contender for Kind {
    fn title(self) -> String {
        self.label().to_owned()
    }

    fn name(self) -> String {
        self.to_string()
    }

    fn program(self) -> Program {
        match self {
            Kind::Raw | Kind::RawEach => Program::This,
            Kind::Kstreams => Program::Kstreams,
            Kind::Pipeline | Kind::PipelineWorker => Program::Wattle,
            Kind::Stage | Kind::StageWorker => Program::Example("copy"),
        }
    }

    fn keys(self) -> u64 {
        KEYS
    }

    fn start(self, setting: &Setting, job: &Job) -> Result<Process> {
        Process::spawn(&setting.scratch, job.name, self.command(setting, job)?)
    }

    fn own_topics(self, _name: &str) -> Vec<String> {
        Vec::new()
    }

    fn number(self, output: Option<&[u8]>) -> Option<u64> {
        kafka::number(output)
    }

    fn check(self, brokers: &str, output: &str, records: u64) -> Result<()> {
        let ledger = Ledger::of(brokers, output, records)?;
        if ledger.is_exact() { Ok(()) } else { Err(format!("not exactly once: {ledger}").into()) }
    }
}

impl Kind {
    fn command(self, setting: &Setting, job: &Job) -> Result<Command> {
        let Setting { kit, scratch, brokers, .. } = setting;
        let topics = [brokers.as_str(), job.input, job.output];
        let scope = self.scope().unwrap_or_default();
        let command = match self {
            Kind::Raw | Kind::RawEach => {
                let mut command = Command::new(&kit.this);
                command.arg("raw-loop").args(topics).arg(job.name);
                if self == Kind::RawEach {
                    command.arg("--each").arg(job.partitions.to_string());
                }
                command
            }
            Kind::Kstreams => {
                let mut command = Command::new("java");
                command.arg("-cp").arg(kit.kstreams.clone()?).arg("Copy").args(topics).arg(job.name);
                command.arg(scratch.file("kstreams-state"));
                command
            }
            Kind::Pipeline | Kind::PipelineWorker => {
                let file = scratch.file(&format!("{}.yaml", job.name));
                fs::write(&file, pipeline(brokers, job, scope))?;
                let mut command = Command::new(kit.wattle());
                command.arg("run").arg(file).args(["--log-format", "json"]);
                command
            }
            Kind::Stage | Kind::StageWorker => {
                let mut command = Command::new(kit.example("copy"));
                command.args(topics).args(["--transaction-scope", scope]);
                if let Some(records) = job.max_poll_records {
                    command.arg("--max-poll-records").arg(records.to_string());
                }
                command
            }
        };
        Ok(command)
    }
}

fn pipeline(brokers: &str, job: &Job, scope: &str) -> String {
    let Job { name, input, output, .. } = job;
    let batch = job.max_poll_records.map(|records| format!("    batch: {{max_poll_records: {records}}}\n"));
    format!(
        "\
streams:
  - id: copy
{}    input:
      type: kafka
      brokers: [\"{brokers}\"]
      topics: [{input}]
      consumer_group: {name}
      transactional_offsets: true
    output:
      type: kafka
      brokers: [\"{brokers}\"]
      topic: {output}
      exactly_once: true
      transactional_id: {name}
      transaction_scope: {scope}
      offset_commit_group: {name}
",
        batch.unwrap_or_default()
    )
}

/// How long a contender's commits took, in milliseconds, from the moment when nothing more is added to the transaction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Commits {
    pub(crate) count: u64,
    pub(crate) p50: f64,
    pub(crate) p99: f64,
}

/// What a contender has printed about its commits: the last line that is a JSON object with them. Kafka Streams prints none.
pub(crate) fn commits(printed: &str) -> Option<Commits> {
    printed.lines().rev().find_map(|line| {
        let line: Value = serde_json::from_str(line).ok()?;
        Some(Commits {
            count: line["batches"].as_u64()?,
            p50: line["commit_p50_ms"].as_f64()?,
            p99: line["commit_p99_ms"].as_f64()?,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commits_are_in_the_last_line_that_has_them() {
        let printed = "a line\n{\"batches\":7,\"commit_p50_ms\":3.5,\"commit_p99_ms\":9.0}\n{\"event\":\"note\"}\n";
        let commits = commits(printed).expect("they are there");
        assert_eq!((commits.count, commits.p50, commits.p99), (7, 3.5, 9.0));
        assert!(super::commits("Kafka Streams says nothing").is_none());
    }

    #[test]
    fn names_are_those_of_the_command_line() {
        for kind in Kind::ALL {
            let value = kind.to_possible_value().expect("no variant is skipped");
            assert_eq!(value.get_name(), kind.to_string());
        }
    }
}
