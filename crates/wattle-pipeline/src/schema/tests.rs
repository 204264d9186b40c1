//! The schema says what the readers do: a file with every key, `kitchen-sink.yaml`, is read while the readers are watched.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::{Form, Key, Look, MAPS, Value, at, schema, variants};
use crate::plan::{Context, plan_reported};
use crate::problem::Report;
use crate::yaml::{self, Format, Node, Style};

/// What readers did, by the kinds of maps and values.
#[derive(Default)]
pub(crate) struct Seen {
    maps: BTreeMap<String, usize>,
    keys: BTreeSet<(String, String)>,
    required: BTreeMap<(String, String), usize>,
    empty: BTreeSet<(String, String)>,
    forms: BTreeMap<String, BTreeSet<String>>,
}

impl Seen {
    pub(crate) fn add(&mut self, look: Look<'_>) {
        let (form, kind) = match look {
            Look::Map(kind) => return *self.maps.entry(kind.to_owned()).or_default() += 1,
            Look::Key(kind, key) => return self.keys.extend([(kind.to_owned(), key.to_owned())]),
            Look::Required(kind, key) => {
                return *self.required.entry((kind.to_owned(), key.to_owned())).or_default() += 1;
            }
            Look::Empty(kind, key) => return self.empty.extend([(kind.to_owned(), key.to_owned())]),
            Look::Word(kind, word) => (format!("word {word}"), kind),
            Look::Form(kind, form) => (form.to_owned(), kind),
        };
        self.forms.entry(kind.to_owned()).or_default().extend([form]);
    }

    /// The keys of a map, but for `type`, and whether each has to be there.
    fn keys(&self, kind: &str) -> BTreeMap<&str, bool> {
        let readings = self.maps[kind];
        let keys = self.keys.iter().filter(|(map, key)| map == kind && key != "type");
        keys.map(|pair| (pair.1.as_str(), self.required.get(pair) == Some(&readings))).collect()
    }

    /// What a value is read as; reading a list of names reads names.
    fn forms(&self, kind: &str) -> BTreeSet<&str> {
        let forms: BTreeSet<_> = self.forms.get(kind).into_iter().flatten().map(String::as_str).collect();
        match forms {
            forms if forms.contains("names") => BTreeSet::from(["names"]),
            forms if forms.contains("free") => BTreeSet::from(["free"]),
            forms => forms,
        }
    }
}

fn kitchen_sink() -> Seen {
    let text = include_str!("kitchen-sink.yaml");
    let report = Report::default();
    let context = Context { file: Path::new("kitchen-sink.yaml"), brokers: None, env: &|_| None };
    plan_reported(text, &context, &report);
    report.seen.take()
}

/// A map without keys of its own beside its `type` is one of those whose keys are free.
fn is_free(seen: &Seen, kind: &str) -> bool {
    seen.forms(kind).contains("free") || seen.forms.keys().any(|known| known == &format!("{kind}.*"))
}

fn expected(form: Form) -> Vec<BTreeSet<&'static str>> {
    let one = |form| vec![BTreeSet::from([form])];
    match form {
        Form::Text => one("text"),
        Form::Bool => one("bool"),
        Form::Count => one("count"),
        Form::Number => one("number"),
        Form::Duration => one("duration"),
        Form::Size => one("size"),
        Form::Word(_) => one("word"),
        Form::Names | Form::NamesOrMaps(_) => one("names"),
        Form::Json => vec![BTreeSet::from(["text", "json"])],
        Form::JsonList => vec![BTreeSet::from(["list", "text", "json"])],
        Form::Map => one("map"),
        Form::List => vec![BTreeSet::from(["list", "map"])],
        Form::TextOrMap => vec![BTreeSet::from(["text", "map"])],
        Form::DurationOrMap => vec![BTreeSet::from(["duration", "map"])],
        Form::WordOrMap(_) => Vec::new(),
        Form::Free | Form::FreeJson => one("free"),
    }
}

#[test]
fn the_schema_says_what_the_readers_do() {
    let seen = kitchen_sink();
    let mut problems = Vec::new();
    for kind in seen.maps.keys().filter(|kind| !is_free(&seen, kind)) {
        let (place, word) = match kind.strip_suffix(')').and_then(|kind| kind.rsplit_once('(')) {
            Some((place, word)) => (place, Some(word)),
            None => (kind.as_str(), None),
        };
        let Some((_, map)) = variants(place).find(|(known, _)| *known == word) else {
            problems.push(format!("schema/keys.rs has no map {kind}"));
            continue;
        };
        let asked = seen.keys(kind);
        // A file of tests has no streams.
        let is_required = |key: &Key| key.required || kind.is_empty() && key.name == "streams";
        let known: BTreeMap<_, _> = map.keys.iter().map(|key| (key.name, is_required(key))).collect();
        if asked != known {
            problems
                .push(format!("{kind}: the reader asks for {asked:?}, schema/keys.rs has {known:?} (true: required)"));
        }
        for key in map.keys {
            let child = if kind.is_empty() { key.name.to_owned() } else { format!("{kind}.{}", key.name) };
            if key.empty != seen.empty.contains(&(kind.clone(), key.name.to_owned())) {
                problems.push(format!("{child}: whether it may be left empty"));
            }
            let found = seen.forms(&child);
            if let Form::NamesOrMaps(known) = key.form {
                let words = seen.forms(&format!("{child}.*")).into_iter().filter_map(|form| form.strip_prefix("word "));
                assert_eq!(words.collect::<BTreeSet<_>>(), known.iter().copied().collect(), "{child}");
            }
            let words: BTreeSet<_> = found.iter().filter_map(|form| form.strip_prefix("word ")).collect();
            if let Form::Word(known) | Form::WordOrMap(known) = key.form {
                if words != known.iter().copied().collect() {
                    problems.push(format!("{child}: the reader knows {words:?}, schema/keys.rs {known:?}"));
                }
            } else if !expected(key.form).contains(&found) {
                problems.push(format!("{child}: read as {found:?}, in schema/keys.rs {:?}; kitchen-sink.yaml shows every form of every key", key.form));
            }
        }
    }
    for (kind, forms) in seen.forms.iter().filter_map(|(kind, forms)| Some((kind.strip_suffix(".type")?, forms))) {
        let place = kind.strip_suffix(')').and_then(|kind| kind.rsplit_once('(')).map_or(kind, |(place, _)| place);
        let known: BTreeSet<_> = variants(place).filter_map(|(word, _)| word).collect();
        let words: BTreeSet<_> = forms.iter().filter_map(|form| form.strip_prefix("word ")).collect();
        if words != known {
            problems.push(format!("{place}: the reader knows the types {words:?}, schema/keys.rs {known:?}"));
        }
        for word in words.iter().filter(|word| !seen.maps.contains_key(&format!("{place}({word})"))) {
            problems.push(format!("kitchen-sink.yaml has no {place} of type {word}"));
        }
    }
    assert!(problems.is_empty(), "\n{}", problems.join("\n"));
}

#[test]
fn no_map_of_the_schema_is_one_that_no_reader_reads() {
    let seen = kitchen_sink();
    for map in MAPS {
        let is_read = |kind: &String| map.kind.strip_prefix('*').map_or(kind == map.kind, |end| kind.ends_with(end));
        assert!(seen.maps.keys().any(is_read), "{}", map.kind);
        let mut names: Vec<_> = map.keys.iter().map(|key| key.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), map.keys.len(), "{} has a key twice", map.kind);
    }
}

#[test]
fn what_is_called_unsupported_is_what_no_reader_knows() {
    let seen = kitchen_sink();
    for (kind, key) in &seen.keys {
        assert!(crate::arkflow::of_key(kind, key).is_none(), "{kind}.{key} is read: remove it from arkflow.rs");
    }
    for (kind, forms) in &seen.forms {
        let place = kind.strip_suffix(").type").and_then(|kind| kind.rsplit_once('(')).map_or("", |(place, _)| place);
        for word in forms.iter().filter_map(|form| form.strip_prefix("word ")) {
            assert!(
                crate::arkflow::of_type(place, word).is_none(),
                "{place}({word}) is read: remove it from arkflow.rs"
            );
        }
    }
}

/// Enough of a validator for our own schema.
fn fits(schema: &Value, value: &Value) -> bool {
    let list = |key: &str| schema[key].as_array().cloned().unwrap_or_default();
    if schema.get("$ref").is_some() {
        return value.as_str().is_some_and(|text| text.contains("${"));
    }
    let types = match &schema["type"] {
        Value::Array(types) => types.clone(),
        Value::Null => Vec::new(),
        one => vec![one.clone()],
    };
    let is = |name: &str| match value {
        Value::Null => name == "null",
        Value::Bool(_) => name == "boolean",
        Value::Number(number) => name == "number" || (name == "integer" && number.is_u64()),
        Value::String(_) => name == "string",
        Value::Array(_) => name == "array",
        Value::Object(_) => name == "object",
    };
    let members = value.as_object().into_iter().flatten();
    let property = |name: &str| schema["properties"].get(name);
    let one_of = list("oneOf");
    (types.is_empty() || types.iter().any(|name| is(name.as_str().unwrap())))
        && (list("enum").is_empty() || list("enum").contains(value))
        && schema.get("const").is_none_or(|known| known == value)
        && (list("anyOf").is_empty() || list("anyOf").iter().any(|schema| fits(schema, value)))
        && (one_of.is_empty() || one_of.iter().filter(|schema| fits(schema, value)).count() == 1)
        && list("required").iter().all(|name| !value.is_object() || value.get(name.as_str().unwrap()).is_some())
        && value.as_array().into_iter().flatten().all(|item| schema.get("items").is_none_or(|items| fits(items, item)))
        && members.into_iter().all(|(name, member)| match (property(name), &schema["additionalProperties"]) {
            (Some(property), _) => fits(property, member),
            (None, Value::Bool(false)) => false,
            (None, Value::Null) => true,
            (None, free) => fits(free, member),
        })
}

/// As an editor reads YAML.
fn typed(node: &Node) -> Value {
    match &node.value {
        yaml::Value::Scalar(scalar) if scalar.style == Style::Plain => match scalar.text.as_str() {
            "" | "~" | "null" => Value::Null,
            text => serde_json::from_str(text).unwrap_or_else(|_| text.into()),
        },
        yaml::Value::Scalar(scalar) => scalar.text.as_str().into(),
        yaml::Value::List(items) => items.iter().map(typed).collect(),
        yaml::Value::Map(entries) => entries.iter().map(|(key, node)| (key.name.clone(), typed(node))).collect(),
    }
}

fn file(text: &str) -> Value {
    typed(&yaml::parse(text, Format::Yaml, &Report::default()).unwrap())
}

#[test]
fn files_that_run_fit_the_schema_and_mistakes_do_not() {
    let schema: Value = serde_json::from_str(&schema()).unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for folder in ["../../examples", "tests/pipeline/fixtures"] {
        for entry in std::fs::read_dir(root.join(folder)).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if name.ends_with(".yaml") && !name.contains("mistakes") {
                assert!(fits(&schema, &file(&std::fs::read_to_string(&path).unwrap())), "{}", path.display());
            }
        }
    }
    let stream =
        "streams:\n  - input: {type: kafka, topics: [a], consumer_group: g}\n    output: {type: kafka, topic: b}\n";
    assert!(fits(&schema, &file(stream)));
    for (from, to) in [
        ("topics:", "topcis:"),
        ("kafka, topic:", "kafak, topic:"),
        ("consumer_group: g", "start_from_latest: 5"),
        ("streams", "stream"),
        ("\n    output: {type: kafka, topic: b}", ""),
        ("b}", "b}\n    durability: {sync: group_commit}"),
        ("kafka, topic: b", "sql, output_type: {type: sqlite, path: d}, table_name: t, columns: {a: int}"),
        ("    output", "    pipeline: {processors: 5}\n    output"),
    ] {
        assert!(!fits(&schema, &file(&stream.replace(from, to))), "{to}");
    }
    assert!(at("streams.output")["oneOf"].is_array(), "the type decides which keys an editor offers");
}
