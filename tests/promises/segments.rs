//! Kafka to files, at least once: nothing is lost, and a file that has its name is whole.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use crate::harness::room::Room;
use crate::harness::wait::{PATIENCE, wait_until};

/// The files that have their names, and the hidden ones.
fn listed(folder: &Path) -> (Vec<String>, Vec<String>) {
    let Ok(entries) = fs::read_dir(folder) else { return Default::default() };
    let names = entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("a name of ours"));
    names.partition(|name| !name.starts_with('.'))
}

fn ids(text: &str) -> Vec<u64> {
    let id = |line: &str| serde_json::from_str::<serde_json::Value>(line).expect("a whole line")["i"].as_u64();
    text.lines().map(|line| id(line).expect("an id")).collect()
}

/// Looks at the folder all the time: whatever has its name is whole from then on. Returns what each file held when it was first seen.
fn watch(folder: &Path, stop: &AtomicBool) -> BTreeMap<String, String> {
    let mut seen = BTreeMap::new();
    loop {
        let last = stop.load(SeqCst);
        for name in listed(folder).0 {
            seen.entry(name).or_insert_with_key(|name| {
                let text = fs::read_to_string(folder.join(name)).expect("a file of text");
                assert!(text.ends_with('\n'), "{name} ends within a line");
                ids(&text);
                text
            });
        }
        if last {
            return seen;
        }
        thread::sleep(Duration::from_millis(5));
    }
}

/// Each kill leaves a segment with lines in it, which the next start completes.
pub(super) fn kills_of_a_process_that_writes_files_lose_nothing_and_show_no_part_of_a_file(room: &Room) {
    let kills = room.number(4, 30);
    let input = room.topic("in", 3);
    let folder = room.folder().join("out");
    let group = room.cluster().group(&room.group());
    let load = room.load(&[&input], 3).start(0, 2000);
    let file = format!(
        "brokers: \"{}\"\nstreams:\n  - id: write\n    input:\n      type: kafka\n      topics: [\"{input}\"]\n      \
         consumer_group: {}\n      group_instance_id: one\n      client: {{session.timeout.ms: 6000}}\n    \
         output: {{type: file, path: out/orders.jsonl, roll_size: 32KiB, roll_interval: 1s}}\n",
        room.broker().address(),
        room.group(),
    );
    let stop = AtomicBool::new(false);
    let (total, seen) = thread::scope(|scope| {
        let watching = scope.spawn(|| watch(&folder, &stop));
        let mut process = room.run(&file);
        for n in 1..=kills {
            let before = group.progress(&[&input]);
            let hidden = || listed(&folder).1.iter().any(|name| fs::metadata(folder.join(name)).is_ok_and(|f| f.len() > 0));
            wait_until("it goes on, and a segment is open", PATIENCE, || group.progress(&[&input]) > before && hidden());
            assert!(process.kill(), "it was there to be killed");
            let (named, hidden) = listed(&folder);
            eprintln!("kill {n} of {kills}: {} files, and {} that are not complete", named.len(), hidden.len());
            process = room.run(&file);
        }
        // The last one completes what is left when it has something to write: it must not be stopped before.
        let before = group.progress(&[&input]);
        wait_until("the last process goes on", PATIENCE, || group.progress(&[&input]) > before);
        let total = load.finish();
        group.wait_drained(&[&input], PATIENCE);
        process.stop_cleanly();
        stop.store(true, SeqCst);
        (total, watching.join().expect("what has its name is whole"))
    });
    let (named, hidden) = listed(&folder);
    assert_eq!(hidden, [""; 0], "a clean stop completes its segments");
    let mut times: BTreeMap<u64, usize> = BTreeMap::new();
    for name in &named {
        let text = fs::read_to_string(folder.join(name)).expect("a file of text");
        assert_eq!(seen.get(name), Some(&text), "{name} is what it was when it got its name");
        ids(&text).into_iter().for_each(|id| *times.entry(id).or_default() += 1);
    }
    assert!((0..total).all(|id| times.contains_key(&id)), "every record is there");
    assert_eq!(times.len() as u64, total, "and no other");
    let twice = times.values().filter(|times| **times > 1).count();
    eprintln!("{total} records in {} files over {kills} kills: none lost, {twice} repeated", named.len());
}
