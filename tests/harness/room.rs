//! A promise's own names and folder.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::broker::{Broker, Kind};
use super::cluster::Cluster;
use super::context::{Context, OwnBroker};
use super::load::Load;
use super::mode::Mode;
use super::pipeline::Pipeline;
use super::postgres::Postgres;
use super::process::Process;

/// Topics, groups and ids carry the test's name: tests on the shared broker do not meet.
pub(crate) struct Room {
    context: Arc<Context>,
    kind: Kind,
    mode: Mode,
    name: String,
    folder: PathBuf,
    files: AtomicUsize,
}

impl Room {
    /// For the test of this name on this kind of broker.
    pub(crate) fn new(context: Arc<Context>, kind: Kind, mode: Mode, name: &str) -> Self {
        let name = mode.named(name);
        let folder = context.root().join(kind.name).join(&name);
        fs::create_dir_all(&folder).expect("a folder");
        context.binary(); // built before anything is timed
        Room { context, kind, mode, name, folder, files: AtomicUsize::new(0) }
    }

    /// What its pipelines are set to.
    pub(crate) fn mode(&self) -> Mode {
        self.mode
    }

    /// The small number, or the full one if `WATTLE_FULL=1`.
    pub(crate) fn number<T>(&self, small: T, full: T) -> T {
        if self.context.full() { full } else { small }
    }

    /// How many times as many transactions a second this kind of broker ends.
    pub(crate) fn pace(&self) -> usize {
        self.kind.pace
    }

    /// `batch`, as YAML flow, with about so many records, so that a run takes long enough for a fault to meet it: fewer where the broker
    /// is quick.
    pub(crate) fn batch(&self, records: usize) -> String {
        format!("{{max_poll_records: {}}}", (records / self.pace()).max(1))
    }

    /// The shared broker.
    pub(crate) fn broker(&self) -> &Broker {
        self.context.shared_broker(self.kind)
    }

    /// The shared broker's contents.
    pub(crate) fn cluster(&self) -> &Cluster {
        self.broker().cluster()
    }

    /// A broker that may be killed; held until it is dropped.
    pub(crate) fn own_broker(&self) -> OwnBroker<'_> {
        self.context.own_broker(self.kind)
    }

    /// A name of this test's own.
    pub(crate) fn name(&self, part: &str) -> String {
        format!("{}.{part}", self.name)
    }

    /// The consumer group, and the transactional id, of [`Room::copy`].
    pub(crate) fn group(&self) -> String {
        self.name.clone()
    }

    /// The folder in which its processes run.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// A PostgreSQL for this test alone.
    pub(crate) fn postgres(&self) -> Postgres {
        Postgres::start(&self.folder, self.context.watchdog())
    }

    /// Creates a topic on the shared broker.
    pub(crate) fn topic(&self, part: &str, partitions: i32) -> String {
        self.topic_with(part, partitions, &[])
    }

    /// The same with topic settings.
    pub(crate) fn topic_with(&self, part: &str, partitions: i32, configs: &[(&str, &str)]) -> String {
        let name = self.name(part);
        self.cluster().create_topic(&name, partitions, configs);
        name
    }

    /// Input for the shared broker.
    pub(crate) fn load(&self, topics: &[&str], partitions: i32) -> Load {
        let topics = topics.iter().map(|topic| (*topic).to_owned()).collect();
        Load { address: self.broker().address(), topics, partitions }
    }

    /// A copy on the shared broker whose group and transactional id have the test's name.
    pub(crate) fn copy(&self, topics: &[&str], output: &str) -> Pipeline {
        self.copy_at(&self.broker().address(), &self.name, topics, output)
    }

    /// A copy at this address whose group and transactional id have this name.
    pub(crate) fn copy_at(&self, address: &str, name: &str, topics: &[&str], output: &str) -> Pipeline {
        Pipeline::copy(self.mode, address, name, topics, output)
    }

    /// Makes sessions of this pipeline's group so long, in milliseconds. Under the group protocol `consumer` that is up to the broker.
    pub(crate) fn set_session(&self, pipeline: &mut Pipeline, millis: u32) {
        pipeline.session_timeout_ms = millis;
        if self.mode.is_consumer() {
            let (address, group) = (self.broker().address(), &pipeline.consumer_group);
            let entity = ["--bootstrap-server", &address, "--alter", "--entity-type", "groups", "--entity-name", group];
            let setting = format!("consumer.session.timeout.ms={millis}");
            let set = [&entity[..], &["--add-config", &setting]].concat();
            self.broker().kafka().tool("kafka.admin.ConfigCommand", &set);
        }
    }

    /// Starts `wattle run` with this file.
    pub(crate) fn run(&self, pipeline: impl ToString) -> Process {
        self.run_with(pipeline, &[])
    }

    /// Runs it until everything is processed; it must end well.
    pub(crate) fn drain(&self, pipeline: impl ToString) -> Process {
        let mut process = self.run_with(pipeline, &["--drain"]);
        assert_eq!(process.wait_exit(super::wait::PATIENCE), 0, "exit code of a drained run");
        process
    }

    /// Starts `wattle run` with this file and further arguments.
    pub(crate) fn run_with(&self, pipeline: impl ToString, arguments: &[&str]) -> Process {
        let file = self.write(pipeline);
        self.wattle(&[&["run", file.as_str()], arguments].concat())
    }

    /// Drains this file in a shell that has run `ulimit` with these arguments.
    pub(crate) fn drain_under(&self, ulimit: &str, pipeline: impl ToString) -> Process {
        self.shell(&format!("ulimit {ulimit} && exec \"$0\" run \"$1\" --drain"), pipeline)
    }

    /// Runs a shell script in which `"$0" run "$1"` runs this file.
    pub(crate) fn shell(&self, script: &str, pipeline: impl ToString) -> Process {
        let binary = self.context.binary().to_str().expect("a path that is text");
        let arguments = ["-c", script, binary, &self.write(pipeline)];
        Process::spawn(Path::new("/bin/sh"), &self.folder, None, &arguments, self.context.watchdog())
    }

    /// Checks this file against the brokers and databases that it names.
    pub(crate) fn check(&self, pipeline: impl ToString) -> Process {
        let file = self.write(pipeline);
        self.wattle(&["check", &file, "--connect"])
    }

    fn write(&self, pipeline: impl ToString) -> String {
        let file = format!("{}.yaml", self.files.fetch_add(1, Ordering::Relaxed));
        fs::write(self.folder.join(&file), pipeline.to_string()).expect("a pipeline file");
        file
    }

    /// Starts `wattle` with these arguments.
    pub(crate) fn wattle(&self, arguments: &[&str]) -> Process {
        Process::spawn(self.context.binary(), &self.folder, None, arguments, self.context.watchdog())
    }

    /// The same in an environment that names these brokers.
    pub(crate) fn wattle_beside(&self, brokers: &str, arguments: &[&str]) -> Process {
        Process::spawn(self.context.binary(), &self.folder, Some(brokers), arguments, self.context.watchdog())
    }

    /// Starts an example of the library with these arguments.
    pub(crate) fn example(&self, name: &'static str, arguments: &[&str]) -> Process {
        Process::spawn(&self.context.example(name), &self.folder, None, arguments, self.context.watchdog())
    }

    /// The same in a shell script, in which `"$0" "$@"` is the example with its arguments.
    pub(crate) fn example_in_shell(&self, script: &str, name: &'static str, arguments: &[&str]) -> Process {
        let binary = self.context.example(name);
        let begin = ["-c", script, binary.to_str().expect("a path that is text")];
        Process::spawn(Path::new("/bin/sh"), &self.folder, None, &[&begin, arguments].concat(), self.context.watchdog())
    }

    /// Starts this test's own binary as a client with these arguments.
    pub(crate) fn client(&self, arguments: &[String]) -> Process {
        let exe = std::env::current_exe().expect("the path of this test");
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        Process::spawn(&exe, &self.folder, None, &arguments, self.context.watchdog())
    }
}
