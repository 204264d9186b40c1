//! A process, mostly a `wattle`: spawned, watched, signalled.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::cluster::Cluster;
use super::failure;
use super::wait::{PATIENCE, wait_for, wait_until};
use super::watchdog::Watchdog;

/// It is killed when this is dropped; if the test has failed, the end of its log is part of what it says.
pub(crate) struct Process {
    child: Child,
    watchdog: Arc<Watchdog>,
    stdout: Lines,
    stderr: Lines,
    readers: Vec<JoinHandle<()>>,
}

/// So many lines of its log a process leaves to a test that has failed.
const TAIL: usize = 15;

type Lines = Arc<Mutex<Vec<String>>>;

impl Process {
    /// Starts `binary` in `folder`. Its environment names `brokers`, or none.
    pub(crate) fn spawn(
        binary: &Path,
        folder: &Path,
        brokers: Option<&str>,
        arguments: &[&str],
        watchdog: &Arc<Watchdog>,
    ) -> Self {
        let mut child = Command::new(binary)
            .args(arguments)
            .current_dir(folder)
            .env_remove("WATTLE_BROKERS")
            .envs(brokers.map(|brokers| ("WATTLE_BROKERS", brokers)))
            .env("NO_COLOR", "1")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary runs");
        watchdog.add(child.id());
        let (stdout, stderr) = (Lines::default(), Lines::default());
        let readers = vec![
            collect(child.stdout.take().expect("piped"), &stdout),
            collect(child.stderr.take().expect("piped"), &stderr),
        ];
        Process { child, watchdog: Arc::clone(watchdog), stdout, stderr, readers }
    }

    /// Its number.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Where the embedded broker answers that it runs or has joined, as it says.
    pub(crate) fn wait_broker(&self) -> String {
        wait_for("a log line with the embedded broker's address", PATIENCE, || {
            let lines = lock(&self.stderr);
            lines.iter().find_map(|line| Some(line.split_once(", data in ")?.0.rsplit_once(' ')?.1.to_owned()))
        })
    }

    /// Everything it has written to its standard output.
    pub(crate) fn stdout(&self) -> Vec<String> {
        lock(&self.stdout).clone()
    }

    /// Everything it has written to its log.
    pub(crate) fn stderr(&self) -> String {
        lock(&self.stderr).join("\n")
    }

    /// Whether one line of its log has all of these words, in any case.
    pub(crate) fn says(&self, words: &[&str]) -> bool {
        self.says_behind(0, words)
    }

    /// In how many lines of its log all of these words are.
    pub(crate) fn times(&self, words: &[&str]) -> usize {
        lock(&self.stderr).iter().filter(|line| has(line, words)).count()
    }

    /// How many lines its log has.
    pub(crate) fn lines(&self) -> usize {
        lock(&self.stderr).len()
    }

    /// Whether one line behind so many has all of these words, in any case.
    pub(crate) fn says_behind(&self, lines: usize, words: &[&str]) -> bool {
        lock(&self.stderr).iter().skip(lines).any(|line| has(line, words))
    }

    /// Returns when one line of its log has all of these words.
    pub(crate) fn wait_says(&self, words: &[&str], patience: Duration) {
        wait_until(&format!("a log line with {words:?}"), patience, || self.says(words));
    }

    /// Sends a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id()).expect("a pid fits");
        kill(Pid::from_raw(pid), signal).expect("the process is there");
    }

    /// SIGSTOP; returns when every thread has stopped, the last perhaps behind a call that it was in.
    pub(crate) fn freeze(&self) {
        self.signal(Signal::SIGSTOP);
        let tasks = format!("/proc/{}/task", self.pid());
        let is_stopped = |stat: String| stat.rsplit_once(") ").is_some_and(|(_, state)| state.starts_with('T'));
        wait_until("every thread is stopped", PATIENCE, || {
            let tasks = fs::read_dir(&tasks).expect("its threads");
            tasks.flatten().all(|task| fs::read_to_string(task.path().join("stat")).is_ok_and(is_stopped))
        });
    }

    /// `kill -9`; whether it was still running.
    pub(crate) fn kill(&mut self) -> bool {
        let ran = self.is_running();
        self.child.kill().expect("our child");
        self.reap();
        ran
    }

    /// Whether it runs.
    pub(crate) fn is_running(&mut self) -> bool {
        self.child.try_wait().expect("our child").is_none()
    }

    /// Returns its exit code when it has ended; -1 stands for a signal.
    pub(crate) fn wait_exit(&mut self, patience: Duration) -> i32 {
        let status = wait_for("the process ends", patience, || self.child.try_wait().expect("our child"));
        self.reap();
        status.code().unwrap_or(-1)
    }

    /// SIGTERM, which it must be ready for; everything must end well and soon.
    pub(crate) fn stop_cleanly(&mut self) {
        let status = format!("/proc/{}/status", self.pid());
        wait_until("it catches SIGTERM, or has ended", PATIENCE, || {
            let status = fs::read_to_string(&status).expect("it is ours");
            let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap_or_default();
            let caught = u64::from_str_radix(caught.trim(), 16).unwrap_or_default();
            caught & 1 << (Signal::SIGTERM as u32 - 1) != 0 || !self.is_running()
        });
        self.signal(Signal::SIGTERM);
        assert_eq!(self.wait_exit(Duration::from_secs(30)), 0, "exit code after SIGTERM");
    }

    /// Stops it (SIGSTOP) at a moment when it has a transaction open on one of these topics. Frozen like this it can be
    /// looked at: nothing of it is under way.
    pub(crate) fn freeze_in_transaction(&mut self, cluster: &Cluster, topics: &[&str]) {
        wait_until("it is frozen in a transaction", PATIENCE, || {
            assert!(self.is_running(), "it ended before it could be frozen");
            self.try_freeze_in_transaction(cluster, topics)
        });
    }

    /// One try; a process that has no transaction open goes on.
    pub(crate) fn try_freeze_in_transaction(&self, cluster: &Cluster, topics: &[&str]) -> bool {
        self.signal(Signal::SIGSTOP);
        // A commit that was on its way lands between the two looks.
        let open = || !cluster.open_transactions(topics).is_empty();
        if open() {
            thread::sleep(Duration::from_millis(250));
            if open() {
                return true;
            }
        }
        self.signal(Signal::SIGCONT);
        false
    }

    /// Kills it while a transaction is open, for sure.
    pub(crate) fn kill_in_transaction(&mut self, cluster: &Cluster, topics: &[&str]) {
        self.freeze_in_transaction(cluster, topics);
        assert!(self.kill(), "it was there to be killed");
    }

    fn reap(&mut self) {
        self.child.wait().expect("our child");
        self.watchdog.forget(self.child.id());
        for reader in self.readers.drain(..) {
            reader.join().expect("reading never fails");
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
        if thread::panicking() {
            let lines = lock(&self.stderr);
            let tail = &lines[lines.len().saturating_sub(TAIL)..];
            failure::say(format!("the last lines of process {}:\n    {}", self.child.id(), tail.join("\n    ")));
        }
    }
}

fn has(line: &str, words: &[&str]) -> bool {
    let line = line.to_lowercase();
    words.iter().all(|word| line.contains(&word.to_lowercase()))
}

fn lock(lines: &Lines) -> std::sync::MutexGuard<'_, Vec<String>> {
    lines.lock().unwrap_or_else(PoisonError::into_inner)
}

fn collect(stream: impl Read + Send + 'static, lines: &Lines) -> JoinHandle<()> {
    let lines = Arc::clone(lines);
    thread::spawn(move || {
        for line in BufReader::new(stream).split(b'\n').map_while(Result::ok) {
            lock(&lines).push(String::from_utf8_lossy(&line).into_owned());
        }
    })
}
