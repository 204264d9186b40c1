//! Typed access to maps. A map remembers which keys it was asked for: whatever else it holds is unknown, and refused.

use std::time::Duration;

use super::{Key, Node, Scalar, Value, units};
use crate::arkflow;
use crate::problem::{Place, Report, hint};
use crate::schema::Look;

/// No time of a file is longer.
pub(crate) const LONGEST: Duration = Duration::from_secs(365 * 24 * 3600);

/// A map that is being read.
pub(crate) struct Map<'a> {
    report: &'a Report,
    place: Place,
    path: String,
    kind: String,
    entries: &'a [(Key, Node)],
    asked: Vec<&'static str>,
}

/// A value with the key that it belongs to.
pub(crate) struct Field<'a> {
    report: &'a Report,
    pub(crate) place: Place,
    pub(crate) path: String,
    /// The path without places in lists, and with types: `streams.input(kafka).topics`.
    kind: String,
    pub(crate) node: &'a Node,
}

/// A value that the file gives, for checks that come later.
#[derive(Clone, Default)]
pub(crate) struct Given<T> {
    pub(crate) value: T,
    pub(crate) place: Place,
    pub(crate) path: String,
}

impl<'a> Map<'a> {
    /// Reports a problem where the value is not a map.
    pub(crate) fn of(field: &Field<'a>) -> Option<Self> {
        let Value::Map(entries) = &field.node.value else {
            field.problem("must be a map of keys and values");
            return None;
        };
        let word = entries.iter().find(|(key, _)| key.name == "type").map(|(_, node)| &node.value);
        let kind = match word {
            Some(Value::Scalar(word)) => format!("{}({})", field.kind, word.text),
            _ => field.kind.clone(),
        };
        field.saw_map(&kind);
        let (report, place, path) = (field.report, field.place, field.path.clone());
        Some(Map { report, place, path, kind, entries, asked: Vec::new() })
    }

    /// The whole file.
    pub(crate) fn root(node: &'a Node, report: &'a Report) -> Option<Self> {
        Map::of(&Field { report, place: node.place, path: String::new(), kind: String::new(), node })
    }

    pub(crate) fn path_of(&self, key: &str) -> String {
        below(&self.path, key)
    }

    pub(crate) fn place(&self) -> Place {
        self.place
    }

    /// The value of a key, if the file has the key.
    pub(crate) fn get(&mut self, key: &'static str) -> Option<Field<'a>> {
        self.asked.push(key);
        self.report.saw(Look::Key(&self.kind, key));
        let (found, node) = self.entries.iter().find(|(candidate, _)| candidate.name == key)?;
        let (path, kind) = (self.path_of(key), below(&self.kind, key));
        Some(Field { report: self.report, place: found.place, path, kind, node })
    }

    /// The same, where the map or list behind the key may be left empty.
    pub(crate) fn get_filled(&mut self, key: &'static str) -> Option<Field<'a>> {
        self.report.saw(Look::Empty(&self.kind, key));
        self.get(key).filter(|field| !field.node.is_null())
    }

    /// Reports a problem where the key is missing.
    pub(crate) fn required(&mut self, key: &'static str, remedy: &str) -> Option<Field<'a>> {
        self.report.saw(Look::Required(&self.kind, key));
        let field = self.get(key);
        if field.is_none() {
            self.missing(key, remedy);
        }
        field
    }

    /// Reports a problem about a key that the map does not have.
    pub(crate) fn missing(&self, key: &str, text: &str) {
        self.report.add(self.place, self.path_of(key), text);
    }

    /// The same where none of `causes` has a problem that explains it.
    pub(crate) fn missing_unless(&self, causes: &[String], key: &str, text: &str) {
        self.report.add_unless(causes, self.place, self.path_of(key), text);
    }

    /// All entries, for maps whose keys are free.
    pub(crate) fn entries(self) -> impl Iterator<Item = (&'a str, Field<'a>)> {
        self.report.saw(Look::Form(&self.kind, "free"));
        let Map { report, path, kind, entries, .. } = self;
        entries.iter().map(move |(key, node)| {
            let (path, kind) = (below(&path, &key.name), format!("{kind}.*"));
            (key.name.as_str(), Field { report, place: key.place, path, kind, node })
        })
    }

    /// Refuses the keys that nobody asked for.
    pub(crate) fn finish(self) {
        for (key, _) in self.entries.iter().filter(|(key, _)| !self.asked.contains(&key.name.as_str())) {
            let text = match arkflow::of_key(&self.kind, &key.name) {
                Some(text) => format!("is not supported: {text}"),
                None => format!("unknown key; {}", hint(&key.name, &self.asked)),
            };
            self.report.add(key.place, self.path_of(&key.name), text);
        }
    }
}

impl<'a> Field<'a> {
    /// The same once more.
    pub(crate) fn again(&self) -> Self {
        let (path, kind) = (self.path.clone(), self.kind.clone());
        Field { report: self.report, place: self.place, path, kind, node: self.node }
    }

    pub(crate) fn saw(&self, form: &str) {
        self.report.saw(Look::Form(&self.kind, form));
    }

    fn saw_map(&self, kind: &str) {
        self.saw("map");
        self.report.saw(Look::Map(kind));
    }

    pub(crate) fn problem(&self, text: impl Into<String>) {
        self.report.add(self.place, &self.path, text);
    }

    /// The same where none of `causes`, paths of other keys, has a problem that explains it.
    pub(crate) fn problem_unless(&self, causes: &[String], text: impl Into<String>) {
        self.report.add_unless(causes, self.place, &self.path, text);
    }

    /// What the writer of this key should know.
    pub(crate) fn note(&self, text: impl Into<String>) {
        self.report.note(self.place, &self.path, text);
    }

    /// A problem whose exact place is known.
    pub(crate) fn problem_in(&self, place: Place, text: impl Into<String>) {
        self.report.add(place, &self.path, text);
    }

    /// A problem of one of several values below this key.
    pub(crate) fn problem_at<T>(&self, given: &Given<T>, text: &str) {
        self.report.add(given.place, &given.path, text);
    }

    pub(crate) fn given<T>(&self, value: T) -> Given<T> {
        Given { value, place: self.place, path: self.path.clone() }
    }

    /// Whether the value is a list or a map, and not a word.
    pub(crate) fn is_structure(&self) -> bool {
        !matches!(self.node.value, Value::Scalar(_))
    }

    pub(crate) fn scalar(&self) -> Option<&'a Scalar> {
        match &self.node.value {
            Value::Scalar(_) if self.node.is_null() => {
                self.problem("has no value; give one, or remove the key");
                None
            }
            Value::Scalar(scalar) => Some(scalar),
            _ => {
                self.problem("must be a single value, not a list or a map");
                None
            }
        }
    }

    pub(crate) fn string(&self) -> Option<String> {
        self.saw("text");
        self.scalar().map(|scalar| scalar.text.clone())
    }

    /// A string with more than spaces in it.
    pub(crate) fn text(&self) -> Option<String> {
        let text = self.string()?;
        if text.trim().is_empty() {
            self.problem("must not be blank");
            return None;
        }
        Some(text)
    }

    /// The same on one line: what names something.
    pub(crate) fn name(&self) -> Option<String> {
        let text = self.text()?;
        if text.contains(|c: char| c.is_control()) {
            self.problem("must be one line of text, without control characters");
            return None;
        }
        Some(text)
    }

    pub(crate) fn bool(&self) -> Option<bool> {
        self.saw("bool");
        self.parsed("true or false", |text| match text {
            "true" | "True" | "TRUE" => Some(true),
            "false" | "False" | "FALSE" => Some(false),
            _ => None,
        })
    }

    /// A whole number from 1 to `most`.
    pub(crate) fn count(&self, most: u64) -> Option<u64> {
        self.saw("count");
        self.whole(1, most)
    }

    /// A whole number from 0 to `most`.
    pub(crate) fn number(&self, most: u64) -> Option<u64> {
        self.saw("number");
        self.whole(0, most)
    }

    fn whole(&self, least: u64, most: u64) -> Option<u64> {
        let range = if most == u64::MAX { format!("{least} on") } else { format!("{least} to {most}") };
        let parse = |text: &str| text.parse().ok().filter(|number| (least..=most).contains(number));
        self.parsed(&format!("a whole number from {range}"), parse)
    }

    /// A time that may be none.
    pub(crate) fn duration(&self) -> Option<Duration> {
        self.saw("duration");
        let time = self.parsed("a whole number with a unit of time: 100ms, 5s, 2m, 1h", units::duration)?;
        if time > LONGEST {
            self.problem("must be at most 8760h, which is a year");
            return None;
        }
        Some(time)
    }

    /// Milliseconds from 1 on, as the predecessor has times.
    pub(crate) fn millis(&self) -> Option<Duration> {
        self.count(LONGEST.as_secs() * 1000).map(Duration::from_millis)
    }

    /// A time longer than none.
    pub(crate) fn time(&self) -> Option<Duration> {
        let time = self.duration()?;
        if time.is_zero() {
            self.problem("must not be zero");
            return None;
        }
        Some(time)
    }

    /// Bytes, at least one; `most` as the file would say it.
    pub(crate) fn size(&self, most: &str) -> Option<usize> {
        self.saw("size");
        let bytes = self.parsed("a whole number with a unit of size: 512B, 64KiB, 8MiB, 1GiB", units::size)?;
        if bytes == 0 || bytes > units::size(most).expect("is a size") {
            self.problem(format!("must be from 1B to {most}"));
            return None;
        }
        Some(bytes)
    }

    /// One of several words.
    pub(crate) fn word<T: Copy>(&self, words: &[(&str, T)]) -> Option<T> {
        words.iter().for_each(|(word, _)| self.report.saw(Look::Word(&self.kind, word)));
        let scalar = self.scalar()?;
        let found = words.iter().find(|(word, _)| *word == scalar.text);
        if found.is_none() {
            let known: Vec<_> = words.iter().map(|(word, _)| *word).collect();
            let place = self.kind.strip_suffix(".type").map(|kind| kind.strip_suffix(&format!("({})", scalar.text)));
            self.problem(match place.flatten().and_then(|place| arkflow::of_type(place, &scalar.text)) {
                Some(text) => format!("{} is not supported: {text}", scalar.text),
                None => format!("{:?} is not known; {}", scalar.shown(), hint(&scalar.text, &known)),
            });
        }
        found.map(|(_, value)| *value)
    }

    fn parsed<T>(&self, expected: &str, parse: impl Fn(&str) -> Option<T>) -> Option<T> {
        let scalar = self.scalar()?;
        let value = parse(&scalar.text);
        if value.is_none() {
            self.problem(format!("must be {expected}, not {:?}", scalar.shown()));
        }
        value
    }

    pub(crate) fn list(&self) -> Option<Vec<Field<'a>>> {
        self.saw("list");
        let Value::List(items) = &self.node.value else {
            self.problem("must be a list");
            return None;
        };
        let items = items.iter().enumerate().map(|(i, node)| Field {
            report: self.report,
            place: node.place,
            path: format!("{}[{i}]", self.path),
            kind: self.kind.clone(),
            node,
        });
        Some(items.collect())
    }

    /// A list with at least one item.
    pub(crate) fn filled_list(&self) -> Option<Vec<Field<'a>>> {
        let items = self.list()?;
        if items.is_empty() {
            self.problem("must hold at least one");
            return None;
        }
        Some(items)
    }

    /// A list of names, or one name.
    pub(crate) fn names(&self) -> Vec<Given<String>> {
        self.saw("names");
        let fields = match &self.node.value {
            Value::List(_) => self.list().unwrap_or_default(),
            _ => return self.name().map(|name| self.given(name)).into_iter().collect(),
        };
        if fields.is_empty() {
            self.problem("must name at least one");
        }
        fields.iter().filter_map(|field| field.name().map(|name| field.given(name))).collect()
    }
}

/// The path of a key.
fn below(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}
