//! Where a group begins, and what is refused before anything is processed.

use std::time::{Duration, Instant};

use crate::harness::ledger::{Ledger, count};
use crate::harness::cluster::Isolation::ReadCommitted;
use crate::harness::mode::Scope;
use crate::harness::ports::free_ports;
use crate::harness::process::Process;
use crate::harness::receiver::get;
use crate::harness::room::Room;
use crate::harness::wait::{PATIENCE, wait_until};

/// The first start commits where it begins. It dies with the records that came after it in flight.
pub(super) fn a_new_group_that_crashes_before_its_first_batch_loses_nothing_after_its_first_start(room: &Room) {
    let (input, output) = (room.topic("in", 2), room.topic("out", 2));
    let load = room.load(&[&input], 2);
    load.send(0..100);
    let mut pipeline = room.copy(&[&input], &output);
    pipeline.start_from_latest = true;
    let group = room.cluster().group(&room.group());
    let mut process = room.run(&pipeline);
    wait_until("it has begun at the end", PATIENCE, || group.committed(&input) == [Some(50), Some(50)]);
    process.freeze();
    load.send(100..200);
    assert!(process.kill(), "it was there to be killed");
    assert_eq!(group.committed(&input), [Some(50), Some(50)], "it died before its first batch");
    room.drain(&pipeline);
    Ledger::of(room.cluster(), &output).assert_exact(100..200);
}

/// Long before anything gives up: a machine may be slow.
const SOON: Duration = Duration::from_secs(30);

fn refused(mut process: Process, code: i32, words: &[&str], patience: Duration) {
    let begin = Instant::now();
    let found = process.wait_exit(PATIENCE);
    let log = process.stderr();
    assert_eq!(found, code, "exit code; log: {log}");
    assert!(begin.elapsed() < patience, "it took {:?} to refuse", begin.elapsed());
    for word in words {
        assert!(log.contains(word), "{word:?} is not in the log: {log}");
    }
}

/// Records between the committed position and the topic's first record are gone: no guarantee holds, and it says so.
pub(super) fn a_position_before_the_first_record_is_loud(room: &Room) {
    let (input, output) = (room.topic("in", 1), room.topic("out", 1));
    let load = room.load(&[&input], 1);
    load.send(0..10);
    room.drain(room.copy(&[&input], &output));
    load.send(10..100);
    room.cluster().delete_records(&input, 0, 50);
    refused(room.run(room.copy(&[&input], &output)), 1, &[&format!("{input}/0"), "10", "50"], SOON);
    assert_eq!(room.cluster().group(&room.group()).committed(&input), [Some(10)]);
    Ledger::of(room.cluster(), &output).assert_exact(0..10);
}

/// Retention has removed everything that was processed. A fetch from the beginning would be out of range, and none may be made.
pub(super) fn a_topic_whose_first_records_are_gone_starts_every_time(room: &Room) {
    let (input, output) = (room.topic("in", 2), room.topic("out", 1));
    let load = room.load(&[&input], 2);
    load.send(0..40);
    room.drain(room.copy(&[&input], &output));
    for partition in 0..2 {
        let end = room.cluster().group(&room.group()).committed(&input)[partition].expect("a position");
        room.cluster().delete_records(&input, partition as i32, end);
    }
    let starts = room.number(8, 40);
    for start in 0..starts {
        load.send(40 + start..41 + start);
        room.drain(room.copy(&[&input], &output));
    }
    Ledger::of(room.cluster(), &output).assert_exact(0..40 + starts);
}

/// The same while it runs: going on at the old number would pass new records that nobody has seen.
pub(super) fn a_topic_that_is_made_again_under_a_running_process_is_loud(room: &Room) {
    let (input, output) = (room.topic("in", 1), room.topic("out", 1));
    room.load(&[&input], 1).send(0..10);
    let mut process = room.run(room.copy(&[&input], &output));
    wait_until("it works", PATIENCE, || room.cluster().group(&room.group()).progress(&[&input]) == 10);
    room.cluster().delete_topic(&input);
    room.cluster().create_topic(&input, 1, &[]);
    room.load(&[&input], 1).send(10..25);
    assert_eq!(process.wait_exit(PATIENCE), 1);
    // Which of the three notices first depends on when the client asks what.
    let noticed = [[input.as_str(), "anew"], [&input, "deleted"], ["Unknown", "topic"]];
    assert!(noticed.iter().any(|words| process.says(words)), "log: {}", process.stderr());
}

/// A topic that was deleted and made again: its records are new ones.
pub(super) fn records_of_a_topic_that_was_made_again_are_not_skipped(room: &Room) {
    let (input, output) = (room.topic("in", 1), room.topic("out", 1));
    room.load(&[&input], 1).send(0..10);
    room.drain(room.copy(&[&input], &output));
    room.cluster().delete_topic(&input);
    room.cluster().create_topic(&input, 1, &[]);
    room.load(&[&input], 1).send(10..25);
    let mut process = room.run_with(room.copy(&[&input], &output), &["--drain"]);
    if process.wait_exit(PATIENCE) == 0 {
        Ledger::of(room.cluster(), &output).assert_exact(0..25);
    } else {
        assert!(process.says(&[&input]), "it names the topic");
        Ledger::of(room.cluster(), &output).assert_exact(0..10);
    }
}

pub(super) fn a_missing_topic_is_named_and_not_created(room: &Room) {
    let (input, output) = (room.topic("in", 1), room.topic("out", 1));
    let missing = room.name("inn");
    refused(room.run(room.copy(&[&input, &missing], &output)), 1, &[&missing], SOON);
    assert_eq!(room.cluster().partitions(&missing), None);
    let no_output = room.name("outt");
    refused(room.run(room.copy(&[&input], &no_output)), 1, &[&no_output], SOON);
    assert_eq!(room.cluster().partitions(&no_output), None);
}

pub(super) fn unequal_partition_counts_are_listed(room: &Room) {
    let (two, three, output) = (room.topic("two", 2), room.topic("three", 3), room.topic("out", 1));
    refused(room.run(room.copy(&[&two, &three], &output)), 1, &[&two, &three, "2", "3"], SOON);
}

pub(super) fn a_transaction_timeout_above_the_brokers_maximum_is_refused(room: &Room) {
    let (input, output) = (room.topic("in", 1), room.topic("out", 1));
    let mut pipeline = room.copy(&[&input], &output);
    pipeline.transaction_timeout = Some("1h");
    refused(room.run(pipeline), 1, &["transaction.max.timeout.ms"], SOON);
}

/// Nothing listens there.
pub(super) fn a_broker_that_is_down_at_the_start_is_named_within_ten_seconds(room: &Room) {
    let mut pipeline = room.copy(&["in"], "out");
    pipeline.brokers = "127.0.0.1:1".into();
    let [port] = free_ports().expect("a free port");
    let process = room.run(format!("health_check: {{address: '127.0.0.1:{port}'}}\n{pipeline}"));
    wait_until("it says that it is not ready", PATIENCE, || {
        let (status, _) = get(port, "/readiness");
        assert_ne!(status, 200, "without a broker");
        status == 503
    });
    assert_eq!(get(port, "/liveness").0, 200);
    // By its own clock: a machine may be slow beside it.
    let words = ["no broker answers at 127.0.0.1:1 within 8 s"];
    refused(process, 3, &words, SOON);
    refused(room.wattle(&["tail", "t", "--brokers", "127.0.0.1:1"]), 3, &words, SOON);
}

/// A task of scope `task` has a producer of its own, whose descriptors have to be there. Counted for a process that has all partitions.
pub(super) fn a_limit_of_open_files_that_is_too_low_is_raised_or_refused_with_the_number(room: &Room) {
    let (input, output) = (room.topic("in", 40), room.topic("out", 1));
    let load = room.load(&[&input], 40);
    load.send(0..80);
    let pipeline = room.copy(&[&input], &output);
    let words = ["W0013", "200", "40 partitions", "ulimit -n", "transaction_scope: worker"];
    refused(room.drain_under("-n 200", &pipeline), 1, &words, SOON);
    assert_eq!(count(room.cluster(), &output, ReadCommitted), 0);

    let mut raised = room.drain_under("-S -n 200", &pipeline);
    assert_eq!(raised.wait_exit(PATIENCE), 0, "only the soft limit is too low: {}", raised.stderr());
    assert!(raised.says(&["raised", "from 200"]), "log: {}", raised.stderr());
    Ledger::of(room.cluster(), &output).assert_exact(0..80);

    load.send(80..160);
    let mut worker = room.drain_under("-n 200", pipeline.scope(Scope::Worker));
    assert_eq!(worker.wait_exit(PATIENCE), 0, "one producer for all: {}", worker.stderr());
    Ledger::of(room.cluster(), &output).assert_exact(0..160);
}

/// One file, two streams, one id: refused before anything connects.
pub(super) fn two_streams_with_one_transactional_id_are_refused(room: &Room) {
    let (input, output) = (room.topic("in", 1), room.topic("out", 1));
    let file = room.copy(&[&input], &output).to_string();
    let (head, stream) = file.split_once('\n').unwrap();
    let second = stream.replace("id: copy", "id: again").replace("consumer_group: ", "consumer_group: other-");
    let second = second.replace("offset_commit_group: ", "offset_commit_group: other-").replace("other-other-", "other-");
    refused(
        room.run(format!("{head}\n{stream}{second}")),
        2,
        &["streams[1].output.transactional_id", "copy", "again"],
        SOON,
    );
    assert_eq!(count(room.cluster(), &output, ReadCommitted), 0);
}

/// At least eight mistakes of different kinds, each with its place and what to do.
pub(super) fn every_mistake_of_a_file_is_reported_at_once(room: &Room) {
    let file = "\
streams:
  - id: a b
    colour: red
    input:
      type: kafka
      topics: []
      start_form_latest: true
      consumer_group: g
      transactional_offsets: true
      client: {isolation.level: read_uncommitted}
    pipeline:
      processors:
        - {type: vrl, statement: \".a = \"}
        - {type: wrong}
    output:
      type: kafka
      topic: out
      exactly_once: maybe
      transactional_id: ''
      compression: best
";
    let places = [
        "2:", "streams[0].colour", "streams[0].input.topics", "start_from_latest", "streams[0].input.brokers",
        "streams[0].input.client", "streams[0].pipeline.processors[0]", "streams[0].pipeline.processors[1]",
        "streams[0].output.exactly_once", "streams[0].output.compression",
    ];
    refused(room.run(file), 2, &places, SOON);
}
