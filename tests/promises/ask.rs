//! A process is asked for its states while it runs: the example `ask`.

use super::state::{assert_counts, start_at};
use crate::harness::cluster::Isolation::ReadCommitted;
use crate::harness::ledger::read;
use crate::harness::process::Process;
use crate::harness::room::Room;
use crate::harness::transaction::fence;
use crate::harness::wait::{PATIENCE, wait_until};

const PARTITIONS: i32 = 6;
const KEY: &str = "k0";
const ELSEWHERE: &str = "does not have it";

/// Killed with a transaction open, it has told nothing that is not committed. Then there are two, of which the one that has the key's partition answers.
pub(super) fn a_process_that_is_asked_answers_what_is_committed(room: &Room) {
    let (input, output, address) = (room.topic("in", PARTITIONS), room.topic("out", PARTITIONS), room.broker().address());
    let group = room.cluster().group(&room.group());
    let start = || start_at(room, &address, "ask", &input, &output, &["--ask", KEY]);
    let mut first = start();
    let load = room.load(&[&input], PARTITIONS).start(0, 4000);
    wait_until("it answers while it runs", PATIENCE, || answers(&first).len() > 20);
    first.kill_in_transaction(room.cluster(), &[&output]);
    for task in 0..PARTITIONS {
        fence(&address, &format!("{}-{task}", room.group())); // ends what it has left open
    }
    room.cluster().wait_settled(&[&output]);
    let (told, committed) = (answers(&first), counted(room, &output));
    assert!(told.is_sorted() && told.last() <= Some(&committed), "{committed} are committed, and it told {told:?}");

    let processes = [start(), start()];
    group.wait_members(&[3, 3], 2 * PATIENCE);
    let total = load.finish();
    group.wait_drained(&[&input], PATIENCE);
    room.cluster().wait_settled(&[&output]);
    let committed = counted(room, &output);
    wait_until("one tells the last count, and the other that it is elsewhere", PATIENCE, || {
        let last = processes.each_ref().map(|process| process.stdout().pop().unwrap_or_default());
        let said = |word: &str| last.iter().filter(|line| line.contains(word)).count();
        last.contains(&committed.to_string()) && said(ELSEWHERE) == 1
    });
    for process in processes {
        let told = answers(&process);
        assert!(told.iter().all(|told| *told <= committed), "{committed} are committed, and one told {told:?}");
        { process }.stop_cleanly();
    }
    assert_counts(room, &output, PARTITIONS, total);
}

fn answers(process: &Process) -> Vec<u64> {
    process.stdout().iter().filter_map(|line| line.parse().ok()).collect()
}

/// The committed count of the key in the partition where producers put it: the output's producers have put it there too. The load goes around the
/// partitions, whatever the key.
fn counted(room: &Room, output: &str) -> u64 {
    let mut last = 0;
    read(room.cluster(), output, ReadCommitted, |message| {
        use rdkafka::Message as _;
        let value: serde_json::Value = serde_json::from_slice(message.payload().expect("a value")).expect("JSON");
        let from = value["i"].as_i64().expect("a number") % i64::from(PARTITIONS);
        if value["k"] == KEY && from == i64::from(message.partition()) {
            last = last.max(value["n"].as_u64().expect("a count"));
        }
    });
    last
}
