//! A file that is followed: lines come while it is read, and another file takes its name.

use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::cursor::{Fixture, lines};
use crate::harness::cluster::Isolation::ReadUncommitted;
use crate::harness::ledger::{count, records};
use crate::harness::room::Room;
use crate::harness::wait::{PATIENCE, wait_until};

/// Writes lines into a file, each in two pieces, and renames the file when it is told to.
struct Writer {
    path: PathBuf,
    stop: Arc<AtomicBool>,
    /// How often the file was renamed, and how often it should have been.
    renamed: Arc<AtomicU64>,
    wanted: Arc<AtomicU64>,
    thread: JoinHandle<u64>,
}

/// Lines at a time, and the time between.
const LINES: u64 = 50;
const TICK: Duration = Duration::from_millis(10);

impl Writer {
    fn start(path: &Path) -> Self {
        let flags = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default(), Arc::<AtomicU64>::default());
        let (stop, renamed, wanted) = flags.clone();
        let path = path.to_owned();
        let open = |path: &Path| OpenOptions::new().append(true).create(true).open(path).expect("a file");
        let mut file: File = open(&path);
        let at = path.clone();
        let thread = thread::spawn(move || {
            let mut next = 0;
            while !flags.0.load(SeqCst) {
                let done = flags.1.load(SeqCst);
                if done < flags.2.load(SeqCst) {
                    fs::rename(&at, at.with_extension(format!("jsonl.{done}"))).expect("renamed");
                    // For a moment the writer does not know.
                    file.write_all(lines(next..next + LINES).as_bytes()).expect("written");
                    next += LINES;
                    file = open(&at);
                    flags.1.fetch_add(1, SeqCst);
                }
                let text = lines(next..next + LINES);
                let (first, second) = text.split_at(text.len() - 20);
                file.write_all(first.as_bytes()).and_then(|()| file.write_all(second.as_bytes())).expect("written");
                next += LINES;
                thread::sleep(TICK);
            }
            next
        });
        Writer { path, stop, renamed, wanted, thread }
    }

    fn rename(&self) {
        let number = self.wanted.fetch_add(1, SeqCst) + 1;
        wait_until("the file is renamed", PATIENCE, || self.renamed.load(SeqCst) == number);
    }

    /// How many lines there are.
    fn finish(self) -> u64 {
        self.stop.store(true, SeqCst);
        let total = self.thread.join().expect("the lines were written");
        assert!(fs::metadata(&self.path).is_ok_and(|found| found.len() > 0));
        total
    }
}

/// Killed while lines come and the file is renamed, before the rename is seen and behind it.
pub(super) fn a_file_that_is_rotated_while_its_reader_is_killed_is_written_once(room: &Room) {
    let kills: usize = room.number(4, 30);
    let mut file = Fixture::new(room, 2);
    file.mode = ", mode: tail";
    file.more = format!("    batch: {}\n", room.batch(100));
    file.write("");
    let writer = Writer::start(&file.path);
    let cluster = room.cluster();
    let mut process = room.run(file.yaml());
    let mut rotations = 0;
    for n in 0..kills {
        let before = file.stable_ends();
        wait_until("it goes on", PATIENCE, || file.stable_ends() > before);
        match n % 4 {
            // The kill comes before it is seen.
            1 => {
                process.freeze();
                writer.rename();
            }
            // Whoever reads now has found the old one under its new name, and goes on from it.
            2 => {
                process.wait_says(&["is another file now"], PATIENCE);
                rotations += 1;
                let before = file.stable_ends();
                wait_until("it reads the new one", PATIENCE, || file.stable_ends() > before);
            }
            _ => {}
        }
        if n % 2 == 0 {
            process.kill_in_transaction(cluster, &[&file.output]);
        } else {
            assert!(process.kill(), "it was there to be killed");
        }
        process = room.run(file.yaml());
        eprintln!("kill {} of {kills}: {} are written", n + 1, file.stable_ends());
    }
    let before = file.stable_ends();
    wait_until("it goes on", PATIENCE, || file.stable_ends() > before);
    process.stop_cleanly();
    let total = writer.finish();
    let drained = room.drain(file.yaml());
    assert!(drained.says(&["load", "new records"]) || drained.says(&["load", " records in "]), "{}", drained.stderr());
    file.ledger().assert_exact(0..total);
    assert!(count(cluster, &file.output, ReadUncommitted) > total, "aborted records lie between the others");
    assert_eq!(rotations, (kills + 1) / 4, "each was followed");
    eprintln!("{total} lines over {kills} kills and {rotations} rotations: none lost, none doubled");
}

/// While nobody reads, the file is renamed and what was not read of it is gone, or it is cut.
pub(super) fn a_rotation_that_cannot_be_followed_is_refused(room: &Room) {
    let mut file = Fixture::new(room, 1);
    file.mode = ", mode: tail";
    let end = |file: &Fixture| room.drain(file.yaml());
    file.write(&(lines(0..100) + "half"));
    end(&file);
    file.ledger().assert_exact(0..100);
    let old = file.path.with_extension("jsonl.1");
    file.write(&lines(0..110));
    fs::rename(&file.path, &old).unwrap();
    file.write(&lines(110..120));
    // It is found under its new name.
    end(&file);
    file.ledger().assert_exact(0..120);
    file.write(&lines(110..115));
    file.refused(&["has changed before the committed position", "only"]);
    fs::rename(&file.path, room.folder().join("elsewhere")).unwrap();
    file.write(&lines(200..210));
    file.refused(&["is not the file that was read", "no file beside it"]);
    file.ledger().assert_exact(0..120);
}

/// The header is read again by a restart in the middle, and a wrong row has the number of its line.
pub(super) fn rows_of_csv_are_written_once_over_a_kill_and_wrong_ones_move_aside(room: &Room) {
    let mut file = Fixture::new(room, 1);
    let failed = room.topic("failed", 1);
    file.mode = ", format: csv, delimiter: ;";
    file.more = format!("    batch: {}\n    error_output: {{type: kafka, topic: {failed}}}\n", room.batch(100));
    file.more += "    pipeline: {processors: [{type: vrl, statement: '.i = to_int!(.i)'}]}\n";
    let total = 20_000;
    let row = |id: u64| format!("{id};file;\"{id:032}\n\"\"{id:032}\"\"; and more\"\n");
    let mut text: String = "\u{feff}i;from;pad\n".to_owned() + &(0..total / 2).map(row).collect::<String>();
    text.push_str("1;2\n");
    text.extend((total / 2..total).map(row));
    file.write(&text);
    let _slow = file.slowly();
    let mut process = room.run(file.yaml());
    wait_until("it has begun", PATIENCE, || file.stable_ends() > 0);
    process.kill_in_transaction(room.cluster(), &[&file.output]);
    assert!(file.committed() < total, "the kill met rows in flight");
    file.directly();
    file.finish();
    file.ledger().assert_exact(0..total);
    let last = records(room.cluster(), &file.output).pop().expect("a row").text();
    let id = total - 1;
    assert!(last.contains(&format!(r#""pad":"{id:032}\n\"{id:032}\"; and more""#)), "{last}");
    let dead = records(room.cluster(), &failed);
    assert_eq!(dead.iter().map(|record| record.text()).collect::<Vec<_>>(), ["1;2"]);
    assert_eq!(dead[0].header("wattle.offset"), Some((total + 2).to_string()), "each row has two lines");
    assert_eq!(dead[0].header("wattle.error").as_deref(), Some("it has 2 fields, and the file has 3 columns"));
}
