//! `${VAR}` and `${VAR:-default}` in values; `$${` is a literal `${`. Keys and comments are never looked at.

use super::{Node, Value};
use crate::problem::Report;

/// Replaces the variables in all scalars below `node`.
pub(crate) fn substitute(node: &mut Node, path: &str, env: &dyn Fn(&str) -> Option<String>, report: &Report) {
    match &mut node.value {
        Value::Scalar(scalar) => match expand(&scalar.text, env) {
            Ok(None) => {}
            Ok(Some(text)) => scalar.raw = Some(std::mem::replace(&mut scalar.text, text)),
            Err(problem) => report.add_unread(node.place, path, problem),
        },
        Value::List(items) => {
            for (i, item) in items.iter_mut().enumerate() {
                substitute(item, &format!("{path}[{i}]"), env, report);
            }
        }
        Value::Map(entries) => {
            for (key, value) in entries {
                let path = if path.is_empty() { key.name.clone() } else { format!("{path}.{}", key.name) };
                substitute(value, &path, env, report);
            }
        }
    }
}

/// `None` where there is nothing to replace.
fn expand(text: &str, env: &dyn Fn(&str) -> Option<String>) -> Result<Option<String>, String> {
    if !text.contains("${") {
        return Ok(None);
    }
    let mut result = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        if rest[..at].ends_with('$') {
            result.push_str(&rest[..at - 1]);
            result.push_str("${");
            rest = &rest[at + 2..];
            continue;
        }
        result.push_str(&rest[..at]);
        let Some(length) = rest[at..].find('}') else {
            return Err("${ has no closing brace; write $${ for a literal ${".to_owned());
        };
        result.push_str(&value(&rest[at + 2..at + length], env)?);
        rest = &rest[at + length + 1..];
    }
    result.push_str(rest);
    Ok(Some(result))
}

/// What stands between the braces: a name, perhaps with a default for a variable that is unset or empty.
fn value(variable: &str, env: &dyn Fn(&str) -> Option<String>) -> Result<String, String> {
    let (name, default) = match variable.split_once(":-") {
        Some((name, default)) => (name, Some(default)),
        None => (variable, None),
    };
    let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if !is_name {
        return Err(format!("${{{variable}}} does not name a variable; write $${{ for a literal ${{"));
    }
    match (env(name), default) {
        (Some(value), None) => Ok(value),
        (Some(value), Some(_)) if !value.is_empty() => Ok(value),
        (_, Some(default)) => Ok(default.to_owned()),
        (None, None) => {
            Err(format!("the environment variable {name} is not set; set it, or give a default: ${{{name}:-default}}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn env(name: &str) -> Option<String> {
        match name {
            "A" => Some("a: b #c\nd: ${B}".to_owned()),
            "EMPTY" => Some(String::new()),
            _ => None,
        }
    }

    fn expanded(text: &str) -> String {
        expand(text, &env).unwrap().unwrap_or_else(|| text.to_owned())
    }

    #[test]
    fn a_value_is_put_in_once_and_literally() {
        assert_eq!(expanded("x ${A} y"), "x a: b #c\nd: ${B} y");
        assert_eq!(expanded("${EMPTY}"), "");
    }

    #[test]
    fn a_default_stands_in_for_unset_and_empty() {
        assert_eq!(expanded("${NOPE:-d}/${EMPTY:-e}/${NOPE:-}/${A:-x}"), "d/e//a: b #c\nd: ${B}");
    }

    #[test]
    fn dollar_dollar_brace_is_literal() {
        assert_eq!(expanded("$${A} $5 $$ {A}"), "${A} $5 $$ {A}");
        assert_eq!(expanded("costs $"), "costs $");
    }

    #[test]
    fn what_cannot_be_replaced_is_named() {
        assert!(expand("${NOPE}", &env).unwrap_err().contains("variable NOPE is not set"));
        assert!(expand("${1}", &env).unwrap_err().contains("does not name a variable"));
        assert!(expand("${A", &env).unwrap_err().contains("no closing brace"));
    }
}
