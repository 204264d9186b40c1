//! Outputs keep the order of their input partition, whatever happens in between.

use std::time::{Duration, Instant};

use crate::harness::cluster::Isolation::ReadUncommitted;
use crate::harness::ledger::Ledger;
use crate::harness::room::Room;
use crate::harness::transaction::fence;
use crate::harness::wait::{PATIENCE, wait_until};

/// Two topics of three partitions each, keyed by something else than the partition, and many threads asked for.
pub(super) fn outputs_keep_the_order_of_their_input_partition(room: &Room) {
    let (one, two, output) = (room.topic("one", 3), room.topic("two", 3), room.topic("out", 4));
    room.load(&[&one, &two], 3).send(0..20_000);
    let yaml = room.copy(&[&one, &two], &output).to_string();
    let threads = yaml.replace("    pipeline:\n", "    pipeline:\n      thread_num: 8\n");
    assert_ne!(threads, yaml);
    room.drain(threads);
    Ledger::of(room.cluster(), &output).assert_exact(0..20_000);
}

/// An intruder takes the transactional id between and within batches. The interrupted batch is processed again before newer
/// records, and the recovery is not a loop.
pub(super) fn an_interrupted_batch_runs_again_before_newer_records(room: &Room) {
    let (input, output) = (room.topic("in", 1), room.topic("out", 1));
    let cluster = room.cluster();
    let group = cluster.group(&room.group());
    let pipeline = room.copy(&[&input], &output).known_id();
    let id = pipeline.id();
    let load = room.load(&[&input], 1).start(0, 3000);
    let mut process = room.run(&pipeline);
    wait_until("it works", PATIENCE, || group.progress(&[&input]) > 1000);
    let before = epoch(room, &id);
    fence(&room.broker().address(), &id);
    process.wait_says(&["fenced"], PATIENCE);
    let seen = group.progress(&[&input]);
    let mut restarted = false;
    wait_until("it goes on, or ends", PATIENCE, || {
        restarted = !process.is_running();
        restarted || group.progress(&[&input]) > seen + 3000
    });
    if restarted {
        eprintln!("--- it ended; log:\n{}", process.stderr());
        process = room.run(&pipeline);
    }
    let total = load.finish();
    group.wait_drained(&[&input], PATIENCE);
    Ledger::of(cluster, &output).assert_exact(0..total);
    // A fence costs one epoch, or two where it ends a transaction.
    let epochs = epoch(room, &id) - before;
    assert!((1..=8).contains(&epochs), "one fence is the intruder's, and at most three are ours: {epochs} epochs");
    process.stop_cleanly();
}

fn epoch(room: &Room, id: &str) -> i64 {
    let address = room.broker().address();
    let arguments = ["--bootstrap-server", &address, "describe", "--transactional-id", id];
    let text = room.broker().kafka().tool("org.apache.kafka.tools.TransactionsCommand", &arguments);
    let (names, values) = text.trim().split_once('\n').unwrap_or_else(|| panic!("two lines: {text}"));
    let column = names.split_whitespace().position(|name| name == "ProducerEpoch");
    let value = column.and_then(|column| values.split_whitespace().nth(column));
    value.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("an epoch: {text}"))
}

/// Two processes whose files differ in the group only. One of them must give up, name the id, and let the other one work.
pub(super) fn two_applications_with_one_transactional_id_do_not_fight_for_ever(room: &Room) {
    let (input, out_a, out_b) = (room.topic("in", 1), room.topic("out-a", 1), room.topic("out-b", 1));
    let load = room.load(&[&input], 1).start(0, 500);
    let mut a = room.copy(&[&input], &out_a).known_id();
    let mut b = room.copy(&[&input], &out_b).known_id();
    let id = room.name("same");
    (a.transactional_id, b.transactional_id) = (Some(id.clone()), Some(id.clone()));
    (a.consumer_group, b.consumer_group) = (room.name("a"), room.name("b"));
    let (mut one, mut two) = (room.run(&a), room.run(&b));
    wait_until("one of them gives up", PATIENCE, || !one.is_running() || !two.is_running());
    let (mut dead, mut alive, group, output) = match one.is_running() {
        true => (two, one, &a.consumer_group, &out_a),
        false => (one, two, &b.consumer_group, &out_b),
    };
    assert_eq!(dead.wait_exit(PATIENCE), 1);
    assert!(dead.says(&["fenced", &id]), "it names the id");
    let group = room.cluster().group(group);
    let seen = group.progress(&[&input]);
    wait_until("the other one works", PATIENCE, || group.progress(&[&input]) > seen + 500);
    let total = load.finish();
    group.wait_drained(&[&input], PATIENCE);
    Ledger::of(room.cluster(), output).assert_exact(0..total);
    alive.stop_cleanly();
}

/// Right after a commit its markers are still being written, and a client that waits its usual time for that takes 100 ms for each transaction.
pub(super) fn transactions_of_one_record_follow_each_other_quickly(room: &Room) {
    let (input, output) = (room.topic("in", 1), room.topic("out", 1));
    room.load(&[&input], 1).send(0..500);
    let mut pipeline = room.copy(&[&input], &output);
    pipeline.batch = "{max_poll_records: 1}".to_owned();
    let begin = Instant::now();
    let process = room.drain(&pipeline);
    let took = begin.elapsed();
    Ledger::of(room.cluster(), &output).assert_exact(0..500);
    let end = room.cluster().range(&output, 0, ReadUncommitted).1;
    assert!(end >= 2 * 500, "a marker behind each record: {end}");
    assert!(took < Duration::from_secs(60), "{took:?}");
    assert!(!process.says(&["warn"]), "log: {}", process.stderr());
    eprintln!("{}: 500 transactions in {took:?}", room.group());
}
