//! Values at the edge of what a key takes: accepted is what works, and each mistake is told once.

use crate::support::{KAFKA_IN, KAFKA_OUT, accepted, logged, plan, problems, refuses, stream};

const DROP: &str = "type: drop";
const GENERATE: &str = "type: generate, context: x";
const EXACTLY: &str = "type: kafka, topic: b, exactly_once: true, transactional_id: t";

/// A stream with a `batch` of these keys.
fn batched(batch: &str) -> String {
    format!("{}    batch: {{{batch}}}\n", stream(KAFKA_IN, KAFKA_OUT))
}

fn processed(processor: &str) -> String {
    format!("{}    pipeline:\n      processors: [{{{processor}}}]\n", stream(KAFKA_IN, KAFKA_OUT))
}

#[test]
fn numbers_sizes_and_times_have_a_least_and_a_most() {
    let mqtt = |more: &str| logged(&format!("type: mqtt, host: h, client_id: c, topics: [a], {more}"), "path: w", DROP);
    let http = |more: &str| stream(&format!("type: http, address: 'h:1', path: /, {more}"), DROP);
    let send = |more: &str| stream(GENERATE, &format!("type: http, url: 'http://h', {more}"));
    let file = |more: &str| stream(GENERATE, &format!("type: file, path: x, {more}"));
    let made = |more: &str| stream(&format!("{GENERATE}, {more}"), DROP);
    let timeout = |time: &str| stream(KAFKA_IN, &format!("{EXACTLY}, transaction_timeout: {time}"));
    let gathered = |more: &str| processed(&format!("type: batch, {more}"));
    let periodic = |time: &str| logged("type: stdin", &format!("path: w, sync: {{periodic: {time}}}"), DROP);
    let health = |more: &str| format!("health_check: {{{more}}}\n{}", stream(KAFKA_IN, KAFKA_OUT));
    for (text, part) in [
        (batched("max_bytes: 0B"), "from 1B to 1GiB"),
        (batched("max_bytes: 99GiB"), "from 1B to 1GiB"),
        (batched("max_poll_records: 0"), "from 1 to 1000000"),
        (batched("max_poll_records: 18446744073709551615"), "from 1 to 1000000"),
        (batched("max_processing_time: 0s"), "must not be zero"),
        (batched("commit_interval: 99999999h"), "8760h"),
        (stream(&format!("{KAFKA_IN}, batch_max_bytes: 9223372036854775807"), DROP), "from 1 to 1073741824"),
        (timeout("999ms"), "from 1s to 596h"),
        (timeout("597h"), "from 1s to 596h"),
        (gathered("count: 5, bytes: 0B"), "from 1B to 1GiB"),
        (gathered("count: 100001"), "from 1 to 100000"),
        (gathered("count: 5, interval: 0s"), "must not be zero"),
        (gathered("count: 5, timeout_ms: 18446744073709551615"), "from 1 to"),
        (made("interval: 9000h"), "8760h"),
        (made("count: 18446744073709551615"), "from 1 to 9223372036854775807"),
        (http("max_body: 0B"), "from 1B to 64MiB"),
        (http("max_body: 99GiB"), "from 1B to 64MiB"),
        (send("timeout: 0s"), "must not be zero"),
        (send("body: array, batch_size: -1"), "from 1 to 1000000"),
        (file("roll_size: 0B"), "from 1B to 1024GiB"),
        (file("roll_interval: 0s"), "must not be zero"),
        (mqtt("port: 65536"), "from 1 to 65535"),
        (mqtt("keep_alive: 0"), "from 1 to 65535"),
        (mqtt("session_expiry: 0s"), "at least 1s"),
        (periodic("0s"), "must not be zero"),
        (periodic("{secs: 18446744073709551615, nanos: 999999999}"), "from 0 to 31536000"),
        (periodic("{nanos: 1000000000}"), "from 0 to 999999999"),
        (health("stuck_after: 0s"), "must not be zero"),
        (stream("type: memory, messages: []", DROP), "at least one"),
    ] {
        refuses(&text, &[part]);
    }
    for text in [batched("max_bytes: 1B"), batched("commit_interval: 0s"), timeout("596h"), gathered("count: 100000")] {
        accepted(&text);
    }
}

#[test]
fn hosts_and_addresses_are_such() {
    let mqtt = |host: &str| logged(&format!("type: mqtt, host: {host}, client_id: c, topics: [a]"), "path: w", DROP);
    let brokers = |list: &str| stream(&format!("{KAFKA_IN}, brokers: {list}"), DROP);
    refuses(&mqtt("'x:1883'"), &["input.host", "without a port"]);
    refuses(&mqtt("0"), &["input.host"]);
    refuses(&brokers("['a:1', 'b:x']"), &["input.brokers", "\"b:x\" is no address of a broker"]);
    refuses(&brokers("'1'"), &["input.brokers", "HOST:PORT"]);
    refuses(&stream("type: http, address: '8080', path: /", DROP), &["input.address", "HOST:PORT"]);
    for text in [mqtt("'::1'"), brokers("kafka"), brokers("'[::1]:9092'"), brokers("SASL_SSL://b.example.com:9093")] {
        accepted(&text);
    }
}

#[test]
fn names_are_one_line_and_payloads_what_json_has() {
    refuses(&stream("type: kafka, topics: [a], consumer_group: \"g\\nh\"", DROP), &["consumer_group", "one line"]);
    refuses(&stream("type: file, path: \"a\\0b\"", DROP), &["input.path", "one line"]);
    for value in [".nan", "-.inf", "{a: .nan}"] {
        refuses(&stream(&format!("type: generate, context: {value}"), DROP), &["input.context", "JSON number"]);
    }
}

#[test]
fn what_guards_something_may_not_be_left_empty() {
    let http = "type: http, address: 'h:1', path: /";
    refuses(&stream(&format!("{http}, auth: "), DROP), &["input.auth", "must be a map"]);
    refuses(&stream(&format!("{KAFKA_IN}, security: "), DROP), &["input.security", "must be a map"]);
    refuses(&format!("{}    durability:\n", stream(http, DROP)), &["durability", "must be a map"]);
    refuses(&format!("health_check:\n{}", stream(http, DROP)), &["health_check", "must be a map"]);
}

#[test]
fn client_properties_are_numbers_where_librdkafka_reads_a_part_of_them() {
    for key in
        ["fetch_min_bytes: 5MB", "client: {queued.min.messages: 1.5}", "client: {queued.max.messages.kbytes: 5d}"]
    {
        refuses(&stream(&format!("{KAFKA_IN}, {key}"), DROP), &["must be a number without a unit"]);
    }
    refuses(&stream(GENERATE, &format!("{KAFKA_OUT}, client: {{linger.ms: nan}}")), &["must be a number"]);
    for key in ["fetch_min_bytes: 5", "client: {client.rack: 5d}", "client: {check.crcs: true}"] {
        accepted(&stream(&format!("{KAFKA_IN}, {key}"), DROP));
    }
}

#[test]
fn a_program_that_writes_what_has_no_place_there_is_refused() {
    for (program, part) in [
        ("%key = 5", "%key must be a string or null"),
        ("%key = to_int!(.id)", "this program makes it"),
        ("if .a == 1 { %key = true }", "%key must be"),
        ("%timestamp = 1517384830660", "%timestamp must be a timestamp"),
        ("%headers = \"x\"", "%headers must be an array"),
    ] {
        refuses(&processed(&format!("type: vrl, statement: '{program}'")), &["statement", part]);
    }
    for program in
        ["%key = .id", "%key = to_string!(.id)", "%key = null", "if .a == 1 { %timestamp = now() }", "del(%key)"]
    {
        accepted(&processed(&format!("type: vrl, statement: '{program}'")));
    }
}

#[test]
fn a_batch_that_waits_for_records_is_not_stuck() {
    let text = format!("health_check: {{stuck_after: 5s}}\n{}", batched("commit_interval: 5s"));
    refuses(&text, &["health_check.stuck_after", "(5s) must be longer", "commit_interval"]);
}

#[test]
fn what_follows_from_a_mistake_is_not_told_beside_it() {
    let exactly = "transactional_offsets: true, topics: [a], consumer_group: g, type: kafka";
    let output = format!("{EXACTLY}, offset_commit_group: g, transaction_timeout: 60s");
    accepted(&stream(exactly, &output));
    let http = "type: http, url: 'http://h', batch_size: 5";
    let sql = "type: sql, output_type: {type: sqlite, path: d}, table_name: t, positions_id: p, create_table: true";
    let tests = "tests: [{name: n, stream: s, input: [{value: x}]}]";
    for (text, path) in [
        (stream(&exactly.replace("true", "maybe"), &output), "input.transactional_offsets"),
        (stream(exactly, &output.replace("exactly_once: true", "exactly_once: 1")), "output.exactly_once"),
        (stream(exactly, &output.replace("offset_commit_group: g", "offset_commit_group: ''")), "offset_commit_group"),
        (stream(&exactly.replace("consumer_group: g", "consumer_group: '${NO}'"), &output), "consumer_group"),
        (stream("type: file, path: x, format: cvs, delimiter: ;, columns: [a]", DROP), "input.format"),
        (stream(GENERATE, &format!("{http}, body: lists")), "output.body"),
        (stream("type: mqtt, host: h, client_id: c, topics: [a], username: '', password: x", DROP), "input.username"),
        (logged("type: stdin", "backend: {type: s3}", DROP), "durability.backend.type"),
        (stream(GENERATE, &format!("{sql}, key: [a], columns: {{a: int}}")), "columns.a"),
        (
            format!("streams: [{{id: s, input: {{{GENERATE}}}, output: {{type: x}}}}]\n{tests}"),
            "streams[0].output.type",
        ),
        (format!("streams: [{{id: s!, input: {{{GENERATE}}}, output: {{{DROP}}}}}]\n{tests}"), "streams[0].id"),
        (batched("max_bytes: '${NO}'"), "batch.max_bytes the environment variable NO is not set"),
    ] {
        refuses(&text, &[path]);
    }
    let wrong = format!("streams: [{{id: t, input: {{{GENERATE}}}, output: {{{DROP}}}}}]\n{tests}");
    refuses(&wrong, &["tests[0].stream no stream is called that; known here: t"]);
}

#[test]
fn a_word_of_a_choice_with_a_map_is_told_with_the_map() {
    for word in ["periodic", "always"] {
        refuses(
            &logged("type: stdin", &format!("path: w, sync: {word}"), DROP),
            &["per_entry, group_commit", "{periodic: 1s}"],
        );
    }
}

#[test]
fn toml_has_the_numbers_that_are_none_as_yaml_does() {
    let context = wattle_pipeline::Context { file: "p.toml".as_ref(), brokers: None, env: &|_| None };
    for value in ["nan", "inf", "-inf"] {
        let text = format!(
            "[[streams]]\ninput = {{type = \"generate\", context = {{a = {value}}}}}\noutput = {{type = \"drop\"}}\n"
        );
        let problems = wattle_pipeline::plan(&text, &context).err().unwrap();
        assert!(problems.to_string().contains("has no form as a JSON number"), "{problems}");
    }
    assert!(plan(&stream(GENERATE, DROP)).is_ok() && problems("streams: 5\n").len() == 1);
}
