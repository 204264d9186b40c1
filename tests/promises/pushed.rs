//! Inputs that cannot be read again: what they have accepted is in a write-ahead log before anybody is told so.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use crate::harness::cluster::Cluster;
use crate::harness::cluster::Isolation::{ReadCommitted, ReadUncommitted};
use crate::harness::http::{Answer, Client, PAUSE};
use crate::harness::ledger::{Ledger, count};
use crate::harness::ports::free_ports;
use crate::harness::process::Process;
use crate::harness::proxy::Api;
use crate::harness::room::Room;
use crate::harness::wait::{PATIENCE, wait_until};

use super::cursor::lines;

/// A stream from HTTP to a topic.
pub(super) struct Ingest<'a> {
    pub(super) room: &'a Room,
    pub(super) cluster: &'a Cluster,
    pub(super) port: u16,
    pub(super) output: String,
    /// The keys of `durability`, or none.
    pub(super) durability: Option<String>,
}

impl<'a> Ingest<'a> {
    pub(super) fn new(room: &'a Room) -> Self {
        Ingest::on(room, room.cluster())
    }

    pub(super) fn on(room: &'a Room, cluster: &'a Cluster) -> Self {
        let output = room.name("out");
        cluster.create_topic(&output, 2, &[]);
        let [port] = free_ports().expect("a free port");
        Ingest { room, cluster, port, output, durability: Some(String::new()) }
    }

    pub(super) fn log(&self) -> PathBuf {
        self.room.folder().join("wal")
    }

    pub(super) fn yaml(&self) -> String {
        let Ingest { room, cluster, port, output, durability } = self;
        let (id, brokers) = (room.group(), cluster.address());
        let mut yaml = format!("streams:\n  - id: ingest\n    input: {{type: http, address: \"127.0.0.1:{port}\", path: /, format: lines}}\n");
        let mut exactly_once = String::new();
        if let Some(keys) = durability {
            writeln!(yaml, "    durability: {{path: wal{keys}}}").unwrap();
            exactly_once = format!("exactly_once: true, transactional_id: {id}, ");
        }
        writeln!(yaml, "    batch: {}", room.batch(100)).unwrap();
        writeln!(yaml, "    output: {{type: kafka, {exactly_once}topic: {output}, brokers: \"{brokers}\"}}").unwrap();
        yaml
    }

    /// Starts it, and returns when it takes requests.
    pub(super) fn run(&self) -> Process {
        let mut process = self.room.run(self.yaml());
        wait_until("it takes requests", PATIENCE, || {
            assert!(process.is_running(), "it ended: {}", process.stderr());
            process.says(&["takes requests at"])
        });
        process
    }

    pub(super) fn ledger(&self) -> Ledger {
        Ledger::of(self.cluster, &self.output)
    }

    pub(super) fn stable_ends(&self) -> i64 {
        self.cluster.ends(&self.output, ReadCommitted).iter().sum()
    }
}

/// What clients were told.
#[derive(Default)]
pub(super) struct Told {
    pub(super) accepted: BTreeSet<u64>,
    /// Nothing, or not all of it.
    pub(super) unanswered: BTreeSet<u64>,
    pub(super) refused: BTreeSet<u64>,
}

/// A line each, of records that say which client they are from.
pub(super) fn body(client: u64, ids: &[u64]) -> String {
    ids.iter().fold(String::new(), |mut body, id| {
        writeln!(body, r#"{{"i":{id},"from":"client-{client}"}}"#).unwrap();
        body
    })
}

/// Sends requests of one to three records with new ids until `enough`, none of them twice.
fn send(client: u64, port: u16, answered: &AtomicU64, enough: &AtomicBool) -> Told {
    let (mut told, mut http, mut next) = (Told::default(), Client::new(port), client * 1_000_000_000);
    while !enough.load(Ordering::Relaxed) {
        let ids: Vec<u64> = (next..next + 1 + next % 3).collect();
        next += ids.len() as u64;
        match http.post("/", &body(client, &ids)) {
            Some(Answer { status: 200, .. }) => {
                answered.fetch_add(1, Ordering::Relaxed);
                told.accepted.extend(ids);
            }
            Some(Answer { status: 429 | 503, .. }) => told.refused.extend(ids),
            Some(other) => panic!("{other:?}"),
            None => {
                told.unanswered.extend(ids);
                thread::sleep(PAUSE);
            }
        }
    }
    told
}

/// Runs `work` while clients send; returns what all of them were told.
pub(super) fn beside_clients(port: u16, clients: u64, work: impl FnOnce(&AtomicU64)) -> Told {
    let (answered, enough) = (AtomicU64::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        let threads: Vec<_> =
            (0..clients).map(|client| scope.spawn({
                let (answered, enough) = (&answered, &enough);
                move || send(client, port, answered, enough)
            })).collect();
        // Also where it fails: the scope waits for the clients.
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| work(&answered)));
        enough.store(true, Ordering::Relaxed);
        let mut all = Told::default();
        for told in threads.into_iter().map(|thread| thread.join().expect("a client that was answered as it should")) {
            all.accepted.extend(told.accepted);
            all.unanswered.extend(told.unanswered);
            all.refused.extend(told.refused);
        }
        done.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        all
    })
}

/// Killed again and again while clients send, at random points and inside of transactions, under each sync mode.
pub(super) fn requests_that_were_answered_are_written_once_over_kills(room: &Room) {
    let kills = room.number(5, 30);
    let mut ingest = Ingest::new(room);
    let told = beside_clients(ingest.port, 4, |answered| {
        for n in 1..=kills {
            let sync = ["group_commit", "per_entry", "{periodic: {secs: 10, nanos: 0}}"][n % 3];
            ingest.durability = Some(format!(", sync: {sync}"));
            let (before, had) = (ingest.stable_ends(), answered.load(Ordering::Relaxed));
            let mut process = ingest.run();
            match n % 3 {
                0 => wait_until("somebody is answered", PATIENCE, || answered.load(Ordering::Relaxed) > had),
                _ => wait_until("it goes on", PATIENCE, || ingest.stable_ends() > before),
            }
            if n % 2 == 0 {
                process.kill_in_transaction(room.cluster(), &[&ingest.output]);
            } else {
                thread::sleep(Duration::from_millis(n as u64 * 37 % 150)); // a point that nothing decides
                assert!(process.kill(), "it was there to be killed");
            }
        }
    });
    assert!(told.accepted.len() > 100, "requests were answered: {}", told.accepted.len());
    assert!(!told.unanswered.is_empty(), "kills met requests in hand");
    let mut process = ingest.run();
    wait_until("everything is written", PATIENCE, || ingest.ledger().has(&told.accepted));
    process.stop_cleanly();
    ingest.ledger().assert_once(&told.accepted, &told.unanswered);
    let [all, committed] = [ReadUncommitted, ReadCommitted].map(|isolation| count(room.cluster(), &ingest.output, isolation));
    assert!(all > committed, "aborted records lie between the others");
}

/// At least once: whoever was told has its records in the output, whenever the process was killed.
pub(super) fn requests_without_a_log_are_answered_when_the_output_has_them(room: &Room) {
    let mut ingest = Ingest::new(room);
    ingest.durability = None;
    let told = beside_clients(ingest.port, 2, |answered| {
        for _ in 0..room.number(2, 10) {
            let had = answered.load(Ordering::Relaxed);
            let mut process = ingest.run();
            wait_until("many are answered", PATIENCE, || answered.load(Ordering::Relaxed) > had + 50);
            assert!(process.kill(), "it was there to be killed");
        }
        let had = answered.load(Ordering::Relaxed);
        let mut process = ingest.run();
        wait_until("somebody is answered", PATIENCE, || answered.load(Ordering::Relaxed) > had);
        process.stop_cleanly();
    });
    assert!(!told.unanswered.is_empty(), "kills met requests in hand");
    let perhaps = &told.unanswered | &told.refused;
    ingest.ledger().assert_once(&told.accepted, &perhaps);
}

/// The output is away for longer than the log has room.
pub(super) fn a_log_that_is_full_refuses_requests_until_the_output_is_back(room: &Room) {
    let broker = room.own_broker();
    let mut ingest = Ingest::on(room, broker.cluster());
    ingest.durability = Some(", max_bytes: 5MiB".to_owned());
    let mut process = ingest.run();
    let (mut http, mut next) = (Client::new(ingest.port), 0);
    let (mut accepted, mut unanswered) = (BTreeSet::new(), BTreeSet::new());
    let mut post = || {
        let ids: Vec<u64> = (next..next + 10_000).collect();
        next += 10_000;
        let answer = http.post("/", &body(0, &ids));
        match &answer {
            Some(Answer { status: 200, .. }) => accepted.extend(ids),
            Some(_) => {}
            None => unanswered.extend(ids),
        }
        answer
    };
    assert_eq!(post().expect("it answers").status, 200);
    wait_until("it is written", PATIENCE, || ingest.stable_ends() > 0);
    broker.kill();
    let answers = (0..100).map(|_| post().expect("it answers"));
    let answer = { answers }.find(|answer| answer.status != 200).expect("the log is bounded");
    assert_eq!((answer.status, answer.body.trim_end()), (503, "the write-ahead log is full: nothing was accepted; come again"));
    assert!(answer.headers.contains(&"retry-after: 1".to_owned()), "{:?}", answer.headers);
    process.wait_says(&["warn", "answers requests with 503", "is full: max_bytes is 5242880"], PATIENCE);
    let size: u64 = fs::read_dir(ingest.log()).unwrap().map(|entry| entry.unwrap().metadata().unwrap().len()).sum();
    assert!((4 << 20..=5 << 20).contains(&size), "{size} bytes on disk");
    broker.start_again();
    // What a supervisor does, whenever it ends over the outage.
    let mut supervise = || {
        if !process.is_running() {
            process = ingest.run();
        }
    };
    wait_until("requests are accepted again", 2 * PATIENCE, || {
        supervise();
        post().is_some_and(|answer| answer.status == 200)
    });
    wait_until("everything is written", PATIENCE, || {
        supervise();
        ingest.ledger().has(&accepted)
    });
    process.stop_cleanly();
    ingest.ledger().assert_once(&accepted, &unanswered);
}

/// A disk of its own in a name space of its own, which ends with the process. Where the system does not give one, that is said.
pub(super) fn a_full_disk_refuses_requests_until_there_is_room(room: &Room) {
    let ingest = Ingest::new(room);
    fs::create_dir_all(ingest.log()).unwrap();
    let name_space = "exec unshare --user --map-root-user --mount /bin/sh -c";
    let disk = "mount -t tmpfs -o size=1m none wal && head -c 600k /dev/zero > wal/../wal/filler";
    if room.shell(&format!("{name_space} '{disk}'"), "").wait_exit(PATIENCE) != 0 {
        eprintln!("SKIPPED: the system gives no disk of one's own (unshare, tmpfs)");
        return;
    }
    let yaml = ingest.yaml().replace("path: wal", "path: wal/log");
    let mut process = room.shell(&format!("{name_space} '{disk} && exec \"$0\" run \"$1\"' \"$0\" \"$1\""), yaml);
    process.wait_says(&["takes requests at"], PATIENCE);
    let (mut http, mut next, mut accepted) = (Client::new(ingest.port), 0, BTreeSet::new());
    let mut post = || {
        let ids: Vec<u64> = (next..next + 1000).collect();
        next += 1000;
        let answer = http.post("/", &body(0, &ids)).expect("it answers");
        if answer.status == 200 {
            accepted.extend(ids);
        }
        answer
    };
    let answer = (0..100).map(|_| post()).find(|answer| answer.status != 200).expect("the disk is full");
    assert_eq!((answer.status, answer.body.trim_end()), (503, "the disk is full: nothing was accepted; come again"));
    process.wait_says(&["warn", "the disk of the write-ahead log wal/log is full"], PATIENCE);
    let filler = Path::new("/proc").join(process.pid().to_string()).join("cwd/wal/filler");
    fs::remove_file(filler).unwrap();
    wait_until("requests are accepted again", PATIENCE, || post().status == 200);
    wait_until("everything is written", PATIENCE, || ingest.ledger().has(&accepted));
    process.stop_cleanly();
    ingest.ledger().assert_once(&accepted, &BTreeSet::new());
}

pub(super) fn a_log_belongs_to_one_process(room: &Room) {
    let ingest = Ingest::new(room);
    let mut first = ingest.run();
    let mut other = Ingest { output: ingest.output.clone(), durability: Some(String::new()), ..ingest };
    [other.port] = free_ports().expect("a free port");
    let mut second = room.run(other.yaml());
    assert_eq!(second.wait_exit(PATIENCE), 1);
    let owner = format!("process {}", first.pid());
    assert!(second.says(&["W0020", "wal is in use by", &owner, "stream ingest"]), "{}", second.stderr());
    // Each with a log of its own shares the work: neither fences the other.
    let mut third = room.run(other.yaml().replace("path: wal", "path: wal-2"));
    third.wait_says(&["takes requests at"], PATIENCE);
    for (n, port) in (0..).zip([ingest.port, other.port, ingest.port, other.port]) {
        let answer = Client::new(port).post("/", &body(n, &[n])).expect("it answers");
        assert_eq!(answer.status, 200);
    }
    wait_until("everything is written", PATIENCE, || other.ledger().has(&(0..4).collect()));
    third.stop_cleanly();
    first.stop_cleanly();
    other.ledger().assert_once(&(0..4).collect(), &BTreeSet::new());
}

pub(super) fn a_log_that_was_cut_short_goes_on_and_one_that_is_damaged_is_refused(room: &Room) {
    let ingest = Ingest::new(room);
    let accept = |ids: std::ops::Range<u64>| {
        let mut process = ingest.run();
        for id in ids.clone() {
            assert_eq!(Client::new(ingest.port).post("/", &body(0, &[id])).expect("it answers").status, 200);
        }
        wait_until("everything is written", PATIENCE, || ingest.ledger().has(&ids.clone().collect()));
        assert!(process.kill(), "it was there to be killed");
        process.says(&["warn", "cut a torn tail"])
    };
    let segment = || {
        let names = fs::read_dir(ingest.log()).unwrap().map(|entry| entry.unwrap().path());
        names.filter(|path| path.extension().is_some_and(|extension| extension == "wal")).max().unwrap()
    };
    assert!(!accept(0..3));
    // What a process that was killed in the middle of a write leaves: the begin of a frame, as it is behind the segment's head.
    let mut bytes = fs::read(segment()).unwrap();
    bytes.extend_from_within(48..58);
    fs::write(segment(), &bytes).unwrap();
    assert!(accept(3..6), "it says what it has cut");
    ingest.ledger().assert_once(&(0..6).collect(), &BTreeSet::new());
    let path = segment();
    let mut bytes = fs::read(&path).unwrap();
    let at = bytes.windows(6).position(|window| window == b"client").expect("a record");
    bytes[at] ^= 1;
    fs::write(&path, &bytes).unwrap();
    let mut process = room.run(ingest.yaml());
    assert_eq!(process.wait_exit(PATIENCE), 1);
    let name = path.file_name().unwrap().to_str().unwrap().to_owned();
    assert!(process.says(&["W0021", "the write-ahead log is damaged", &name, "at byte"]), "{}", process.stderr());
    assert_eq!(fs::read(&path).unwrap(), bytes, "nothing was changed");
}

/// Killed on the way: what the log had accepted is written once, though nobody can read the pipe again.
pub(super) fn stdin_goes_on_behind_what_its_log_has(room: &Room) {
    const TOTAL: u64 = 200_000;
    let ingest = Ingest::new(room);
    let yaml = ingest.yaml();
    let from = yaml.find("input: {").unwrap();
    let until = from + yaml[from..].find('\n').unwrap();
    let yaml = format!("{}input: {{type: stdin}}{}", &yaml[..from], &yaml[until..]);
    // Enough for some hundred transactions: an entry of the log is not torn apart. The first process is slow.
    let proxy = room.broker().proxy();
    let _slow = proxy.delay(Api::Produce, &room.group(), Duration::from_millis(50));
    let slow = yaml.replace(ingest.cluster.address(), proxy.address());
    assert_ne!(slow, yaml);
    fs::write(room.folder().join("first"), lines(0..TOTAL)).unwrap();
    fs::write(room.folder().join("second"), lines(TOTAL..TOTAL + 1000)).unwrap();
    let run = |file: &str, yaml: &str| room.shell(&format!("exec \"$0\" run \"$1\" < {file}"), yaml);
    let mut process = run("first", &slow);
    process.kill_in_transaction(room.cluster(), &[&ingest.output]);
    let mut process = run("second", &yaml);
    assert_eq!(process.wait_exit(PATIENCE), 0, "log: {}", process.stderr());
    let ledger = ingest.ledger();
    // How much of the first file was in the log only the log knows: without a hole, and then all of the second.
    let first = ledger.len() - 1000;
    assert!(first > 0, "the kill met records of the log");
    ledger.assert_once(&(0..first).chain(TOTAL..TOTAL + 1000).collect(), &BTreeSet::new());
    let mut process = room.shell("exec \"$0\" run \"$1\" < /dev/null", &yaml);
    assert_eq!(process.wait_exit(PATIENCE), 0, "log: {}", process.stderr());
    assert_eq!(ingest.ledger().len(), first + 1000);
}

pub(super) fn durability_of_an_input_that_can_be_read_again_writes_no_log(room: &Room) {
    let (input, output) = (room.topic("in", 2), room.topic("out", 1));
    room.load(&[&input], 2).send(0..1000);
    let yaml = room.copy(&[&input], &output).to_string();
    let durability = "    durability: {enabled: true, path: ./data/wal-eos, sync: group_commit}\n    output:";
    let mut process = room.run_with(yaml.replacen("    output:", durability, 1), &["--drain"]);
    assert_eq!(process.wait_exit(PATIENCE), 0, "log: {}", process.stderr());
    assert!(!room.folder().join("data").exists());
    Ledger::of(room.cluster(), &output).assert_exact(0..1000);
}
