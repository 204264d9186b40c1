//! The contenders as programs: release builds of ours, Kafka Streams compiled against its jars, and Flechtwerk in a Python of its own.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use crate::Result;
use crate::broker::KAFKA_VERSION;
use crate::process::Process;
use crate::scratch::Scratch;

/// The version that is installed from PyPI.
pub(crate) const FLECHTWERK_VERSION: &str = "0.17.0";

/// What a contender is run with.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Program {
    /// This program, which is the plain loop too.
    This,
    /// The `wattle` command.
    Wattle,
    /// An example of the library.
    Example(&'static str),
    Kstreams,
    Flechtwerk,
}

/// Where the programs are.
pub(crate) struct Kit {
    pub(crate) this: PathBuf,
    release: PathBuf,
    /// Java's class path, or why there is none.
    pub(crate) kstreams: std::result::Result<String, String>,
    /// A Python that has it, or why there is none.
    pub(crate) flechtwerk: std::result::Result<PathBuf, String>,
}

impl Kit {
    /// Builds or fetches these.
    pub(crate) fn prepare(programs: &[Program], scratch: &Scratch) -> Result<Self> {
        let this = env::current_exe()?;
        let release = this.parent().ok_or("this program is in no folder")?.to_owned();
        let mut kit = Kit { this, release, kstreams: not_asked_for(), flechtwerk: not_asked_for() };
        for (place, program) in programs.iter().enumerate() {
            if programs[..place].contains(program) {
                continue;
            }
            match program {
                Program::This => {}
                Program::Wattle => build(&kit.release, &["-p", "wattle-cli"])?,
                Program::Example(name) => build(&kit.release, &["-p", "wattle", "--example", name])?,
                Program::Kstreams => kit.kstreams = kstreams(scratch).map_err(|error| error.to_string()),
                Program::Flechtwerk => kit.flechtwerk = flechtwerk(scratch).map_err(|error| error.to_string()),
            }
        }
        Ok(kit)
    }

    pub(crate) fn wattle(&self) -> PathBuf {
        self.release.join("wattle")
    }

    pub(crate) fn example(&self, name: &str) -> PathBuf {
        self.release.join("examples").join(name)
    }

    /// Why this program cannot be had; `None` where it can.
    pub(crate) fn lacks(&self, program: Program) -> Option<&str> {
        match program {
            Program::Kstreams => self.kstreams.as_ref().err().map(String::as_str),
            Program::Flechtwerk => self.flechtwerk.as_ref().err().map(String::as_str),
            Program::This | Program::Wattle | Program::Example(_) => None,
        }
    }
}

fn not_asked_for<T>() -> std::result::Result<T, String> {
    Err("not asked for".to_owned())
}

/// Builds into the folder that this program is in: `TARGET/release`.
fn build(release: &Path, what: &[&str]) -> Result<()> {
    eprintln!("building {}", what.join(" "));
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["build", "--quiet", "--release"]).args(what).arg("--target-dir").arg(release.join(".."));
    let status = cargo.current_dir(env!("CARGO_MANIFEST_DIR")).status().map_err(|e| format!("cargo: {e}"))?;
    if status.success() { Ok(()) } else { Err(format!("cargo build {} failed", what.join(" ")).into()) }
}

/// Where things stay that are fetched once.
fn cache(name: &str) -> Result<PathBuf> {
    Ok(Path::new(&env::var_os("HOME").ok_or("HOME is not set")?).join(".cache/wattle").join(name))
}

/// Fills a folder beside, which is then renamed: `folder` is complete or absent.
fn fetch_once(folder: &Path, what: &str, fill: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
    if folder.exists() {
        return Ok(());
    }
    eprintln!("fetching {what} into {} (once)", folder.display());
    // A version's last part looks like an extension.
    let mut part = folder.as_os_str().to_owned();
    part.push(format!(".part-{}", std::process::id()));
    let part = PathBuf::from(part);
    fill(&part)?;
    Ok(fs::rename(part, folder)?)
}

/// Compiles the contenders for Kafka Streams, and fetches its jars once.
fn kstreams(scratch: &Scratch) -> Result<String> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("kstreams");
    for (program, what) in [("java", "a Java runtime"), ("javac", "a Java compiler")] {
        let there = Command::new(program).arg("-version").output().is_ok_and(|output| output.status.success());
        if !there {
            return Err(format!("{program} not found: Kafka Streams needs {what}, 17 or newer").into());
        }
    }
    let jars = cache(&format!("kafka-streams-{KAFKA_VERSION}"))?;
    fetch_once(&jars, &format!("the jars of Kafka Streams {KAFKA_VERSION}"), |part| {
        let mut maven = Command::new("mvn");
        maven.args(["-q", "-B", "-Dstyle.color=never", "-f"]).arg(source.join("pom.xml"));
        maven.arg("dependency:copy-dependencies").arg(format!("-DoutputDirectory={}", part.display()));
        Process::spawn(scratch, "mvn", maven)?.finish().map(|_| ())
    })?;
    let (jars, classes) = (format!("{}/*", jars.display()), scratch.file("kstreams-classes"));
    let mut compiler = Command::new("javac");
    compiler.args(["-cp", &jars, "-d"]).arg(&classes).args(["Copy.java", "Count.java"].map(|file| source.join(file)));
    Process::spawn(scratch, "javac", compiler)?.finish()?;
    Ok(format!("{}:{jars}", classes.display()))
}

/// Installs Flechtwerk into a virtual environment, once.
fn flechtwerk(scratch: &Scratch) -> Result<PathBuf> {
    let folder = cache(&format!("flechtwerk-{FLECHTWERK_VERSION}"))?;
    fetch_once(&folder, &format!("Flechtwerk {FLECHTWERK_VERSION}"), |part| {
        let mut venv = Command::new("python3.13");
        // Where pyenv has several versions, its `python3.13` runs only when asked for by this.
        venv.env("PYENV_VERSION", "3.13").args(["-m", "venv"]).arg(part);
        Process::spawn(scratch, "venv", venv)
            .and_then(Process::finish)
            .map_err(|error| format!("Flechtwerk needs python3.13: {error}"))?;
        let mut pip = Command::new(part.join("bin/python"));
        pip.args(["-m", "pip", "install", "--quiet", &format!("flechtwerk=={FLECHTWERK_VERSION}")]);
        Process::spawn(scratch, "pip", pip)?.finish().map(|_| ())
    })?;
    Ok(folder.join("bin/python"))
}
