//! A real Kafka in a process of its own: start, kill, freeze, ask its tools.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::{fs, io};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::{Kind, Server};
use crate::harness::mode::Protocol;
use crate::harness::ports::free_ports;
use crate::harness::proxy::Proxy;
use crate::harness::watchdog::Watchdog;

/// What `scripts/kafka` starts.
pub(super) const KIND: Kind = Kind {
    name: "kafka",
    pace: 1,
    protocols: &[Protocol::Classic, Protocol::Consumer],
    missing,
    new: |dir, watchdog| Ok(Box::new(Kafka::new(dir, watchdog)?)),
};

/// A single node in a folder. Its second listener is advertised behind a [`Proxy`].
pub(crate) struct Kafka {
    dir: PathBuf,
    port: u16,
    controller: u16,
    proxy: Proxy,
    watchdog: Arc<Watchdog>,
    pid: Mutex<Option<u32>>,
}

/// Short sessions and short back-offs: a fault's consequences come in seconds, and a killed broker may register again soon.
const SETTINGS: &str = "\
group.min.session.timeout.ms=1000
group.consumer.min.session.timeout.ms=1000
group.consumer.session.timeout.ms=4000
group.consumer.min.heartbeat.interval.ms=100
group.consumer.heartbeat.interval.ms=500
broker.session.timeout.ms=5000
broker.heartbeat.interval.ms=25
transaction.abort.timed.out.transaction.cleanup.interval.ms=500
log.cleaner.backoff.ms=500
log.cleaner.dedupe.buffer.size=4194304
log.initial.task.delay.ms=500
";

impl Server for Kafka {
    fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    fn kill(&self) {
        let pid = self.running().expect("the broker runs");
        self.script("kill", &[]);
        self.set_running(None);
        self.watchdog.forget(pid);
    }

    fn start_again(&self) {
        self.thaw(); // a test that failed may have left it frozen
        self.script("start", &[&self.port.to_string()]);
        let text = fs::read_to_string(self.dir.join("broker.pid")).expect("the script writes it");
        let pid = text.trim().parse().expect("a pid");
        self.set_running(Some(pid));
        self.watchdog.add(pid);
    }

    fn proxy(&self) -> &Proxy {
        &self.proxy
    }

    /// A Kafka 4.3.1 that starts after `kill -9` completes the transactions that it finds half ended. Where it does not know the
    /// partitions' leaders yet, it takes them for deleted and skips their markers: positions and outputs of a committed transaction stay
    /// pending for ever, and no client can tell. It logs that.
    fn lost_an_end(&self, name: &str) -> bool {
        let log = fs::read_to_string(self.dir.join("broker.log")).unwrap_or_default();
        log.lines().any(|line| line.contains("Couldn't find leader endpoint") && line.contains(&format!("{name}.")))
    }

    fn as_kafka(&self) -> Option<&Kafka> {
        Some(self)
    }
}

impl Kafka {
    /// Not started yet.
    fn new(dir: &Path, watchdog: Arc<Watchdog>) -> io::Result<Self> {
        fs::create_dir_all(dir)?;
        let [port, controller, behind, front] = free_ports()?;
        let settings = format!(
            "{SETTINGS}\
             listeners=PLAINTEXT://127.0.0.1:{port},PROXIED://127.0.0.1:{behind},CONTROLLER://127.0.0.1:{controller}\n\
             advertised.listeners=PLAINTEXT://127.0.0.1:{port},PROXIED://127.0.0.1:{front}\n\
             listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,PROXIED:PLAINTEXT\n"
        );
        fs::write(dir.join("extra.properties"), settings)?;
        let proxy = Proxy::start(front, behind)?;
        Ok(Kafka { dir: dir.to_owned(), port, controller, proxy, watchdog, pid: Mutex::new(None) })
    }

    /// Where its topics' files are.
    pub(crate) fn data(&self) -> PathBuf {
        self.dir.join("data")
    }

    /// Stops it from running without ending it.
    pub(crate) fn freeze(&self) {
        self.signal(Signal::SIGSTOP);
    }

    /// Lets it go on, if it runs.
    pub(crate) fn thaw(&self) {
        self.signal(Signal::SIGCONT);
    }

    fn signal(&self, signal: Signal) {
        if let Some(pid) = self.running() {
            kill(Pid::from_raw(i32::try_from(pid).expect("a pid fits")), signal).expect("the broker is there");
        }
    }

    /// Runs one of Kafka's own tools and returns what it prints.
    pub(crate) fn tool(&self, class: &str, arguments: &[&str]) -> String {
        let output = self.script("tool", &[&[class], arguments].concat());
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn running(&self) -> Option<u32> {
        *self.pid.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set_running(&self, pid: Option<u32>) {
        *self.pid.lock().unwrap_or_else(PoisonError::into_inner) = pid;
    }

    /// Runs `scripts/kafka`, which must not outlive us either.
    fn script(&self, command: &str, arguments: &[&str]) -> Output {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts/kafka");
        let log = fs::File::options().create(true).append(true).open(self.dir.join("script.log")).expect("a log");
        let child = Command::new(script)
            .arg(command)
            .arg(&self.dir)
            .args(arguments)
            .env("KAFKA_CONTROLLER_PORT", self.controller.to_string())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .expect("scripts/kafka runs");
        let pid = child.id();
        self.watchdog.add(pid);
        let output = child.wait_with_output().expect("our child");
        self.watchdog.forget(pid);
        assert!(
            output.status.success(),
            "scripts/kafka {command} {} failed: {}",
            self.dir.display(),
            fs::read_to_string(self.dir.join("script.log")).unwrap_or_default()
        );
        output
    }
}

/// What it needs and this machine lacks.
fn missing() -> Option<&'static str> {
    let answer = |program, argument| Command::new(program).arg(argument).output().ok();
    let java = answer("java", "-version").map(|output| String::from_utf8_lossy(&output.stderr).into_owned());
    let version = java.as_deref().and_then(|text| text.split('"').nth(1)).and_then(|version| version.split('.').next());
    if version.and_then(|major| major.parse().ok()).is_none_or(|major: u32| major < 17) {
        return Some("java 17 not found");
    }
    answer("mvn", "-v").is_none().then_some("mvn not found")
}
