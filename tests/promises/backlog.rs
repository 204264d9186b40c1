//! More comes than goes: what is not written yet waits in a log with a bound, and in no memory.

use std::collections::BTreeSet;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::harness::http::Client;
use crate::harness::ports::free_ports;
use crate::harness::receiver::{Receiver, get};
use crate::harness::room::Room;
use crate::harness::wait::{PATIENCE, wait_until};

use super::post::{id, resident};
use super::pushed::{Ingest, beside_clients, body};

/// Clients send as fast as they are answered; the receiver takes a request at a time and is slow. Short form: until requests have been
/// refused for seconds; full form: for ten minutes.
pub(super) fn a_source_that_is_faster_than_its_output_is_held_back_in_bounded_memory(room: &Room) {
    const MAX_BYTES: u64 = 5 << 20;
    let fast = Arc::new(AtomicBool::new(false));
    let receiver = Receiver::start({
        let fast = fast.clone();
        move |_| {
            if !fast.load(Ordering::Relaxed) {
                thread::sleep(Duration::from_millis(20));
            }
            200
        }
    });
    let mut ingest = Ingest::new(room);
    ingest.durability = Some(format!(", max_bytes: {}MiB", MAX_BYTES >> 20));
    let [health] = free_ports().expect("a free port");
    let yaml = ingest.yaml();
    let output = format!("    output: {{type: http, url: \"{}\", body: lines}}\n", receiver.url());
    let yaml = yaml[..yaml.find("    output:").unwrap()].to_owned() + &output;
    let yaml = format!("{yaml}health_check: {{address: '127.0.0.1:{health}'}}\n");
    let mut process = room.run(&yaml);
    process.wait_says(&["takes requests at"], PATIENCE);
    let (mut before, mut most, mut disk) = (0, 0, 0);
    let told = beside_clients(ingest.port, 4, |_| {
        wait_until("readiness says that the log is full", PATIENCE, || {
            let (status, body) = get(health, "/readiness");
            status == 503 && body.contains("the write-ahead log")
        });
        before = resident(&process);
        let (began, posted) = (Instant::now(), receiver.got().len());
        let long = Duration::from_secs(room.number(3, 600));
        wait_until("it goes on for long enough", PATIENCE + long, || {
            most = most.max(resident(&process));
            let size = |entry: std::io::Result<fs::DirEntry>| entry.and_then(|entry| entry.metadata()).map_or(0, |of| of.len());
            disk = disk.max(fs::read_dir(ingest.log()).unwrap().map(size).sum());
            began.elapsed() > long && receiver.got().len() > posted + 50
        });
        assert_eq!(get(health, "/liveness").0, 200, "a slow output is no reason to start it again");
    });
    assert!(!told.refused.is_empty(), "clients were told to come again");
    assert!(disk <= MAX_BYTES + 4096, "{disk} bytes on disk, with the small files beside the segments");
    assert!(most < before + (16 << 20), "{} MiB, from {} MiB on", most >> 20, before >> 20);
    fast.store(true, Ordering::Relaxed);
    let came = || -> BTreeSet<u64> { receiver.got().iter().flat_map(|got| got.body.lines().map(|line| id(line).0).collect::<Vec<_>>()).collect() };
    wait_until("everything that was accepted has come", 2 * PATIENCE, || came().is_superset(&told.accepted));
    assert_eq!(came(), told.accepted, "and nothing of what was refused");
    wait_until("readiness recovers", PATIENCE, || get(health, "/readiness").0 == 200);
    process.stop_cleanly();
    let warnings = process.stderr().lines().filter(|line| line.contains("WARN")).count();
    assert!(warnings < 5, "{warnings} warnings: {}", process.stderr());
    let (accepted, refused) = (told.accepted.len(), told.refused.len());
    eprintln!("{accepted} accepted, {refused} refused; at most {} MiB of memory ({} MiB when the log was full), {disk} bytes of log", most >> 20, before >> 20);
}

/// Numbers go on over a kill, whatever of the log has reached the disk: else what is accepted then would have numbers that are below the
/// position, and be skipped.
pub(super) fn records_accepted_after_a_kill_are_not_taken_for_done(room: &Room) {
    let broker = room.own_broker();
    let mut ingest = Ingest::on(room, broker.cluster());
    ingest.durability = Some(", sync: {periodic: {secs: 1, nanos: 0}}".to_owned());
    let accept = |ids: std::ops::Range<u64>| {
        let mut http = Client::new(ingest.port);
        for id in ids {
            assert_eq!(http.post("/", &body(0, &[id])).expect("it answers").status, 200);
        }
    };
    for round in 0..2 {
        let from = round * 1500;
        let mut process = ingest.run();
        accept(from..from + 1000);
        wait_until("they are written", PATIENCE, || ingest.ledger().has(&(0..from + 1000).collect()));
        assert!(process.kill(), "it was there to be killed");
        let mut process = ingest.run();
        broker.kill();
        accept(from + 1000..from + 1500);
        thread::sleep(Duration::from_millis(round * 1500)); // before the log has reached the disk, or behind it
        assert!(process.kill(), "it was there to be killed");
        broker.start_again();
        let mut process = ingest.run();
        wait_until("they are replayed", PATIENCE, || ingest.ledger().has(&(0..from + 1500).collect()));
        process.stop_cleanly();
        ingest.ledger().assert_exact(0..from + 1500);
    }
}
