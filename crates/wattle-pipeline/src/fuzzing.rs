//! What the fuzz targets `spec`, `record`, `file` and `mqtt` call, and the tests over their corpora.

mod file;
mod mqtt;

use std::future::Future as _;
use std::path::Path;
use std::pin::pin;
use std::task::{self, Poll, Waker};

use vrl::prelude::Value;
use wattle::{Header, Offset, Output, Record, Transformer as _};

use crate::chain::{Chain, json};
use crate::run::{Envelope, unpack};
use crate::{Context, Plan, Problem, Problems, plan};

pub use file::file;
pub use mqtt::mqtt;

/// Plans a text as a file of each format.
///
/// # Panics
/// Where a problem has no place in the text, or nothing to say, or a sound plan cannot be shown.
pub fn spec(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    for file in ["pipeline.yaml", "pipeline.json", "pipeline.toml"] {
        match planned(text, file) {
            Ok(mut plan) => {
                let shown = plan.to_string();
                assert!(shown.lines().count() >= plan.streams.len(), "{shown}");
                plan.notes.iter().for_each(|note| check_place(note, text, file));
                plan.set_embedded_address("127.0.0.1:1");
                assert_eq!(plan.embedded_topics(), None, "the address is known");
            }
            Err(problems) => {
                assert!(!problems.list.is_empty() && !problems.to_string().is_empty());
                problems.list.iter().for_each(|problem| check_place(problem, text, file));
            }
        }
    }
}

fn planned(text: &str, file: &str) -> Result<Plan, Problems> {
    let env = |name: &str| match name {
        "SET" => Some("value".to_owned()),
        "EMPTY" => Some(String::new()),
        _ => None,
    };
    plan(text, &Context { file: Path::new(file), brokers: None, env: &env })
}

/// The place is in the text, or right behind it.
fn check_place(problem: &Problem, text: &str, file: &str) {
    // A lone carriage return ends a line in YAML alone.
    let unified = text.replace("\r\n", "\n");
    let breaks = if file.ends_with("toml") { &['\n'][..] } else { &['\n', '\r'] };
    let line = problem.line.checked_sub(1).and_then(|before| unified.split(breaks).nth(before));
    let width = line.unwrap_or_else(|| panic!("{file}: no such line: {problem:?}")).chars().count();
    // Of a line that ends with both, the first is a column.
    assert!((1..=width + 2).contains(&problem.column), "{file}: no such column: {problem:?}");
    assert!(!problem.text.trim().is_empty(), "{file}: nothing to say: {problem:?}");
}

/// Takes bytes as the value of a record, and as records that were pushed.
///
/// # Panics
/// Where a program that changes nothing changes the value, or the bytes of a record are others once they were packed.
pub fn record(input: &[u8]) {
    value(input);
    envelope(input);
}

thread_local! {
    static READS: Chain = chain(".");
    static WRITES: Chain = chain(". = .\n.new = true\ndel(.new)");
}

fn chain(program: &str) -> Chain {
    let text = format!(
        "brokers: embedded\nstreams:\n  - input: {{type: kafka, topics: [in], consumer_group: g}}\n    output: {{type: kafka, topic: out}}\n    \
         pipeline:\n      processors:\n        - type: vrl\n          statement: |\n            {}\n",
        program.replace('\n', "\n            ")
    );
    let plan = planned(&text, "pipeline.yaml").unwrap_or_else(|problems| panic!("{problems}"));
    let mut stream = plan.streams.into_iter().next().expect("one stream").into_stream();
    stream.chain()
}

/// The value that comes out.
fn through(chain: &Chain, value: &[u8]) -> Result<Option<Vec<u8>>, String> {
    let (topic, partition, offset, timestamp) = ("in", 0, Offset(0), Some(0));
    let record = Record { topic, partition, offset, timestamp, key: Some(value), value: Some(value), headers: &[] };
    let mut output = Output::default();
    let polled = pin!(chain.transform(&record, &mut output)).poll(&mut task::Context::from_waker(Waker::noop()));
    let Poll::Ready(result) = polled else { panic!("a chain never waits") };
    result.map_err(|error| error.to_string())?;
    assert_eq!((output.len(), output.get(0).key), (1, Some(value)));
    Ok(output.get(0).value.map(<[u8]>::to_vec))
}

fn value(bytes: &[u8]) {
    let (decoded, checked) = (json::decode(bytes), json::check(bytes));
    if checked.is_ok() {
        let is_json = serde_json::from_slice::<serde::de::IgnoredAny>(bytes).is_ok();
        assert!(is_json, "not JSON for another reader");
    }
    let read = READS.with(|chain| through(chain, bytes));
    let written = WRITES.with(|chain| through(chain, bytes));
    let decoded = match decoded {
        Ok(decoded) => decoded,
        Err(_) => return assert!(read.is_err() && written.is_err(), "a value that cannot be decoded goes through"),
    };
    assert!(checked.is_ok(), "a value that can be decoded is no JSON");
    assert_eq!(read, Ok(Some(bytes.to_vec())), "what no program changes keeps its bytes");
    let other: Result<serde_json::Value, _> = serde_json::from_slice(bytes);
    match &other {
        Ok(other) => assert!(is_same(&decoded, other), "{decoded:?} is not {other:?}"),
        // The other reader stops one level earlier.
        Err(error) => assert!(error.to_string().contains("recursion limit"), "not JSON for another reader: {error}"),
    }
    let mut text = Vec::new();
    json::encode(&decoded, &mut text).expect("what was decoded can be encoded");
    let again = json::decode(&text).expect("what was encoded can be decoded");
    assert_eq!(again, decoded, "another value");
    if let (Value::Object(_), Ok(Some(written))) = (&decoded, &written) {
        // Unless it has the member that the program takes away.
        let has_new = decoded.as_object().is_some_and(|members| members.contains_key("new"));
        assert!(has_new || *written == text, "a value that is written again is another one");
    }
}

/// Whether two readers have read the same.
fn is_same(value: &Value, other: &serde_json::Value) -> bool {
    use serde_json::Value as Other;
    match (value, other) {
        (Value::Null, Other::Null) => true,
        (Value::Boolean(a), Other::Bool(b)) => a == b,
        (Value::Bytes(a), Other::String(b)) => **a == *b.as_bytes(),
        // The sign of zero is not a value.
        (Value::Integer(0), Other::Number(b)) => b.as_f64() == Some(0.0),
        (Value::Integer(a), Other::Number(b)) => b.as_i64() == Some(*a),
        (Value::Float(a), Other::Number(b)) => b.as_f64() == Some(a.into_inner()),
        (Value::Array(a), Other::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_same(a, b)),
        (Value::Object(a), Other::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(name, a)| b.get(&**name).is_some_and(|b| is_same(a, b)))
        }
        _ => false,
    }
}

type Pushed = (Option<i64>, Option<Vec<u8>>, Option<Vec<u8>>, Vec<Header>);

fn envelope(bytes: &[u8]) {
    let Some(records) = unpacked(bytes) else { return };
    let mut packed = Envelope::new(records.first().and_then(|(timestamp, ..)| *timestamp));
    for (_, key, value, headers) in &records {
        packed.push(key.as_deref(), value.as_deref(), headers);
    }
    assert_eq!(unpacked(&packed.into_bytes()), Some(records));
}

fn unpacked(bytes: &[u8]) -> Option<Vec<Pushed>> {
    let mut records = Vec::new();
    let unpacked = unpack(bytes, Offset(0), |record| {
        let (key, value) = (record.key.map(<[u8]>::to_vec), record.value.map(<[u8]>::to_vec));
        records.push((record.timestamp, key, value, record.headers.to_vec()));
    });
    unpacked.is_ok().then_some(records)
}

#[cfg(test)]
mod tests {
    fn each_of(corpus: &str, run: fn(&[u8])) {
        let corpus = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(corpus);
        let mut count = 0;
        for file in std::fs::read_dir(&corpus).expect("the corpus is there") {
            let path = file.expect("a file").path();
            eprintln!("{}", path.display());
            run(&std::fs::read(path).expect("readable"));
            count += 1;
        }
        assert!(count > 0, "{} is empty", corpus.display());
    }

    #[test]
    fn no_text_that_fuzzing_has_kept_has_a_problem_without_a_place() {
        each_of("spec", super::spec);
    }

    #[test]
    fn no_value_that_fuzzing_has_kept_is_changed_on_its_way() {
        each_of("record", super::record);
    }

    #[test]
    fn no_file_that_fuzzing_has_kept_is_read_in_two_ways() {
        each_of("file", super::file);
    }

    #[test]
    fn no_session_that_fuzzing_has_kept_loses_a_message_or_takes_one_twice() {
        each_of("mqtt", super::mqtt);
    }
}
