//! The `tests` key → cases.

use std::path::Path;

use wattle::testing::TestRecord;

use super::{Case, Expected, Message};
use crate::problem::hint;
use crate::spec::Stream;
use crate::yaml::{Field, Map, payload};

/// Reads a list of tests. Topics that a record does not name are those of its stream.
pub(crate) fn read<'s>(field: &Field, file: &Path, streams: impl IntoIterator<Item = &'s Stream>) -> Vec<Case> {
    let items = field.list().unwrap_or_default();
    let streams: Vec<_> = streams.into_iter().collect();
    items.iter().filter_map(|item| case(item, file, &streams)).collect()
}

fn case(item: &Field, file: &Path, streams: &[&Stream]) -> Option<Case> {
    let mut map = Map::of(item)?;
    let name = map.required("name", "a test needs a name: what it shows").and_then(|field| field.name());
    let stream = stream(&mut map, streams);
    let input = map.required("input", "a test needs an input: a list of records").and_then(|field| field.filled_list());
    let output = map.get_filled("output");
    let error = map.get("error").and_then(|field| field.name());
    if output.is_some() && error.is_some() {
        map.missing("error", "where the stream fails nothing is written; keep output or error");
    }
    map.finish();
    let (stream, input) = (stream?, input?);
    let topic = stream.input.topic();
    let input = input.iter().filter_map(|item| record(item, topic)).collect();
    let items = output.and_then(|field| field.list()).unwrap_or_default();
    let messages = items.iter().filter_map(|item| message(item, stream.output.topic())).collect();
    let expected = error.map_or(Expected::Messages(messages), Expected::Failure);
    let (place, file) = (item.place, file.to_path_buf());
    Some(Case { name: name?, place, file, stream: stream.id.value.clone(), input, expected })
}

fn stream<'s>(map: &mut Map, streams: &[&'s Stream]) -> Option<&'s Stream> {
    let Some(field) = map.get("stream") else {
        if streams.len() != 1 {
            map.missing_unless(
                &["streams*".to_owned()],
                "stream",
                "says which stream is tested, where the file has several",
            );
        }
        return streams.first().copied().filter(|_| streams.len() == 1);
    };
    let name = field.name()?;
    let found = streams.iter().find(|stream| stream.id.value == name).copied();
    if found.is_none() {
        let known: Vec<_> = streams.iter().map(|stream| stream.id.value.as_str()).collect();
        // A stream with a problem of its own may be the one that is meant.
        field.problem_unless(&["streams*".to_owned()], format!("no stream is called that; {}", hint(&name, &known)));
    }
    found
}

fn record(item: &Field, topic: &str) -> Option<TestRecord> {
    let mut map = Map::of(item)?;
    let topic = map.get("topic").and_then(|field| field.name()).unwrap_or_else(|| topic.to_owned());
    let mut record = TestRecord::of(topic);
    if let Some(key) = map.get("key").and_then(|field| text(&field)) {
        record = record.key(key);
    }
    if let Some(value) = map.get("value").and_then(|field| text(&field)) {
        record = record.value(value);
    }
    for (name, value) in headers(&mut map) {
        record = record.header(name, value.unwrap_or_default());
    }
    if let Some(time) = map.get("timestamp").and_then(|field| field.count(i64::MAX as u64)) {
        record = record.timestamp(i64::try_from(time).unwrap_or(i64::MAX));
    }
    if let Some(partition) = map.get("partition").and_then(|field| field.number(i32::MAX as u64)) {
        record = record.partition(i32::try_from(partition).unwrap_or(i32::MAX));
    }
    if let Some(offset) = map.get("offset").and_then(|field| field.number(i64::MAX as u64)) {
        record = record.offset(i64::try_from(offset).unwrap_or(i64::MAX));
    }
    map.finish();
    Some(record)
}

fn message(item: &Field, topic: &str) -> Option<Message> {
    let mut map = Map::of(item)?;
    let message = Message {
        topic: map.get("topic").and_then(|field| field.name()).unwrap_or_else(|| topic.to_owned()),
        key: map.get("key").map(|field| text(&field)),
        value: map.get("value").map(|field| text(&field)),
        headers: headers(&mut map),
        timestamp: map
            .get("timestamp")
            .and_then(|field| field.count(i64::MAX as u64))
            .and_then(|time| i64::try_from(time).ok()),
    };
    map.finish();
    Some(message)
}

/// Nothing as null, a word as it is, a map or a list as JSON.
fn text(field: &Field) -> Option<String> {
    match field {
        _ if field.node.is_null() => None,
        _ => payload(field),
    }
}

fn headers(map: &mut Map) -> Vec<(String, Option<String>)> {
    let headers = map.get_filled("headers").and_then(|field| Map::of(&field));
    headers
        .map(|headers| headers.entries().map(|(name, field)| (name.to_owned(), text(&field))).collect())
        .unwrap_or_default()
}
