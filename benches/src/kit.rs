//! The contenders as programs: release builds of ours, and Kafka Streams compiled against its jars.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use crate::Result;
use crate::broker::KAFKA_VERSION;
use crate::contender::Kind;
use crate::process::Process;
use crate::scratch::Scratch;

/// Where the programs are.
pub(crate) struct Kit {
    /// This program; it is the plain loop too.
    pub(crate) this: PathBuf,
    /// The `wattle` command.
    pub(crate) wattle: PathBuf,
    /// The library's copy example.
    pub(crate) stage: PathBuf,
    /// Java's class path, or why there is none.
    pub(crate) kstreams: std::result::Result<String, String>,
}

impl Kit {
    /// Builds what these contenders need.
    pub(crate) fn prepare(kinds: &[Kind], scratch: &Scratch) -> Result<Self> {
        let this = env::current_exe()?;
        let release = this.parent().ok_or("this program is in no folder")?.to_owned();
        if kinds.iter().any(|kind| kind.is_pipeline()) {
            build(&release, &["-p", "wattle-cli"])?;
        }
        if kinds.iter().any(|kind| kind.is_stage()) {
            build(&release, &["-p", "wattle", "--example", "copy"])?;
        }
        let kstreams = match kinds.contains(&Kind::Kstreams) {
            true => kstreams(scratch).map_err(|error| error.to_string()),
            false => Err("not asked for".to_owned()),
        };
        Ok(Kit { wattle: release.join("wattle"), stage: release.join("examples/copy"), this, kstreams })
    }
}

/// Builds into the folder that this program is in: `TARGET/release`.
fn build(release: &Path, what: &[&str]) -> Result<()> {
    eprintln!("building {}", what.join(" "));
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["build", "--quiet", "--release"]).args(what).arg("--target-dir").arg(release.join(".."));
    let status = cargo.current_dir(env!("CARGO_MANIFEST_DIR")).status().map_err(|e| format!("cargo: {e}"))?;
    if status.success() { Ok(()) } else { Err(format!("cargo build {} failed", what.join(" ")).into()) }
}

/// Compiles the copy for Kafka Streams, and fetches its jars once.
fn kstreams(scratch: &Scratch) -> Result<String> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("kstreams");
    for (program, what) in [("java", "a Java runtime"), ("javac", "a Java compiler")] {
        let there = Command::new(program).arg("-version").output().is_ok_and(|output| output.status.success());
        if !there {
            return Err(format!("{program} not found: Kafka Streams needs {what}, 17 or newer").into());
        }
    }
    let cache = Path::new(&env::var_os("HOME").ok_or("HOME is not set")?).join(".cache/wattle");
    let jars = cache.join(format!("kafka-streams-{KAFKA_VERSION}"));
    if !jars.exists() {
        fetch(scratch, &source.join("pom.xml"), &jars)?;
    }
    let (jars, classes) = (format!("{}/*", jars.display()), scratch.file("kstreams-classes"));
    let mut compiler = Command::new("javac");
    compiler.args(["-cp", &jars, "-d"]).arg(&classes).arg(source.join("Copy.java"));
    Process::spawn(scratch, "javac", compiler)?.finish()?;
    Ok(format!("{}:{jars}", classes.display()))
}

/// Into a folder beside, which is then renamed: `jars` is complete or absent.
fn fetch(scratch: &Scratch, pom: &Path, jars: &Path) -> Result<()> {
    eprintln!("fetching the jars of Kafka Streams {KAFKA_VERSION} into {} (once)", jars.display());
    let part = jars.with_file_name(format!("kafka-streams.part-{}", std::process::id()));
    let mut maven = Command::new("mvn");
    maven.args(["-q", "-B", "-Dstyle.color=never", "-f"]).arg(pom).arg("dependency:copy-dependencies");
    maven.arg(format!("-DoutputDirectory={}", part.display()));
    Process::spawn(scratch, "mvn", maven)?.finish()?;
    Ok(fs::rename(part, jars)?)
}
