//! Runs a broker until it is told to end: `serve ADDR [DIR]`. `RUST_LOG` sets what it says.

use std::process::ExitCode;

use tracing_subscriber::EnvFilter;
use wattle_broker::Broker;

fn main() -> ExitCode {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    let mut arguments = std::env::args().skip(1);
    let Some(address) = arguments.next() else {
        eprintln!("usage: serve ADDR [DIR]");
        return ExitCode::from(2);
    };
    let builder = Broker::builder().listen(address);
    let builder = match arguments.next() {
        Some(folder) => builder.folder(folder),
        None => builder,
    };
    let _broker = match builder.start() {
        Ok(broker) => broker,
        Err(error) => {
            let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}")).unwrap_or_default();
            eprintln!("{error}{cause}");
            return ExitCode::FAILURE;
        }
    };
    loop {
        std::thread::park();
    }
}
