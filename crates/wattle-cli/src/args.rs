//! What the command line says. The help texts are the first manual that people read.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use tracing::level_filters::LevelFilter;
use wattle_pipeline::EMBEDDED;

const EXIT_CODES: &str = "\
Exit codes:
  0  done: finite inputs ended, everything drained, or stopped cleanly
  1  the run failed; nothing uncommitted is lost, the message says whether a restart is enough
  2  the configuration or the command line is refused; a restart does not help
  3  no broker answered at the start; try again later";

const AFTER_MAIN: &str = "\
Start with a pipeline file:
  wattle check pipeline.yaml         what would run, and with which guarantee
  wattle run pipeline.yaml --drain   process what is there, then end
  wattle tail TOPIC --from-beginning look at the result
Without a Kafka at hand, add --embedded to each.";

const AFTER_CREATE: &str = "\
A topic that is there with the same number of partitions stays as it is. With another number it is an error (exit code 1), and nothing is \
created. Input topics of one stream or application need equal numbers.";

const AFTER_RUN: &str = "\
Ctrl-C or SIGTERM: every stream finishes or drops its batch, then the run ends with 0. A second signal ends it at once. \
Nothing needs repair after that, nor after kill -9: start the same command again.

Results go to stderr, one line a stream; stdout belongs to the stdout output.";

const AFTER_TEST: &str = "\
Tests are a list  tests:  in the file, or in a file beside it: orders.tests.yaml for orders.yaml. Every record of a test goes through the \
processors of its stream, and what comes out is compared. A test that fails is shown with every difference (exit code 1); a file without any \
tests is refused (2).";

const AFTER_SCHEMA: &str = "\
wattle schema > wattle.schema.json, and as the first line of a pipeline file:
  # yaml-language-server: $schema=wattle.schema.json";

const AFTER_BROKER: &str = "\
For development and tests: one node, no replication, no TLS, no SASL. It keeps its data over a crash or kill -9. `wattle run` and \
`wattle tail` with --embedded use it as well when they are started in the same folder, where its data is ./.wattle/broker.

Ctrl-C or SIGTERM ends it.";

const AFTER_TAIL: &str = "\
A line has topic, partition, offset, timestamp (UTC), key, headers and value. A value that is JSON is printed as it is \
(numbers keep their digits), other text as a string, bytes that are not text as {\"base64\": \"...\"}, a tombstone as null. \
Keys and header values are strings, base64 or null.

Records of open and aborted transactions are not shown, no consumer group is used, and no topic is created.";

const AFTER_PRODUCE: &str = "\
A line is KEY<TAB>VALUE, up to the first tab; nothing behind the tab is null, which deletes a key. A line without a tab is a value without a key. \
Empty lines are left out. Every line is written at once, at least once: what is cut off by a failure or a Ctrl-C may be written, or not.";

const AFTER_INSPECT: &str = "\
Nothing is joined, fenced or changed by looking. The changelog is read to its end, which takes its time where it is long. A lag counts \
the markers of transactions as well. A name of which neither members, nor positions, nor a changelog are there is refused with 2; with --json \
the object is printed all the same, with empty lists.

With --state-dir it also shows how far the local state of each task reaches, and whether a start would trust it. While a process has the folder, only that is said; and a process that is started at the moment of the look is refused.";

const AFTER_RESET: &str = "\
It is refused while the group has members, or while a process has the folder of --state-dir; without that option, a start finds by itself that the local state does not fit any more. What was written to output topics stays: an application that begins anew writes it again.";

/// Processes Kafka streams exactly once: the position of a record commits in the same transaction as its results.
#[derive(Debug, Parser)]
#[command(name = "wattle", version, max_term_width = 110, after_help = format!("{AFTER_MAIN}\n\n{EXIT_CODES}"))]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
    #[command(flatten)]
    pub(crate) log: LogArgs,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run all streams of a pipeline file
    #[command(after_help = format!("{AFTER_RUN}\n\n{EXIT_CODES}"))]
    Run(RunArgs),
    /// Check a pipeline file: print what would run, or every mistake at once; offline, unless told to connect
    #[command(after_help = EXIT_CODES)]
    Check(CheckArgs),
    /// Run the tests of a pipeline file offline: records in, and what has to come out
    #[command(after_help = format!("{AFTER_TEST}\n\n{EXIT_CODES}"))]
    Test(TestArgs),
    /// Print the JSON Schema of pipeline files, with which editors complete and check them
    #[command(after_help = format!("{AFTER_SCHEMA}\n\n{EXIT_CODES}"))]
    Schema,
    /// Print a topic's committed records as JSON, one object a line
    #[command(after_help = format!("{}\n\n{EXIT_CODES}", AFTER_TAIL))]
    Tail(TailArgs),
    /// Create topics
    #[command(after_help = format!("{AFTER_CREATE}\n\n{EXIT_CODES}"))]
    Create(CreateArgs),
    /// Write the lines of stdin to a topic: a key, a tab and a value each
    #[command(after_help = format!("{AFTER_PRODUCE}\n\n{EXIT_CODES}"))]
    Produce(ProduceArgs),
    /// Show where an application stands: members, positions, state, open transactions
    #[command(after_help = format!("{AFTER_INSPECT}\n\n{EXIT_CODES}"))]
    Inspect(InspectArgs),
    /// Make an application begin anew: remove its positions and its changelog (says what it would do, unless told to do it)
    #[command(after_help = format!("{AFTER_RESET}\n\n{EXIT_CODES}"))]
    Reset(ResetArgs),
    /// Run the embedded broker alone, for any Kafka tool (development only)
    #[command(after_help = format!("{AFTER_BROKER}\n\n{EXIT_CODES}"))]
    Broker(BrokerArgs),
}

impl Command {
    /// Whether it ends in order when a signal comes. The others have nothing to finish.
    pub(crate) fn listens(&self) -> bool {
        matches!(self, Command::Run(_) | Command::Tail(_) | Command::Broker(_))
    }
}

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// The pipeline file
    pub(crate) file: PathBuf,
    /// End when finite inputs have ended and every Kafka input has reached its end with all committed
    #[arg(long)]
    pub(crate) drain: bool,
    #[command(flatten)]
    pub(crate) brokers: Brokers,
    /// Time for a clean stop; what has not ended after three quarters of it is ended hard, with exit code 1
    #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = seconds)]
    pub(crate) grace_period: Duration,
}

#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// The pipeline file
    pub(crate) file: PathBuf,
    /// Ask the clusters too: brokers, topics and their partitions, transaction timeouts, the groups' members. Joins and changes nothing; the embedded broker gets the topics that a run would make
    #[arg(long)]
    pub(crate) connect: bool,
    #[command(flatten)]
    pub(crate) brokers: Brokers,
}

#[derive(Debug, Args)]
pub(crate) struct TestArgs {
    /// The pipeline file
    pub(crate) file: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct TailArgs {
    /// The topic; all its partitions are read
    pub(crate) topic: String,
    /// Begin at the oldest record instead of waiting for new ones
    #[arg(long)]
    pub(crate) from_beginning: bool,
    /// End after N records
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) count: Option<u64>,
    #[command(flatten)]
    pub(crate) cluster: Cluster,
}

#[derive(Debug, Args)]
pub(crate) struct CreateArgs {
    /// The topics
    #[arg(required = true, value_name = "TOPIC")]
    pub(crate) topics: Vec<String>,
    /// Partitions of each
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) partitions: u32,
    /// Replicas of each partition [default: the cluster decides]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1_000))]
    pub(crate) replication_factor: Option<u16>,
    /// A setting of each, for example retention.ms=-1 or cleanup.policy=compact; may be given several times
    #[arg(long, value_name = "KEY=VALUE", value_parser = setting)]
    pub(crate) config: Vec<(String, String)>,
    #[command(flatten)]
    pub(crate) cluster: Cluster,
}

#[derive(Debug, Args)]
pub(crate) struct ProduceArgs {
    /// The topic
    pub(crate) topic: String,
    #[command(flatten)]
    pub(crate) cluster: Cluster,
}

/// An application and its cluster.
#[derive(Debug, Args)]
pub(crate) struct Target {
    /// The application id, or a pipeline's consumer group
    #[arg(value_name = "APPLICATION")]
    pub(crate) application: String,
    /// Its changelog topic [default: APPLICATION-changelog]
    #[arg(long, value_name = "TOPIC")]
    pub(crate) changelog: Option<String>,
    /// The folder in which a process of it on this machine keeps its local state
    #[arg(long, value_name = "DIR")]
    pub(crate) state_dir: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) cluster: Cluster,
}

#[derive(Debug, Args)]
pub(crate) struct InspectArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    /// Print one JSON object instead of tables
    #[arg(long)]
    pub(crate) json: bool,
    /// Print the state of every key instead, as JSON, one object a line
    #[arg(long, conflicts_with_all = ["json", "state_dir"])]
    pub(crate) states: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ResetArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    /// Do it; the application must be stopped
    #[arg(long)]
    pub(crate) execute: bool,
}

#[derive(Debug, Args)]
pub(crate) struct BrokerArgs {
    /// Where it listens
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:9092", value_parser = address)]
    pub(crate) listen: String,
    /// The folder with its data
    #[arg(long, value_name = "DIR", default_value = crate::embedded::FOLDER)]
    pub(crate) data: PathBuf,
    /// Partitions of topics that are created when a client first asks for them; 0 creates none
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(i32).range(0..=1_000))]
    pub(crate) auto_create_topics: i32,
}

/// What a command without a pipeline file asks.
#[derive(Debug, Args)]
pub(crate) struct Cluster {
    #[command(flatten)]
    pub(crate) brokers: Brokers,
    /// A file with further librdkafka properties, one key=value a line, for example for TLS and SASL
    #[arg(long, value_name = "FILE")]
    pub(crate) client_file: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Brokers {
    /// Brokers for Kafka components that name none: host:port, several separated by commas [env: WATTLE_BROKERS]
    #[arg(long = "brokers", value_name = "B")]
    list: Option<String>,
    /// For Kafka components that name no brokers, the embedded broker: started in this process with its data in ./.wattle/broker,
    /// or shared where another wattle runs it there (development only)
    #[arg(long, conflicts_with = "list")]
    embedded: bool,
}

impl Brokers {
    /// What an option, or else the environment, says; blank counts as not said.
    pub(crate) fn get(&self) -> Option<String> {
        if self.embedded {
            return Some(EMBEDDED.to_owned());
        }
        let list = self.list.clone().or_else(|| std::env::var(VARIABLE).ok())?;
        Some(list.trim().to_owned()).filter(|list| !list.is_empty())
    }
}

/// Names brokers where no option does. Not read by clap, for which it would contradict `--embedded`.
pub(crate) const VARIABLE: &str = "WATTLE_BROKERS";

#[derive(Debug, Args)]
#[command(next_help_heading = "Log (on stderr)")]
pub(crate) struct LogArgs {
    /// Lines for people (text), or one JSON object a line, status lines as well [default: logging.format of the pipeline file, or text]
    #[arg(long, global = true, value_enum, value_name = "FORMAT", env = "WATTLE_LOG_FORMAT", hide_env_values = true)]
    pub(crate) log_format: Option<LogFormat>,
    /// Least level that is shown: off, error, warn, info, debug, trace [default: logging.level of the pipeline file, or warn on a terminal,
    /// info elsewhere]
    #[arg(long, global = true, value_name = "LEVEL", env = "WATTLE_LOG", hide_env_values = true, value_parser = level)]
    pub(crate) log_level: Option<LevelFilter>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    Text,
    Json,
}

fn address(text: &str) -> Result<String, String> {
    let parts =
        text.rsplit_once(':').filter(|(host, _)| !host.is_empty() && (!host.contains(':') || host.starts_with('[')));
    match parts.map(|(_, port)| port.parse::<u16>()) {
        Some(Ok(_)) => Ok(text.to_owned()),
        _ => Err("give HOST:PORT, an IPv6 address in brackets; port 0 is any free one".to_owned()),
    }
}

fn setting(text: &str) -> Result<(String, String), String> {
    let pair = text.split_once('=').filter(|(key, _)| !key.trim().is_empty());
    let (key, value) = pair.ok_or("give KEY=VALUE, for example retention.ms=-1")?;
    Ok((key.trim().to_owned(), value.trim().to_owned()))
}

fn seconds(text: &str) -> Result<Duration, String> {
    match text.parse::<u64>() {
        Ok(seconds) if (1..=86_400).contains(&seconds) => Ok(Duration::from_secs(seconds)),
        _ => Err("give whole seconds from 1 to 86400".to_owned()),
    }
}

fn level(text: &str) -> Result<LevelFilter, String> {
    let levels = ["off", "error", "warn", "info", "debug", "trace"];
    let known = levels.iter().any(|level| text.eq_ignore_ascii_case(level));
    let parsed = text.parse().ok().filter(|_| known);
    parsed.ok_or_else(|| format!("choose one of {}", levels.join(", ")))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_definition_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_help_ends_with_the_exit_codes() {
        for mut command in Cli::command().get_subcommands().cloned().chain([Cli::command()]) {
            let help = command.render_long_help().to_string();
            assert!(help.trim_end().ends_with("try again later"), "{help}");
        }
    }

    #[test]
    fn count_zero_and_unknown_levels_are_refused() {
        assert!(Cli::try_parse_from(["wattle", "tail", "t", "--count", "0"]).is_err());
        assert!(Cli::try_parse_from(["wattle", "tail", "t", "--log-level", "3"]).is_err());
        assert!(Cli::try_parse_from(["wattle", "tail", "t", "--log-level", "DEBUG"]).is_ok());
    }

    #[test]
    fn embedded_and_addresses_contradict_each_other() {
        assert!(Cli::try_parse_from(["wattle", "check", "f.yaml", "--embedded", "--brokers", "a:1"]).is_err());
        let parsed = Cli::try_parse_from(["wattle", "check", "f.yaml", "--embedded"]).expect("is legal");
        let Command::Check(args) = parsed.command else { panic!("check was asked for") };
        assert_eq!(args.brokers.get().as_deref(), Some("embedded"));
    }

    #[test]
    fn an_address_has_a_host_and_a_port() {
        for good in ["127.0.0.1:9092", "localhost:0", "[::1]:9092"] {
            assert_eq!(address(good).as_deref(), Ok(good));
        }
        for bad in ["", "localhost", ":9092", "::1", "a:b", "a:70000"] {
            assert!(address(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_topic_is_created_with_whole_settings_or_not_at_all() {
        let create = |arguments: &[&str]| Cli::try_parse_from([&["wattle", "create"], arguments].concat());
        let parsed = create(&["t", "u", "--config", "retention.ms=-1", "--config", "a = b=c"]).expect("is legal");
        let Command::Create(args) = parsed.command else { panic!("create was asked for") };
        assert_eq!((args.topics.len(), args.partitions, args.replication_factor), (2, 3, None));
        let config: Vec<_> = args.config.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        assert_eq!(config, [("retention.ms", "-1"), ("a", "b=c")]);
        for bad in [&[][..], &["t", "--partitions", "0"], &["t", "--replication-factor", "0"], &["t", "--config", "a"]]
        {
            assert!(create(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn blank_brokers_count_as_none() {
        let parsed = Cli::try_parse_from(["wattle", "check", "f.yaml", "--brokers", " "]).expect("is legal");
        let Command::Check(args) = parsed.command else { panic!("check was asked for") };
        assert_eq!(args.brokers.get(), None);
    }
}
