//! Outputs that are no topics, what becomes of what they refuse, and who is told.

use crate::support::{KAFKA_IN, KAFKA_OUT, accepted, plan_with, problems, refuses, stream};

const HTTP: &str = "type: http, url: http://u:p@host:8080/in?key=secret";

#[test]
fn an_http_output_is_at_least_once() {
    let plan = accepted(&stream(KAFKA_IN, HTTP));
    assert_eq!(plan.streams[0].route(), "kafka a → http http://host:8080/…");
    assert!(plan.streams[0].guarantee().starts_with("at least once"));
    accepted(&stream(
        KAFKA_IN,
        &format!(
            "{HTTP}, method: PUT, timeout: 5s, retry_for: 1m, body: lines, batch_size: 50, headers: {{X-Team: a}}, \
             auth: {{type: bearer, token: t}}"
        ),
    ));
}

#[test]
fn the_predecessors_form_of_an_http_output_is_accepted() {
    let output = "type: http, url: http://h/, method: POST, timeout_ms: 5000, retry_count: 3, headers: {A: b}, \
                  auth: {type: basic, username: u, password: p}";
    accepted(&stream(KAFKA_IN, output));
    refuses(&stream(KAFKA_IN, &format!("{output}, body_field: x")), &["output.body_field", "vrl processor"]);
}

#[test]
fn mistakes_of_an_http_output_are_named() {
    for (keys, parts) in [
        ("type: http", &["output.url", "needs the url"][..]),
        ("type: http, url: host/path", &["output.url", "must be a URL"]),
        ("type: http, url: https://host", &["output.url", "--features tls"]),
        (&format!("{HTTP}, method: GET"), &["output.method", "POST, PUT, PATCH"]),
        (&format!("{HTTP}, batch_size: 5"), &["output.batch_size", "body: array"]),
        (&format!("{HTTP}, timeout: 0s"), &["output.timeout", "zero"]),
        (&format!("{HTTP}, timeout: 1s, timeout_ms: 5"), &["output.timeout_ms", "remove one"]),
        (&format!("{HTTP}, retry_count: -1"), &["output.retry_count", "from 0 on"]),
        (&format!("{HTTP}, headers: {{Idempotency-Key: x}}"), &["headers.Idempotency-Key", "set for each request"]),
        (&format!("{HTTP}, headers: {{a b: x}}"), &["output.headers.a b", "no name of a header"]),
        (&format!("{HTTP}, auth: {{type: basic, username: u}}"), &["output.auth.password", "missing"]),
        (&format!("{HTTP}, exactly_once: true"), &["output.exactly_once", "unknown key"]),
    ] {
        refuses(&stream(KAFKA_IN, keys), parts);
    }
}

#[test]
fn a_file_output_is_rolled_by_size_and_time() {
    let plan = accepted(&stream(
        KAFKA_IN,
        "type: file, path: out/x.jsonl, roll_size: 1MiB, roll_interval: 10s, retry_for: 1m",
    ));
    assert_eq!(plan.streams[0].route(), "kafka a → file out/x.jsonl");
    refuses(&stream(KAFKA_IN, "type: file"), &["output.path", "needs a path"]);
    refuses(&stream(KAFKA_IN, "type: file, path: out/"), &["output.path", "path of a file"]);
    refuses(&stream(KAFKA_IN, "type: file, path: x, roll_size: 10MB"), &["output.roll_size", "unit of size"]);
}

#[test]
fn every_output_may_have_an_error_output() {
    let with = |output: &str, error: &str| format!("{}    error_output: {{{error}}}\n", stream(KAFKA_IN, output));
    for output in [HTTP, "type: drop", "type: stdout", KAFKA_OUT] {
        let plan = accepted(&with(output, "type: kafka, topic: dlq"));
        assert!(plan.streams[0].route().ends_with(" (failed records: dlq)"), "{}", plan.streams[0].route());
    }
    accepted(&with(HTTP, "type: kafka, topic: a, brokers: other:1, client: {linger.ms: 5}"));
    refuses(&with(HTTP, "type: kafka, topic: a"), &["error_output.topic", "input.topics"]);
    refuses(&with(KAFKA_OUT, "type: kafka, topic: d, client: {linger.ms: 5}"), &["error_output.client", "the output"]);
    let text = "streams:\n  - input: {type: generate, context: x}\n    output: {type: drop}\n    error_output: {type: kafka, topic: d}\n";
    let found = plan_with(text, None, &|_| None).err().expect("no brokers are known");
    assert!(found.to_string().contains("error_output.brokers"), "{found}");
}

#[test]
fn a_health_check_has_the_predecessors_keys() {
    let with = |check: &str| format!("{}health_check: {check}\n", stream(KAFKA_IN, KAFKA_OUT));
    refuses(&with(""), &["health_check", "must be a map"]);
    accepted(&with("{enabled: false}"));
    accepted(&with(
        "{enabled: true, address: '0.0.0.0:8080', health_path: /health, readiness_path: /readiness, liveness_path: /liveness, stuck_after: 2m}",
    ));
    refuses(&with("{address: 8080}"), &["health_check.address", "HOST:PORT"]);
    refuses(&with("{health_path: health}"), &["health_check.health_path", "begins with /"]);
    refuses(&with("{readiness_path: /metrics}"), &["health_check.readiness_path", "something else"]);
    refuses(&with("{api_prefix: /api/v1}"), &["health_check.api_prefix", "control API"]);
    assert_eq!(problems(&with("{hub_url: x, node_id: y}")).len(), 2);
}
