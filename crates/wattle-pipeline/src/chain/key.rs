//! The `key` of a Kafka output: one text, or what an expression makes of the record as the processors left it.

use vrl::compiler::TimeZone;
use vrl::compiler::runtime::Runtime;
use vrl::prelude::{Bytes, Value};
use wattle::StageError;

use super::compile::{Access, Script};
use super::target::RecordTarget;
use crate::yaml::{Field, Map};

/// A key, ready to be set.
#[allow(clippy::large_enum_variant, reason = "one for each stream")]
pub(crate) enum Key {
    /// The same for every record.
    Value(Bytes),
    /// What the expression gives.
    Expression(Script),
}

const FORMS: &str = "write  {type: expr, expr: .FIELD}  for a key from the record, or  {type: value, value: TEXT}";

/// Reads and compiles `key`. `text` is the file's.
pub(crate) fn read(field: &Field, text: &str) -> Option<Key> {
    if !field.is_structure() {
        field.problem(format!("may be two things; {FORMS}"));
        return None;
    }
    let mut map = Map::of(field)?;
    let key = match map.required("type", FORMS)?.word(&[("value", true), ("expr", false)])? {
        true => map
            .required("value", "needs the text of the key")
            .and_then(|field| field.string())
            .map(|text| Key::Value(text.into())),
        false => {
            map.required("expr", "needs a field's name or a VRL expression").and_then(|field| expression(&field, text))
        }
    };
    map.finish();
    key
}

fn expression(field: &Field, text: &str) -> Option<Key> {
    let written = field.text()?;
    let source = match translate(written.trim()) {
        Ok(source) => source,
        Err(problem) => {
            field.problem(problem);
            return None;
        }
    };
    let script = Script::of(source, field, Access::Read, text)?;
    let kind = script.result();
    if !kind.contains_bytes() && !kind.contains_integer() && !kind.contains_null() {
        field.problem("must be a string, an integer or null; this expression never is");
    }
    Some(Key::Expression(script))
}

/// A field's name as VRL, and VRL as it is. SQL, which ArkFlow has here, is refused by name.
pub(super) fn translate(written: &str) -> Result<String, String> {
    const REMEDY: &str = "write a field's name, or VRL, as in  to_string!(.customer) + \"-\" + to_string!(.region)";
    let is_word = |word: &str| {
        word.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && word.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    match written {
        "__meta_key" => return Ok("%key".to_owned()),
        "__meta_partition" => return Ok("%partition".to_owned()),
        "__meta_offset" => return Ok("%offset".to_owned()),
        "true" | "false" | "null" => return Ok(written.to_owned()),
        _ if written.starts_with("__") => {
            let known = "__meta_key, __meta_partition and __meta_offset";
            return Err(format!("of ArkFlow's columns only {known} are there; {REMEDY}"));
        }
        _ if written.split('.').all(is_word) => return Ok(format!(".{written}")),
        _ => {}
    }
    let lower = written.to_ascii_lowercase();
    let has_word = |word: &str| lower.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').any(|part| part == word);
    let is_sql = ["as", "case", "cast", "select"].into_iter().any(has_word)
        || written.starts_with('\'')
        || written.contains(" '")
        || !written.contains(['.', '%', '"']);
    if is_sql { Err(format!("SQL expressions are not supported; {REMEDY}")) } else { Ok(written.to_owned()) }
}

impl Key {
    /// Gives the record this key.
    pub(super) fn set(
        &self,
        target: &mut RecordTarget<'_>,
        runtime: &mut Runtime,
        zone: &TimeZone,
    ) -> Result<(), StageError> {
        let value = match self {
            Key::Value(text) => Value::Bytes(text.clone()),
            Key::Expression(script) => {
                script.run(runtime, target, zone).map_err(|error| error.in_stage("output.key"))?
            }
        };
        target.set_key(match value {
            Value::Integer(number) => Value::Bytes(number.to_string().into()),
            Value::Bytes(_) | Value::Null => value,
            other => {
                let text = format!("must be a string, an integer or null, not {}; use to_string", other.kind_str());
                return Err(StageError::new(text).in_stage("output.key"));
            }
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_fields_vrl_stays_and_sql_is_refused() {
        for (written, source) in [
            ("customer", ".customer"),
            ("a.b", ".a.b"),
            ("__meta_key", "%key"),
            ("string!(.a)", "string!(.a)"),
            ("%topic", "%topic"),
        ] {
            assert_eq!(translate(written).as_deref(), Ok(source));
        }
        for written in
            ["concat(a, b)", "cast(a.b as string)", "'x'", "a || '-'", "CASE WHEN .a THEN 1 END", "upper(name)"]
        {
            assert!(translate(written).unwrap_err().contains("SQL expressions are not supported"), "{written}");
        }
        assert!(translate("__meta_ext").unwrap_err().contains("only __meta_key"));
    }
}
