//! House rules that a test can hold: dependency direction, documented error codes, file sizes.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn rust_files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path()) {
        if entry.is_dir() && entry.file_name().is_some_and(|name| name != "target") {
            rust_files(&entry, found);
        } else if entry.extension().is_some_and(|extension| extension == "rs") {
            found.push(entry);
        }
    }
}

#[test]
fn every_error_code_has_its_page_and_every_page_its_code() {
    let source = fs::read_to_string(root().join("crates/wattle/src/error.rs")).expect("error.rs");
    let codes: BTreeSet<String> = source
        .split('"')
        .filter(|text| text.len() == 5 && text.starts_with("W0"))
        .map(|code| format!("{code}.md"))
        .collect();
    let pages: BTreeSet<String> = fs::read_dir(root().join("docs/errors"))
        .expect("docs/errors")
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
        .collect();
    assert!(codes.len() > 5, "the codes are found");
    assert_eq!(codes, pages);
}

#[test]
fn dependencies_point_one_way() {
    for (krate, forbidden) in [
        ("wattle-folder", &["wattle", "wattle-wal", "wattle-pipeline", "wattle-cli"][..]),
        ("wattle-wal", &["wattle", "wattle-pipeline", "wattle-cli"]),
        ("wattle", &["wattle-wal", "wattle-pipeline", "wattle-cli"]),
        ("wattle-pipeline", &["wattle-cli", "rdkafka"]),
        ("wattle-cli", &["rdkafka"]),
    ] {
        let manifest = fs::read_to_string(root().join("crates").join(krate).join("Cargo.toml")).expect("a manifest");
        for name in forbidden {
            let used = manifest
                .lines()
                .any(|line| line.starts_with(&format!("{name}.")) || line.starts_with(&format!("{name} ")));
            assert!(!used, "{krate} must not depend on {name}");
        }
    }
}

#[test]
fn unsafe_code_is_in_one_place() {
    let mut files = Vec::new();
    rust_files(&root().join("crates"), &mut files);
    let allowing: Vec<_> = files
        .into_iter()
        .filter(|file| fs::read_to_string(file).expect("text").contains(concat!("allow(unsafe", "_code)")))
        .filter(|file| !file.ends_with("kafka/ffi/mod.rs"))
        .collect();
    assert!(allowing.is_empty(), "{allowing:?}");
}

#[test]
fn files_stay_below_500_lines() {
    let mut files = Vec::new();
    for folder in ["crates", "tests", "benches"] {
        rust_files(&root().join(folder), &mut files);
    }
    let long: Vec<_> =
        files.into_iter().filter(|file| fs::read_to_string(file).expect("text").lines().count() > 500).collect();
    assert!(long.is_empty(), "give the heart inner rooms: {long:?}");
}
