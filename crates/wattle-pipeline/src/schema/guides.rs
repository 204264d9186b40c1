//! The tables of the guides name the keys that there are, and the guides all of them.

use std::collections::BTreeSet;
use std::path::Path;

use super::{Form, MAPS};

/// Headings of a guide, and the maps whose keys the table below them has.
const TABLES: &[(&str, &str, &str, &[&str])] = &[
    ("pipeline.md", "The file", "`logging`", &["logging"]),
    ("pipeline.md", "Streams", "", &["streams"]),
    ("pipeline.md", "Streams", "`batch`", &["streams.batch"]),
    ("pipeline.md", "Inputs", "`kafka`", &["streams.input(kafka)"]),
    ("pipeline.md", "Inputs", "`file`", &["streams.input(file)"]),
    ("pipeline.md", "Inputs", "`generate`", &["streams.input(generate)"]),
    ("pipeline.md", "Inputs", "`memory`", &["streams.input(memory)"]),
    ("pipeline.md", "Inputs", "`http`", &["streams.input(http)"]),
    ("pipeline.md", "Inputs", "`mqtt`", &["streams.input(mqtt)"]),
    ("pipeline.md", "Inputs", "`stdin`", &["streams.input(stdin)"]),
    ("pipeline.md", "Outputs", "`kafka`", &["streams.output(kafka)"]),
    ("pipeline.md", "Outputs", "`http`", &["streams.output(http)"]),
    ("pipeline.md", "Outputs", "`file`", &["streams.output(file)"]),
    ("pipeline.md", "Outputs", "`stdout`", &["streams.output(stdout)"]),
    ("pipeline.md", "Every component", "`security`", &["*.security", "*.security.sasl", "*.security.tls"]),
    ("pipeline.md", "`error_output`", "", &["streams.error_output(kafka)"]),
    ("pipeline.md", "Health and metrics", "", &["health_check"]),
    ("pipeline.md", "Processors", "Batches of records", &["streams.pipeline.processors(batch)"]),
    ("pipeline.md", "Tests", "", &["tests", "tests.input", "tests.output"]),
    ("sql.md", "Keys", "", &["streams.output(sql)"]),
    ("durability.md", "Keys", "", &["streams.durability"]),
];

/// The lines below a heading of the second level and one of the third, up to the next of either.
fn section(text: &str, second: &str, third: &str) -> String {
    let (mut at, mut found) = ((String::new(), String::new()), String::new());
    for line in text.lines() {
        if let Some(heading) = line.strip_prefix("## ") {
            at = (heading.to_owned(), String::new());
        } else if let Some(heading) = line.strip_prefix("### ") {
            at.1 = heading.to_owned();
        } else if at.0 == second && at.1 == third {
            found.push_str(line);
            found.push('\n');
        }
    }
    found
}

/// What stands between backticks, in words.
fn words(text: &str) -> BTreeSet<&str> {
    let code = text.split('`').skip(1).step_by(2);
    code.flat_map(|code| code.split(|c: char| !c.is_ascii_alphanumeric() && c != '_')).collect()
}

#[test]
fn the_guides_have_the_keys_that_there_are() {
    let guides = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guides");
    let mut problems = Vec::new();
    for (file, second, third, kinds) in TABLES {
        let text = std::fs::read_to_string(guides.join(file)).unwrap();
        let section = section(&text, second, third);
        let known: Vec<_> =
            MAPS.iter().filter(|map| kinds.contains(&map.kind)).flat_map(|map| map.keys).map(|key| key.name).collect();
        let all = words(&section);
        for name in known.iter().filter(|name| !["name", "codec"].contains(*name) && !all.contains(*name)) {
            problems.push(format!("{file}, {second} {third}: says nothing of {name}"));
        }
        let mut in_keys = false;
        for line in section.lines() {
            in_keys = line.starts_with("| key |") || in_keys && line.starts_with('|');
            let Some(cell) = line.strip_prefix("| `").filter(|_| in_keys).and_then(|line| line.split('|').next())
            else {
                continue;
            };
            // `pipeline.processors` is a key of a map in a map.
            let named =
                cell.split('`').step_by(2).filter(|name| !name.is_empty() && !name.trim_matches([',', ' ']).is_empty());
            for name in named.filter(|name| name.chars().all(|c| c.is_ascii_lowercase() || matches!(c, '_' | '.'))) {
                if !known.contains(&name.split('.').next().unwrap_or_default()) {
                    problems.push(format!("{file}, {second} {third}: there is no key {name}"));
                }
            }
        }
    }
    assert!(problems.is_empty(), "\n{}", problems.join("\n"));
}

#[test]
fn the_guides_have_the_types_of_columns() {
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guides/sql.md");
    let text = std::fs::read_to_string(guide).unwrap();
    let all = words(&text);
    let types = MAPS.iter().flat_map(|map| map.keys).find_map(|key| match key.form {
        Form::NamesOrMaps(types) => Some(types),
        _ => None,
    });
    assert!(types.unwrap().iter().all(|name| all.contains(name)));
}
