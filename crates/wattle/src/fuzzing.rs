//! What the fuzz target `changelog` calls, and the test over its corpus: records of a changelog, as anybody could have written them.
//!
//! A record is the length of its key and of its value, a byte each, the key and the value; 255 as the value's length is a record without one.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::extract::CursorName;
use crate::invariant::w7_a_restored_state_is_the_fold_of_its_changelog;
use crate::kafka::Holder;
use crate::lane::fold;
use crate::stage::{Clock, Codec, FlechtwerkJson, Raw};
use crate::state::{TaskStates, decode, encode, is_reserved, is_state_key};

type Model<'a> = BTreeMap<&'a [u8], &'a [u8]>;

/// Reads the records of an input, alone and as the state of a task.
///
/// # Panics
/// Where something that was read is another thing once it is written and read again; where the state of the task is not the newest value of each key, or its timers are
/// not those that the keys name.
pub fn changelog(mut input: &[u8]) {
    let mut records = Vec::new();
    while let [key, value, rest @ ..] = input {
        let (key, rest) = rest.split_at(rest.len().min(usize::from(*key)));
        let (value, rest) = match *value {
            u8::MAX => (None, rest),
            length => rest.split_at_checked(length.into()).map_or((Some(rest), &[][..]), |(v, rest)| (Some(v), rest)),
        };
        records.push((key, value));
        input = rest;
    }
    for (key, value) in &records {
        cursor(key);
        value.iter().for_each(|value| single(value));
    }
    state(&records);
}

fn cursor(key: &[u8]) {
    if let Some(name) = CursorName::of_key(key) {
        assert_eq!(CursorName::of_key(&name.key()).as_ref(), Some(&name));
        assert!(is_reserved(key) && !is_state_key(key), "a cursor is no state");
    }
}

/// A value as each of the things that are kept in bytes.
fn single(value: &[u8]) {
    if let Some(checkpoint) = decode(value) {
        assert_eq!(encode(checkpoint), value);
        drop(checkpoint.distrust(0, i64::MAX, std::time::Duration::MAX, i64::MAX));
    }
    if let Some(holder) = std::str::from_utf8(value).ok().and_then(Holder::read) {
        let written = holder.write();
        assert!(written.is_empty() || Holder::read(&written) == Some(holder));
    }
    stable::<Value>(value, |a, b| a == b);
    stable::<u64>(value, |a, b| a == b);
    stable::<Raw>(value, |a, b| a == b);
    stable::<FlechtwerkJson<serde_json::Map<String, Value>>>(value, |a, b| a == b);
}

/// What a state is read from can be written, and is the same then, to the byte.
fn stable<T: Codec>(bytes: &[u8], same: impl Fn(&T, &T) -> bool) {
    let Ok(state) = T::decode(bytes) else { return };
    let mut written = [Vec::new(), Vec::new()];
    state.encode(&mut written[0]).expect("what was read can be written");
    let again = T::decode(&written[0]).expect("what was written can be read");
    again.encode(&mut written[1]).expect("what was read can be written");
    assert!(same(&state, &again), "another state");
    assert_eq!(written[0], written[1], "equal states have equal bytes");
}

fn state(records: &[(&[u8], Option<&[u8]>)]) {
    let mut newest = Model::new();
    for (key, value) in records.iter().filter(|(key, _)| is_state_key(key)) {
        match value {
            Some(value) if !value.is_empty() => drop(newest.insert(key, value)),
            _ => drop(newest.remove(key)),
        }
    }
    let store = fold(records.iter().copied());
    w7_a_restored_state_is_the_fold_of_its_changelog(&*store, records);
    let mut task = TaskStates::default();
    task.open(0, store);
    timers(&task, &newest);
    // A batch that leaves everything as it was writes nothing.
    for (key, value) in &newest {
        task.set(key, Some(value.to_vec()), 0);
    }
    task.settle();
    assert_eq!(task.changes().count(), 0);
    task.clear();
    timers(&task, &newest);
}

fn timers(task: &TaskStates, newest: &Model<'_>) {
    let timers: Vec<_> = newest.iter().filter_map(|(key, value)| timer(key, value)).collect();
    for (clock, name, key, at) in &timers {
        let of_key = task.timers_of(0, key);
        assert!(of_key.contains(&(*clock, (*name).to_owned(), *at)), "{clock:?} {name:?} {at} is not in {of_key:?}");
    }
    let wall = timers.iter().filter(|(clock, ..)| *clock == Clock::Wall);
    let mut times: Vec<_> = wall.map(|(.., at)| *at).collect();
    times.sort_unstable();
    let due: Vec<_> = task.due(0, i64::MAX).map(|(due, _)| due).filter(|due| due.clock == Clock::Wall).collect();
    assert_eq!(due.iter().map(|due| due.at).collect::<Vec<_>>(), times, "those that are due, the earliest first");
    assert!(due.iter().all(|due| newest.contains_key(&*due.stored())), "a timer that fires can be removed");
    assert_eq!(task.next_wall(0), times.first().copied());
}

/// A timer's clock, name, key and time, read apart from what the product reads.
fn timer<'a>(key: &'a [u8], value: &'a [u8]) -> Option<(Clock, &'a str, &'a [u8], i64)> {
    let rest = key.strip_prefix(b"\0wattle.timer\0")?;
    let clock = match rest.first()? {
        b's' => Clock::Stream,
        b'w' => Clock::Wall,
        _ => return None,
    };
    let mut parts = rest[1..].splitn(2, |byte| *byte == 0);
    let name = std::str::from_utf8(parts.next()?).ok()?;
    Some((clock, name, parts.next()?, std::str::from_utf8(value).ok()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    #[test]
    fn no_input_that_fuzzing_has_kept_is_read_as_something_else() {
        let corpus = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/changelog");
        let mut count = 0;
        for file in std::fs::read_dir(corpus).expect("the corpus is there") {
            let path = file.expect("a file").path();
            eprintln!("{}", path.display());
            super::changelog(&std::fs::read(path).expect("readable"));
            count += 1;
        }
        assert!(count > 0, "{corpus} is empty");
    }
}
