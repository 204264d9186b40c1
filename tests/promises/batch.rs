//! What a batch of a stage with state commits, and what one that fails does not: the example `count` on one partition.

use std::thread;

use rdkafka::producer::BaseRecord;

use crate::harness::cluster::Group;
use crate::harness::cluster::Isolation::{ReadCommitted, ReadUncommitted};
use crate::harness::ledger::{assert_counts_of, count, records};
use crate::harness::load::{Load, confirmed_producer, finish, send};
use crate::harness::process::Process;
use crate::harness::proxy::Api;
use crate::harness::room::Room;
use crate::harness::wait::{PATIENCE, wait_until};
use crate::harness::wire::set_topic_config;

/// An application of its own; several may be in one test.
pub(super) struct Count<'a> {
    pub(super) room: &'a Room,
    pub(super) id: String,
    pub(super) input: String,
    pub(super) output: String,
    pub(super) changelog: String,
}

impl<'a> Count<'a> {
    pub(super) fn new(room: &'a Room, part: &str) -> Self {
        Count::with(room, part, 1, (1, &[("cleanup.policy", "compact")]))
    }

    /// With so many partitions of the input, and so many of the changelog, with its settings.
    pub(super) fn with(room: &'a Room, part: &str, partitions: i32, changelog: (i32, &[(&str, &str)])) -> Self {
        let id = room.name(part);
        let (count, settings) = changelog;
        let changelog = format!("{id}-changelog");
        room.cluster().create_topic(&changelog, count, settings);
        let (input, output) = (room.topic(&format!("{part}.in"), partitions), room.topic(&format!("{part}.out"), 1));
        Count { room, id, input, output, changelog }
    }

    pub(super) fn start(&self) -> Process {
        self.start_at(&self.room.broker().address())
    }

    fn start_at(&self, brokers: &str) -> Process {
        let scope = if self.room.mode().is_worker() { "worker" } else { "task" };
        let place = ["--brokers", brokers, "--input", &self.input, "--output", &self.output];
        self.room.example("count", &[&place[..], &["--application-id", &self.id, "--transaction-scope", scope]].concat())
    }

    /// Writes a record for each key, numbered from `first` on.
    pub(super) fn write(&self, first: u64, keys: &[&str]) {
        let producer = confirmed_producer(&self.room.broker().address());
        for (i, key) in (first..).zip(keys) {
            send(&producer, BaseRecord::to(&self.input).key(*key).payload(&format!(r#"{{"i":{i}}}"#)));
        }
        finish(&producer);
    }

    fn load(&self) -> Load {
        self.room.load(&[&self.input], 1)
    }

    pub(super) fn group(&self) -> Group<'_> {
        self.room.cluster().group(&self.id)
    }

    pub(super) fn wait_drained(&self) {
        self.group().wait_drained(&[&self.input], PATIENCE);
    }

    /// Committed outputs and changes of states.
    fn written(&self) -> [u64; 2] {
        [&self.output, &self.changelog].map(|topic| count(self.room.cluster(), topic, ReadCommitted))
    }
}

/// In each topic one marker is behind the records of a transaction: there was one.
pub(super) fn outputs_state_and_position_of_a_batch_commit_in_one_transaction(room: &Room) {
    let app = Count::new(room, "app");
    app.write(0, &["k"; 5]);
    let mut process = app.start();
    app.wait_drained();
    process.stop_cleanly();
    let texts = |topic| records(room.cluster(), topic).iter().map(|record| record.text()).collect::<Vec<_>>();
    let wanted: Vec<String> = (0..5).map(|i| format!(r#"{{"k":"k","n":{},"i":{i}}}"#, i + 1)).collect();
    assert_eq!((texts(&app.output), texts(&app.changelog)), (wanted, vec!["5".to_owned()]));
    assert_eq!(app.group().committed(&app.input), [Some(5)]);
    let ends = [&app.output, &app.changelog].map(|topic| room.cluster().ends(topic, ReadUncommitted)[0]);
    assert_eq!(ends, [5 + 1, 1 + 1], "records and markers");
}

/// The fourth of five records has a key that its output's topic, or the changelog, does not take.
pub(super) fn a_refused_output_or_state_commits_nothing_of_its_batch_and_is_named(room: &Room) {
    let key: String = (0..2000_u64).map(|n| char::from(b'a' + (n.wrapping_mul(2_654_435_761) >> 7) as u8 % 26)).collect();
    let apps = ["output", "state"].map(|part| Count::new(room, part));
    let address = room.broker().address();
    thread::scope(|scope| {
        for (app, topic) in [(&apps[0], &apps[0].output), (&apps[1], &apps[1].changelog)] {
            let key = key.as_str();
            let address = &address;
            scope.spawn(move || {
                set_topic_config(address, topic, "max.message.bytes", "1000");
                app.write(0, &["a", "b", "a", key, "b"]);
                let mut process = app.start();
                assert_eq!(process.wait_exit(PATIENCE), 1);
                let log = process.stderr();
                for word in [topic, "1000", "max.message.bytes", &key[..60], &app.input, "offset 3"] {
                    assert!(log.contains(word), "{word:?} is not in the log: {log}");
                }
                app.room.cluster().wait_settled(&[topic]);
                assert_eq!(app.written(), [0, 0], "{topic}");
                assert_eq!(app.group().committed(&app.input), [Some(0)], "where the group begins");
                // The remedy that it names.
                set_topic_config(address, topic, "max.message.bytes", "10000");
                let mut process = app.start();
                app.wait_drained();
                process.stop_cleanly();
                assert_eq!(app.written(), [5, 3], "{topic}");
            });
        }
    });
}

/// Its owner is dead, and its commit comes late: before the new owner starts, while it does, and when it has counted everything. What
/// the state has and what the position says are one thing each time.
pub(super) fn a_late_commit_of_a_batch_with_state_counts_once(room: &Room) {
    let moments = ["before", "during", "after"].map(|moment| (moment, Count::new(room, moment)));
    thread::scope(|scope| {
        for (moment, app) in &moments {
            scope.spawn(move || late_commit(moment, app));
        }
    });
}

fn late_commit(moment: &str, app: &Count<'_>) {
    let (proxy, group) = (app.room.broker().proxy(), app.group());
    let mut old = app.start_at(proxy.address());
    app.load().send(0..10);
    app.wait_drained();
    let hold = proxy.hold(Api::EndTxn, &format!("{}-", app.id));
    app.load().send(10..500);
    hold.wait_held(PATIENCE);
    assert!(old.kill(), "it was there to be killed");
    assert_eq!(group.committed(&app.input), [Some(10)], "the commit that is held would have moved it");
    if moment == "before" {
        hold.release();
        wait_until("the late commit counts", PATIENCE, || group.committed(&app.input)[0] > Some(10));
    }
    let mut new = app.start();
    group.wait_members(&[1], PATIENCE);
    if moment == "after" {
        app.wait_drained();
    }
    hold.release();
    app.wait_drained();
    app.load().send(500..600);
    app.wait_drained();
    new.stop_cleanly();
    app.room.cluster().wait_settled(&[&app.output, &app.changelog]);
    assert_counts_of(app.room.cluster(), &app.output, 1, 600);
}

/// A restore takes bytes as they are. They are in nobody's way until a record of their key comes, which stops with its place.
pub(super) fn a_state_that_cannot_be_read_stops_the_records_of_its_key_alone(room: &Room) {
    let app = Count::new(room, "app");
    app.write(0, &["k", "odd"]);
    let mut process = app.start();
    app.wait_drained();
    process.stop_cleanly();
    let producer = confirmed_producer(&room.broker().address());
    send(&producer, BaseRecord::to(&app.changelog).partition(0).key("odd").payload(&[0xff, 0][..]));
    finish(&producer);
    let mut process = app.start();
    app.write(2, &["k"]);
    app.wait_drained();
    app.write(3, &["odd"]);
    assert_eq!(process.wait_exit(PATIENCE), 1);
    assert!(process.says(&[&app.input, "offset 3", "the state of its key cannot be read"]), "{}", process.stderr());
    assert_eq!((app.written(), app.group().committed(&app.input)), ([3, 4], vec![Some(3)]));
}
