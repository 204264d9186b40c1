//! What a process takes of its machine.

use std::fs;
use std::time::{Duration, Instant};

use rdkafka::producer::BaseRecord;

use crate::harness::ledger::Ledger;
use crate::harness::load::{confirmed_producer, finish, send, value};
use crate::harness::process::Process;
use crate::harness::receiver::Receiver;
use crate::harness::room::Room;
use crate::harness::wait::{PATIENCE, wait_until};

const MIB: usize = 1 << 20;

/// A receiver holds every request, so that nothing is done while everything can be fetched: a part of it is. Then it goes on to the end.
pub(super) fn a_backlog_is_not_fetched_into_memory(room: &Room) {
    let (partitions, backlog, most) = room.number((8, 400 * MIB, 288 * MIB), (24, 2048 * MIB, 640 * MIB));
    let input = room.topic("in", partitions);
    let pad = "x".repeat(20_000);
    let records = backlog / pad.len();
    let producer = confirmed_producer(&room.broker().address());
    for (i, partition) in (0..records).zip((0..partitions).cycle()) {
        let value = format!(r#"{{"i":{i},"pad":"{pad}"}}"#);
        send(&producer, BaseRecord::<str, str>::to(&input).partition(partition).payload(&value));
    }
    finish(&producer);
    let receiver = Receiver::start(|_| 200);
    let url = receiver.url();
    let (brokers, group) = (room.broker().address(), room.group());
    let input_map = format!("{{type: kafka, brokers: \"{brokers}\", topics: [\"{input}\"], consumer_group: {group}}}");
    let output = format!("{{type: http, url: \"{url}\", body: array, timeout: 60s}}");
    let mut process = room.run(format!("streams: [{{id: slow, input: {input_map}, output: {output}}}]\n"));
    receiver.wait_held(0);
    let (mut seen, mut since) = (0, Instant::now());
    wait_until("it fetches no more", PATIENCE, || {
        let now = peak(&process);
        if now > seen {
            (seen, since) = (now, Instant::now());
        }
        // It does fetch ahead, however large the backlog is.
        seen > 50 * MIB && since.elapsed() > Duration::from_secs(2)
    });
    assert!(seen < most, "{} MiB with a backlog of {} MiB", seen / MIB, backlog / MIB);
    receiver.cut();
    room.cluster().group(&group).wait_drained(&[&input], 2 * PATIENCE);
    let end = peak(&process);
    eprintln!("{group}: at most {} MiB before, {} MiB in all, of {} MiB", seen / MIB, end / MIB, backlog / MIB);
    assert!(end < most, "{} MiB with a backlog of {} MiB", end / MIB, backlog / MIB);
    process.stop_cleanly();
}

/// The most memory that it has had, in bytes.
fn peak(process: &Process) -> usize {
    let status = fs::read_to_string(format!("/proc/{}/status", process.pid())).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("Linux tells it");
    line.trim().trim_end_matches(" kB").parse::<usize>().expect("a number") << 10
}

/// A record becomes as many outputs as fit into it; they are one transaction, and the next record comes behind it.
pub(super) fn records_with_very_many_outputs_are_written_in_bounded_memory(room: &Room) {
    const EACH: u64 = 8_000;
    let total = room.number(20, 200) * EACH;
    let (input, output) = (room.topic("in", 1), room.topic("out", 1));
    let producer = confirmed_producer(&room.broker().address());
    for from in (0..total).step_by(usize::try_from(EACH).expect("small")) {
        let items: Vec<_> = (from..from + EACH).map(|id| value(&input, 0, id)).collect();
        let value = format!("[{}]", items.join(","));
        send(&producer, BaseRecord::<str, str>::to(&input).partition(0).payload(&value));
    }
    finish(&producer);
    let mut process = room.run(room.copy(&[&input], &output).processor("{type: split}"));
    let group = room.cluster().group(&room.group());
    wait_until("all is done", 2 * PATIENCE, || group.lag(&[&input]) == 0);
    let most = peak(&process);
    eprintln!("{total} outputs of {} records: at most {} MiB", total / EACH, most / MIB);
    assert!(most < 192 * MIB, "{} MiB", most / MIB);
    process.stop_cleanly();
    Ledger::of(room.cluster(), &output).assert_exact(0..total);
}
