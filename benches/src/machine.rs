//! Where and with what something was measured.

use std::process::Command;
use std::{env, fs, thread};

use crate::broker::KAFKA_VERSION;

/// Lines that belong under every table.
pub(crate) fn lines() -> Vec<String> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let dashes = if arguments.is_empty() { "" } else { " -- " };
    vec![
        format!(
            "machine: {} cores, {}, {} GB memory, Linux {}, shared by broker, contender and reader",
            thread::available_parallelism().map_or_else(|_| "?".to_owned(), |cores| cores.to_string()),
            field("/proc/cpuinfo", "model name"),
            field("/proc/meminfo", "MemTotal").trim_end_matches(" kB").parse::<u64>().unwrap_or(0) / 1_000_000,
            read("/proc/sys/kernel/osrelease"),
        ),
        format!(
            "versions: wattle {}{}, librdkafka {}, Kafka and Kafka Streams {KAFKA_VERSION}, {}; release build",
            env!("CARGO_PKG_VERSION"),
            first_line(
                Command::new("git").args(["describe", "--always", "--dirty"]).current_dir(env!("CARGO_MANIFEST_DIR"))
            )
            .map_or_else(String::new, |commit| format!(" ({commit})")),
            rdkafka::util::get_rdkafka_version().1,
            first_line(Command::new("java").arg("--version")).unwrap_or_else(|| "no java".to_owned()),
        ),
        format!("command: cargo run --release -p wattle-bench{dashes}{}", arguments.join(" ")),
    ]
}

/// How busy the machine is.
pub(crate) fn load_average() -> f64 {
    read("/proc/loadavg").split(' ').next().and_then(|load| load.parse().ok()).unwrap_or(f64::NAN)
}

fn read(path: &str) -> String {
    fs::read_to_string(path).map_or_else(|_| "?".to_owned(), |text| text.trim().to_owned())
}

/// The first `name : value` of a file.
fn field(path: &str, name: &str) -> String {
    let text = read(path);
    let value = text.lines().find_map(|line| line.split_once(':').filter(|(key, _)| key.trim() == name));
    value.map_or("?", |(_, value)| value.trim()).to_owned()
}

/// What a program prints first; `None` if it cannot.
fn first_line(command: &mut Command) -> Option<String> {
    let output = command.output().ok().filter(|output| output.status.success())?;
    String::from_utf8_lossy(&output.stdout).lines().next().map(str::to_owned)
}
