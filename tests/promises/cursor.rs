//! A file exactly once: its position is a cursor in the changelog topic, and commits with the records.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;

use nix::sys::signal::Signal;

use crate::harness::broker::Broker;
use crate::harness::cluster::Cluster;
use crate::harness::cluster::Isolation::{ReadCommitted, ReadUncommitted};
use crate::harness::ledger::{Ledger, count, records};
use crate::harness::process::Process;
use crate::harness::proxy::{Api, Hold};
use crate::harness::room::Room;
use crate::harness::transaction::{Transaction, fence};
use crate::harness::wait::{PATIENCE, wait_until};

/// Each batch of a slow reader takes several times as long: whoever looks at it finds it with most of its lines before it.
const SLOW: Duration = Duration::from_millis(50);

/// A file and the stream that reads it.
pub(super) struct Fixture<'a> {
    room: &'a Room,
    broker: &'a Broker,
    cluster: &'a Cluster,
    /// Where the stream finds its broker.
    address: String,
    pub(super) path: PathBuf,
    pub(super) output: String,
    /// Further keys of the input, as YAML flow.
    pub(super) mode: &'static str,
    /// Further keys of the stream, as lines of YAML.
    pub(super) more: String,
}

impl<'a> Fixture<'a> {
    pub(super) fn new(room: &'a Room, partitions: i32) -> Self {
        Fixture::on(room, room.broker(), partitions)
    }

    fn on(room: &'a Room, broker: &'a Broker, partitions: i32) -> Self {
        let (cluster, address) = (broker.cluster(), broker.address());
        let path = room.folder().join("input.jsonl");
        let output = room.name("out");
        cluster.create_topic(&output, partitions, &[]);
        Fixture { room, broker, cluster, address, path, output, mode: "", more: String::new() }
    }

    /// From now on readers are slow, until this is released; those that are started after [`Fixture::directly`] are not.
    pub(super) fn slowly(&mut self) -> Hold {
        let proxy = self.broker.proxy();
        self.address = proxy.address().to_owned();
        proxy.delay(Api::Produce, &self.room.group(), SLOW)
    }

    /// From now on readers are as fast as they can.
    pub(super) fn directly(&mut self) {
        self.address = self.broker.address();
    }

    pub(super) fn write(&self, text: &str) {
        fs::write(&self.path, text).unwrap();
    }

    pub(super) fn yaml(&self) -> String {
        self.input(&format!("type: file, path: {}{}", self.path.display(), self.mode))
    }

    fn input(&self, input: &str) -> String {
        let (id, output, brokers) = (self.room.group(), &self.output, &self.address);
        let keys = format!("exactly_once: true, transactional_id: {id}, brokers: \"{brokers}\"");
        let stream = format!("streams:\n  - id: load\n    input: {{{input}}}\n");
        format!("{stream}    output: {{type: kafka, topic: {output}, {keys}}}\n{}", self.more)
    }

    fn changelog(&self) -> String {
        format!("{}-changelog", self.room.group())
    }

    /// Runs it to the end of the file, which must end well.
    pub(super) fn finish(&self) -> Process {
        let mut process = self.room.run(self.yaml());
        assert_eq!(process.wait_exit(2 * PATIENCE), 0, "exit code; log: {}", process.stderr());
        process
    }

    /// Runs it; it must refuse, name the reason, and write nothing.
    pub(super) fn refused(&self, words: &[&str]) {
        let topics = [&self.output, &self.changelog()].map(|topic| self.cluster.ends(topic, ReadUncommitted));
        let mut process = self.room.run(self.yaml());
        assert_eq!(process.wait_exit(PATIENCE), 1, "exit code; log: {}", process.stderr());
        assert!(process.says(&[&["W0012"], words].concat()), "{words:?} in: {}", process.stderr());
        let now = [&self.output, &self.changelog()].map(|topic| self.cluster.ends(topic, ReadUncommitted));
        assert_eq!(now, topics, "nothing is written");
    }

    pub(super) fn ledger(&self) -> Ledger {
        Ledger::of(self.cluster, &self.output)
    }

    /// Grows with every commit. Counting the records takes for ever while a quick writer is at it.
    pub(super) fn stable_ends(&self) -> i64 {
        self.cluster.ends(&self.output, ReadCommitted).iter().sum()
    }

    /// Of a file whose reader rests.
    pub(super) fn committed(&self) -> u64 {
        count(self.cluster, &self.output, ReadCommitted)
    }
}

impl Drop for Fixture<'_> {
    fn drop(&mut self) {
        fs::remove_file(&self.path).unwrap_or_default();
    }
}

pub(super) fn lines(ids: Range<u64>) -> String {
    ids.fold(String::new(), |mut text, id| {
        writeln!(text, r#"{{"i":{id},"from":"file","pad":"{id:064}"}}"#).unwrap();
        text
    })
}

/// Killed again and again, most of the times inside of a transaction, and run again.
pub(super) fn a_file_whose_reader_is_killed_is_written_once(room: &Room) {
    let (kills, total) = room.number((5, 40_000), (30, 200_000));
    let mut file = Fixture::new(room, 2);
    file.more = format!("    batch: {}\n", room.batch(100));
    file.write(&lines(0..total));
    let _slow = file.slowly();
    let cluster = room.cluster();
    for n in 1..=kills {
        let before = file.stable_ends();
        let mut process = room.run(file.yaml());
        wait_until("it goes on", PATIENCE, || file.stable_ends() > before);
        if n % 3 == 0 {
            assert!(process.kill(), "it was there to be killed");
        } else {
            process.kill_in_transaction(cluster, &[&file.output]);
        }
        eprintln!("kill {n} of {kills}: {} of {total} are written", file.committed());
    }
    assert!(file.committed() < total, "every kill met records in flight");
    file.directly();
    file.finish();
    file.ledger().assert_exact(0..total);
    assert!(count(cluster, &file.output, ReadUncommitted) > total, "aborted records lie between the others");
    let ends = cluster.ends(&file.output, ReadUncommitted);
    assert!(file.finish().says(&["load", "0 new records"]), "a finished file has nothing new");
    assert_eq!(cluster.ends(&file.output, ReadUncommitted), ends, "nothing is written");
}

pub(super) fn a_file_that_grew_is_read_on_and_one_that_changed_is_refused(room: &Room) {
    let file = Fixture::new(room, 1);
    file.write(&lines(0..100));
    file.finish();
    file.write(&lines(0..150));
    assert!(file.finish().says(&["load", "50 records"]), "the new lines alone");
    file.ledger().assert_exact(0..150);
    // Edited in the middle, at its former length; cut; replaced by another one.
    file.write(&lines(0..150).replace(r#""i":70,"#, r#""i":71,"#));
    file.refused(&["jsonl has changed before the committed position", "line 150", "others than those"]);
    file.write(&lines(0..140));
    file.refused(&["jsonl has changed before the committed position", "only"]);
    file.write(&lines(1000..2000));
    file.refused(&["jsonl has changed before the committed position", "others than those"]);
    // As it was, with another inode.
    fs::remove_file(&file.path).unwrap();
    file.write(&lines(0..160));
    file.finish();
    file.ledger().assert_exact(0..160);
}

pub(super) fn a_last_line_without_end_is_neither_doubled_nor_cut(room: &Room) {
    let file = Fixture::new(room, 1);
    let text = lines(0..20);
    file.write(text.strip_suffix('\n').unwrap());
    file.finish();
    assert!(file.finish().says(&["load", "0 new records"]));
    file.write(&lines(0..30));
    file.finish();
    file.ledger().assert_exact(0..30);
    // A number that was half there: the record is written, and its other half would be another one.
    file.write(&(lines(0..30) + r#"{"i":30,"from":"file"}"#));
    file.finish();
    file.write(&(lines(0..30) + r#"{"i":30,"from":"file"},"#));
    file.refused(&["line 31 had no end when it was read, and has grown since"]);
    file.ledger().assert_exact(0..31);
}

/// Stopped inside of a transaction. Another process reads the whole file meanwhile.
pub(super) fn a_stopped_reader_of_a_file_writes_nothing_when_it_goes_on(room: &Room) {
    let mut file = Fixture::new(room, 1);
    file.more = format!("    batch: {}\n", room.batch(100));
    file.write(&lines(0..20_000));
    let _slow = file.slowly();
    let cluster = room.cluster();
    let mut old = room.run(file.yaml());
    old.freeze_in_transaction(cluster, &[&file.output]);
    let done = file.committed();
    assert!(done < 20_000, "it was stopped half way");
    file.directly();
    file.finish();
    let ends = cluster.ends(&file.output, ReadUncommitted);
    old.signal(Signal::SIGCONT);
    assert_eq!(old.wait_exit(PATIENCE), 1, "exit code of a fenced process");
    assert!(old.says(&["W0008", "was fenced, and another process has committed"]), "log: {}", old.stderr());
    assert_eq!(cluster.ends(&file.output, ReadUncommitted), ends, "it writes nothing");
    file.ledger().assert_exact(0..20_000);
}

/// Started twice by mistake: whichever goes on, every line is written once.
pub(super) fn two_readers_of_a_file_write_it_once(room: &Room) {
    let mut file = Fixture::new(room, 1);
    file.more = format!("    batch: {}\n", room.batch(100));
    file.write(&lines(0..20_000));
    let slow = file.slowly();
    let mut old = room.run(file.yaml());
    wait_until("it has begun", PATIENCE, || file.stable_ends() > 0);
    file.directly();
    let mut new = room.run(file.yaml());
    new.wait_says(&["fenced every older producer"], PATIENCE);
    slow.release();
    let codes = [&mut old, &mut new].map(|process| process.wait_exit(2 * PATIENCE));
    // It may have fenced back before the second one had committed; then that one is the one that ends.
    let noticed = ["starts again with a new producer", "was fenced"].iter().any(|words| old.says(&[words]));
    assert!(noticed, "the first one noticed: {}", old.stderr());
    assert!(codes.contains(&0), "one comes to the end: {codes:?}; {}\n{}", old.stderr(), new.stderr());
    file.ledger().assert_exact(0..20_000);
}

/// An intruder takes the transactional id once, and writes nothing: the reader begins anew behind its cursor.
pub(super) fn a_reader_of_a_file_that_was_fenced_once_goes_on(room: &Room) {
    let mut file = Fixture::new(room, 1);
    file.more = format!("    batch: {}\n", room.batch(100));
    file.write(&lines(0..20_000));
    let slow = file.slowly();
    let mut process = room.run(file.yaml());
    wait_until("it has begun", PATIENCE, || file.stable_ends() > 0);
    fence(file.cluster.address(), &format!("{}-0", room.group()));
    process.wait_says(&["starts again with a new producer"], PATIENCE);
    slow.release();
    assert_eq!(process.wait_exit(2 * PATIENCE), 0, "log: {}", process.stderr());
    file.ledger().assert_exact(0..20_000);
}

/// The outcome of the commit under way is not known then.
pub(super) fn a_broker_that_is_killed_under_a_reader_of_a_file_loses_and_doubles_nothing(room: &Room) {
    let broker = room.own_broker();
    let mut file = Fixture::on(room, &broker, 2);
    file.more = format!("    batch: {}\n", room.batch(100));
    let total = 20_000;
    file.write(&lines(0..total));
    let slow = file.slowly();
    let mut process = room.run(file.yaml());
    for _ in 0..2 {
        let before = file.stable_ends();
        wait_until("it goes on", PATIENCE, || {
            if !process.is_running() {
                assert_eq!(process.wait_exit(PATIENCE), 1, "a run that failed over the broker's death");
                process = room.run(file.yaml());
            }
            file.stable_ends() > before && process.is_running()
        });
        broker.kill();
        broker.start_again();
    }
    slow.release();
    if process.wait_exit(3 * PATIENCE) != 0 {
        file.finish();
    }
    file.ledger().assert_exact(0..total);
}

/// The position moves though no record comes out, and failed records go to their topic in the same transaction.
pub(super) fn filtered_and_failed_lines_move_the_cursor(room: &Room) {
    let mut file = Fixture::new(room, 1);
    let failed = room.topic("failed", 1);
    file.more = "    pipeline: {processors: [{type: filter, condition: .i == -1}]}\n".to_owned();
    writeln!(file.more, "    error_output: {{type: kafka, topic: {failed}}}").unwrap();
    file.write(&format!("{}no json\n", lines(0..1000)));
    file.finish();
    assert_eq!(file.committed(), 0);
    let dead = records(room.cluster(), &failed);
    assert_eq!(dead.iter().map(|record| record.text()).collect::<Vec<_>>(), ["no json"]);
    assert_eq!(dead[0].header("wattle.offset").as_deref(), Some("1001"));
    assert!(file.finish().says(&["load", "0 new records"]));
    assert_eq!(records(room.cluster(), &failed).len(), 1);
    let cursors = records(room.cluster(), &file.changelog());
    let key = cursors[0].key.as_deref().map(String::from_utf8_lossy).unwrap();
    assert_eq!(key, format!("\0wattle.cursor\0file\0{}\x000", file.path.display()));
    assert!(cursors.last().unwrap().text().contains(r#""lines":1001,"records":1001,"#), "{cursors:?}");
}

/// The second one does not fit into the error topic either.
pub(super) fn a_line_that_is_too_large_for_its_topic_moves_to_the_error_topic(room: &Room) {
    let mut file = Fixture::new(room, 1);
    let limit = |name: &str, bytes| room.topic_with(name, 1, &[("max.message.bytes", bytes)]);
    (file.output, file.more) = (limit("small", "2000"), limit("failed", "4000"));
    let failed = std::mem::take(&mut file.more);
    file.more = format!("    error_output: {{type: kafka, topic: {failed}}}\n");
    let long = |id: u64, pad: usize| format!(r#"{{"i":{id},"from":"file","pad":"{id:0pad$}"}}"#) + "\n";
    file.write(&(lines(0..10) + &long(10, 3000) + &lines(11..20) + &long(20, 5000) + &lines(21..30)));
    file.finish();
    let fit = (0..30).filter(|id| id % 10 != 0 || *id == 0).collect();
    file.ledger().assert_once(&fit, &BTreeSet::new());
    let dead = records(room.cluster(), &failed);
    let header = |name: &str| dead.iter().map(|letter| letter.header(name).unwrap_or_default()).collect::<Vec<_>>();
    assert_eq!(dead.iter().map(|letter| letter.text() + "\n").collect::<Vec<_>>(), [long(10, 3000), "\n".to_owned()]);
    assert_eq!((header("wattle.offset"), header("wattle.cut")), (vec!["11".into(), "21".into()], vec![String::new(), "value".into()]));
    assert_eq!(header("wattle.value_bytes")[1], (long(20, 5000).len() - 1).to_string());
    assert!(header("wattle.error").iter().all(|text| text.contains("2000 (max.message.bytes)")), "{dead:?}");
    assert!(file.finish().says(&["load", "0 new records"]), "the position is behind them");
}

/// Somebody else's transaction is open in the changelog: what lies behind it cannot be known yet.
pub(super) fn a_start_waits_for_an_open_transaction_in_the_changelog(room: &Room) {
    let file = Fixture::new(room, 1);
    file.write(&lines(0..10));
    file.finish();
    let open = Transaction::open(&room.broker().address(), &room.name("other"));
    open.write(&file.changelog(), 0, [("k", "v".to_owned())]);
    file.write(&lines(0..20));
    let mut process = room.run(file.yaml());
    process.wait_says(&["waits for", &format!("{}/0", file.changelog()), "transaction is open"], PATIENCE);
    assert_eq!(file.committed(), 10);
    open.commit();
    assert_eq!(process.wait_exit(PATIENCE), 0, "log: {}", process.stderr());
    file.ledger().assert_exact(0..20);
}

pub(super) fn a_changelog_that_would_lose_the_cursor_is_refused(room: &Room) {
    let file = Fixture::new(room, 1);
    file.write(&lines(0..10));
    room.cluster().create_topic(&file.changelog(), 1, &[("cleanup.policy", "delete")]);
    let mut process = room.run(file.yaml());
    assert_eq!(process.wait_exit(PATIENCE), 1);
    assert!(process.says(&["W0003", &file.changelog(), "cleanup.policy=delete", "compact"]), "{}", process.stderr());
    assert_eq!(file.committed(), 0);
}

pub(super) fn generated_records_go_on_behind_the_last_one(room: &Room) {
    let mut file = Fixture::new(room, 1);
    file.more = format!("    batch: {}\n", room.batch(100)) + "    pipeline: {processors: [{type: vrl, statement: '.i = %offset'}]}\n";
    let source = "type: generate, context: {from: generate}, count: 20000";
    let _slow = file.slowly();
    let mut process = room.run(file.input(source));
    process.kill_in_transaction(room.cluster(), &[&file.output]);
    file.directly();
    let yaml = file.input(source);
    let mut process = room.run(&yaml);
    assert_eq!(process.wait_exit(PATIENCE), 0, "log: {}", process.stderr());
    file.ledger().assert_exact(0..20_000);
    let mut process = room.run(&yaml);
    assert_eq!(process.wait_exit(Duration::from_secs(30)), 0);
    assert!(process.says(&["load", "0 new records"]));
}

pub(super) fn messages_of_the_file_go_on_behind_the_last_one(room: &Room) {
    const TOTAL: u64 = 5_000;
    let mut file = Fixture::new(room, 1);
    file.more = format!("    batch: {}\n", room.batch(100));
    let input = |total| {
        let messages: Vec<_> = (0..total).map(|i| format!("{{i: {i}, from: file}}")).collect();
        format!("type: memory, messages: [{}]", messages.join(", "))
    };
    let _slow = file.slowly();
    let mut process = room.run(file.input(&input(TOTAL)));
    process.kill_in_transaction(room.cluster(), &[&file.output]);
    file.directly();
    let yaml = |total| file.input(&input(total));
    for total in [TOTAL, TOTAL + 10] {
        let mut process = room.run(yaml(total));
        assert_eq!(process.wait_exit(PATIENCE), 0, "log: {}", process.stderr());
        file.ledger().assert_exact(0..total);
    }
    let mut process = room.run(yaml(TOTAL + 10));
    assert_eq!(process.wait_exit(PATIENCE), 0);
    assert!(process.says(&["load", "0 new records"]));
    file.ledger().assert_exact(0..TOTAL + 10);
}
