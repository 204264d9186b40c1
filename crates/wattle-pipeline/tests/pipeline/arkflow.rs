//! Files of ArkFlow: what Wattle does is accepted as written, the rest is refused by name.

use crate::support::{KAFKA_IN, KAFKA_OUT, accepted, problems, refuses, stream};

/// Types that are ArkFlow's alone, by their place.
const TYPES: &[(&str, &[&str])] = &[
    ("input", &["multiple_inputs", "nats", "pulsar", "redis", "sql", "modbus", "websocket"]),
    ("output", &["influxdb", "mongodb", "mqtt", "nats", "pulsar", "redis", "s3", "pgvector", "milvus", "qdrant"]),
    ("buffer", &["tumbling_window", "sliding_window", "session_window", "join"]),
    (
        "pipeline.processors[0]",
        &["sql", "python", "protobuf_to_arrow", "arrow_to_protobuf", "embedding", "llm", "wasm"],
    ),
    ("input.codec", &["protobuf", "debezium_json", "schema_registry"]),
    ("output.codec", &["protobuf", "debezium_json", "schema_registry"]),
    ("input.input_type", &["avro", "arrow", "parquet"]),
];

#[test]
fn the_documented_examples_are_accepted_as_written() {
    let plan = accepted(include_str!("fixtures/eos-kafka.yaml"));
    let exactly_once = "exactly once: offsets commit in the same transaction, one per partition";
    assert_eq!(plan.streams[0].route(), "kafka orders (orders-in) → vrl → kafka orders-copy");
    assert_eq!(plan.streams[0].guarantee(), exactly_once, "the window of the original does not exist");
    assert_eq!(plan.notes.len(), 2, "{:?}", plan.notes);
    assert!(plan.notes[0].to_string().starts_with("line 27: streams[0].pipeline.thread_num has no effect"), "{plan}");
    assert!(plan.to_string().contains("each of them in its order\n"), "{plan}");
    let log = "streams[0].durability is not needed: a kafka input can be read again, and no write-ahead log is written";
    assert!(plan.notes[1].to_string().contains(log), "{plan}");
    assert_eq!((plan.logging.level, plan.logging.json), (Some("info"), Some(false)));
    let plan = accepted(include_str!("fixtures/eos-kafka-l3.yaml"));
    assert_eq!((plan.streams[0].id(), plan.streams[0].guarantee()), ("stream-0", exactly_once.to_owned()));
    assert!(plan.notes.is_empty(), "{plan}");
}

#[test]
fn every_type_that_is_not_there_is_refused_by_name() {
    for (place, types) in TYPES {
        for kind in *types {
            let (input, output) = match *place {
                "input" => (format!("type: {kind}, more: 1"), KAFKA_OUT.to_owned()),
                "output" => (KAFKA_IN.to_owned(), format!("type: {kind}, more: 1")),
                "input.codec" => (format!("{KAFKA_IN}, codec: {{type: {kind}}}"), KAFKA_OUT.to_owned()),
                "output.codec" => (KAFKA_IN.to_owned(), format!("{KAFKA_OUT}, codec: {{type: {kind}}}")),
                "input.input_type" => (format!("type: file, input_type: {{type: {kind}}}"), KAFKA_OUT.to_owned()),
                _ => (KAFKA_IN.to_owned(), KAFKA_OUT.to_owned()),
            };
            let more = match *place {
                "buffer" => format!("    buffer: {{type: {kind}, interval: 1s}}\n"),
                "pipeline.processors[0]" => format!("    pipeline: {{processors: [{{type: {kind}, query: x}}]}}\n"),
                _ => String::new(),
            };
            let found = problems(&format!("{}{more}", stream(&input, &output)));
            let start = format!("streams[0].{place}.type {kind} is not supported: ");
            assert!(found.len() == 1 && found[0].contains(&start), "{start}: {found:#?}");
        }
    }
}

#[test]
fn every_key_that_is_not_there_is_refused_by_name() {
    let in_stream = |more: &str| format!("{}    {more}\n", stream(KAFKA_IN, KAFKA_OUT));
    let file = |more: &str| stream(&format!("type: file, {more}"), KAFKA_OUT);
    for (text, key, remedy) in [
        (format!("{}jobs: []\n", stream(KAFKA_IN, KAFKA_OUT)), "jobs", "each as a stream"),
        (in_stream("temporary: [{type: redis}]"), "streams[0].temporary", "lookups"),
        (in_stream("buffer: {type: memory, join: {}}"), "streams[0].buffer.join", "joins come later"),
        (file("path: x, query: {}"), "streams[0].input.query", "SQL comes later"),
        (file("path: x, ballista: {}"), "streams[0].input.ballista", "SQL comes later"),
        (file("input_type: {type: json, path: x, store: {}}"), "streams[0].input.input_type.store", "this machine"),
        (stream(KAFKA_IN, &format!("{KAFKA_OUT}, value_field: x")), "streams[0].output.value_field", ". = .FIELD"),
        (in_stream("buffer: {type: memory, name: x}"), "streams[0].buffer.name", "remove it"),
        (
            in_stream("pipeline: {processors: [{type: vrl, statement: ., timezone: local}]}"),
            "streams[0].pipeline.processors[0].timezone",
            "UTC",
        ),
        (
            in_stream("error_output: {type: kafka, topic: dead, exactly_once: true}"),
            "streams[0].error_output.exactly_once",
            "together with the output",
        ),
        (
            stream(&format!("{KAFKA_IN}, codec: {{type: json, on_error: skip}}"), KAFKA_OUT),
            "streams[0].input.codec.on_error",
            "error_output",
        ),
    ] {
        refuses(&text, &[&format!("{key} is not supported: "), remedy]);
    }
}

#[test]
fn a_memory_buffer_is_the_limits_of_a_batch() {
    let with = |input: &str, more: &str| format!("{}{more}", stream(input, KAFKA_OUT));
    let buffer = "    buffer: {type: memory, capacity: 5, timeout: 1sec}\n";
    accepted(&with(KAFKA_IN, buffer));
    let both = format!("{buffer}    batch: {{max_poll_records: 5}}\n");
    refuses(&with(KAFKA_IN, &both), &["streams[0].buffer.capacity", "streams[0].batch.max_poll_records (line 5)"]);
    let input = format!("{KAFKA_IN}, batch_max_rows: 7, batch_max_bytes: 100");
    refuses(&with(&input, buffer), &["streams[0].buffer.capacity", "streams[0].input.batch_max_rows"]);
    refuses(&with("type: generate, context: x", buffer), &["streams[0].buffer.timeout", "only a kafka input"]);
    let timeout = format!("{KAFKA_OUT}, exactly_once: true, transactional_id: t, transaction_timeout: 2s");
    refuses(&format!("{}{buffer}", stream(KAFKA_IN, &timeout)), &["output.transaction_timeout", "buffer.timeout"]);
}

#[test]
fn keys_that_are_client_properties_are_checked_as_those() {
    let keys = "client_id: c, fetch_min_bytes: 1, fetch_max_bytes: 1000000, fetch_max_partition_bytes: 1000, fetch_wait_max_ms: 5";
    accepted(&stream(&format!("{KAFKA_IN}, {keys}"), &format!("{KAFKA_OUT}, client_id: c")));
    refuses(
        &stream(&format!("{KAFKA_IN}, fetch_min_bytes: x"), KAFKA_OUT),
        &["input.fetch_min_bytes", "fetch.min.bytes"],
    );
    let twice = format!("{KAFKA_IN}, fetch_min_bytes: 1, client: {{fetch.min.bytes: 2}}");
    refuses(&stream(&twice, KAFKA_OUT), &["input.fetch_min_bytes", "client.fetch.min.bytes sets it too"]);
}

#[test]
fn a_security_block_becomes_client_properties_or_names_what_the_build_lacks() {
    let with = |security: &str| stream(&format!("{KAFKA_IN}, security: {{{security}}}"), KAFKA_OUT);
    accepted(&with("protocol: plaintext"));
    let sasl = "sasl: {mechanism: scram-sha-512, username: u, password: p}";
    let found = problems(&with(&format!("protocol: sasl_ssl, {sasl}")));
    assert!(
        found.iter().any(|p| p.contains("security.protocol with these keys the protocol is sasl_plaintext")),
        "{found:#?}"
    );
    refuses(&with("protocol: tls"), &["security.protocol", "known here: plaintext, ssl, sasl_plaintext, sasl_ssl"]);
    let found = problems(&with("sasl: {mechanism: plain}, tls: {}"));
    for key in ["sasl.username", "sasl.password"] {
        assert!(found.iter().any(|p| p.contains(&format!("input.security.{key} is needed"))), "{found:#?}");
    }
    let found = problems(&with("tls: {ca: ca.pem, crt: x}"));
    assert!(found.iter().any(|p| p.contains("security.tls.crt unknown key; did you mean cert?")), "{found:#?}");
}

#[test]
fn a_codec_of_json_and_another_form_of_a_file_are_accepted() {
    accepted(&stream(&format!("{KAFKA_IN}, codec: {{type: json}}"), &format!("{KAFKA_OUT}, codec: {{type: json}}")));
    refuses(&stream(&format!("{KAFKA_IN}, codec: json"), KAFKA_OUT), &["input.codec", "codec: {type: json}"]);
    let plan = accepted(&stream("type: file, input_type: {type: json, path: x.jsonl}", "type: stdout, name: console"));
    assert_eq!(plan.streams[0].route(), "file x.jsonl → stdout (console)");
}

#[test]
fn a_key_is_a_text_a_field_or_vrl() {
    let with = |key: &str| stream(KAFKA_IN, &format!("{KAFKA_OUT}, key: {key}"));
    for key in ["{type: value, value: x}", "{type: expr, expr: customer}", "{type: expr, expr: string!(.a)}"] {
        accepted(&with(key));
    }
    refuses(&with("customer"), &["output.key", "{type: expr, expr: .FIELD}"]);
    refuses(&with("{type: expr, expr: 'concat(a, b)'}"), &["output.key.expr", "SQL expressions are not supported"]);
    refuses(&with("{type: expr, expr: '.a = 1'}"), &["output.key.expr"]);
    refuses(&with("{type: expr, expr: upcase(.a)}"), &["output.key.expr", "resolves to any"]);
}

#[test]
fn an_error_output_has_the_form_of_an_output() {
    let error = "    error_output: {type: kafka, brokers: [localhost:9092], topic: {type: value, value: dead}}\n";
    let plan = accepted(&format!("{}{error}", stream(KAFKA_IN, KAFKA_OUT)));
    assert_eq!(plan.streams[0].route(), "kafka a → kafka b (failed records: dead)");
}
