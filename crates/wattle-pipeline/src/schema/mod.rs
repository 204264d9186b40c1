//! The JSON Schema of a pipeline file, for editors. The readers in `spec` decide what a file may say; the tables in `keys` say it once more
//! with words for people, and a test compares the two, key by key.

mod common;
mod keys;

use serde_json::{Map as Object, Value, json};

use common::either;
use keys::MAPS;

/// What a reader does with a file; the test of the schema watches.
#[cfg_attr(not(test), allow(dead_code))]
pub(crate) enum Look<'a> {
    /// It reads a map of this kind.
    Map(&'a str),
    /// It asks a map of this kind for a key.
    Key(&'a str, &'a str),
    /// The key has to be there.
    Required(&'a str, &'a str),
    /// The key may have nothing behind it.
    Empty(&'a str, &'a str),
    /// It takes the value of this kind as that.
    Form(&'a str, &'a str),
    /// It knows this word there.
    Word(&'a str, &'a str),
}

/// What a key takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Text,
    Bool,
    /// A whole number from 1 on.
    Count,
    /// A whole number from 0 on.
    Number,
    Duration,
    Size,
    /// One of these.
    Word(&'static [&'static str]),
    /// A name or a list of names.
    Names,
    /// A text, or a map or list that becomes JSON.
    Json,
    /// A list of such values.
    JsonList,
    /// A map whose keys are in a table.
    Map,
    /// A list of such maps.
    List,
    /// A text, or such a map.
    TextOrMap,
    /// Names, or a map with free names for one of these words, for nothing, or for maps whose keys are in a table.
    NamesOrMaps(&'static [&'static str]),
    /// A time, or such a map.
    DurationOrMap,
    /// One of these, or such a map.
    WordOrMap(&'static [&'static str]),
    /// A map with free names for texts.
    Free,
    /// The same with values that may be structures.
    FreeJson,
}

/// One key of a map.
struct Key {
    name: &'static str,
    form: Form,
    doc: &'static str,
    required: bool,
    /// May have nothing behind it.
    empty: bool,
    default: Option<&'static str>,
}

impl Key {
    const fn new(name: &'static str, form: Form, doc: &'static str) -> Self {
        Key { name, form, doc, required: false, empty: false, default: None }
    }

    const fn required(self) -> Self {
        Key { required: true, ..self }
    }

    const fn or_empty(self) -> Self {
        Key { empty: true, ..self }
    }

    const fn default(self, default: &'static str) -> Self {
        Key { default: Some(default), ..self }
    }
}

/// One map: `streams.input(kafka)`, or `*.codec(json)` for a map that stands in several places.
struct Map {
    kind: &'static str,
    doc: &'static str,
    keys: &'static [Key],
}

/// The schema, draft 2020-12, as JSON text.
#[must_use]
pub fn schema() -> String {
    let mut schema = at("");
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema".into();
    schema["title"] = "Wattle pipeline".into();
    schema["$defs"] = json!({
        "variable": {"type": "string", "pattern": "\\$\\{.+\\}"}
    });
    format!("{schema:#}\n")
}

/// The map or maps at a place: where its `type` decides, one of several.
fn at(place: &str) -> Value {
    let mut found: Vec<Value> = variants(place).map(|(word, map)| object(place, word, map)).collect();
    let words: Option<Vec<&str>> = variants(place).map(|(word, _)| word).collect();
    match (found.len(), words) {
        (1, _) => found.remove(0),
        // Editors offer the values of one that has other required keys only where they stand beside the choice as well.
        (_, Some(words)) => json!({ "properties": { "type": { "enum": words } }, "oneOf": found }),
        (_, None) => json!({ "oneOf": found }),
    }
}

/// The tables for a place, each with the word that `type` has there.
fn variants(place: &str) -> impl Iterator<Item = (Option<&'static str>, &'static Map)> {
    MAPS.iter().filter_map(move |map| {
        let (base, word) = match map.kind.strip_suffix(')').and_then(|kind| kind.rsplit_once('(')) {
            Some((base, word)) => (base, Some(word)),
            None => (map.kind, None),
        };
        let is_here = base.strip_prefix('*').map_or(base == place, |end| place.ends_with(end));
        is_here.then_some((word, map))
    })
}

fn object(place: &str, word: Option<&str>, map: &Map) -> Value {
    let place = word.map_or_else(|| place.to_owned(), |word| format!("{place}({word})"));
    let mut properties = Object::new();
    let mut required = Vec::new();
    if let Some(word) = word {
        properties.insert("type".to_owned(), json!({ "const": word, "title": "type", "description": map.doc }));
        required.push("type");
    }
    for key in map.keys {
        properties.insert(key.name.to_owned(), property(&place, key));
        if key.required {
            required.push(key.name);
        }
    }
    let doc = map.doc;
    let mut schema = json!({"type": "object", "description": doc, "properties": properties, "required": required, "additionalProperties": false});
    let present = |(key, value): &(&str, Option<bool>)| match value {
        Some(value) => json!({"properties": {*key: {"const": value}}, "required": [key]}),
        None => json!({"required": [key]}),
    };
    let choice: Vec<_> = either(map.kind).iter().map(present).collect();
    if !choice.is_empty() {
        schema["anyOf"] = choice.into();
    }
    schema
}

fn property(place: &str, key: &Key) -> Value {
    let child = if place.is_empty() { key.name.to_owned() } else { format!("{place}.{}", key.name) };
    let text = json!({"type": ["string", "number", "boolean"]});
    let or_variable = |form: Value| json!({"anyOf": [form, {"$ref": "#/$defs/variable"}]});
    let mut schema = match key.form {
        Form::Text => text,
        Form::Bool => or_variable(json!({"type": "boolean"})),
        Form::Count => or_variable(json!({"type": "integer", "minimum": 1})),
        Form::Number => or_variable(json!({"type": "integer", "minimum": 0})),
        Form::Duration => or_variable(duration()),
        Form::Size => or_variable(
            json!({"type": "string", "pattern": "^[0-9]+ ?(B|KiB|MiB|GiB)$", "examples": ["512B", "64KiB", "8MiB"]}),
        ),
        Form::Word(words) => or_variable(json!({"enum": words_of(words)})),
        Form::Names => json!({"anyOf": [{"type": "string"}, {"type": "array", "items": text, "minItems": 1}]}),
        Form::Json => json!({}),
        Form::JsonList => json!({"type": "array"}),
        Form::Map => at(&child),
        Form::List => json!({"type": "array", "items": at(&child)}),
        Form::TextOrMap => json!({"anyOf": [text, at(&child)]}),
        Form::NamesOrMaps(words) => json!({"anyOf": [
            {"type": "string"},
            {"type": "array", "items": text, "minItems": 1},
            {"type": "object", "additionalProperties": {"anyOf": [
                {"enum": words},
                {"$ref": "#/$defs/variable"},
                {"type": "null"},
                at(&format!("{child}.*")),
            ]}},
        ]}),
        Form::DurationOrMap => or_variable(json!({"anyOf": [duration(), at(&child)]})),
        Form::WordOrMap(words) => or_variable(json!({"anyOf": [{"enum": words_of(words)}, at(&child)]})),
        Form::Free => json!({"type": "object", "additionalProperties": text}),
        Form::FreeJson => json!({"type": "object"}),
    };
    if key.empty {
        schema = json!({"anyOf": [schema, {"type": "null"}]});
    }
    // Editors show the title of the whole schema where a key has none, and no default.
    schema["title"] = key.name.into();
    let default = key.default.map(|default| format!(" Default: {default}.")).unwrap_or_default();
    schema["description"] = format!("{}{default}", key.doc).into();
    if let Some(default) = key.default {
        schema["default"] = serde_json::from_str(default).unwrap_or_else(|_| default.into());
    }
    schema
}

fn duration() -> Value {
    json!({"type": "string", "pattern": "^[0-9]+ ?(ns|us|ms|s|m|h)", "examples": ["100ms", "5s", "2m", "1h"]})
}

/// The words, and numbers among them as numbers too: `acks: 1`.
fn words_of(words: &[&str]) -> Vec<Value> {
    let numbers = words.iter().filter_map(|word| word.parse::<u64>().ok()).map(Value::from);
    words.iter().map(|word| Value::from(*word)).chain(numbers).collect()
}

#[cfg(test)]
mod guides;
#[cfg(test)]
mod tests;
#[cfg(test)]
pub(crate) use tests::Seen;
