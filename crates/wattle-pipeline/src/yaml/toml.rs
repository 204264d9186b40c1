//! TOML text → the nodes that YAML text becomes.

use std::ops::Range;

use toml_edit::{Document, Item, Key as TomlKey, TableLike, TomlError, Value as TomlValue};

use super::{Key, Node, Scalar, Style, Value};
use crate::problem::{Place, Report};

/// The file's tables. `None` after a problem that leaves nothing to look at.
pub(super) fn parse(text: &str, report: &Report) -> Option<Node> {
    let source = Source(text);
    match Document::parse(text) {
        Ok(document) => Some(Node { place: Place { line: 1, column: 1 }, value: source.table(document.as_table()) }),
        Err(error) => {
            source.refused(&error, report);
            None
        }
    }
}

/// The text, for places and for numbers as they are written.
struct Source<'a>(&'a str);

impl Source<'_> {
    /// The error's text names what was expected, and quotes nothing of the file.
    fn refused(&self, error: &TomlError, report: &Report) {
        report.add(self.place(error.span()), "", format!("not TOML: {}", error.message()));
    }

    fn place(&self, span: Option<Range<usize>>) -> Place {
        let at = span.map_or(0, |span| span.start);
        let before = self.0.get(..at).unwrap_or(self.0);
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        Place { line: 1 + before.matches('\n').count(), column: 1 + before[line_start..].chars().count() }
    }

    fn table(&self, table: &dyn TableLike) -> Value {
        let entry = |(name, item): (&str, &Item)| {
            let span = table.key(name).and_then(TomlKey::span).or_else(|| item.span());
            let key = Key { name: name.to_owned(), place: self.place(span) };
            Some((key, self.item(item)?))
        };
        Value::Map(table.iter().filter_map(entry).collect())
    }

    fn item(&self, item: &Item) -> Option<Node> {
        let place = self.place(item.span());
        Some(match item {
            Item::None => return None,
            Item::Value(value) => self.value(value),
            Item::Table(table) => Node { place, value: self.table(table) },
            Item::ArrayOfTables(tables) => {
                let table =
                    |table: &toml_edit::Table| Node { place: self.place(table.span()), value: self.table(table) };
                Node { place, value: Value::List(tables.iter().map(table).collect()) }
            }
        })
    }

    fn value(&self, value: &TomlValue) -> Node {
        let written = || value.span().and_then(|span| self.0.get(span)).unwrap_or_default();
        let scalar = |text: String, style| Value::Scalar(Scalar { text, raw: None, style });
        let place = self.place(value.span());
        let value = match value {
            TomlValue::String(text) => {
                let is_block = written().starts_with("'''") || written().starts_with("\"\"\"");
                let style = if is_block { Style::Literal } else { Style::Quoted };
                scalar(text.value().clone(), style)
            }
            TomlValue::Integer(number) if written().contains(['x', 'o', 'b']) => {
                scalar(number.value().to_string(), Style::Plain)
            }
            // As YAML has them, where they are no words.
            TomlValue::Float(number) if !number.value().is_finite() => {
                let sign = if *number.value() < 0.0 { "-" } else { "" };
                scalar(format!("{sign}.{}", if number.value().is_nan() { "nan" } else { "inf" }), Style::Plain)
            }
            // As it is written: no digit is lost.
            TomlValue::Integer(_) | TomlValue::Float(_) => {
                scalar(written().replace('_', "").trim_start_matches('+').to_owned(), Style::Plain)
            }
            TomlValue::Boolean(flag) => scalar(flag.value().to_string(), Style::Plain),
            TomlValue::Datetime(_) => scalar(written().to_owned(), Style::Quoted),
            TomlValue::Array(items) => Value::List(items.iter().map(|item| self.value(item)).collect()),
            TomlValue::InlineTable(table) => self.table(table),
        };
        Node { place, value }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(text: &str) -> String {
        fn walk(node: &Node, path: &str, out: &mut Vec<String>) {
            match &node.value {
                Value::Scalar(scalar) => out.push(format!("{path}={}", scalar.text)),
                Value::List(items) => {
                    items.iter().enumerate().for_each(|(i, item)| walk(item, &format!("{path}[{i}]"), out));
                }
                Value::Map(entries) => {
                    for (key, node) in entries {
                        walk(node, &format!("{path}.{}@{}:{}", key.name, key.place.line, key.place.column), out);
                    }
                }
            }
        }
        let mut out = Vec::new();
        walk(&parse(text, &Report::default()).unwrap(), "", &mut out);
        out.join(" ")
    }

    #[test]
    fn keys_have_their_places_and_numbers_their_digits() {
        let text = "a = 1_000\n[[streams]]\nid = 'x'\n  [streams.input]\n  topics = [\n 'a', 'b']\n  b.c = {d = 0x1F, é = 2.50}\n";
        let expected = ".a@1:1=1000 .streams@2:3[0].id@3:1=x .streams@2:3[0].input@4:12.topics@5:3[0]=a \
                        .streams@2:3[0].input@4:12.topics@5:3[1]=b .streams@2:3[0].input@4:12.b@7:3.c@7:5.d@7:10=31";
        assert_eq!(places(&text.replace(", é = 2.50", "")), expected);
    }

    #[test]
    fn what_is_not_toml_has_a_place() {
        let report = Report::default();
        assert!(parse("a = 1\nb = [1,\n", &report).is_none());
        let problems = report.into_problems("x.toml".into()).unwrap();
        assert!(problems.list[0].line >= 2 && problems.list[0].text.starts_with("not TOML: "), "{problems}");
    }
}
