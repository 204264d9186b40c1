//! What differs between the messages that a test expects and those that came.

use std::collections::BTreeSet;

use serde_json::Value;
use wattle::testing::TestMessage;

use super::Message;

/// One line a difference, with its path: `output[1].value.mag: expected 5, got 4`.
pub(super) fn messages(expected: &[Message], found: &[TestMessage]) -> Vec<String> {
    let mut lines = Vec::new();
    for index in 0..expected.len().max(found.len()) {
        let path = format!("output[{index}]");
        match (expected.get(index), found.get(index)) {
            (Some(expected), Some(found)) => message(&path, expected, found, &mut lines),
            (Some(expected), None) => {
                let value = expected.value.as_ref().map(|value| format!(" with the value {}", shown(value.as_deref())));
                lines.push(format!("{path}: missing: a record to {}{}", expected.topic, value.unwrap_or_default()));
            }
            (None, Some(found)) => {
                let value = shown(text(found.value.as_deref()).as_deref());
                lines.push(format!("{path}: not expected: a record to {} with the value {value}", found.topic));
            }
            (None, None) => {}
        }
    }
    lines
}

fn message(path: &str, expected: &Message, found: &TestMessage, lines: &mut Vec<String>) {
    let mut differ = |key: &str, expected: &str, found: &str| {
        if expected != found {
            lines.push(format!("{path}.{key}: expected {expected}, got {found}"));
        }
    };
    differ("topic", &expected.topic, &found.topic);
    if let Some(key) = &expected.key {
        differ("key", &shown(key.as_deref()), &shown(text(found.key.as_deref()).as_deref()));
    }
    if let Some(time) = expected.timestamp {
        differ("timestamp", &time.to_string(), &found.timestamp.map_or("none".to_owned(), |time| time.to_string()));
    }
    for (name, value) in &expected.headers {
        let header = found.headers.iter().find(|header| header.name == *name);
        let found =
            header.map_or("no such header".to_owned(), |header| shown(text(header.value.as_deref()).as_deref()));
        differ(&format!("headers.{name}"), &shown(value.as_deref()), &found);
    }
    if let Some(wanted) = &expected.value {
        let found = text(found.value.as_deref());
        match (json(wanted.as_deref()), json(found.as_deref())) {
            (Some(expected), Some(found)) => value(&format!("{path}.value"), &expected, &found, lines),
            _ if *wanted == found => {}
            _ => lines.push(format!(
                "{path}.value: expected {}, got {}",
                shown(wanted.as_deref()),
                shown(found.as_deref())
            )),
        }
    }
}

/// Two JSON values, down to the members that differ.
fn value(path: &str, expected: &Value, found: &Value, lines: &mut Vec<String>) {
    match (expected, found) {
        (Value::Object(expected), Value::Object(found)) => {
            for name in expected.keys().chain(found.keys()).collect::<BTreeSet<_>>() {
                let path = format!("{path}.{name}");
                match (expected.get(name), found.get(name)) {
                    (Some(expected), Some(found)) => value(&path, expected, found, lines),
                    (Some(expected), None) => lines.push(format!("{path}: missing, expected {expected}")),
                    (_, found) => lines.push(format!("{path}: not expected, got {}", found.unwrap_or(&Value::Null))),
                }
            }
        }
        (Value::Array(expected), Value::Array(found)) if expected.len() == found.len() => {
            for (index, (expected, found)) in expected.iter().zip(found).enumerate() {
                value(&format!("{path}[{index}]"), expected, found, lines);
            }
        }
        _ if expected == found => {}
        _ => lines.push(format!("{path}: expected {expected}, got {found}")),
    }
}

fn text(bytes: Option<&[u8]>) -> Option<String> {
    bytes.map(|bytes| String::from_utf8_lossy(bytes).into_owned())
}

fn json(text: Option<&str>) -> Option<Value> {
    serde_json::from_str(text?).ok()
}

fn shown(text: Option<&str>) -> String {
    text.unwrap_or("null").to_owned()
}
