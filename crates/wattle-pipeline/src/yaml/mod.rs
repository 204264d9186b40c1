//! YAML, JSON or TOML text → a tree of [`Node`]s that know their places → typed values. Environment variables are put in between,
//! into scalars that are already parsed, so that no value can become structure.

mod env;
mod fields;
mod json;
mod parse;
mod toml;
mod units;

use std::path::Path;

pub(crate) use env::substitute;
pub(crate) use fields::{Field, Given, LONGEST, Map};
pub(crate) use json::payload;

use crate::problem::{Place, Report};

/// How a file is written, as its name says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Yaml,
    /// Read as the YAML that it is too.
    Json,
    Toml,
}

impl Format {
    /// YAML, unless the extension says otherwise.
    pub(crate) fn of(file: &Path) -> Self {
        match file.extension().and_then(|extension| extension.to_str()) {
            Some(name) if name.eq_ignore_ascii_case("toml") => Format::Toml,
            Some(name) if name.eq_ignore_ascii_case("json") => Format::Json,
            _ => Format::Yaml,
        }
    }

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Format::Yaml => "YAML",
            Format::Json => "JSON",
            Format::Toml => "TOML",
        }
    }
}

/// The file's one document. `None` after a problem that leaves nothing to look at.
pub(crate) fn parse(text: &str, format: Format, report: &Report) -> Option<Node> {
    match format {
        Format::Toml => toml::parse(text, report),
        Format::Yaml | Format::Json => parse::parse(text, format, report),
    }
}

/// A value of the file.
pub(crate) struct Node {
    pub(crate) place: Place,
    pub(crate) value: Value,
}

pub(crate) enum Value {
    Scalar(Scalar),
    List(Vec<Node>),
    Map(Vec<(Key, Node)>),
}

/// A value that is neither a list nor a map. Its type follows from the key that it belongs to.
pub(crate) struct Scalar {
    /// With variables replaced.
    pub(crate) text: String,
    /// As it is in the file, where variables were replaced. Messages show this one: a variable may hold a secret.
    pub(crate) raw: Option<String>,
    pub(crate) style: Style,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    Plain,
    Quoted,
    /// A block that keeps its line breaks (`|`).
    Literal,
}

pub(crate) struct Key {
    pub(crate) name: String,
    pub(crate) place: Place,
}

impl Node {
    /// `key:` with nothing behind it, `~` or `null`.
    pub(crate) fn is_null(&self) -> bool {
        match &self.value {
            Value::Scalar(scalar) => {
                scalar.style == Style::Plain
                    && scalar.raw.is_none()
                    && matches!(scalar.text.as_str(), "" | "~" | "null" | "Null" | "NULL")
            }
            _ => false,
        }
    }
}

impl Scalar {
    /// For messages.
    pub(crate) fn shown(&self) -> &str {
        self.raw.as_deref().unwrap_or(&self.text)
    }
}
