//! `logging`: what the log of a run shows and where it goes, unless the command line says it.

use std::path::PathBuf;

use super::Surroundings;
use crate::yaml::{Field, Map};

/// The file's wishes about the log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Logging {
    /// `trace`, `debug`, `info`, `warn` or `error`.
    pub level: Option<&'static str>,
    /// One JSON object a line, or lines for people.
    pub json: Option<bool>,
    /// The file that the log is appended to.
    pub file: Option<PathBuf>,
}

pub(super) fn read(field: &Field, surroundings: &Surroundings) -> Logging {
    let Some(mut map) = Map::of(field) else { return Logging::default() };
    let levels = ["trace", "debug", "info", "warn", "error"].map(|level| (level, level));
    let logging = Logging {
        level: map.get("level").and_then(|field| field.word(&levels)),
        json: map.get("format").and_then(|field| field.word(&[("plain", false), ("json", true)])),
        file: map.get("file_path").and_then(|field| field.name()).map(|name| surroundings.folder.join(name)),
    };
    map.finish();
    logging
}
