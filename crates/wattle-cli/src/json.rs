//! A record, or a state, as one JSON line that loses nothing.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;
use wattle::kafka::OwnedRecord;

use crate::text::iso;

/// What a line shows, in this order.
#[derive(Serialize)]
pub(crate) struct Line<'a> {
    topic: &'a str,
    partition: i32,
    offset: i64,
    timestamp: Option<String>,
    key: Option<Text<'a>>,
    headers: Vec<HeaderLine<'a>>,
    value: Option<Value<'a>>,
}

#[derive(Serialize)]
struct HeaderLine<'a> {
    name: &'a str,
    value: Option<Text<'a>>,
}

/// Bytes that are text, or are not.
enum Text<'a> {
    Plain(&'a str),
    Bytes(&'a [u8]),
}

/// A record's value that is not null.
enum Value<'a> {
    Json(Cow<'a, RawValue>),
    Other(Text<'a>),
}

impl<'a> Line<'a> {
    pub(crate) fn of(record: &'a OwnedRecord) -> Self {
        let headers = record.headers.iter();
        Line {
            topic: &record.topic,
            partition: record.partition,
            offset: record.offset.0,
            timestamp: record.timestamp.map(iso),
            key: record.key.as_deref().map(Text::of),
            headers: headers.map(|h| HeaderLine { name: &h.name, value: h.value.as_deref().map(Text::of) }).collect(),
            value: record.value.as_deref().map(Value::of),
        }
    }

    /// The line without its end.
    pub(crate) fn text(&self) -> String {
        serde_json::to_string(self).expect("a line has no maps with keys that are not strings")
    }
}

impl<'a> Text<'a> {
    fn of(bytes: &'a [u8]) -> Self {
        std::str::from_utf8(bytes).map_or(Text::Bytes(bytes), Text::Plain)
    }
}

impl<'a> Value<'a> {
    fn of(bytes: &'a [u8]) -> Self {
        let Text::Plain(text) = Text::of(bytes) else { return Value::Other(Text::Bytes(bytes)) };
        match serde_json::from_str::<&RawValue>(text) {
            Ok(json) if !json.get().contains(['\n', '\r']) => Value::Json(Cow::Borrowed(json)),
            // Inside of a JSON string a line break is escaped, so these stand between tokens, where a space does as well.
            Ok(json) => RawValue::from_string(json.get().replace(['\n', '\r'], " "))
                .map_or(Value::Other(Text::Plain(text)), |json| Value::Json(Cow::Owned(json))),
            Err(_) => Value::Other(Text::Plain(text)),
        }
    }
}

impl Serialize for Text<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Text::Plain(text) => serializer.serialize_str(text),
            Text::Bytes(bytes) => serializer.collect_map([("base64", STANDARD.encode(bytes))]),
        }
    }
}

impl Serialize for Value<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Value::Json(json) => json.serialize(serializer),
            Value::Other(text) => text.serialize(serializer),
        }
    }
}

/// The state of a key, as one line without its end.
pub(crate) fn state_line(task: i32, key: &[u8], state: &[u8]) -> String {
    #[derive(Serialize)]
    struct State<'a> {
        task: i32,
        key: Text<'a>,
        state: Value<'a>,
    }
    let line = State { task, key: Text::of(key), state: Value::of(state) };
    serde_json::to_string(&line).expect("a line has no maps with keys that are not strings")
}

#[cfg(test)]
mod tests {
    use wattle::{Header, Offset};

    use super::*;

    fn record(key: Option<&[u8]>, value: Option<&[u8]>) -> OwnedRecord {
        OwnedRecord {
            topic: "t".into(),
            partition: 2,
            offset: Offset(7),
            timestamp: Some(1_517_454_764_650),
            key: key.map(<[u8]>::to_vec),
            value: value.map(<[u8]>::to_vec),
            headers: Vec::new(),
        }
    }

    fn value(bytes: &[u8]) -> String {
        let line = Line::of(&record(None, Some(bytes))).text();
        line.split_once("\"value\":").expect("every line has a value").1.trim_end_matches('}').to_owned()
    }

    #[test]
    fn a_line_has_its_fields_in_order() {
        let line = Line::of(&record(Some(b"ak18018"), Some(br#"{"mag":4.60}"#))).text();
        let expected = r#"{"topic":"t","partition":2,"offset":7,"timestamp":"2018-02-01T03:12:44.650Z","key":"ak18018","headers":[],"value":{"mag":4.60}}"#;
        assert_eq!(line, expected);
    }

    #[test]
    fn numbers_keep_their_digits() {
        for text in ["9007199254740993", "1.0", "1", "1e400", "0.1000000000000000000001", "-0"] {
            assert_eq!(value(text.as_bytes()), text);
        }
    }

    #[test]
    fn text_bytes_and_null_stay_apart() {
        assert_eq!(value(b"plain"), r#""plain""#);
        assert_eq!(value(b""), r#""""#);
        assert_eq!(value(b"\xff\x00"), r#"{"base64":"/wA=""#);
        assert!(Line::of(&record(None, None)).text().ends_with(r#""key":null,"headers":[],"value":null}"#));
        assert!(Line::of(&record(Some(b"\xff"), None)).text().contains(r#""key":{"base64":"/w=="}"#));
    }

    #[test]
    fn json_over_several_lines_becomes_one_line() {
        assert_eq!(value(b"[1,\r\n \"a\\nb\"]\n"), "[1,   \"a\\nb\"]");
    }

    #[test]
    fn headers_keep_order_duplicates_and_null() {
        let header = |value: Option<&[u8]>| Header { name: "h".into(), value: value.map(<[u8]>::to_vec) };
        let headers = vec![header(Some(b"2")), header(None), header(Some(b"1"))];
        let line = Line::of(&OwnedRecord { headers, ..record(None, None) }).text();
        let expected = r#""headers":[{"name":"h","value":"2"},{"name":"h","value":null},{"name":"h","value":"1"}]"#;
        assert!(line.contains(expected), "{line}");
    }
}
