//! `mqtt` inputs: what is accepted, what it gives, and what is refused.

use crate::support::{accepted, line, logged as stream, problems, refuses};

const MQTT: &str = "type: mqtt, host: broker, client_id: c, topics: [a/#, b]";
const EXACT: &str = "type: kafka, topic: out, exactly_once: true, transactional_id: t";

#[test]
fn a_message_is_acknowledged_when_it_is_safe_and_the_plan_says_when() {
    let level = "exactly once: from the write-ahead log on, whose position commits with the records";
    let safe = "a message is acknowledged when it is on the disk";
    assert_eq!(line(MQTT, "path: wal", EXACT), format!("mqtt a/#, b → kafka out | {level}; {safe}"));
    let confirmed = "at least once: a message is acknowledged after the output confirmed it";
    assert!(line(MQTT, "", "type: drop").ends_with(&format!("| {confirmed}")));
    let qos_0 = line(&format!("{MQTT}, qos: 0"), "path: wal", EXACT);
    assert!(qos_0.contains("| at most once from the MQTT broker: with qos 0 "), "{qos_0}");
    assert!(qos_0.ends_with(&format!("; then {level}")), "{qos_0}");
    refuses(&stream(MQTT, "", EXACT), &["output.exactly_once", "an mqtt input", "durability: {path: FOLDER}"]);
}

#[test]
fn the_predecessors_spelling_is_accepted_as_written() {
    let all = "port: 1884, username: u, password: p, qos: 2, clean_session: false, keep_alive: 30";
    accepted(&stream(&format!("{MQTT}, {all}"), "path: wal", EXACT));
    accepted(&stream(&format!("{MQTT}, session_expiry: 24h, receive_maximum: 20"), "path: wal", EXACT));
}

#[test]
fn what_would_lose_messages_or_cannot_be_is_refused() {
    let key = |more: &str| stream(&format!("{MQTT}, {more}"), "path: wal", EXACT);
    refuses(&key("clean_session: true"), &["input.clean_session", "would forget", "remove it"]);
    refuses(&key("qos: 3"), &["input.qos", "\"3\" is not known"]);
    refuses(&key("port: 70000"), &["input.port", "from 1 to 65535"]);
    refuses(&key("keep_alive: 70000"), &["input.keep_alive", "from 1 to 65535"]);
    refuses(&key("session_expiry: 10ms"), &["input.session_expiry", "at least 1s"]);
    refuses(&key("password: p"), &["input.password", "needs a username"]);
    let host = stream("type: mqtt, host: 'mqtt://broker', client_id: c, topics: [a]", "path: wal", EXACT);
    refuses(&host, &["input.host", "without mqtt://"]);
    let topics = stream("type: mqtt, host: b, client_id: c, topics: [a/#/b, 'a+', '$share/x']", "path: wal", EXACT);
    let found = problems(&topics);
    assert_eq!(found.len(), 3, "{found:#?}");
    let nothing = problems(&stream("type: mqtt", "path: wal", EXACT));
    assert_eq!(nothing.len(), 3, "host, client_id, topics: {nothing:#?}");
}

#[test]
fn two_streams_with_one_session_are_refused_and_topics_in_common_are_noted() {
    let two = |second: &str| {
        let one = |input: &str| format!("  - input: {{{input}}}\n    output: {{type: drop}}\n");
        format!("streams:\n{}{}", one(MQTT), one(second))
    };
    refuses(&two(MQTT), &["streams[1].input.client_id", "take each other's session"]);
    accepted(&two(&MQTT.replace("client_id: c", "client_id: d")));
    accepted(&two(&format!("{MQTT}, port: 1884")));
    let plan = accepted(&stream("type: mqtt, host: b, client_id: c, topics: [a/#, a/b, c]", "", "type: drop"));
    assert_eq!(plan.notes.len(), 1, "{plan}");
    assert!(plan.notes[0].to_string().contains("a/# and a/b have topics in common"), "{plan}");
}
