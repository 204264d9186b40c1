//! Records that go several ways: all of them in the transaction of the position, or none.

use crate::harness::cluster::Isolation::ReadCommitted;
use crate::harness::ledger::{Ledger, count, records};
use crate::harness::pipeline::Pipeline;
use crate::harness::room::Room;
use crate::harness::wait::{PATIENCE, wait_until};

/// The pipeline with further outputs, each as YAML flow.
fn with_outputs(pipeline: &Pipeline, more: &[String]) -> String {
    let text = pipeline.to_string();
    let (before, first) = text.split_once("    output:\n").expect("it has an output");
    let first: String = first.lines().map(|line| format!("  {line}\n")).collect();
    let more: String = more.iter().map(|output| format!("      - {output}\n")).collect();
    format!("{before}    outputs:\n{}{more}", first.replacen("        type:", "      - type:", 1))
}

/// An output whose topic is that of the parity of the record's id.
fn by_parity(even: &str, odd: &str, listed: &[&str]) -> String {
    let expression = format!("if mod(int!(.i), 2) == 0 {{ \"{even}\" }} else {{ \"{odd}\" }}");
    format!("{{type: kafka, topic: {{type: expr, expr: '{expression}'}}, topics: {listed:?}}}")
}

/// Each record goes to one topic of all, and to one of two by its content.
pub(super) fn a_record_and_its_ways_are_one_transaction_over_kills(room: &Room) {
    let (input, all) = (room.topic("in", 3), room.topic("all", 3));
    let (even, odd) = (room.topic("even", 2), room.topic("odd", 2));
    let (cluster, group) = (room.cluster(), room.cluster().group(&room.group()));
    let load = room.load(&[&input], 3).start(0, 2000);
    let mut pipeline = room.copy(&[&input], &all).known_id();
    pipeline.transaction_timeout = Some(if room.mode().is_worker() { "5s" } else { "60s" });
    let file = with_outputs(&pipeline, &[by_parity(&even, &odd, &[&even, &odd])]);
    let mut process = room.run(&file);
    for _ in 0..room.number(2, 30) {
        let seen = group.progress(&[&input]);
        wait_until("it commits", PATIENCE, || group.progress(&[&input]) > seen + 200);
        process.kill_in_transaction(cluster, &[&all, &even, &odd]);
        process = room.run(&file);
    }
    let total = load.finish();
    group.wait_drained(&[&input], PATIENCE);
    cluster.wait_settled(&[&all, &even, &odd]);
    Ledger::of(cluster, &all).assert_exact(0..total);
    let mut ledger = Ledger::of(cluster, &even);
    ledger.add(cluster, &odd);
    ledger.assert_exact(0..total);
    assert_eq!(count(cluster, &even, ReadCommitted), total.div_ceil(2), "those of even ids, and no others");
    process.stop_cleanly();
}

/// It stops the stream, and nothing of its batch is anywhere; with an error output it goes there, by none of its ways.
pub(super) fn a_topic_that_is_not_listed_is_refused_with_the_record(room: &Room) {
    let (input, all) = (room.topic("in", 1), room.topic("all", 1));
    let (even, odd, dead) = (room.topic("even", 1), room.topic("odd", 1), room.topic("dead", 1));
    room.load(&[&input], 1).send(0..4);
    let mut pipeline = room.copy(&[&input], &all);
    let route = by_parity(&even, &odd, &[&even]);
    let mut process = room.run(with_outputs(&pipeline, std::slice::from_ref(&route)));
    assert_eq!(process.wait_exit(PATIENCE), 1);
    let words = [&format!("{input}/0"), "offset 1", "outputs[1].topic.expr", &format!("the topic {odd}"), "none of its topics"];
    assert!(process.says(&words), "log: {}", process.stderr());
    let at = room.cluster().group(&room.group()).committed(&input)[0].unwrap_or(0);
    room.cluster().wait_settled(&[&all]);
    assert!(at <= 1 && count(room.cluster(), &all, ReadCommitted) == at.unsigned_abs(), "only what is committed is seen");
    pipeline.error_output = Some(dead.clone());
    let file = with_outputs(&pipeline, &[route]);
    let (before, error) = file.split_once("      error_output:").expect("the list has it behind the first output");
    let (error, more) = error.split_once('\n').expect("a line");
    room.drain(format!("{before}{more}    error_output:{error}\n"));
    room.cluster().wait_settled(&[&all, &odd]);
    assert_eq!(count(room.cluster(), &all, ReadCommitted), 2);
    let letters = records(room.cluster(), &dead);
    assert_eq!(letters.iter().map(|letter| letter.header("wattle.offset").expect("it")).collect::<Vec<_>>(), ["1", "3"]);
    assert_eq!(letters[0].header("wattle.stage").as_deref(), Some("outputs[1].topic.expr"));
    assert_eq!(room.cluster().partitions(&odd), Some(1));
    assert_eq!(count(room.cluster(), &odd, ReadCommitted), 0);
}
