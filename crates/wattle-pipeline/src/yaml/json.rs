//! YAML values as the payloads of records: words as they are, structures as JSON text.

use super::{Field, Scalar, Style, Value};

/// A word as it is, a map or a list as JSON.
pub(crate) fn payload(field: &Field) -> Option<String> {
    match &field.node.value {
        Value::Scalar(scalar) if scalar.style == Style::Plain && scalar.raw.is_none() && is_special(&scalar.text) => {
            field.problem(format!("{} has no form as a JSON number; write it in quotes for a string", scalar.text));
            None
        }
        Value::Scalar(_) => field.string(),
        _ => render_json(field),
    }
}

/// The JSON text of a map or a list. Numbers keep their digits.
fn render_json(field: &Field) -> Option<String> {
    field.saw("json");
    let mut text = String::new();
    render(&field.node.value, &mut text).map_err(|problem| field.problem(problem)).ok()?;
    Some(text)
}

fn render(value: &Value, text: &mut String) -> Result<(), String> {
    match value {
        Value::Scalar(scalar) => text.push_str(&scalar_json(scalar)?),
        Value::List(items) => {
            text.push('[');
            for (i, item) in items.iter().enumerate() {
                text.push_str(if i == 0 { "" } else { "," });
                render(&item.value, text)?;
            }
            text.push(']');
        }
        Value::Map(entries) => {
            text.push('{');
            for (i, (key, item)) in entries.iter().enumerate() {
                text.push_str(if i == 0 { "" } else { "," });
                text.push_str(&crate::chain::json::quoted(&key.name));
                text.push(':');
                render(&item.value, text)?;
            }
            text.push('}');
        }
    }
    Ok(())
}

/// Plain words are what YAML says they are; everything quoted or put in from a variable is a string.
fn scalar_json(scalar: &Scalar) -> Result<String, String> {
    let word = scalar.text.as_str();
    if scalar.style != Style::Plain || scalar.raw.is_some() {
        return Ok(crate::chain::json::quoted(word));
    }
    match word {
        "" | "~" | "null" | "Null" | "NULL" => Ok("null".to_owned()),
        "true" | "True" | "TRUE" => Ok("true".to_owned()),
        "false" | "False" | "FALSE" => Ok("false".to_owned()),
        _ if crate::chain::json::is_number(word) => Ok(word.to_owned()),
        _ if looks_like_number(word) => {
            Err(format!("{word} has no form as a JSON number; write it in quotes for a string"))
        }
        _ => Ok(crate::chain::json::quoted(word)),
    }
}

fn is_special(word: &str) -> bool {
    matches!(word.trim_start_matches(['+', '-']).to_ascii_lowercase().as_str(), ".inf" | ".nan")
}

/// What YAML reads as a number and JSON does not.
fn looks_like_number(word: &str) -> bool {
    let digits = word.trim_start_matches(['+', '-']);
    let radix = digits.strip_prefix("0x").or(digits.strip_prefix("0o"));
    is_special(word)
        || radix.is_some_and(|rest| !rest.is_empty() && rest.chars().all(|c| c.is_ascii_hexdigit()))
        || (digits.starts_with(|c: char| c.is_ascii_digit() || c == '.') && digits.parse::<f64>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem::Report;
    use crate::yaml::{Format, parse};

    #[test]
    fn plain_words_are_typed_and_numbers_keep_their_digits() {
        let text =
            "a: [1, -2.50, 9007199254740993, 1e5, x y, 'y', \"1\", true, null, ~]\nb: {c: , \"q\\\"\": 2018-01-31}\n";
        let root = parse(text, Format::Yaml, &Report::default()).unwrap();
        let mut json = String::new();
        render(&root.value, &mut json).unwrap();
        let expected = "{\"a\":[1,-2.50,9007199254740993,1e5,\"x y\",\"y\",\"1\",true,null,null],\
                        \"b\":{\"c\":null,\"q\\\"\":\"2018-01-31\"}}";
        assert_eq!(json, expected);
    }
}
