//! Topics that an expression names, and several outputs in one transaction.

use crate::support::{KAFKA_IN, accepted, problems, refuses, stream};

const PAIRED_IN: &str = "type: kafka, topics: [a], consumer_group: g, transactional_offsets: true";
const PAIRED: &str = "exactly_once: true, transactional_id: t, offset_commit_group: g";

fn named(expression: &str, topics: &str) -> String {
    format!("type: kafka, topic: {{type: expr, expr: '{expression}'}}, topics: {topics}")
}

fn outputs(items: &str) -> String {
    format!("streams:\n  - input: {{{PAIRED_IN}}}\n    outputs: [{items}]\n")
}

#[test]
fn an_expression_names_the_topic_among_those_that_are_listed() {
    let plan = accepted(&stream(KAFKA_IN, &named("string!(.kind)", "[x, y]")));
    assert_eq!(plan.streams[0].route(), "kafka a → kafka one of x, y");
    refuses(
        &stream(KAFKA_IN, "type: kafka, topic: {type: expr, expr: '.kind'}"),
        &["output.topics", "needs a list of all that it may be"],
    );
    refuses(&stream(KAFKA_IN, &named("length(.)", "[x]")), &["output.topic.expr"]);
    refuses(&stream(KAFKA_IN, &named("1 + 1", "[x]")), &["output.topic.expr", "must be a string"]);
    refuses(&stream(KAFKA_IN, &named(".b = 1", "[x]")), &["output.topic.expr", "read-only"]);
    refuses(&stream(KAFKA_IN, &named("string!(%kind)", "[x]")), &["output.topic.expr", "%kind is unknown"]);
    refuses(&stream(KAFKA_IN, &named(".kind", "[x, a b]")), &["output.topics[1]", "letters"]);
}

#[test]
fn names_of_topics_are_checked() {
    let found = problems(&stream(KAFKA_IN, &named(".kind", "[x, x, a]")));
    assert_eq!(found.len(), 2, "{found:#?}");
    assert!(found[0].contains("output.topics[1]") && found[0].contains("twice"), "{found:#?}");
    assert!(found[1].contains("output.topics[2]") && found[1].contains("its own records"), "{found:#?}");
    refuses(&stream(KAFKA_IN, "type: kafka, topic: x, topics: [x]"), &["output.topics", "always the same"]);
    refuses(&stream(KAFKA_IN, "type: kafka, topic: {type: value}"), &["output.topic.value"]);
}

#[test]
fn several_outputs_are_one_transaction_of_one_cluster() {
    let plan = accepted(&outputs(&format!("{{type: kafka, topic: x, {PAIRED}}}, {{{}}}", named(".kind", "[y, z]"))));
    assert_eq!(plan.streams[0].route(), "kafka a → kafka x and one of y, z");
    assert!(plan.streams[0].guarantee().starts_with("exactly once"));
    accepted(&outputs(&format!("{{type: kafka, topic: x, {PAIRED}}}, {{type: kafka, topic: y, {PAIRED}}}")));
    for (second, parts) in [
        ("type: kafka, topic: y, brokers: other:1", &["outputs[1].brokers", "cannot span two clusters"][..]),
        ("type: kafka, topic: y, transactional_id: u", &["outputs[1].transactional_id", "as in the first output"]),
        ("type: kafka, topic: y, compression: zstd", &["outputs[1].compression", "as in the first output"]),
        ("type: kafka, topic: x", &["outputs[1].topic", "each record twice"]),
        ("type: kafka, topic: a", &["outputs[1].topic", "its own records"]),
        ("type: stdout", &["outputs[1].type", "one Kafka cluster"]),
        ("type: kafka", &["outputs[1].topic", "needs a topic"]),
    ] {
        refuses(&outputs(&format!("{{type: kafka, topic: x, {PAIRED}}}, {{{second}}}")), parts);
    }
    let error = outputs(&format!("{{type: kafka, topic: x, {PAIRED}}}, {{type: kafka, topic: y}}"));
    refuses(&format!("{error}    error_output: {{type: kafka, topic: y}}\n"), &["error_output.topic"]);
    refuses(&format!("{error}    output: {{type: drop}}\n"), &["streams[0].output", "move it into the list"]);
    refuses(&outputs(""), &["outputs", "at least one"]);
}
