//! Kafka to HTTP, at least once: nothing is lost, a repetition can be told by its key, and a receiver in trouble is seen.

use std::collections::HashMap;
use std::fs;
use std::time::{Duration, Instant};

use crate::harness::ledger::records;
use crate::harness::ports::free_ports;
use crate::harness::process::Process;
use crate::harness::receiver::{Receiver, get};
use crate::harness::room::Room;
use crate::harness::wait::{PATIENCE, wait_until};

/// A stream whose member is static, so that a restart goes on at once.
fn posting(room: &Room, input: &str, receiver: &Receiver, more: &str) -> String {
    format!(
        "brokers: \"{}\"\nstreams:\n  - id: post\n    input:\n      type: kafka\n      topics: [\"{input}\"]\n      \
         consumer_group: {}\n      group_instance_id: one\n      client: {{session.timeout.ms: 6000}}\n    \
         output: {{type: http, url: \"{}\"{more}}}\n",
        room.broker().address(),
        room.group(),
        receiver.url(),
    )
}

pub(super) fn id(body: &str) -> (u64, String) {
    let value: serde_json::Value = serde_json::from_str(body).expect("JSON");
    (value["i"].as_u64().expect("an id"), value["from"].as_str().expect("a partition").to_owned())
}

/// Each kill comes while requests are under way whose answers it does not get: they are repeated.
pub(super) fn kills_of_a_process_that_posts_lose_nothing_and_its_repetitions_have_the_same_key(room: &Room) {
    let input = room.topic("in", 3);
    let receiver = Receiver::start(|_| 200);
    let load = room.load(&[&input], 3).start(0, 1000);
    let file = posting(room, &input, &receiver, "");
    let kills = room.number(4, 30);
    let mut process = room.run(&file);
    for n in 0..kills {
        receiver.wait_held(100 + n * 37 % 200);
        assert!(process.kill(), "it was there to be killed");
        receiver.cut();
        process = room.run(&file);
    }
    let total = load.finish();
    room.cluster().group(&room.group()).wait_drained(&[&input], PATIENCE);
    process.stop_cleanly();
    let keys = receiver.keys();
    let twice = keys.values().filter(|keys| keys.len() > 1).count();
    assert!(twice >= kills, "{twice} records came more than once, over {kills} kills with requests under way");
    assert_eq!(keys.len() as u64, total, "every record came, and no other");
    assert!(keys.values().all(|keys| keys.iter().all(|key| *key == keys[0])), "a repetition has the same key");
    let distinct: std::collections::HashSet<_> = keys.values().map(|keys| &keys[0]).collect();
    assert_eq!(distinct.len(), keys.len(), "and no two records have one");
    // What comes for the first time comes in the order of its partition.
    let mut last: HashMap<String, u64> = HashMap::new();
    let mut seen = std::collections::HashSet::new();
    for got in receiver.got().iter().filter(|got| seen.insert(got.key.clone())) {
        let (id, from) = id(&got.body);
        let before = last.insert(from.clone(), id);
        assert!(before.is_none_or(|before| before < id), "{id} behind {before:?} of {from}");
    }
    eprintln!("{total} records over {kills} kills: none lost, {twice} repeated with their keys");
}

/// The receiver is away while input goes on. Full form: for a minute.
pub(super) fn a_receiver_that_is_away_is_waited_for_and_readiness_says_so(room: &Room) {
    let input = room.topic("in", 2);
    let mut receiver = Receiver::start(|_| 200);
    let [port] = free_ports().expect("a free port");
    let file = posting(room, &input, &receiver, ", body: lines") + &format!("health_check: {{address: '127.0.0.1:{port}'}}\n");
    let load = room.load(&[&input], 2).start(0, 10_000);
    let mut process = room.run(&file);
    wait_until("it is ready and has posted", PATIENCE, || {
        get(port, "/readiness").0 == 200 && receiver.got().len() > 10
    });
    let before = resident(&process);
    receiver.down();
    let away = Instant::now();
    wait_until("readiness says what is wrong", PATIENCE, || {
        let (status, body) = get(port, "/readiness");
        // Without the path, which may be a secret.
        status == 503 && body.contains("\"id\":\"post\"") && body.contains("/… fails since")
    });
    assert_eq!(get(port, "/liveness").0, 200);
    let posted = receiver.got().len();
    let minimum = Duration::from_secs(room.number(0, 60));
    wait_until("it has tried again, and much has piled up", PATIENCE + minimum, || {
        metric(port, "wattle_output_retries_total") >= 6.0
            && metric(port, "wattle_frontier_age_seconds") > 0.0
            && room.cluster().group(&room.group()).lag(&[&input]) > 20_000
            && away.elapsed() > minimum
    });
    let grown = resident(&process).saturating_sub(before);
    assert!(grown < 96 << 20, "{} MiB more than before", grown >> 20);
    assert_eq!(receiver.got().len(), posted, "nothing can have come");
    wait_until("it says so", PATIENCE, || {
        process.says(&["fails", "tried again"]) || process.says(&["failed and is tried again"])
    });
    receiver.up();
    wait_until("readiness recovers", PATIENCE, || get(port, "/readiness").0 == 200);
    let total = load.finish();
    room.cluster().group(&room.group()).wait_drained(&[&input], PATIENCE);
    wait_until("the metrics say so", PATIENCE, || metric(port, "wattle_records_total") as u64 >= total);
    process.stop_cleanly();
    let mut ids: Vec<u64> = receiver.got().iter().flat_map(|got| got.body.lines().map(|line| id(line).0).collect::<Vec<_>>()).collect();
    ids.sort_unstable();
    ids.dedup();
    assert!(ids.iter().copied().eq(0..total), "{} of {total} records came", ids.len());
}

/// The value of a metric of one stream.
pub(super) fn metric(port: u16, name: &str) -> f64 {
    let (_, text) = get(port, "/metrics");
    let line = text.lines().find(|line| line.starts_with(&format!("{name}{{")));
    line.and_then(|line| line.rsplit_once(' ')).map_or(0.0, |(_, value)| value.parse().expect("a number"))
}

/// Bytes of memory that the process has.
pub(super) fn resident(process: &Process) -> usize {
    let status = fs::read_to_string(format!("/proc/{}/status", process.pid())).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("Linux tells it");
    line.trim().trim_end_matches(" kB").parse::<usize>().expect("a number") << 10
}

/// Of a request of several records the one at fault alone moves aside; without an error output it stops the stream.
pub(super) fn a_record_that_a_receiver_refuses_moves_aside_or_stops_its_stream(room: &Room) {
    let (input, dead) = (room.topic("in", 1), room.topic("dead", 1));
    room.load(&[&input], 1).send(0..10);
    let receiver = Receiver::start(|got| if got.body.contains("\"i\":7,") { 422 } else { 201 });
    let file = posting(room, &input, &receiver, ", body: array");
    let mut process = room.run(&file);
    assert_eq!(process.wait_exit(PATIENCE), 1);
    let words = ["W0040", &format!("{input}/0 offset 7"), "it answered 422", "error_output"];
    assert!(process.says(&words), "log: {}", process.stderr());
    assert_eq!(room.cluster().group(&room.group()).committed(&input), [Some(0)], "nothing of its batch");
    let process = room.drain(format!("{file}    error_output: {{type: kafka, topic: \"{dead}\"}}\n"));
    assert!(process.says(&["10 in", "9 out", "1 dead"]), "log: {}", process.stderr());
    let letters = records(room.cluster(), &dead);
    assert_eq!(letters.len(), 1);
    assert_eq!(id(&letters[0].text()).0, 7);
    let header = |name: &str| letters[0].header(name).unwrap_or_default();
    assert_eq!((header("wattle.stage"), header("wattle.topic"), header("wattle.offset")), ("output".into(), input, "7".into()));
    assert!(header("wattle.error").contains("it answered 422"), "{}", header("wattle.error"));
    let alone = receiver.got().iter().filter(|got| got.body == "[{\"i\":8,\"from\":\"IN/0\"}]".replace("IN", &header("wattle.topic"))).count();
    assert!(alone >= 1, "those beside it come alone");
}

/// The receiver takes longer for one request than the group waits for a member that does not poll. Another member is there to take over.
pub(super) fn a_request_that_outlasts_the_poll_interval_costs_no_partition(room: &Room) {
    const SLOW: Duration = Duration::from_secs(8);
    let input = room.topic("in", 2);
    let group = room.cluster().group(&room.group());
    let receiver = Receiver::start(|got| {
        if got.body.contains("\"i\":3,") {
            std::thread::sleep(SLOW); // the fault is the time itself
        }
        200
    });
    let file = posting(room, &input, &receiver, "").replace(
        "group_instance_id: one\n      client: {session.timeout.ms: 6000}",
        "client: {session.timeout.ms: 5000, heartbeat.interval.ms: 500, max.poll.interval.ms: 5000}",
    );
    assert!(file.contains("max.poll.interval.ms: 5000"));
    let mut processes = [room.run(&file), room.run(&file)];
    group.wait_members(&[1, 1], PATIENCE);
    let assignments = || processes.each_ref().map(|process| process.stderr().matches("was assigned tasks").count());
    wait_until("both have their partition", PATIENCE, || assignments().iter().all(|count| *count > 0));
    let (before, begin) = (assignments(), Instant::now());
    room.load(&[&input], 2).send(0..10);
    group.wait_drained(&[&input], PATIENCE);
    assert!(begin.elapsed() > SLOW, "the request took {:?}", begin.elapsed());
    assert_eq!(assignments(), before, "no partition moved");
    for process in &mut processes {
        assert!(!process.says(&["lost"]), "log: {}", process.stderr());
        process.stop_cleanly();
    }
    let keys = receiver.keys();
    assert!(keys.len() == 10 && keys.values().all(|keys| keys.len() == 1), "each record once: {keys:?}");
}
