//! Keys, their types and their places.

use crate::support::{KAFKA_IN, KAFKA_OUT, accepted, lines, plan_with, problems, refuses, stream};

#[test]
fn a_misspelt_key_gets_its_line_and_the_nearest_known_one() {
    let text = "streams:\n  - input:\n      type: kafka\n      topics: [a]\n      consumer_group: g\n      \
                start_form_latest: true\n    output: {type: drop}\n";
    let expected = "6:7 streams[0].input.start_form_latest unknown key; did you mean start_from_latest?";
    assert_eq!(problems(text), [expected]);
}

#[test]
fn unknown_keys_are_refused_everywhere() {
    let text = "streams:\n  - input: {type: generate, context: x, contxt: y}\n    output: {type: drop, topic: x}\n    \
                durabilty: {}\n    pipeline: {procesors: []}\n    batch: {max_records: 5}\nstream: []\n";
    let found = problems(text);
    for part in ["input.contxt", "output.topic", "streams[0].durabilty", "pipeline.procesors", "batch.max_records"] {
        assert!(found.iter().any(|problem| problem.contains(part)), "{part}: {found:#?}");
    }
    assert!(
        found.iter().any(|problem| problem.contains("7:1 stream unknown key; did you mean streams?")),
        "{found:#?}"
    );
    assert_eq!(found.len(), 6, "{found:#?}");
}

#[test]
fn an_unknown_type_names_the_known_ones() {
    refuses(&stream("type: kafak, topics: [a]", KAFKA_OUT), &["input.type", "did you mean kafka?"]);
    refuses(&stream(KAFKA_IN, "type: s4"), &["output.type", "known here: kafka, sql, http, file, stdout, drop"]);
}

#[test]
fn a_key_that_is_set_twice_is_refused() {
    let text =
        "streams:\n  - input: {type: generate, context: x}\n    output: {type: drop}\n    output: {type: stdout}\n";
    refuses(text, &["4:5 streams[0].output", "set twice", "line 3"]);
}

#[test]
fn syntax_errors_have_a_place() {
    refuses("streams:\n  - input: {type: kafka\n", &["not YAML"]);
    refuses("streams: []\n---\nstreams: []\n", &["2:1", "a second document"]);
    refuses("", &["1:1", "empty"]);
    refuses("# nothing\n", &["empty"]);
    refuses("- a\n", &["must be a map"]);
    refuses("streams: []\n", &["1:1 streams", "at least one stream"]);
    refuses("streams: 5\n", &["must be a list"]);
}

#[test]
fn anchors_aliases_and_tags_are_refused_and_not_ignored() {
    let text = "streams:\n  - input: &i {type: generate, context: x}\n    output: {type: drop}\n";
    refuses(text, &["streams[0].input", "anchors are not supported"]);
    let text = "streams:\n  - input: !x {type: generate, context: x}\n    output: {type: drop}\n";
    refuses(text, &["streams[0].input", "tags are not supported"]);
    let text = "streams:\n  - input: &i {type: generate, context: x}\n    output: {type: drop}\n  - input: *i\n";
    assert!(problems(text).iter().any(|problem| problem.contains("4:12 streams[1].input aliases are not supported")));
}

#[test]
fn values_are_checked_by_the_type_of_their_key() {
    let wrong = [
        ("start_from_latest: yes", "input.start_from_latest", "true or false"),
        ("start_from_latest: ", "input.start_from_latest", "has no value"),
        ("group_instance_id: [a]", "input.group_instance_id", "single value"),
        ("client: [a]", "input.client", "map of keys and values"),
    ];
    for (key, path, text) in wrong {
        refuses(&stream(&format!("{KAFKA_IN}, {key}"), KAFKA_OUT), &[path, text]);
    }
    let text = format!(
        "{}    batch: {{max_poll_records: 0, max_bytes: 8MB, commit_interval: 5}}\n",
        stream(KAFKA_IN, KAFKA_OUT)
    );
    let found = problems(&text);
    assert_eq!(found.len(), 3, "{found:#?}");
    assert!(
        found.iter().any(|p| p.contains("batch.max_poll_records must be a whole number from 1 to 1000000, not \"0\""))
    );
    assert!(found.iter().any(|p| p.contains("batch.max_bytes must be a whole number with a unit of size")));
    assert!(found.iter().any(|p| p.contains("batch.commit_interval must be a whole number with a unit of time")));
}

#[test]
fn missing_keys_are_named() {
    let found = problems("streams:\n  - {}\n");
    assert!(found.iter().any(|p| p.contains("streams[0].input a stream needs an input")), "{found:#?}");
    assert!(found.iter().any(|p| p.contains("streams[0].output a stream needs an output")), "{found:#?}");
    let found = problems(&stream("type: kafka", "type: kafka"));
    for key in ["input.topics", "input.consumer_group", "output.topic"] {
        assert!(found.iter().any(|p| p.contains(key)), "{key}: {found:#?}");
    }
    refuses(&stream("type: file", KAFKA_OUT), &["input.path"]);
    refuses(&stream("type: generate", KAFKA_OUT), &["input.context"]);
}

#[test]
fn brokers_come_from_the_key_or_from_outside() {
    let text = stream(KAFKA_IN, KAFKA_OUT);
    for brokers in [None, Some(" ")] {
        let found = lines(&plan_with(&text, brokers, &|_| None).err().unwrap());
        assert_eq!(found.len(), 2, "{found:#?}");
        assert!(found.iter().all(|p| p.contains("--brokers") && p.contains("WATTLE_BROKERS")), "{found:#?}");
    }
    let text = stream(&format!("{KAFKA_IN}, brokers: [a:1, b:2]"), &format!("{KAFKA_OUT}, brokers: 'a:1, b:2'"));
    assert!(plan_with(&text, None, &|_| None).is_ok());
}

#[test]
fn brokers_of_the_file_stand_behind_those_from_outside_and_of_a_component() {
    let text = format!("brokers: c:1\n{}", stream(&format!("{KAFKA_IN}, brokers: a:1"), KAFKA_OUT));
    let of_output =
        |brokers| plan_with(&text, brokers, &|_| None).unwrap().streams[0].output_topic().unwrap().1.to_owned();
    assert_eq!(of_output(None), "c:1");
    assert_eq!(of_output(Some("b:1")), "b:1");
}

#[test]
fn embedded_is_a_cluster_of_its_own() {
    let text = format!("brokers: embedded\n{}", stream(KAFKA_IN, KAFKA_OUT));
    let mut plan = plan_with(&text, None, &|_| None).unwrap();
    let topics: Vec<_> = plan.embedded_topics().unwrap().into_iter().collect();
    assert_eq!(topics, ["a", "b"]);
    plan.set_embedded_address("127.0.0.1:7");
    assert_eq!(plan.streams[0].output_topic().unwrap().1, "127.0.0.1:7");
    assert!(plan.embedded_topics().is_none());
    assert!(plan_with(&text, Some("a:1"), &|_| None).unwrap().embedded_topics().is_none());
    let mixed = stream(&format!("{KAFKA_IN}, brokers: [embedded, a:1]"), &format!("{KAFKA_OUT}, brokers: a:1"));
    refuses(&mixed, &["input.brokers", "cluster of its own"]);
    let found = lines(&plan_with(&text, Some("embedded,a:1"), &|_| None).err().unwrap());
    assert!(found.iter().all(|p| p.contains("cluster of its own")), "{found:#?}");
}

#[test]
fn topic_names_are_checked() {
    refuses(
        &stream("type: kafka, topics: [a b], consumer_group: g", KAFKA_OUT),
        &["input.topics[0]", "letters, digits"],
    );
    refuses(&stream("type: kafka, topics: ['^a.*'], consumer_group: g", KAFKA_OUT), &["patterns are not supported"]);
    refuses(&stream("type: kafka, topics: [a, a], consumer_group: g", KAFKA_OUT), &["input.topics[1]", "listed twice"]);
    refuses(&stream("type: kafka, topics: [], consumer_group: g", KAFKA_OUT), &["input.topics", "at least one"]);
    refuses(&stream(KAFKA_IN, "type: kafka, topic: a/b"), &["output.topic", "letters, digits"]);
}

#[test]
fn a_topic_may_be_a_tagged_value() {
    let plan = accepted(&stream(KAFKA_IN, "type: kafka, topic: {type: value, value: b}"));
    assert_eq!(plan.streams[0].route(), "kafka a → kafka b");
    refuses(&stream(KAFKA_IN, "type: kafka, topic: {type: value}"), &["output.topic.value"]);
}

#[test]
fn client_properties_that_are_ours_are_refused_with_the_reason() {
    let input = format!("{KAFKA_IN}, client: {{isolation.level: read_uncommitted, fetch.min.bytes: 1}}");
    refuses(&stream(&input, KAFKA_OUT), &["input.client.isolation.level", "aborted transactions must never be read"]);
    let output = format!("{KAFKA_OUT}, client: {{acks: 1, linger.ms: 5}}");
    refuses(&stream(KAFKA_IN, &output), &["output.client.acks", "the acks key"]);
    let output = format!("{KAFKA_OUT}, client: {{statistics.interval.ms: 1000}}");
    refuses(&stream(KAFKA_IN, &output), &["output.client.statistics.interval.ms", "nobody would read them"]);
}

#[test]
fn what_the_group_protocol_refuses_is_named_with_its_place_and_the_remedy() {
    accepted(&stream(&format!("{KAFKA_IN}, group_protocol: consumer, client: {{fetch.min.bytes: 1}}"), KAFKA_OUT));
    accepted(&stream(&format!("{KAFKA_IN}, group_protocol: classic, client: {{session.timeout.ms: 9000}}"), KAFKA_OUT));
    refuses(&stream(&format!("{KAFKA_IN}, group_protocol: eager"), KAFKA_OUT), &["input.group_protocol", "consumer"]);
    let text = "streams:\n  - input:\n      type: kafka\n      topics: [a]\n      consumer_group: g\n      client:\n        \
                session.timeout.ms: 9000\n        heartbeat.interval.ms: 500\n        group.protocol.type: consumer\n        \
                partition.assignment.strategy: range\n      group_protocol: consumer\n    output: {type: kafka, topic: b}\n";
    let found = problems(text);
    assert_eq!(found.len(), 4, "{found:#?}");
    for parts in [
        [
            "7:9 streams[0].input.client.session.timeout.ms",
            "--entity-name g --add-config consumer.session.timeout.ms=MS",
        ],
        ["8:9 streams[0].input.client.heartbeat.interval.ms", "group.consumer.heartbeat.interval.ms of the brokers"],
        ["9:9 streams[0].input.client.group.protocol.type", "remove it"],
        ["10:9 streams[0].input.client.partition.assignment.strategy", "one task"],
    ] {
        assert!(found.iter().any(|problem| parts.iter().all(|part| problem.contains(part))), "{parts:?}: {found:#?}");
    }
}

#[test]
fn the_embedded_broker_has_one_group_protocol() {
    let text = stream(&format!("{KAFKA_IN}, group_protocol: consumer"), "type: drop");
    for found in [
        lines(&plan_with(&text, Some("embedded"), &|_| None).err().unwrap()),
        lines(&plan_with(&format!("brokers: embedded\n{text}"), None, &|_| None).err().unwrap()),
    ] {
        assert_eq!(found.len(), 1, "{found:#?}");
        assert!(found[0].contains("streams[0].input.group_protocol") && found[0].contains("Kafka, 4.0"), "{found:#?}");
    }
    accepted(&text);
    let classic = stream(&format!("{KAFKA_IN}, group_protocol: classic"), "type: drop");
    assert!(plan_with(&classic, Some("embedded"), &|_| None).is_ok());
}

#[test]
fn ids_are_unique_and_plain() {
    let one = "{id: x, input: {type: generate, context: c}, output: {type: drop}}";
    refuses(&format!("streams: [{one}, {one}]"), &["streams[1].id", "unique"]);
    refuses(&format!("streams: [{}]", one.replace("id: x", "id: x y")), &["streams[0].id", "letters, digits"]);
    let text = "streams: [{input: {type: generate, context: c}, output: {type: drop}}]";
    assert_eq!(accepted(text).streams[0].id(), "stream-0");
}

#[test]
fn processors_may_be_absent_or_empty() {
    for pipeline in ["", "pipeline:", "pipeline: {}", "pipeline: {processors: }", "pipeline: {processors: []}"] {
        let text = format!("streams:\n  - input: {{{KAFKA_IN}}}\n    output: {{{KAFKA_OUT}}}\n    {pipeline}\n");
        assert_eq!(accepted(&text).streams[0].route(), "kafka a → kafka b", "{pipeline}");
    }
}

#[test]
fn keys_without_effect_are_refused() {
    let text = format!(
        "{}    batch: {{commit_interval: 1s}}\n    grace_period: 5s\n",
        stream("type: file, path: x", "type: drop")
    );
    let found = problems(&text);
    assert_eq!(found.len(), 2, "{found:#?}");
    assert!(found.iter().all(|p| p.contains("only a kafka input")), "{found:#?}");
}

#[test]
fn a_generated_value_is_text_or_structure() {
    let context = "{a: 1, b: [x, 'y', true, 9007199254740993, 1.50], c: {d: }, e: \"1\"}";
    accepted(&stream(&format!("type: generate, context: {context}"), "type: drop"));
    accepted(&stream("type: generate, context: '{\"a\":1}', interval: 100ms, count: 5, batch_size: 2", "type: drop"));
    refuses(&stream("type: generate, context: {a: 0x1F}", "type: drop"), &["input.context", "0x1F", "quotes"]);
    refuses(&stream("type: generate, context: {a: .inf}", "type: drop"), &["input.context", "quotes"]);
    refuses(&stream("type: generate, context: x, interval: 0s", "type: drop"), &["input.interval", "zero"]);
}
