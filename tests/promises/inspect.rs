//! An operator looks at an application, and lets it begin anew.

use std::time::Duration;

use serde_json::Value;

use super::state::{assert_counts, start, start_in};
use crate::harness::cluster::Isolation::ReadUncommitted;
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
    assert!(text.contains("with 97 keys") && text.contains("--execute"), "{text}");
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

/// The folder of a running process is left alone, and that of a stopped one is read.
pub(super) fn an_inspection_shows_how_far_local_state_reaches_and_a_reset_removes_it(room: &Room) {
    let (input, output) = (room.topic("in", 2), room.topic("out", 2));
    let group = room.cluster().group(&room.group());
    let local = ["--state-dir", "state"];
    let inspect = || inspect_with(room, &local)["local"].take();
    assert!(inspect().is_null(), "there is none yet");
    room.load(&[&input], 2).send(0..100);
    let mut process = start_in(room, &input, &output, "state");
    group.wait_drained(&[&input], PATIENCE);
    let running = inspect();
    let owner = running["in_use_by"].as_str().expect("it is in use");
    assert!(owner.contains(&format!("process {} on", process.pid())), "{owner}");
    let mut refused = wattle(room, "reset", &[&local[..], &["--execute"]].concat());
    assert_eq!(refused.wait_exit(PATIENCE), 1);
    assert!(refused.says(&["W0015", "state folder state is in use by", owner]), "log: {}", refused.stderr());
    room.load(&[&input], 2).send(100..200);
    group.wait_drained(&[&input], PATIENCE);
    process.stop_cleanly();

    let stopped = inspect();
    assert!(stopped["in_use_by"].is_null());
    let ends = room.cluster().ends(&format!("{}-changelog", room.group()), ReadUncommitted);
    for (task, end) in ends.iter().enumerate() {
        let found = &stopped["tasks"][task];
        let position = found["position"].as_i64().expect("a position");
        assert!(position > 50 && position <= *end, "{found} of {end}");
        assert!(found["distrusted"].is_null() && found["owned_until"].as_i64() > Some(0), "{found}");
    }
    let text = done(wattle(room, "inspect", &local));
    assert_eq!(text.matches("reads on").count(), 2, "{text}");
    let mut again = start_in(room, &input, &output, "state");
    again.wait_says(&["task 1 has its state"], PATIENCE);
    assert!(!again.says(&["is wiped"]), "it is as it was; log: {}", again.stderr());
    again.stop_cleanly();

    room.cluster().delete_topic(&format!("{}-changelog", room.group()));
    let text = done(wattle(room, "reset", &local));
    assert!(text.contains("wipes it: there is no") && text.contains("the folder state with the local state"), "{text}");
    let folder = room.folder().join("state");
    assert!(folder.exists(), "nothing was removed yet");
    done(wattle(room, "reset", &[&local[..], &["--execute"]].concat()));
    assert!(!folder.exists() && inspect().is_null());
}

fn inspect(room: &Room) -> Value {
    inspect_with(room, &[])
}

fn inspect_with(room: &Room, arguments: &[&str]) -> Value {
    let mut process = wattle(room, "inspect", &[&["--json"], arguments].concat());
    let code = process.wait_exit(Duration::from_secs(60));
    let found: Value = serde_json::from_str(&process.stdout().join("\n")).expect("JSON");
    let is_empty = |what: &str| found[what].as_array().is_none_or(Vec::is_empty);
    let nothing = ["members", "positions", "changelog"].into_iter().all(is_empty) && found["local"].is_null();
    assert_eq!(code, if nothing { 2 } else { 0 }, "{}", process.stderr());
    found
}

fn wattle(room: &Room, command: &str, arguments: &[&str]) -> Process {
    let (group, brokers) = (room.group(), room.broker().address());
    room.wattle(&[&[command, &group, "--brokers", &brokers], arguments].concat())
}

fn done(mut process: Process) -> String {
    assert_eq!(process.wait_exit(Duration::from_secs(60)), 0, "{}", process.stderr());
    process.stdout().join("\n")
}
