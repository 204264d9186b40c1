//! An `input` of type `file`.

use std::path::PathBuf;

use super::Surroundings;
use crate::yaml::{Field, Given, Map};

#[derive(Clone)]
pub(crate) struct FileInput {
    /// As the pipeline file says it.
    pub(crate) name: String,
    /// Where it is, seen from the working directory.
    pub(crate) path: PathBuf,
    pub(crate) format: FileFormat,
    /// The input itself.
    pub(crate) here: Given<()>,
    /// Goes on when the file grows or is replaced.
    pub(crate) is_followed: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FileFormat {
    /// One JSON value a line.
    Lines,
    Csv(CsvFormat),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CsvFormat {
    pub(crate) delimiter: u8,
    /// The names of the columns of a file without a header line.
    pub(crate) columns: Option<Vec<String>>,
}

pub(super) fn read(map: &mut Map, field: &Field, surroundings: &Surroundings) -> FileInput {
    let (name, is_csv) = match map.get("input_type") {
        Some(field) => input_type(&field),
        None => {
            let name = map.required("path", NO_PATH).and_then(|field| field.name());
            let format = map.get("format").and_then(|field| field.word(&[("lines", false), ("csv", true)]));
            (name, format.unwrap_or(false))
        }
    };
    let (delimiter, columns) = (map.get("delimiter"), map.get("columns"));
    if !is_csv {
        let causes = [map.path_of("format"), map.path_of("input_type*")];
        for field in [&delimiter, &columns].into_iter().flatten() {
            field.problem_unless(&causes, "only a file with format: csv has it; set the format, or remove the key");
        }
    }
    let delimiter = delimiter.and_then(|field| self::delimiter(&field)).unwrap_or(b',');
    let csv = CsvFormat { delimiter, columns: columns.map(|field| self::columns(&field)) };
    let mode = map.get("mode").and_then(|field| field.word(&[("whole", false), ("tail", true)]));
    let name = name.unwrap_or_default();
    FileInput {
        path: surroundings.folder.join(&name),
        here: field.given(()),
        name,
        format: if is_csv { FileFormat::Csv(csv) } else { FileFormat::Lines },
        is_followed: mode.unwrap_or(false),
    }
}

const NO_PATH: &str = "a file input needs the path of a file";

/// `input_type: {type: json, path: PATH}`, another form of `path: PATH`; with `csv` also of `format: csv`.
fn input_type(field: &Field) -> (Option<String>, bool) {
    let Some(mut map) = Map::of(field) else { return (None, false) };
    let is_csv =
        map.required("type", "needs type: json or csv").and_then(|f| f.word(&[("json", false), ("csv", true)]));
    let Some(is_csv) = is_csv else { return (None, false) };
    let path = map.required("path", NO_PATH).and_then(|field| field.name());
    map.finish();
    (path, is_csv)
}

fn delimiter(field: &Field) -> Option<u8> {
    match *field.string()?.as_bytes() {
        [byte] if byte.is_ascii() && !matches!(byte, b'"' | b'\r' | b'\n' | 0) => Some(byte),
        _ => {
            field.problem("must be one ASCII character that is no quote and no line break: \";\", \"|\" or \"\\t\"");
            None
        }
    }
}

fn columns(field: &Field) -> Vec<String> {
    let names = field.names();
    for (at, name) in names.iter().enumerate() {
        if names[..at].iter().any(|before| before.value == name.value) {
            field.problem_at(name, "is there twice; each column needs a name of its own");
        }
    }
    names.into_iter().map(|name| name.value).collect()
}
