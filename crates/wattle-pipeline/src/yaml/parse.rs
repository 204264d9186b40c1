//! YAML events → nodes. What is refused here: syntax errors, several documents, duplicate keys, keys that are not plain
//! names, anchors, aliases and tags.

use std::borrow::Cow;
use std::fmt::Write;

use saphyr_parser::{Event, Marker, Parser, ScalarStyle, Span, StrInput};

use super::{Format, Key, Node, Scalar, Style, Value};
use crate::problem::{Place, Report};

/// No pipeline needs more; a bound keeps the stack safe.
const DEEPEST: usize = 64;

/// The document of a text in YAML or JSON.
pub(super) fn parse(text: &str, format: Format, report: &Report) -> Option<Node> {
    let text = if format == Format::Json { join_surrogates(text) } else { Cow::Borrowed(text) };
    let mut builder = Builder { parser: Parser::new_from_str(&text), format, report, end: end(&text) };
    builder.document().unwrap_or_default()
}

/// JSON's one form that YAML lacks: a character as two escapes, `\ud83d\ude00`, becomes `\U0001f600`.
fn join_surrogates(text: &str) -> Cow<'_, str> {
    if !text.contains("\\ud") && !text.contains("\\uD") {
        return Cow::Borrowed(text);
    }
    let mut joined = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        joined.push_str(&rest[..at]);
        rest = &rest[at..];
        if let Some(character) = surrogates(rest) {
            write!(joined, "\\U{:08x}", u32::from(character)).expect("a String takes all text");
            rest = &rest[12..];
        } else {
            // With what it escapes, which may be another backslash.
            let end = rest.char_indices().nth(2).map_or(rest.len(), |(end, _)| end);
            joined.push_str(&rest[..end]);
            rest = &rest[end..];
        }
    }
    joined.push_str(rest);
    Cow::Owned(joined)
}

/// The character that two escapes at the start of the text stand for.
fn surrogates(text: &str) -> Option<char> {
    let half = |from: usize| u16::from_str_radix(text.get(from..from + 6)?.strip_prefix("\\u")?, 16).ok();
    char::decode_utf16([half(0)?, half(6)?]).next()?.ok().filter(|character| u32::from(*character) > 0xffff)
}

/// A problem was reported that leaves the rest of the file without meaning.
struct Stopped;

struct Builder<'a> {
    parser: Parser<'a, StrInput<'a>>,
    format: Format,
    report: &'a Report,
    /// Behind the last character. The parser means by the end of the text sometimes a line more.
    end: Place,
}

impl<'a> Builder<'a> {
    fn document(&mut self) -> Result<Option<Node>, Stopped> {
        let mut root = None;
        loop {
            let (event, span) = self.next()?;
            match event {
                Event::StreamEnd => break,
                Event::DocumentStart(_) if root.is_some() => {
                    return self.stop(self.place(span.start), "", "a second document; a pipeline file holds one");
                }
                Event::StreamStart | Event::DocumentStart(_) | Event::DocumentEnd | Event::Nothing => {}
                event => root = Some(self.node(event, span, "", 0)?),
            }
        }
        if root.is_none() {
            let text = "the file is empty; it needs a list of streams:";
            return self.stop(Place { line: 1, column: 1 }, "", text);
        }
        Ok(root)
    }

    fn next(&mut self) -> Result<(Event<'a>, Span), Stopped> {
        match self.parser.next_event() {
            Some(Ok(event)) => Ok(event),
            Some(Err(error)) => self.unreadable(self.place(*error.marker()), error.info()),
            None => self.unreadable(Place { line: 1, column: 1 }, "the text ends too early"),
        }
    }

    fn unreadable<T>(&self, place: Place, why: &str) -> Result<T, Stopped> {
        self.stop(place, "", &format!("not {}: {why}", self.format.name()))
    }

    fn stop<T>(&self, place: Place, path: &str, text: &str) -> Result<T, Stopped> {
        self.report.add(place, path, text);
        Err(Stopped)
    }

    fn node(&mut self, event: Event<'a>, span: Span, path: &str, depth: usize) -> Result<Node, Stopped> {
        let place = self.place(span.start);
        if depth > DEEPEST {
            return self.stop(place, path, "nested too deeply");
        }
        self.check_plain(&event, place, path);
        let value = match event {
            Event::Scalar(text, style, ..) => {
                let style = match style {
                    ScalarStyle::Plain => Style::Plain,
                    ScalarStyle::Literal => Style::Literal,
                    _ => Style::Quoted,
                };
                Value::Scalar(Scalar { text: text.into_owned(), raw: None, style })
            }
            Event::SequenceStart(..) => Value::List(self.list(path, depth)?),
            Event::MappingStart(..) => Value::Map(self.map(path, depth)?),
            Event::Alias(_) => return self.stop(place, path, "aliases are not supported; write the value out"),
            _ => return self.unreadable(place, "a value is missing"),
        };
        Ok(Node { place, value })
    }

    /// Anchors and tags have no meaning here, so they are refused and not ignored.
    fn check_plain(&self, event: &Event<'_>, place: Place, path: &str) {
        let (anchor, tag) = match event {
            Event::Scalar(_, _, anchor, tag) | Event::SequenceStart(anchor, tag) | Event::MappingStart(anchor, tag) => {
                (*anchor, tag.is_some())
            }
            _ => return,
        };
        if anchor != 0 {
            self.report.add(place, path, "anchors are not supported; write the value out where it is needed");
        }
        if tag {
            self.report.add(place, path, "tags are not supported; the key decides the type of its value");
        }
    }

    fn list(&mut self, path: &str, depth: usize) -> Result<Vec<Node>, Stopped> {
        let mut items = Vec::new();
        loop {
            match self.next()? {
                (Event::SequenceEnd, _) => return Ok(items),
                (event, span) => {
                    let path = format!("{path}[{}]", items.len());
                    items.push(self.node(event, span, &path, depth + 1)?);
                }
            }
        }
    }

    fn map(&mut self, path: &str, depth: usize) -> Result<Vec<(Key, Node)>, Stopped> {
        let mut entries: Vec<(Key, Node)> = Vec::new();
        loop {
            let (event, span) = self.next()?;
            let place = self.place(span.start);
            self.check_plain(&event, place, path);
            let name = match event {
                Event::MappingEnd => return Ok(entries),
                Event::Scalar(text, ..) => text.into_owned(),
                Event::Alias(_) => return self.stop(place, path, "aliases are not supported; write the key out"),
                _ => return self.stop(place, path, "a key must be a name"),
            };
            let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
            let (event, span) = self.next()?;
            let node = self.node(event, span, &path, depth + 1)?;
            match entries.iter().find(|(key, _)| key.name == name) {
                Some((first, _)) => {
                    let text = format!("the key is set twice; the first time on line {}", first.place.line);
                    self.report.add(place, &path, text);
                }
                None => entries.push((Key { name, place }, node)),
            }
        }
    }

    fn place(&self, marker: Marker) -> Place {
        Place { line: marker.line(), column: marker.col() + 1 }.min(self.end)
    }
}

/// The place behind a text.
fn end(text: &str) -> Place {
    let breaks = text.matches(['\n', '\r']).count() - text.matches("\r\n").count();
    let last = text.rsplit(['\n', '\r']).next().unwrap_or_default();
    Place { line: 1 + breaks, column: 1 + last.chars().count() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_character_of_two_escapes_is_one() {
        assert_eq!(
            join_surrogates(r#"{"a\\ud83d": "\ud83d\ude00\n\uD83D \u00e9"}"#),
            r#"{"a\\ud83d": "\U0001f600\n\uD83D \u00e9"}"#
        );
        assert_eq!(join_surrogates("\\ud83"), "\\ud83");
    }

    #[test]
    fn a_text_that_ends_too_early_has_its_problem_at_its_end() {
        for (text, place) in [("{\n\"a\": [1,\n ", "3:2"), ("{\r\n\"a\": [1,\r\n", "3:1"), ("a: [é", "1:6")] {
            let report = Report::default();
            assert!(parse(text, Format::Yaml, &report).is_none());
            let problems = report.into_problems("x.yaml".into()).expect("it is no YAML").list;
            let places: Vec<_> =
                problems.iter().map(|problem| format!("{}:{}", problem.line, problem.column)).collect();
            assert_eq!(places, [place], "{text:?}: {problems:?}");
        }
    }
}
