//! The real Kafka of one run, started by the project's own script.

use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::{env, fs};

use crate::Result;
use crate::process::Process;
use crate::scratch::Scratch;

/// The version that `scripts/kafka` starts and `benches/kstreams/pom.xml` names.
pub(crate) const KAFKA_VERSION: &str = "4.3.1";

/// Starts a single-node Kafka and returns its address. It ends with `scratch`.
pub(crate) fn start(scratch: &Scratch) -> Result<String> {
    let folder = scratch.file("kafka");
    fs::create_dir_all(&folder)?;
    let [port, controller] = free_ports()?;
    let mut script = Command::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts/kafka"));
    script.arg("start").arg(&folder).arg(port.to_string());
    script.env("KAFKA_CONTROLLER_PORT", controller.to_string());
    if env::var_os("KAFKA_HEAP").is_none() {
        script.env("KAFKA_HEAP", "1g");
    }
    Process::spawn(scratch, "kafka-start", script)?.finish()?;
    Ok(format!("127.0.0.1:{port}"))
}

/// Ports that are free now.
fn free_ports() -> Result<[u16; 2]> {
    let [one, other] = [TcpListener::bind("127.0.0.1:0")?, TcpListener::bind("127.0.0.1:0")?];
    Ok([one.local_addr()?.port(), other.local_addr()?.port()])
}
