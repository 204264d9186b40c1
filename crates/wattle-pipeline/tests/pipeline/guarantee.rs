//! Combinations of keys whose guarantee would not hold are refused, with both keys and the remedy.

use crate::support::{KAFKA_IN, KAFKA_OUT, accepted, problems, refuses, stream};

const PAIRED_IN: &str = "type: kafka, topics: [a], consumer_group: g, transactional_offsets: true";
const PAIRED_OUT: &str = "type: kafka, topic: b, exactly_once: true, transactional_id: t, offset_commit_group: g";

#[test]
fn the_pair_gives_exactly_once() {
    let plan = accepted(&stream(PAIRED_IN, PAIRED_OUT));
    assert_eq!(plan.streams[0].guarantee(), "exactly once: offsets commit in the same transaction, one per partition");
}

#[test]
fn a_worker_may_have_one_transaction_for_all_its_partitions() {
    let output = format!("{PAIRED_OUT}, transaction_scope: worker");
    let plan = accepted(&stream(PAIRED_IN, &output));
    let guarantee =
        "exactly once: offsets commit in the same transaction, which partitions of a worker share (transaction_scope)";
    assert_eq!(plan.streams[0].guarantee(), guarantee);
    let task = accepted(&stream(PAIRED_IN, &format!("{PAIRED_OUT}, transaction_scope: task")));
    assert!(task.streams[0].guarantee().ends_with("one per partition"));
    let start = format!("{PAIRED_IN}, group_instance_id: start");
    refuses(&stream(&start, &output), &["input.group_instance_id", "transaction_scope worker"]);
    accepted(&stream(&start, PAIRED_OUT));
    let key = "output.transaction_scope";
    refuses(&stream(PAIRED_IN, &format!("{PAIRED_OUT}, transaction_scope: all")), &[key, "task, worker"]);
    refuses(
        &stream(KAFKA_IN, &format!("{KAFKA_OUT}, transaction_scope: worker")),
        &[key, "without exactly_once: true"],
    );
    for input in ["type: file, path: x", "type: generate, context: x"] {
        let output = "type: kafka, topic: b, exactly_once: true, transactional_id: t, transaction_scope: worker";
        refuses(&stream(input, output), &[key, "generation", "no consumer group", "remove"]);
    }
    // Its default timeout is shorter.
    let batch = |output: &str| format!("{}    batch: {{commit_interval: 15s}}\n", stream(PAIRED_IN, output));
    accepted(&batch(PAIRED_OUT));
    refuses(&batch(&output), &["output.transaction_timeout", "(10s)", "batch.commit_interval"]);
}

#[test]
fn exactly_once_needs_a_transactional_id() {
    for id in ["", "transactional_id: ' ',", "transactional_id: ,"] {
        let output = format!("type: kafka, topic: b, exactly_once: true, {id} offset_commit_group: g");
        let remedy = "must not be blank when exactly_once is true; choose an id that stays the same over restarts";
        refuses(&stream(PAIRED_IN, &output), &["streams[0].output.transactional_id", remedy]);
    }
}

#[test]
fn a_transactional_id_alone_is_refused() {
    let output = format!("{KAFKA_OUT}, transactional_id: t");
    refuses(&stream(KAFKA_IN, &output), &["output.transactional_id", "without exactly_once: true", "remove"]);
    let output = format!("{KAFKA_OUT}, transaction_timeout: 5s");
    refuses(&stream(KAFKA_IN, &output), &["output.transaction_timeout", "without exactly_once: true"]);
}

#[test]
fn offset_commit_group_requires_exactly_once() {
    let output = format!("{KAFKA_OUT}, offset_commit_group: g");
    refuses(&stream(KAFKA_IN, &output), &["output.offset_commit_group", "requires exactly_once: true"]);
}

#[test]
fn offset_commit_group_must_be_the_inputs_group() {
    let output = PAIRED_OUT.replace("group: g", "group: h");
    refuses(&stream(PAIRED_IN, &output), &["output.offset_commit_group", "consumer_group", "offset_commit_group: g"]);
}

#[test]
fn transactional_offsets_must_be_claimed() {
    let output = "type: kafka, topic: b, exactly_once: true, transactional_id: t";
    let parts =
        ["input.transactional_offsets", "no output commits the offsets of group \"g\"", "offset_commit_group: g"];
    refuses(&stream(PAIRED_IN, output), &parts);
    refuses(&stream(PAIRED_IN, KAFKA_OUT), &parts);
    for output in ["type: drop", "type: stdout"] {
        refuses(
            &stream(PAIRED_IN, output),
            &[parts[0], parts[1], "output of type kafka", "transactional_offsets: false"],
        );
    }
}

#[test]
fn offset_commit_group_needs_transactional_offsets() {
    for input in [KAFKA_IN.to_owned(), format!("{KAFKA_IN}, transactional_offsets: false")] {
        refuses(&stream(&input, PAIRED_OUT), &["output.offset_commit_group", "transactional_offsets: true"]);
    }
}

#[test]
fn exactly_once_on_one_cluster_needs_no_pair() {
    let output = "type: kafka, topic: b, exactly_once: true, transactional_id: t";
    for input in [KAFKA_IN.to_owned(), format!("{KAFKA_IN}, transactional_offsets: false")] {
        let plan = accepted(&stream(&input, output));
        assert_eq!(plan.streams[0].guarantee(), accepted(&stream(PAIRED_IN, PAIRED_OUT)).streams[0].guarantee());
    }
}

#[test]
fn inputs_without_a_group_are_exactly_once_by_a_cursor() {
    let output = "type: kafka, topic: b, exactly_once: true, transactional_id: t";
    for (input, what) in [
        ("type: file, path: x", "exactly once: the file's position commits with the records"),
        ("type: generate, context: x", "exactly once: the number of records made commits with them"),
    ] {
        assert_eq!(accepted(&stream(input, output)).streams[0].guarantee(), what);
        let group = format!("{output}, offset_commit_group: g");
        refuses(&stream(input, &group), &["output.offset_commit_group", "no consumer group", "remove"]);
        let id = output.replace("_id: t", "_id: 'a b'");
        refuses(&stream(input, &id), &["output.transactional_id", "a b-changelog", "letters"]);
    }
}

#[test]
fn between_two_clusters_the_position_is_a_cursor() {
    let input = format!("{PAIRED_IN}, brokers: [a:1, b:1]");
    // The group's offsets cannot be in the transaction: both keys that ask for it say so.
    let both = stream(&input, &format!("{PAIRED_OUT}, brokers: [a:1]"));
    let found = problems(&both);
    assert!(found.len() == 2 && found.iter().all(|problem| problem.contains("span two clusters")), "{found:#?}");
    assert!(found[0].contains("input.transactional_offsets") && found[1].contains("output.offset_commit_group"));
    accepted(&stream(&input, &format!("{PAIRED_OUT}, brokers: 'b:1,a:1'")));
    accepted(&stream(&format!("{KAFKA_IN}, brokers: x:1"), &format!("{KAFKA_OUT}, brokers: y:1")));
    let (input, output) =
        (format!("{KAFKA_IN}, brokers: x:1"), format!("{KAFKA_OUT}, brokers: y:1, exactly_once: true"));
    let plan = accepted(&stream(&input, &format!("{output}, transactional_id: t")));
    assert!(plan.streams[0].guarantee().contains("exactly once: the position commits with the results, as a cursor"));
    refuses(&stream(&input, &format!("{output}, transactional_id: t/t")), &["transactional_id", "t/t-changelog"]);
    let worker = format!("{output}, transactional_id: t, transaction_scope: worker");
    refuses(&stream(&input, &worker), &["output.transaction_scope", "one cluster"]);
}

#[test]
fn exactly_once_needs_acks_of_all() {
    refuses(&stream(PAIRED_IN, &format!("{PAIRED_OUT}, acks: 1")), &["output.acks", "exactly_once: true", "all"]);
    accepted(&stream(PAIRED_IN, &format!("{PAIRED_OUT}, acks: all, compression: zstd, transaction_timeout: 30s")));
    assert!(accepted(&stream(KAFKA_IN, &format!("{KAFKA_OUT}, acks: '0'"))).streams[0].guarantee().starts_with("none"));
    assert!(accepted(&stream(KAFKA_IN, &format!("{KAFKA_OUT}, acks: 1"))).streams[0].guarantee().contains("acks 1"));
    refuses(&stream(KAFKA_IN, &format!("{KAFKA_OUT}, acks: 2")), &["output.acks", "known here: 0, 1, all"]);
    refuses(&stream(KAFKA_IN, &format!("{KAFKA_OUT}, compression: lzo")), &["output.compression"]);
}

#[test]
fn a_batch_must_fit_into_its_transaction() {
    let text = format!("{}    batch: {{commit_interval: 70s}}\n", stream(PAIRED_IN, PAIRED_OUT));
    refuses(&text, &["output.transaction_timeout", "batch.commit_interval"]);
}

#[test]
fn two_streams_never_share_an_id_or_a_group() {
    let one = format!("{{id: x, input: {{{PAIRED_IN}}}, output: {{{PAIRED_OUT}}}}}");
    let other = one.replace("id: x", "id: y").replace("group: g", "group: h");
    refuses(&format!("streams: [{one}, {other}]"), &["streams[1].output.transactional_id", "streams x and y"]);
    let other = one.replace("id: x", "id: y").replace("id: t", "id: u");
    refuses(&format!("streams: [{one}, {other}]"), &["streams[1].input.consumer_group", "streams x and y"]);
}

#[test]
fn a_stream_does_not_read_what_it_writes() {
    refuses(&stream(KAFKA_IN, "type: kafka, topic: a"), &["output.topic", "input.topics", "forever"]);
    accepted(&stream(&format!("{KAFKA_IN}, brokers: x:1"), "type: kafka, topic: a, brokers: y:1"));
}

#[test]
fn an_error_output_is_written_with_a_kafka_output() {
    let with = |output: &str, error: &str| format!("{}    error_output: {{{error}}}\n", stream(KAFKA_IN, output));
    accepted(&with(KAFKA_OUT, "type: kafka, topic: dlq"));
    accepted(&with(KAFKA_OUT, "type: kafka, topic: dlq, brokers: localhost:9092"));
    refuses(&with(KAFKA_OUT, "type: kafka, topic: b"), &["error_output.topic", "topic of the output"]);
    refuses(&with(KAFKA_OUT, "type: kafka, topic: a"), &["error_output.topic", "input.topics"]);
    refuses(&with(KAFKA_OUT, "type: kafka, topic: dlq, brokers: x:1"), &["error_output.brokers", "output.brokers"]);
    refuses(&with(KAFKA_OUT, "type: stdout, topic: dlq"), &["error_output.type"]);
    let found = problems(&with(KAFKA_OUT, "type: kafka"));
    assert!(found[0].contains("error_output.topic"), "{found:?}");
}
