//! A PostgreSQL of our own, from the programs that the system has: started, killed, asked.

use std::fs;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, geteuid};

use super::ports::free_ports;
use super::wait::{PATIENCE, wait_for, wait_until};
use super::watchdog::Watchdog;

/// PostgreSQL refuses to run as root: then it is nobody.
const NOBODY: u32 = 65534;

/// It is killed when this is dropped.
pub(crate) struct Postgres {
    bin: PathBuf,
    data: PathBuf,
    port: u16,
    watchdog: Arc<Watchdog>,
    server: Mutex<Option<Child>>,
}

/// What it needs and this machine lacks.
pub(crate) fn missing() -> Option<&'static str> {
    bin()
        .is_none()
        .then_some("PostgreSQL not found: no initdb, postgres and psql on the PATH or in /usr/lib/postgresql")
}

/// The folder of its programs, of the newest version.
fn bin() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let debian = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut versions: Vec<PathBuf> = debian.map(|version| version.path().join("bin")).collect();
    versions.sort();
    folders.extend(versions.into_iter().rev());
    let has = |folder: &PathBuf| ["initdb", "postgres", "psql"].iter().all(|program| folder.join(program).exists());
    folders.into_iter().find(has)
}

impl Postgres {
    /// Starts one in `folder`, with an empty database `postgres`.
    pub(crate) fn start(folder: &Path, watchdog: &Arc<Watchdog>) -> Self {
        let folder = folder.join("postgres");
        fs::create_dir_all(&folder).expect("a folder");
        if geteuid().is_root() {
            chown(&folder, Some(NOBODY), Some(NOBODY)).expect("root may give a folder away");
        }
        let [port] = free_ports().expect("a port");
        let bin = bin().expect("looked for before");
        let data = folder.join("data");
        let postgres = Postgres { bin, data, port, watchdog: Arc::clone(watchdog), server: Mutex::default() };
        let data = postgres.data.to_str().expect("a path that is text");
        let made = postgres
            .command("initdb")
            .args(["--no-sync", "--auth=trust", "--username=wattle", "--encoding=UTF8", "--no-locale", "-D", data])
            .output()
            .expect("initdb runs");
        assert!(made.status.success(), "initdb: {}", String::from_utf8_lossy(&made.stderr));
        postgres.start_again();
        postgres
    }

    /// For the `uri` of a pipeline.
    pub(crate) fn uri(&self) -> String {
        format!("postgres://wattle@127.0.0.1:{}/postgres", self.port)
    }

    /// Returns when it answers.
    pub(crate) fn start_again(&self) {
        let log = fs::File::create(self.data.with_file_name("log")).expect("a log");
        let data = self.data.to_str().expect("a path that is text");
        let port = self.port.to_string();
        let server = self
            .command("postgres")
            .args(["-D", data, "-p", &port, "-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories="])
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("postgres runs");
        self.watchdog.add(server.id());
        *self.server() = Some(server);
        wait_until("PostgreSQL answers", PATIENCE, || self.try_ask("SELECT 1").is_some());
    }

    /// As by a crash: nothing is written any more, and the next start recovers from the log.
    pub(crate) fn kill(&self) {
        let Some(mut server) = self.server().take() else { return };
        let pid = Pid::from_raw(i32::try_from(server.id()).expect("a pid fits"));
        kill(pid, Signal::SIGQUIT).expect("it is there");
        wait_for("PostgreSQL ends", PATIENCE, || server.try_wait().expect("our child"));
        self.watchdog.forget(server.id());
    }

    /// The rows of an answer, the values of each with `|` between them.
    pub(crate) fn ask(&self, sql: &str) -> Vec<String> {
        self.try_ask(sql).unwrap_or_else(|| panic!("PostgreSQL does not answer: {sql}"))
    }

    fn try_ask(&self, sql: &str) -> Option<Vec<String>> {
        let answer = Command::new(self.bin.join("psql"))
            .args([
                "--no-psqlrc",
                "--tuples-only",
                "--no-align",
                "--quiet",
                "-v",
                "ON_ERROR_STOP=1",
                "-c",
                sql,
                &self.uri(),
            ])
            .output()
            .expect("psql runs");
        let text = String::from_utf8_lossy(&answer.stdout);
        answer.status.success().then(|| text.lines().map(str::to_owned).collect())
    }

    fn server(&self) -> std::sync::MutexGuard<'_, Option<Child>> {
        self.server.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One of its programs, by a user that it takes.
    fn command(&self, program: &str) -> Command {
        let program = self.bin.join(program);
        if !geteuid().is_root() {
            return Command::new(program);
        }
        let mut command = Command::new("setpriv");
        let ids = [format!("--reuid={NOBODY}"), format!("--regid={NOBODY}")];
        command.args(ids).arg("--clear-groups").arg(program).current_dir(self.data.parent().expect("a folder"));
        command
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.kill();
    }
}
