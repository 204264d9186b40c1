//! Ends what the tests started, however the tests end.

use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Mutex, PoisonError};

/// A shell in a process group of its own. It is told of every process that is started, and when its input ends (because
/// [`Watchdog::finish`] was called, or because this process died in whatever way) it kills what is left and removes the folder (unless `WATTLE_KEEP=1`).
pub(crate) struct Watchdog {
    shell: Mutex<Option<(Child, ChildStdin)>>,
}

const SCRIPT: &str = r#"
trap '' INT TERM HUP
pids=
while read -r op pid; do
  case $op in
    add) pids="$pids $pid" ;;
    drop) left=; for p in $pids; do [ "$p" = "$pid" ] || left="$left $p"; done; pids=$left ;;
  esac
done
for p in $pids $(cat "$0"/*/*/{,controller/}broker.pid 2>/dev/null); do kill -9 "$p" 2>/dev/null; done
[ "$WATTLE_KEEP" = 1 ] || rm -rf "$0" || { sleep 1; rm -rf "$0"; }
"#;

impl Watchdog {
    /// Watches over `folder`, where brokers keep their `broker.pid`.
    pub(crate) fn start(folder: &Path) -> io::Result<Self> {
        let mut shell =
            Command::new("bash").arg("-c").arg(SCRIPT).arg(folder).stdin(Stdio::piped()).process_group(0).spawn()?;
        let input = shell.stdin.take().expect("stdin is piped");
        Ok(Watchdog { shell: Mutex::new(Some((shell, input))) })
    }

    /// The process is to be killed if it is still there at the end.
    pub(crate) fn add(&self, pid: u32) {
        self.tell("add", pid);
    }

    /// The process has ended and was waited for.
    pub(crate) fn forget(&self, pid: u32) {
        self.tell("drop", pid);
    }

    /// Ends everything now.
    pub(crate) fn finish(&self) {
        if let Some((mut shell, input)) = self.shell.lock().unwrap_or_else(PoisonError::into_inner).take() {
            drop(input);
            shell.wait().expect("the watchdog is our child");
        }
    }

    fn tell(&self, op: &str, pid: u32) {
        if let Some((_, input)) = self.shell.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
            writeln!(input, "{op} {pid}").expect("the watchdog lives as long as the tests");
        }
    }
}
