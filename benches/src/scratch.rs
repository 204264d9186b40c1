//! The folder of one run. What was started and would outlive the run ends with it, in whatever way it ends.

use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::{env, fs};

use crate::Result;

/// A shell in a process group of its own. Its input ends when this process ends, also by a signal; then it kills every process
/// that has a pid file here, and removes the folder.
const WATCHDOG: &str = r#"
trap '' INT TERM HUP
cat >/dev/null
for pid in $(cat "$0"/*.pid "$0"/kafka/broker.pid 2>/dev/null); do kill -9 "$pid" 2>/dev/null; done
rm -rf "$0" 2>/dev/null || { sleep 1; rm -rf "$0"; }
"#;

/// A temporary folder with its watchdog. Dropping it ends everything.
pub(crate) struct Scratch {
    folder: PathBuf,
    watchdog: Child,
    input: Option<ChildStdin>,
}

impl Scratch {
    pub(crate) fn new() -> Result<Self> {
        let folder = env::temp_dir().join(format!("wattle-bench-{}", std::process::id()));
        fs::create_dir_all(&folder)?;
        let mut shell = Command::new("bash");
        shell.arg("-c").arg(WATCHDOG).arg(&folder).stdin(Stdio::piped()).process_group(0);
        let mut watchdog = shell.spawn().map_err(|error| format!("bash does not start: {error}"))?;
        let input = watchdog.stdin.take();
        Ok(Scratch { folder, watchdog, input })
    }

    /// A file of this name.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        drop(self.input.take());
        if let Err(error) = self.watchdog.wait() {
            eprintln!("cannot wait for the clean-up of {}: {error}", self.folder.display());
        }
    }
}
