//! The tests' own instruments: each must see the fault that it is there for.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, io};

use rdkafka::producer::BaseRecord;

use crate::harness::cluster::Isolation::{ReadCommitted, ReadUncommitted};
use crate::harness::ledger::{self, Ledger};
use crate::harness::load::{confirmed_producer, finish, send, value};
use crate::harness::proxy::Api;
use crate::harness::room::Room;
use crate::harness::transaction::Transaction;

pub(super) fn the_ledger_sees_missing_doubled_and_overtaken_records(room: &Room) {
    let ledger = |part: &str, ids: &[u64]| {
        let topic = room.topic(part, 1);
        let producer = confirmed_producer(&room.broker().address());
        for id in ids {
            send(&producer, BaseRecord::to(&topic).key("k").payload(&value("in", 0, *id)));
        }
        finish(&producer);
        Ledger::of(room.cluster(), &topic)
    };
    let refusal = |ledger: Ledger| ledger.exact(0..4).err().unwrap_or_default();
    assert_eq!(refusal(ledger("exact", &[0, 1, 2, 3])), "");
    assert!(refusal(ledger("missing", &[0, 1, 3])).contains("missing: [2]"));
    assert!(refusal(ledger("doubled", &[0, 1, 2, 2, 3])).contains("more than once: [(2, 2)]"));
    assert!(refusal(ledger("overtaken", &[0, 2, 1, 3])).contains("1 after 2"));
    assert!(refusal(ledger("strange", &[0, 1, 2, 3, 9])).contains("[9]"));
}

pub(super) fn open_and_aborted_transactions_are_seen(room: &Room) {
    let (input, topic) = (room.topic("in", 1), room.topic("t", 2));
    let cluster = room.cluster();
    let transaction = Transaction::open(&room.broker().address(), &room.name("helper"));
    transaction.write(&topic, 1, (0..3).map(|id| ("k", value("in", 0, id))));
    transaction.position(&room.group(), &input, 0, 7);
    assert_eq!(cluster.open_transactions(&[&topic]), [format!("{topic}/1: stable to 0 of 3")]);
    assert_eq!(cluster.group(&room.group()).committed(&input), [None], "pending positions do not count");
    transaction.abort();
    cluster.wait_settled(&[&topic]);
    assert_eq!(ledger::count(cluster, &topic, ReadCommitted), 0);
    assert_eq!(ledger::count(cluster, &topic, ReadUncommitted), 3);
}

pub(super) fn the_proxy_holds_what_it_is_told_to_hold(room: &Room) {
    let topic = room.topic("t", 1);
    let (proxy, id) = (room.broker().proxy(), room.name("helper"));
    let hold = proxy.hold(Api::EndTxn, &id);
    let transaction = Transaction::open(proxy.address(), &id);
    transaction.write(&topic, 0, [("k", value("in", 0, 0))]);
    std::thread::scope(|scope| {
        let commit = scope.spawn(|| transaction.commit());
        hold.wait_held(Duration::from_secs(10));
        assert!(!commit.is_finished() && !room.cluster().open_transactions(&[&topic]).is_empty());
        hold.release();
        commit.join().unwrap();
    });
    assert_eq!(ledger::count(room.cluster(), &topic, ReadCommitted), 1);
}

/// So many cases the list has: R01, R02 …
const CASES: usize = 70;

/// docs/field-cases.md: each row begins with its case, and ends with its tests, `module::name` or, of a crate, `unit::name`.
pub(super) fn every_case_of_the_field_names_tests_that_are_there(_: &Room) {
    let known = tests_that_are_there();
    let text = document("field-cases.md");
    let mut cases = BTreeSet::new();
    for row in text.lines().filter(|line| line.starts_with("| R")) {
        let columns: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let [case, _, what, tests] = columns[..] else { panic!("four columns: {row}") };
        assert!(cases.insert(case.to_owned()), "twice: {case}");
        let tests = named(tests);
        assert!(!tests.is_empty() || what.starts_with("Does not apply"), "{case} has no test and applies");
        let strange: Vec<_> = tests.into_iter().filter(|test| !known.contains(*test)).collect();
        assert!(strange.is_empty(), "tests of {case} that are not there: {strange:?}");
    }
    assert!(cases.iter().eq(&(1..=CASES).map(|n| format!("R{n:02}")).collect::<Vec<_>>()), "cases: {cases:?}");
}

/// docs/guides/arkflow.md, in the same words.
pub(super) fn every_test_of_the_predecessor_names_promises_that_are_there(_: &Room) {
    let known = tests_that_are_there();
    let text = document("guides/arkflow.md");
    let tests = named(&text);
    assert!(tests.len() > 20, "{tests:?}");
    let strange: Vec<_> = tests.into_iter().filter(|test| !known.contains(*test)).collect();
    assert!(strange.is_empty(), "tests that are not there: {strange:?}");
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn document(name: &str) -> String {
    fs::read_to_string(root().join("docs").join(name)).expect("the document")
}

fn named(text: &str) -> Vec<&str> {
    text.split('`').filter(|part| part.contains("::")).collect()
}

/// Promises by `module::name`, tests of crates by `unit::name`.
fn tests_that_are_there() -> BTreeSet<String> {
    let promises = [super::all(), crate::conformance::all()].concat();
    let mut known: BTreeSet<String> =
        promises.iter().map(|promise| format!("{}::{}", promise.module, promise.name)).collect();
    for source in sources(&root().join("crates")).expect("the crates") {
        let source = fs::read_to_string(source).expect("a source");
        let tests = source.split("#[test]\n").skip(1).filter_map(|rest| rest.split_once("fn ")?.1.split_once('('));
        known.extend(tests.map(|(name, _)| format!("unit::{name}")));
    }
    known
}

fn sources(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(sources(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    Ok(found)
}
