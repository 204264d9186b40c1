//! The examples that the project ships do what they say.

use std::path::Path;

use crate::harness::cluster::Isolation::ReadCommitted;
use crate::harness::ledger::{count, records};
use crate::harness::room::Room;
use crate::harness::wait::PATIENCE;

/// A file into a topic and on into another one, exactly once from end to end; a second run finds nothing new.
pub(super) fn the_examples_load_and_filter_the_earthquakes(room: &Room) {
    let broker = room.own_broker();
    let cluster = broker.cluster();
    for topic in ["quakes", "strong-quakes"] {
        // The records are years old: the default retention would delete them at once.
        cluster.create_topic(topic, 3, &[("retention.ms", "-1")]);
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples");
    let file = folder.join("earthquakes.yaml").to_str().unwrap().to_owned();
    let address = broker.address();
    let run = || room.wattle(&["run", &file, "--drain", "--brokers", &address]);
    let mut first = run();
    assert_eq!(first.wait_exit(PATIENCE), 0);
    assert!(first.says(&["exactly once"]) && !first.says(&["at least once"]), "log: {}", first.stderr());
    let mut second = run();
    assert_eq!(second.wait_exit(PATIENCE), 0);
    assert!(second.says(&["load", "0 new records"]) && second.says(&["strong", "0 new records"]), "{}", second.stderr());
    let lines = std::fs::read_to_string(folder.join("earthquakes.jsonl")).unwrap();
    assert_eq!(count(cluster, "quakes", ReadCommitted), lines.lines().count() as u64);
    let wanted = lines.lines().filter(|line| {
        let quake: serde_json::Value = serde_json::from_str(line).unwrap();
        quake["mag"].as_f64().is_some_and(|mag| mag >= 4.5)
    });
    assert_eq!(records(cluster, "strong-quakes").len(), wanted.count());
    assert_eq!(cluster.group("strong-quakes").lag(&["quakes"]), 0);
}
