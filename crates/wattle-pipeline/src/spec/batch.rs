//! The limits of a batch: `batch`, the `buffer` of type memory, which says two of them in other words, and what a Kafka input says itself.

use std::time::Duration;

use wattle::BatchLimits;

use super::Input;
use crate::yaml::{Field, Given, Map};

/// What a batch holds is in memory.
pub(super) const MOST_RECORDS: u64 = 1_000_000;
pub(super) const MOST_BYTES: usize = 1 << 30;
pub(super) const MOST_SIZE: &str = "1GiB";

/// Limits that more than one key can set.
#[derive(Default)]
struct Limits {
    records: Option<Given<u64>>,
    bytes: Option<Given<usize>>,
    commit_interval: Option<Given<Duration>>,
    processing: Option<Duration>,
}

/// Reads `batch` and `buffer`, and takes over what the input says.
pub(super) fn read(batch: Option<&Field>, buffer: Option<&Field>, input: Option<&Input>) -> BatchLimits {
    let mut limits = Limits::default();
    if let Some(Input::Kafka(input)) = input {
        limits.records.clone_from(&input.batch_max_rows);
        limits.bytes.clone_from(&input.batch_max_bytes);
    }
    if let Some(field) = batch {
        read_batch(field, input, &mut limits);
    }
    if let Some(field) = buffer {
        read_buffer(field, input, &mut limits);
    }
    let default = BatchLimits::default();
    BatchLimits {
        max_poll_records: limits.records.map(|given| usize::try_from(given.value).unwrap_or(usize::MAX)),
        max_bytes: limits.bytes.map(|given| given.value),
        max_processing_time: limits.processing.unwrap_or(default.max_processing_time),
        commit_interval: limits.commit_interval.map_or(default.commit_interval, |given| given.value),
        ..default
    }
}

fn read_batch(field: &Field, input: Option<&Input>, limits: &mut Limits) {
    let Some(mut map) = Map::of(field) else { return };
    if let Some(field) = map.get("max_poll_records") {
        once(&mut limits.records, &field, field.count(MOST_RECORDS));
    }
    if let Some(field) = map.get("max_bytes") {
        once(&mut limits.bytes, &field, field.size(MOST_SIZE));
    }
    limits.processing = map.get("max_processing_time").and_then(|field| field.time());
    if let Some(field) = map.get("commit_interval") {
        once(&mut limits.commit_interval, &field, waiting(&field, input));
    }
    map.finish();
}

/// `capacity` is the most records of a batch, `timeout` the time to wait for them.
fn read_buffer(field: &Field, input: Option<&Input>, limits: &mut Limits) {
    let Some(mut map) = Map::of(field) else { return };
    let Some(kind) = map.required("type", "a buffer needs type: memory") else { return };
    if kind.word(&[("memory", ())]).is_none() {
        return;
    }
    if let Some(field) = map.get("capacity") {
        once(&mut limits.records, &field, field.count(MOST_RECORDS));
    }
    if let Some(field) = map.get("timeout") {
        once(&mut limits.commit_interval, &field, waiting(&field, input));
    }
    map.finish();
}

/// A time to wait for more records.
fn waiting(field: &Field, input: Option<&Input>) -> Option<Duration> {
    if !matches!(input, Some(Input::Kafka(_)) | None) {
        field.problem("only a kafka input waits for more records; remove it");
    }
    field.duration()
}

/// Two keys for one limit contradict each other, or say nothing new.
fn once<T>(slot: &mut Option<Given<T>>, field: &Field, value: Option<T>) {
    match slot {
        Some(given) => field
            .problem(format!("{} (line {}) says the same limit; keep one of the two", given.path, given.place.line)),
        None => *slot = value.map(|value| field.given(value)),
    }
}
