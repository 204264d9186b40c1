//! A real Kafka in a process of its own: start, kill, freeze, ask its tools.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::{fs, io};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::{Kind, Server};
use crate::harness::cluster::ANSWER;
use crate::harness::mode::Protocol;
use crate::harness::ports::free_ports;
use crate::harness::proxy::Proxy;
use crate::harness::wait::wait_until;
use crate::harness::watchdog::Watchdog;

/// What `scripts/kafka` starts.
pub(super) const KIND: Kind = Kind {
    name: "kafka",
    pace: 1,
    protocols: &[Protocol::Classic, Protocol::Consumer],
    missing,
    new: |dir, watchdog| Ok(Box::new(Kafka::new(dir, watchdog)?)),
};

/// A broker and a controller, each in a folder and a process of its own. The broker's second listener is advertised behind a [`Proxy`].
///
/// Only the broker is killed, and it is started again when the controller has taken it for dead. A Kafka 4.3.1 completes the
/// transactions that it finds half ended when it starts; if it knows itself as leader from before its death, then as no leader while it
/// registers, the coordinator takes what has no leader for deleted and skips its markers: positions and outputs of a committed
/// transaction stay pending for ever, and no client can tell. A broker that died some time ago finds no partition led by it, and gets
/// all of them back at once.
pub(crate) struct Kafka {
    broker: Node,
    controller: Node,
    proxy: Proxy,
    /// What the controller had logged when the broker was killed.
    seen: AtomicUsize,
}

struct Node {
    dir: PathBuf,
    port: u16,
    cluster: String,
    watchdog: Arc<Watchdog>,
    pid: Mutex<Option<u32>>,
}

/// Of both nodes. Everybody may do everything, until a test takes a right away. Short sessions and short back-offs: a fault's consequences come in seconds.
const SETTINGS: &str = "\
group.min.session.timeout.ms=1000
group.consumer.min.session.timeout.ms=1000
group.consumer.session.timeout.ms=4000
group.consumer.min.heartbeat.interval.ms=100
group.consumer.heartbeat.interval.ms=500
transaction.abort.timed.out.transaction.cleanup.interval.ms=500
log.cleaner.backoff.ms=500
log.cleaner.dedupe.buffer.size=4194304
log.initial.task.delay.ms=500
broker.session.timeout.ms=3000
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
allow.everyone.if.no.acl.found=true
broker.heartbeat.interval.ms=100
";

impl Server for Kafka {
    fn address(&self) -> String {
        format!("127.0.0.1:{}", self.broker.port)
    }

    fn kill(&self) {
        self.seen.store(self.deaths(), Ordering::Relaxed);
        self.broker.kill();
    }

    fn start_again(&self) {
        self.thaw(); // a test that failed may have left it frozen
        self.controller.start();
        if !self.broker.is_running() && self.broker.has_run() {
            let seen = self.seen.load(Ordering::Relaxed);
            wait_until("the controller takes the broker for dead", ANSWER, || self.deaths() > seen);
        }
        self.broker.start();
    }

    fn proxy(&self) -> &Proxy {
        &self.proxy
    }

    fn as_kafka(&self) -> Option<&Kafka> {
        Some(self)
    }
}

impl Kafka {
    /// Not started yet.
    fn new(dir: &Path, watchdog: Arc<Watchdog>) -> io::Result<Self> {
        let [port, controller, behind, front] = free_ports()?;
        let common = format!("{SETTINGS}controller.quorum.voters=2@127.0.0.1:{controller}\n");
        let broker = format!(
            "{common}process.roles=broker\n\
             listeners=PLAINTEXT://127.0.0.1:{port},PROXIED://127.0.0.1:{behind}\n\
             advertised.listeners=PLAINTEXT://127.0.0.1:{port},PROXIED://127.0.0.1:{front}\n\
             listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,PROXIED:PLAINTEXT\n"
        );
        let listener = format!("CONTROLLER://127.0.0.1:{controller}");
        let roles = format!(
            "{common}process.roles=controller\nnode.id=2\nlisteners={listener}\nadvertised.listeners={listener}\n"
        );
        let cluster = format!("Wattle{port:05}AAAAAAAAAAA");
        let broker = Node::new(dir, port, &broker, &cluster, &watchdog)?;
        let controller = Node::new(&dir.join("controller"), controller, &roles, &cluster, &watchdog)?;
        Ok(Kafka { broker, controller, proxy: Proxy::start(front, behind)?, seen: AtomicUsize::new(0) })
    }

    /// Where its topics' files are.
    pub(crate) fn data(&self) -> PathBuf {
        self.broker.dir.join("data")
    }

    /// Stops it from running without ending it. The controller stops too, or it would take the broker for dead.
    pub(crate) fn freeze(&self) {
        self.controller.signal(Signal::SIGSTOP);
        self.broker.signal(Signal::SIGSTOP);
    }

    /// Lets it go on, if it runs.
    pub(crate) fn thaw(&self) {
        self.broker.signal(Signal::SIGCONT);
        self.controller.signal(Signal::SIGCONT);
    }

    /// Runs one of Kafka's own tools and returns what it prints.
    pub(crate) fn tool(&self, class: &str, arguments: &[&str]) -> String {
        let output = self.broker.script("tool", &[&[class], arguments].concat());
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// How often the controller has taken the broker for dead.
    fn deaths(&self) -> usize {
        let log = fs::read_to_string(self.controller.dir.join("broker.log")).unwrap_or_default();
        log.lines().filter(|line| line.contains("Fencing broker 1 ")).count()
    }
}

impl Node {
    fn new(dir: &Path, port: u16, settings: &str, cluster: &str, watchdog: &Arc<Watchdog>) -> io::Result<Self> {
        fs::create_dir_all(dir)?;
        fs::write(dir.join("extra.properties"), settings)?;
        let (dir, cluster) = (dir.to_owned(), cluster.to_owned());
        Ok(Node { dir, port, cluster, watchdog: Arc::clone(watchdog), pid: Mutex::new(None) })
    }

    fn start(&self) {
        self.script("start", &[&self.port.to_string()]);
        let text = fs::read_to_string(self.dir.join("broker.pid")).expect("the script writes it");
        let pid = text.trim().parse().expect("a pid");
        self.set_running(Some(pid));
        self.watchdog.add(pid);
    }

    fn kill(&self) {
        let pid = self.running().expect("it runs");
        self.script("kill", &[]);
        self.set_running(None);
        self.watchdog.forget(pid);
    }

    fn signal(&self, signal: Signal) {
        if let Some(pid) = self.running() {
            kill(Pid::from_raw(i32::try_from(pid).expect("a pid fits")), signal).expect("it is there");
        }
    }

    fn is_running(&self) -> bool {
        self.running().is_some()
    }

    fn has_run(&self) -> bool {
        self.dir.join("data").exists()
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
            .env("KAFKA_CLUSTER_ID", &self.cluster)
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
