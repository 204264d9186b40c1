//! Who counts: the library's example, Kafka Streams and Flechtwerk, all with the same records in and out.

use std::fs;
use std::process::Command;

use clap::ValueEnum;

use super::tally::{self, Tally};
use crate::Result;
use crate::contender::{Contender, Job};
use crate::kit::Program;
use crate::process::Process;
use crate::report::grouped;
use crate::setting::Setting;

/// One who writes how often a key has come, for every record of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Counter {
    /// Kafka Streams, with its persistent store and a cache before it
    Kstreams,
    /// The library's count example, with a state folder
    Disk,
    /// The same without: state in memory
    Memory,
    /// Flechtwerk, in Python
    Flechtwerk,
}

impl Counter {
    pub(crate) const ALL: [Counter; 4] = [Counter::Kstreams, Counter::Disk, Counter::Memory, Counter::Flechtwerk];

    /// Its name in tables.
    pub(crate) const fn label(self) -> &'static str {
        match self {
            Counter::Kstreams => "Kafka Streams, persistent store",
            Counter::Disk => "Wattle count, state on disk",
            Counter::Memory => "Wattle count, state in memory",
            Counter::Flechtwerk => "Flechtwerk",
        }
    }

    pub(crate) const fn is_wattle(self) -> bool {
        matches!(self, Counter::Disk | Counter::Memory)
    }

    pub(crate) const fn program(self) -> Program {
        match self {
            Counter::Kstreams => Program::Kstreams,
            Counter::Disk | Counter::Memory => Program::Example("count"),
            Counter::Flechtwerk => Program::Flechtwerk,
        }
    }
}

impl std::fmt::Display for Counter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Counter::Kstreams => "kstreams",
            Counter::Disk => "disk",
            Counter::Memory => "memory",
            Counter::Flechtwerk => "flechtwerk",
        })
    }
}

/// A counter with the number of keys that it counts.
#[derive(Clone, Copy)]
pub(super) struct Counting {
    pub(super) counter: Counter,
    pub(super) keys: u64,
}

impl Contender for Counting {
    fn title(self) -> String {
        format!("{}, {} keys", self.counter.label(), grouped(self.keys as f64))
    }

    fn name(self) -> String {
        format!("count-{}-{}", self.counter, self.keys)
    }

    fn program(self) -> Program {
        self.counter.program()
    }

    fn keys(self) -> u64 {
        self.keys
    }

    fn start(self, setting: &Setting, job: &Job) -> Result<Process> {
        let Setting { kit, scratch, brokers, .. } = setting;
        let state = scratch.file(&format!("{}-state", job.name));
        let positional = [brokers.as_str(), job.input, job.output, job.name];
        let command = match self.counter {
            Counter::Kstreams => {
                let mut command = Command::new("java");
                command.arg("-cp").arg(kit.kstreams.clone()?).arg("Count").args(positional).arg(state);
                command
            }
            Counter::Disk | Counter::Memory => {
                let mut command = Command::new(kit.example("count"));
                for (name, value) in ["--brokers", "--input", "--output", "--application-id"].iter().zip(positional) {
                    command.args([name, value]);
                }
                if self.counter == Counter::Disk {
                    command.arg("--state-dir").arg(state);
                }
                command
            }
            Counter::Flechtwerk => {
                // It keeps its state in a temporary folder, and leaves that behind on SIGTERM.
                fs::create_dir_all(&state)?;
                let mut command = Command::new(kit.flechtwerk.clone()?);
                command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/flechtwerk/count.py")).args(positional);
                command.env("TMPDIR", state);
                command
            }
        };
        Process::spawn(scratch, job.name, command)
    }

    fn own_topics(self, name: &str) -> Vec<String> {
        vec![match self.counter {
            Counter::Kstreams => format!("{name}-counts-changelog"),
            Counter::Disk | Counter::Memory | Counter::Flechtwerk => format!("{name}-changelog"),
        }]
    }

    fn number(self, output: Option<&[u8]>) -> Option<u64> {
        tally::number(output)
    }

    fn check(self, brokers: &str, output: &str, records: u64) -> Result<()> {
        let tally = Tally::of(brokers, output, records, self.keys)?;
        if tally.is_exact() { Ok(()) } else { Err(format!("not counted exactly once: {tally}").into()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_command_line() {
        for counter in Counter::ALL {
            let value = counter.to_possible_value().expect("no variant is skipped");
            assert_eq!(value.get_name(), counter.to_string());
        }
    }
}
