//! `wattle create`: topics, with the same partitions and settings each.

use std::collections::BTreeSet;

use wattle::kafka::NewTopics;

use crate::args::CreateArgs;
use crate::connect::{check_properties, connect};
use crate::embedded::Embedded;
use crate::failure::Failure;
use crate::status::Status;
use crate::text::counted;

/// Creates the topics that are not there. One that is there with another number of partitions is refused before any is created.
pub(crate) fn run(args: &CreateArgs, status: &Status, embedded: &mut Option<Embedded>) -> Result<(), Failure> {
    let new = new_topics(args)?;
    let (brokers, properties) = connect(&args.cluster, status, embedded)?;
    check_properties(&properties)?;
    let topics: BTreeSet<String> = args.topics.iter().cloned().collect();
    let created = new.client_properties(properties).create(&brokers, &topics)?;
    let with = counted(u64::from(args.partitions), "partition", "partitions");
    for topic in &topics {
        if created.contains(topic) {
            status.note(&format!("created {topic} with {with}"));
        } else {
            status.note(&format!("{topic} is there already, with {with}; its settings stay as they are"));
        }
    }
    Ok(())
}

fn new_topics(args: &CreateArgs) -> Result<NewTopics, Failure> {
    let partitions = i32::try_from(args.partitions).unwrap_or(i32::MAX);
    let mut new = NewTopics::of(partitions).exact().replication(args.replication_factor.map(i32::from));
    let mut seen = BTreeSet::new();
    for (key, value) in &args.config {
        if !seen.insert(key) {
            return Err(Failure::refused(format!("--config {key} is given a second time; keep one")));
        }
        new = new.setting(key, value);
    }
    Ok(new)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::{Cli, Command};

    #[test]
    fn a_setting_is_given_once() {
        let args = |values: &[&str]| {
            let line = ["wattle", "create", "t"].into_iter().chain(values.iter().copied());
            match Cli::try_parse_from(line).expect("a legal line").command {
                Command::Create(args) => args,
                _ => unreachable!("it says create"),
            }
        };
        assert!(new_topics(&args(&["--config", "a=1", "--config", "b=1"])).is_ok());
        assert!(new_topics(&args(&["--config", "a=1", "--config", "a=1"])).is_err());
    }
}
