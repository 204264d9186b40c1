//! Outputs and positions of a batch become visible together, or not at all.

use nix::sys::signal::Signal;

use crate::harness::cluster::Isolation::{ReadCommitted, ReadUncommitted};
use crate::harness::ledger::{self, Ledger};
use crate::harness::room::Room;
use crate::harness::wait::{PATIENCE, wait_until};

/// One input partition that is not written by transactions: its committed position is the number of records that are done.
pub(super) fn a_reader_never_sees_part_of_a_batch(room: &Room) {
    let (input, output) = (room.topic("in", 1), room.topic("out", 3));
    let cluster = room.cluster();
    let group = cluster.group(&room.group());
    let load = room.load(&[&input], 1).start(0, 3000);
    let mut process = room.run(room.copy(&[&input], &output));
    let mut open = 0;
    while open < room.number(4, 20) {
        process.freeze_in_transaction(cluster, &[&output]);
        // A commit that the broker has and is not done with lands now, its parts one after another; nothing else can change.
        wait_until("visible records and committed position are the same", PATIENCE, || {
            ledger::count(cluster, &output, ReadCommitted) == u64::try_from(group.progress(&[&input])).unwrap()
        });
        open += u64::from(!cluster.open_transactions(&[&output]).is_empty());
        process.signal(Signal::SIGCONT);
        let seen = group.progress(&[&input]);
        wait_until("it goes on", PATIENCE, || group.progress(&[&input]) > seen);
    }
    let total = load.finish();
    group.wait_drained(&[&input], PATIENCE);
    Ledger::of(cluster, &output).assert_exact(0..total);
    process.stop_cleanly();
}

/// Killed with a transaction open: its records are processed again. In scope `task` the next start aborts it at once, long before its
/// timeout of a minute; in scope `worker` it ends by its timeout at the latest.
pub(super) fn an_aborted_batch_is_never_visible(room: &Room) {
    let (input, output) = (room.topic("in", 2), room.topic("out", 2));
    let cluster = room.cluster();
    let load = room.load(&[&input], 2).start(0, 3000);
    let mut pipeline = room.copy(&[&input], &output);
    pipeline.transaction_timeout = Some(if room.mode().is_worker() { "5s" } else { "60s" });
    let mut process = room.run(&pipeline);
    process.kill_in_transaction(cluster, &[&output]);
    let mut process = room.run(&pipeline);
    cluster.wait_settled(&[&output]); // the dead process's transaction is aborted
    let total = load.finish();
    cluster.group(&room.group()).wait_drained(&[&input], PATIENCE);
    assert!(
        ledger::count(cluster, &output, ReadUncommitted) > total,
        "the topic holds the records of the aborted batch beside the others"
    );
    Ledger::of(cluster, &output).assert_exact(0..total);
    process.stop_cleanly();
}

/// What the log's files say: every output is transactional, and so are the positions, by the same producer.
pub(super) fn outputs_and_positions_are_written_by_one_transaction(room: &Room) {
    let (input, output) = (room.topic("in", 1), room.topic("out", 1));
    room.load(&[&input], 1).send(0..100);
    room.drain(room.copy(&[&input], &output));
    let dump = |files: &str, more: &[&str]| {
        let arguments = [&["--print-data-log", "--files", files], more].concat();
        room.broker().kafka().tool("org.apache.kafka.tools.DumpLogSegments", &arguments)
    };
    let segment = |partition: &str| {
        let file = room.broker().kafka().data().join(partition).join("00000000000000000000.log");
        file.to_str().unwrap().to_owned()
    };
    let written = dump(&segment(&format!("{output}-0")), &[]);
    let batches: Vec<&str> = written.lines().filter(|line| line.starts_with("baseOffset")).collect();
    let (markers, data): (Vec<&str>, Vec<&str>) = batches.iter().partition(|line| line.contains("isControl: true"));
    assert!(!data.is_empty() && !markers.is_empty(), "{written}");
    assert!(data.iter().all(|line| line.contains("isTransactional: true")), "{data:?}");
    let producer = field(data[0], "producerId");
    let positions: Vec<String> =
        (0..4).map(|p| segment(&format!("__consumer_offsets-{p}"))).collect();
    let committed = dump(&positions.join(","), &["--offsets-decoder"]);
    let mut batch = "";
    let (mut transactional, mut others) = (0, Vec::new());
    for line in committed.lines() {
        if line.starts_with("baseOffset") {
            batch = line;
        } else if key(line).contains(&room.group()) && key(line).contains(&input) {
            match field(batch, "producerId") == producer && batch.contains("isTransactional: true") {
                true => transactional += 1,
                false => others.push(format!("{batch}: {line}")),
            }
        }
    }
    assert!(transactional > 0, "positions by producer {producer}: {committed}");
    assert!(others.is_empty(), "positions beside its transactions: {others:#?}");
}

/// Of a record of the dump, without its value: that of a group's members names topics too.
fn key(line: &str) -> &str {
    line.split_once("payload: ").map_or(line, |(key, _)| key)
}

/// The value behind `name: ` in a line of the dump.
fn field<'a>(line: &'a str, name: &str) -> &'a str {
    let rest = line.split_once(&format!("{name}: ")).map_or("", |(_, rest)| rest);
    rest.split_whitespace().next().unwrap_or_default()
}
