//! What all promises share: the binary under test, the brokers, and the order in which they end.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use std::{env, fs, io};

use super::broker::{Broker, KINDS, Kind};
use super::failure;
use super::watchdog::Watchdog;

/// Started on first use, so that a run in which every test is filtered out starts nothing.
pub(crate) struct Context {
    root: PathBuf,
    watchdog: Arc<Watchdog>,
    binary: OnceLock<PathBuf>,
    examples: Mutex<BTreeMap<&'static str, PathBuf>>,
    brokers: Vec<Brokers>,
    full: bool,
    times: Mutex<Vec<(Duration, String)>>,
}

/// So many of the tests that took longest are printed at the end; with `WATTLE_TIMES=1` all.
const SLOWEST: usize = 15;

/// Those of one kind.
struct Brokers {
    kind: Kind,
    shared: OnceLock<Broker>,
    own: Mutex<Option<Broker>>,
}

/// The second broker of a kind, for one test at a time: it may be killed.
pub(crate) struct OwnBroker<'a>(MutexGuard<'a, Option<Broker>>);

impl std::ops::Deref for OwnBroker<'_> {
    type Target = Broker;

    fn deref(&self) -> &Broker {
        self.0.as_ref().expect("set by Context::own_broker")
    }
}

impl Context {
    /// A folder and its watchdog.
    pub(crate) fn new() -> io::Result<Self> {
        let root = env::temp_dir().join(format!("wattle-e2e-{}", std::process::id()));
        fs::create_dir_all(&root)?;
        let brokers = KINDS.iter().map(|&kind| Brokers { kind, shared: OnceLock::new(), own: Mutex::new(None) });
        Ok(Context {
            watchdog: Arc::new(Watchdog::start(&root)?),
            root,
            binary: OnceLock::new(),
            examples: Mutex::default(),
            brokers: brokers.collect(),
            times: Mutex::default(),
            full: env::var_os("WATTLE_FULL").is_some_and(|value| value == "1"),
        })
    }

    /// The temporary folder.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Whether the full numbers are wanted.
    pub(crate) fn full(&self) -> bool {
        self.full
    }

    /// Ends what would outlive this process.
    pub(crate) fn watchdog(&self) -> &Arc<Watchdog> {
        &self.watchdog
    }

    /// The `wattle` under test: `WATTLE_BIN`, or built now with the profile of this test.
    pub(crate) fn binary(&self) -> &Path {
        self.binary.get_or_init(|| env::var_os("WATTLE_BIN").map_or_else(|| build(None), PathBuf::from))
    }

    /// An example of the library.
    pub(crate) fn example(&self, name: &'static str) -> PathBuf {
        let mut examples = self.examples.lock().unwrap_or_else(PoisonError::into_inner);
        examples.entry(name).or_insert_with(|| build(Some(name))).clone()
    }

    /// The broker of this kind that everybody uses and nobody harms.
    pub(crate) fn shared_broker(&self, kind: Kind) -> &Broker {
        self.brokers(kind).shared.get_or_init(|| self.start(kind, "shared"))
    }

    /// A running broker for one test at a time. Tests that need the machine for themselves take it too.
    pub(crate) fn own_broker(&self, kind: Kind) -> OwnBroker<'_> {
        let mut own = self.brokers(kind).own.lock().unwrap_or_else(PoisonError::into_inner);
        match own.as_ref() {
            Some(broker) => broker.start_again(),
            None => *own = Some(self.start(kind, "own")),
        }
        OwnBroker(own)
    }

    /// Runs the test of this name and notes how long it took; an error is what it said.
    pub(crate) fn timed(&self, name: String, test: impl FnOnce()) -> Result<(), String> {
        let begin = Instant::now();
        let result = failure::told(&name, test);
        self.times.lock().unwrap_or_else(PoisonError::into_inner).push((begin.elapsed(), name));
        result
    }

    /// Where a run's time has gone. A test's time includes waiting for a broker that it has for itself.
    pub(crate) fn print_slowest(&self) {
        let mut times = self.times.lock().unwrap_or_else(PoisonError::into_inner);
        times.sort();
        if times.len() > 1 {
            println!(
                "\nslowest of {} tests, of {} s in all:",
                times.len(),
                times.iter().map(|(time, _)| time).sum::<Duration>().as_secs()
            );
        }
        let all = env::var_os("WATTLE_TIMES").is_some_and(|value| value == "1");
        for (time, name) in times.iter().rev().take(if all { usize::MAX } else { SLOWEST }) {
            println!("{:6.1} s  {name}", time.as_secs_f32());
        }
    }

    /// Ends everything.
    pub(crate) fn finish(&self) {
        self.watchdog.finish();
    }

    fn brokers(&self, kind: Kind) -> &Brokers {
        self.brokers.iter().find(|brokers| brokers.kind.name == kind.name).expect("one of each kind")
    }

    fn start(&self, kind: Kind, name: &str) -> Broker {
        let folder = self.root.join(kind.name).join(name);
        Broker::start(kind, &folder, Arc::clone(&self.watchdog)).expect("a broker")
    }
}

/// Builds the command, or the library's example of this name, with the profile of this test.
fn build(example: Option<&str>) -> PathBuf {
    let exe = env::current_exe().expect("the path of this test");
    let deps = exe.parent().filter(|folder| folder.ends_with("deps"));
    let folder =
        deps.and_then(Path::parent).expect("this test is target/PROFILE/deps/e2e-HASH; elsewhere set WATTLE_BIN");
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    match example {
        Some(name) => cargo.args(["build", "--quiet", "-p", "wattle", "--example", name, "--target-dir"]),
        None => cargo.args(["build", "--quiet", "-p", "wattle-cli", "--target-dir"]),
    };
    cargo.arg(folder.join(".."));
    if !cfg!(debug_assertions) {
        cargo.arg("--release");
    }
    let status = cargo.current_dir(env!("CARGO_MANIFEST_DIR")).status().expect("cargo runs");
    assert!(status.success(), "wattle could not be built");
    example.map_or_else(|| folder.join("wattle"), |name| folder.join("examples").join(name))
}
