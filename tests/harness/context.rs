//! What all promises share: the binary under test, a broker, and the order in which they end.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::{env, fs, io};

use super::broker::Broker;
use super::watchdog::Watchdog;

/// Started on first use, so that a run in which every test is filtered out starts nothing.
pub(crate) struct Context {
    root: PathBuf,
    watchdog: Arc<Watchdog>,
    binary: OnceLock<PathBuf>,
    shared: OnceLock<Broker>,
    own: Mutex<Option<Broker>>,
    full: bool,
}

/// The second broker, for one test at a time: it may be killed.
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
        Ok(Context {
            watchdog: Arc::new(Watchdog::start(&root)?),
            root,
            binary: OnceLock::new(),
            shared: OnceLock::new(),
            own: Mutex::new(None),
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
        self.binary.get_or_init(|| env::var_os("WATTLE_BIN").map_or_else(build, PathBuf::from))
    }

    /// The broker that everybody uses and nobody harms.
    pub(crate) fn shared_broker(&self) -> &Broker {
        self.shared.get_or_init(|| self.start("shared"))
    }

    /// A running broker for one test at a time. Tests that need the machine for themselves take it too.
    pub(crate) fn own_broker(&self) -> OwnBroker<'_> {
        let mut own = self.own.lock().unwrap_or_else(PoisonError::into_inner);
        match own.as_ref() {
            Some(broker) => {
                broker.thaw(); // a test that failed may have left it frozen
                broker.start_again();
            }
            None => *own = Some(self.start("own")),
        }
        OwnBroker(own)
    }

    /// Ends everything.
    pub(crate) fn finish(&self) {
        self.watchdog.finish();
    }

    fn start(&self, name: &str) -> Broker {
        Broker::start(&self.root.join(name), Arc::clone(&self.watchdog)).expect("a broker")
    }
}

fn build() -> PathBuf {
    let exe = env::current_exe().expect("the path of this test");
    let deps = exe.parent().filter(|folder| folder.ends_with("deps"));
    let folder =
        deps.and_then(Path::parent).expect("this test is target/PROFILE/deps/e2e-HASH; elsewhere set WATTLE_BIN");
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["build", "--quiet", "-p", "wattle-cli", "--target-dir"]).arg(folder.join(".."));
    if !cfg!(debug_assertions) {
        cargo.arg("--release");
    }
    let status = cargo.current_dir(env!("CARGO_MANIFEST_DIR")).status().expect("cargo runs");
    assert!(status.success(), "wattle could not be built");
    folder.join("wattle")
}
