//! An operator looks at an application, and lets it begin anew.

use std::time::Duration;

use serde_json::Value;

use super::state::{assert_counts, start};
use crate::harness::process::Process;
use crate::harness::room::Room;
use crate::harness::transaction::Transaction;
use crate::harness::wait::PATIENCE;

pub(super) fn an_inspection_shows_where_an_application_stands_and_a_reset_lets_it_begin_anew(room: &Room) {
    let (input, output, again) = (room.topic("in", 1), room.topic("out", 1), room.topic("again", 1));
    let group = room.cluster().group(&room.group());
    room.load(&[&input], 1).send(0..100);
    let mut process = start(room, &input, &output);
    group.wait_drained(&[&input], PATIENCE);
    let running = inspect(room);
    assert_eq!(running["members"].as_array().map(Vec::len), Some(1));
    assert_eq!(running["changelog"][0]["keys"], 97);
    let position = &running["positions"][0];
    assert_eq!((position["topic"].as_str(), position["position"].as_i64()), (Some(input.as_str()), Some(100)));
    assert_eq!(position["transactional_id"].as_str(), Some(format!("{}-0", room.group()).as_str()));
    assert_eq!(position["pending"], false);
    let mut refused = wattle(room, "reset", &["--execute"]);
    assert_eq!(refused.wait_exit(PATIENCE), 1);
    assert!(refused.says(&["has members", "stop"]), "log: {}", refused.stderr());
    process.stop_cleanly();

    let foreign = Transaction::open(&room.broker().address(), &room.name("foreign"));
    foreign.position(&room.group(), &input, 0, 10);
    assert_eq!(inspect(room)["positions"][0]["pending"], true);
    foreign.abort();

    let text = done(wattle(room, "reset", &[]));
    assert!(text.contains("the state of 97 keys") && text.contains("--execute"), "{text}");
    let unchanged = inspect(room);
    assert_eq!((&unchanged["positions"], &unchanged["changelog"]), (&running["positions"], &running["changelog"]));
    done(wattle(room, "reset", &["--execute"]));
    let gone = inspect(room);
    assert_eq!((gone["positions"].as_array().map(Vec::len), gone["changelog"].as_array().map(Vec::len)), (Some(0), Some(0)));
    let mut anew = start(room, &input, &again);
    group.wait_drained(&[&input], PATIENCE);
    anew.stop_cleanly();
    assert_counts(room, &again, 1, 100);
}

fn inspect(room: &Room) -> Value {
    serde_json::from_str(&done(wattle(room, "inspect", &["--json"]))).expect("JSON")
}

fn wattle(room: &Room, command: &str, arguments: &[&str]) -> Process {
    let (group, brokers) = (room.group(), room.broker().address());
    room.wattle(&[&[command, &group, "--brokers", &brokers], arguments].concat())
}

fn done(mut process: Process) -> String {
    assert_eq!(process.wait_exit(Duration::from_secs(60)), 0, "{}", process.stderr());
    process.stdout().join("\n")
}
