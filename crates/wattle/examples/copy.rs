//! The smallest stage: copies a topic, exactly once, until Ctrl-C or SIGTERM. Then it prints what it did.
//!
//! `cargo run --release -p wattle --example copy -- 127.0.0.1:9092 orders orders-copy`

use std::process::ExitCode;
use std::thread;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use wattle::{App, Message, Stop, TransactionScope, transformer};

const USAGE: &str =
    "usage: copy BROKERS INPUT-TOPIC OUTPUT-TOPIC [--transaction-scope task|worker] [--max-poll-records N]";

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn std::error::Error>> {
    // First, so that a signal never ends the process half way.
    let stop = Stop::new();
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    let asked = stop.clone();
    thread::spawn(move || signals.forever().take(1).for_each(|_| asked.stop()));

    let mut args = std::env::args().skip(1);
    let (Some(brokers), Some(input), Some(output)) = (args.next(), args.next(), args.next()) else { usage() };
    let mut app = App::builder()
        .application_id(format!("copy-to-{output}"))
        .brokers(brokers)
        .input_topics([input])
        .output_topics([output.as_str()]);
    while let Some(option) = args.next() {
        let value = args.next().unwrap_or_default();
        app = match (option.as_str(), value.as_str()) {
            ("--transaction-scope", "task") => app.transaction_scope(TransactionScope::Task),
            ("--transaction-scope", "worker") => app.transaction_scope(TransactionScope::Worker),
            ("--max-poll-records", records) => app.max_poll_records(records.parse()?),
            _ => usage(),
        };
    }

    let copy = transformer(move |record, out| {
        out.send(Message::copy(record, output.as_str()));
        Ok(())
    });

    let app = app.build(copy)?;
    let monitor = app.monitor();
    app.run(&stop)?;
    let did = monitor.metrics().snapshot();
    let [p50, p99] = [did.commit_p50, did.commit_p99].map(|time| time.as_secs_f64() * 1e3);
    println!(
        r#"{{"records":{},"batches":{},"commit_p50_ms":{p50:.2},"commit_p99_ms":{p99:.2}}}"#,
        did.records, did.batches
    );
    Ok(())
}

fn usage() -> ! {
    eprintln!("{USAGE}");
    std::process::exit(2);
}
