//! `cargo chaos`: a storm by hand.

use std::process::ExitCode;
use std::str::FromStr;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use super::plan::{KINDS, Options, plan};
use super::{Stage, run};
use crate::harness::broker::{KINDS as BROKERS, Kind as Broker};
use crate::harness::context::Context;
use crate::harness::mode::{Mode, Protocol, Scope};
use crate::harness::room::Room;

const HELP: &str = "\
Strikes processes that work with faults by seed, and judges what they have written: docs/guides/chaos.md.

cargo chaos [--seed N] [--kills 10] [--broker embedded|kafka] [--stage copy|count] [--processes 1..4] [--scope task|worker]
            [--protocol classic|consumer] [--faults NAME,NAME] [--rate 1000] [--plan yes]

  --seed N        of the plan; the same options have the same plan. Without it, another one each time
  --kills N       processes that are killed (kill -9); the other faults are in between
  --faults NAMES  other faults than all: none, or some of ";

/// What the command line is about.
struct Storm {
    options: Options,
    broker: Broker,
    mode: Mode,
    plan_only: bool,
}

/// Runs the command if the arguments ask for it.
pub(crate) fn command() -> Option<ExitCode> {
    let mut arguments = std::env::args().skip(1);
    if arguments.next()? != "chaos" {
        return None;
    }
    let names: Vec<&str> = KINDS.iter().map(|kind| kind.name).collect();
    let arguments: Vec<String> = arguments.collect();
    if arguments.iter().any(|argument| argument == "--help") {
        println!("{HELP}{}", names.join(", "));
        return Some(ExitCode::SUCCESS);
    }
    Some(match read(&arguments) {
        Ok(storm) => storm.start(),
        Err(problem) => {
            eprintln!("error: {problem}; --help says what there is");
            ExitCode::from(2)
        }
    })
}

impl Storm {
    fn start(self) -> ExitCode {
        let Options { seed, kills, stage, processes: (least, most), rate, .. } = self.options;
        let Mode { scope, protocol } = self.mode;
        println!(
            "seed {seed}: {kills} kills, {stage:?} on {} in {least}..{most} processes, scope {scope:?}, protocol {protocol:?}, {rate} records/s",
            self.broker
        );
        if self.plan_only {
            for (n, step) in plan(&self.options).iter().enumerate() {
                println!("fault {}: {step}", n + 1);
            }
            return ExitCode::SUCCESS;
        }
        if let Some(what) = (self.broker.missing)() {
            eprintln!("error: {what}");
            return ExitCode::FAILURE;
        }
        let context = Arc::new(Context::new().expect("a temporary folder and a shell"));
        println!("folder {}", context.root().display());
        let room = Room::new(Arc::clone(&context), self.broker, self.mode, "chaos");
        // A panic is the verdict; the watchdog cleans up behind this process.
        run(&room, &self.options);
        drop(room);
        context.finish();
        ExitCode::SUCCESS
    }
}

fn read(arguments: &[String]) -> Result<Storm, String> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    let all = KINDS.iter().map(|kind| kind.name).collect();
    let options = Options {
        seed: now.as_millis() as u64,
        kills: 10,
        stage: Stage::Copy,
        processes: (1, 4),
        kinds: all,
        rate: 1000,
    };
    let embedded = *BROKERS.iter().find(|broker| broker.name == "embedded").expect("it is there");
    let mut storm = Storm { options, broker: embedded, mode: Mode::PLAIN, plan_only: false };
    for pair in arguments.chunks(2) {
        let [name, value] = pair else { return Err(format!("{} needs a value", pair[0])) };
        let options = &mut storm.options;
        match name.as_str() {
            "--seed" => options.seed = number(name, value)?,
            "--kills" => options.kills = number(name, value)?,
            "--rate" => options.rate = number(name, value)?,
            "--stage" => options.stage = word(name, value, &[("copy", Stage::Copy), ("count", Stage::Count)])?,
            "--scope" => storm.mode.scope = word(name, value, &[("task", Scope::Task), ("worker", Scope::Worker)])?,
            "--protocol" => {
                let words = [("classic", Protocol::Classic), ("consumer", Protocol::Consumer)];
                storm.mode.protocol = word(name, value, &words)?;
            }
            "--broker" => {
                storm.broker = word(name, value, &BROKERS.iter().map(|kind| (kind.name, *kind)).collect::<Vec<_>>())?
            }
            "--processes" => {
                let (least, most) = value.split_once("..").unwrap_or((value, value));
                options.processes = (number(name, least)?, number(name, most)?);
            }
            "--faults" if value == "none" => options.kinds.clear(),
            "--faults" => {
                let names: Vec<_> = KINDS.iter().map(|kind| (kind.name, kind.name)).collect();
                options.kinds = value.split(',').map(|value| word(name, value, &names)).collect::<Result<_, _>>()?;
            }
            "--plan" => storm.plan_only = word(name, value, &[("yes", true), ("no", false)])?,
            other => return Err(format!("{other} is not known")),
        }
    }
    storm.check()
}

impl Storm {
    fn check(self) -> Result<Self, String> {
        let (least, most) = self.options.processes;
        if least < 1 || most < least {
            return Err(format!("--processes: from 1 process on, and not from {least} to {most}"));
        }
        if self.options.kills < 1 || self.options.rate < 100 {
            return Err("--kills is 1 at least, and --rate 100".to_owned());
        }
        if !self.broker.protocols.contains(&self.mode.protocol) {
            return Err(format!("--protocol: the broker {} has no such protocol", self.broker));
        }
        if self.mode.is_consumer() && self.options.stage == Stage::Count {
            return Err("--protocol consumer: the example of --stage count has no such option".to_owned());
        }
        Ok(self)
    }
}

fn number<T: FromStr>(name: &str, value: &str) -> Result<T, String> {
    value.parse().map_err(|_| format!("{name}: {value} is no number"))
}

fn word<T: Copy>(name: &str, value: &str, words: &[(&str, T)]) -> Result<T, String> {
    let found = words.iter().find(|(word, _)| *word == value);
    let names = words.iter().map(|(word, _)| *word).collect::<Vec<_>>().join(", ");
    found.map(|(_, found)| *found).ok_or_else(|| format!("{name}: {value} is none of {names}"))
}
