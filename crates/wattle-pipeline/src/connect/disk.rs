//! Whether the files and folders that a stream names can be what it needs; nothing is made.

use std::fs::{self, OpenOptions};
use std::path::Path;

use crate::plan::StreamPlan;
use crate::problem::Place;
use crate::spec::{Input, Output, SqlDatabase};

type Found = (Place, String, String);

/// With their places and keys.
pub(super) fn problems(stream: &StreamPlan) -> Vec<Found> {
    let mut found = Vec::new();
    let mut add = |place: Place, path: String, text: Option<String>| found.extend(text.map(|text| (place, path, text)));
    if let Input::File(file) = stream.input() {
        add(file.here.place, format!("{}.path", file.here.path), read(&file.path));
    }
    match stream.output() {
        Output::File(file) => add(file.here.place, file.here.path.clone(), folder(file.folder())),
        Output::Sql(output) => {
            if let SqlDatabase::Sqlite { path, .. } = &output.database {
                add(output.here.place, format!("{}.output_type.path", output.here.path), write(path));
            }
        }
        _ => {}
    }
    if let Some(log) = stream.durability().filter(|_| !stream.input().replays()) {
        add(log.path.place, log.path.path.clone(), folder(&log.path.value));
    }
    found
}

fn read(path: &Path) -> Option<String> {
    let shown = path.display();
    match fs::metadata(path) {
        Ok(there) if there.is_dir() => Some(format!("{shown} is a folder; name a file")),
        // A pipe would be emptied, or waited for.
        Ok(there) if !there.is_file() => None,
        Ok(_) => fs::File::open(path).err().map(|error| format!("cannot read {shown}: {error}")),
        Err(error) => Some(format!("cannot read {shown}: {error}")),
    }
}

/// A file that is written to, or made.
fn write(path: &Path) -> Option<String> {
    let shown = path.display();
    match fs::metadata(path) {
        Ok(there) if there.is_dir() => Some(format!("{shown} is a folder; name a file")),
        Ok(_) => OpenOptions::new().write(true).open(path).err().map(|error| format!("cannot write {shown}: {error}")),
        Err(_) => path.parent().and_then(|parent| match existing(parent) {
            parent_is if parent_is == parent || parent.as_os_str().is_empty() => folder(parent),
            _ => Some(format!("cannot make {shown}: there is no folder {}; create it", parent.display())),
        }),
    }
}

/// A folder that is written to, or made with all above it.
fn folder(path: &Path) -> Option<String> {
    let there = existing(path);
    let shown = there.display();
    match fs::metadata(there) {
        Ok(found) if !found.is_dir() => Some(format!("cannot make the folder {}: {shown} is a file", path.display())),
        Ok(_) => rustix::fs::access(there, rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK)
            .err()
            .map(|error| format!("cannot write into the folder {shown}: {error}")),
        Err(error) => Some(format!("cannot use the folder {shown}: {error}")),
    }
}

/// The nearest of it and those above it that is there.
fn existing(path: &Path) -> &Path {
    let there = path.ancestors().find(|path| !path.as_os_str().is_empty() && path.symlink_metadata().is_ok());
    there.unwrap_or(Path::new(if path.is_absolute() { "/" } else { "." }))
}
