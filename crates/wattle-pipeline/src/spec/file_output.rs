//! An `output` of type `file`: lines in segments.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::Surroundings;
use super::retry::{self, RetryPolicy};
use crate::yaml::{Given, Map};

#[derive(Clone)]
pub(crate) struct FileOutput {
    /// As the pipeline file says it.
    pub(crate) shown: String,
    /// Its key.
    pub(crate) here: Given<()>,
    /// Where it is, seen from the working directory. Segments have a number between the stem of its name and the ending.
    pub(crate) path: PathBuf,
    /// A segment of so many bytes is complete.
    pub(crate) roll_size: u64,
    /// And one that is so old.
    pub(crate) roll_interval: Duration,
    pub(crate) retry: RetryPolicy,
}

const SIZE: usize = 64 << 20;
const INTERVAL: Duration = Duration::from_secs(60);

impl FileOutput {
    pub(crate) fn folder(&self) -> &Path {
        self.path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
    }

    /// The name of the file up to its ending, and the ending with its dot.
    pub(crate) fn name(&self) -> (&str, String) {
        let part = |part: Option<&std::ffi::OsStr>| part.and_then(|part| part.to_str()).unwrap_or_default().to_owned();
        let stem = self.path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
        let end = part(self.path.extension());
        (stem, if end.is_empty() { end } else { format!(".{end}") })
    }
}

pub(super) fn read(map: &mut Map, surroundings: &Surroundings) -> Option<FileOutput> {
    let field =
        map.required("path", "a file output needs a path, as in out/orders.jsonl: segments are out/orders-….jsonl");
    let roll_size = map.get("roll_size").and_then(|field| field.size("1024GiB")).unwrap_or(SIZE) as u64;
    let roll_interval = map.get("roll_interval").and_then(|field| field.time()).unwrap_or(INTERVAL);
    let retry = retry::read(map);
    let field = field?;
    let shown = field.name()?;
    let path = surroundings.folder.join(&shown);
    if shown.ends_with('/') || path.file_stem().and_then(|stem| stem.to_str()).is_none() {
        field.problem("must be the path of a file, as in out/orders.jsonl");
        return None;
    }
    Some(FileOutput { here: field.given(()), shown, path, roll_size, roll_interval, retry })
}
