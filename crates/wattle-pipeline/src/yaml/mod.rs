//! YAML text → a tree of [`Node`]s that know their places → typed values. Environment variables are put in between, into
//! scalars that are already parsed, so that no value can become structure.

mod env;
mod fields;
mod json;
mod parse;
mod units;

pub(crate) use env::substitute;
pub(crate) use fields::{Field, Given, Map};
pub(crate) use json::render_json;
pub(crate) use parse::parse;

use crate::problem::Place;

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
