//! The `durability` of a stream: the write-ahead log that an input writes to before it answers.

use std::path::PathBuf;
use std::time::Duration;

use wattle_wal::{Options, SyncMode};

use super::Surroundings;
use crate::yaml::{Field, Given, LONGEST, Map};

/// A write-ahead log that is asked for.
pub(crate) struct Durability {
    /// Where it is, seen from the working directory; blank after a problem, and where the file gives none.
    pub(crate) path: Given<PathBuf>,
    pub(crate) options: Options,
    /// The key itself.
    pub(crate) here: Given<()>,
}

/// A segment is deleted as a whole: so many of them a log may have, so that it is never far above what it needs.
const SEGMENTS: u64 = 4;
const SMALLEST: u64 = 1 << 20;
const LARGEST_SEGMENT: u64 = 32 << 20;

impl Durability {
    /// The longest entry, about: what an input may accept at once.
    pub(crate) fn longest(&self) -> u64 {
        self.options.segment_bytes
    }
}

/// `None` where it is switched off.
pub(super) fn read(field: &Field, surroundings: &Surroundings) -> Option<Durability> {
    let mut map = Map::of(field)?;
    let enabled = map.get("enabled").and_then(|field| field.bool()).unwrap_or(true);
    let mut path = map.get("path");
    let mut sync = map.get("sync").and_then(|field| sync_mode(&field));
    let max_bytes = map.get("max_bytes").and_then(|field| max_bytes(&field));
    if let Some(mut backend) = map.get_filled("backend").and_then(|field| local(&field)) {
        path = backend.get("path").or(path);
        sync = backend.get("sync").and_then(|field| sync_mode(&field)).or(sync);
        backend.finish();
    }
    map.finish();
    let max_bytes = max_bytes.unwrap_or(Options::default().max_bytes);
    let options = Options {
        sync: sync.unwrap_or(SyncMode::GroupCommit),
        max_bytes,
        segment_bytes: (max_bytes / SEGMENTS).min(LARGEST_SEGMENT),
    };
    let path = match path {
        Some(field) => {
            // Blank is the predecessor's default.
            let name = field.string().filter(|name| !name.trim().is_empty());
            field.given(name.map(|name| surroundings.folder.join(name)).unwrap_or_default())
        }
        None => Given { value: PathBuf::new(), place: field.place, path: format!("{}.path", field.path) },
    };
    enabled.then_some(Durability { path, options, here: field.given(()) })
}

/// The predecessor's form: of its two kinds of log, the one on a disk.
fn local<'a>(field: &Field<'a>) -> Option<Map<'a>> {
    let mut map = Map::of(field)?;
    map.required("type", "needs type: local")?.word(&[("local", ())])?;
    Some(map)
}

/// `per_entry`, `group_commit`, or `{periodic: 1s}`, where the time may be `{secs: 1, nanos: 0}`.
fn sync_mode(field: &Field) -> Option<SyncMode> {
    if !field.is_structure() {
        let scalar = field.scalar()?;
        if !["per_entry", "group_commit"].contains(&scalar.text.as_str()) {
            let known = "per_entry, group_commit, and with the time between two syncs  sync: {periodic: 1s}";
            field.problem(format!("{:?} is not known; known here: {known}", scalar.shown()));
            return None;
        }
        return field.word(&[("per_entry", SyncMode::PerEntry), ("group_commit", SyncMode::GroupCommit)]);
    }
    let mut map = Map::of(field)?;
    let time = map
        .required("periodic", "needs periodic: TIME, for example 1s, or one of the words per_entry and group_commit");
    let time = time.and_then(|field| Some((period(&field)?, field)));
    map.finish();
    let (time, field) = time?;
    if time.is_zero() {
        field.problem("must not be zero; to sync before each answer use group_commit");
        return None;
    }
    Some(SyncMode::Periodic(time))
}

fn period(field: &Field) -> Option<Duration> {
    if !field.is_structure() {
        return field.duration();
    }
    let mut map = Map::of(field)?;
    let mut number = |key, most| map.get(key).map_or(Some(0), |field| field.number(most));
    let (seconds, nanos) = (number("secs", LONGEST.as_secs()), number("nanos", 999_999_999));
    map.finish();
    Some(Duration::from_secs(seconds?) + Duration::from_nanos(nanos?))
}

fn max_bytes(field: &Field) -> Option<u64> {
    let bytes = field.size("16384GiB")? as u64;
    if bytes < SMALLEST {
        field.problem("must be at least 1MiB");
        return None;
    }
    Some(bytes)
}
