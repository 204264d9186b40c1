//! Which topic a record goes to: always the same, or one that an expression names for each record, of those that are listed.

use vrl::compiler::TimeZone;
use vrl::compiler::runtime::Runtime;
use vrl::prelude::Value;
use wattle::{StageError, topic_problem};

use super::compile::{Access, Script};
use super::key::translate;
use super::target::RecordTarget;
use crate::yaml::{Field, Given};

/// A record's way to a topic.
#[allow(clippy::large_enum_variant, reason = "one for each output")]
pub(crate) enum Route {
    /// Always this one. Blank after a problem.
    Topic(Given<String>),
    /// The one that the expression names.
    Named(Named),
}

/// See [`Route::Named`].
pub(crate) struct Named {
    script: Script,
    /// What it may name: a start checks that they exist, and a name that is misspelt creates no topic.
    topics: Vec<Given<String>>,
    /// The key, for messages.
    path: String,
}

impl Route {
    /// Always to `topic`, for outputs that have no topics.
    pub(crate) fn to(topic: &str) -> Self {
        Route::Topic(Given { value: topic.to_owned(), place: crate::problem::Place::default(), path: String::new() })
    }

    /// An expression that may name `topics`. `text` is the file's.
    pub(crate) fn named(field: &Field, topics: Vec<Given<String>>, text: &str) -> Option<Self> {
        let source = match translate(field.text()?.trim()) {
            Ok(source) => source,
            Err(problem) => {
                field.problem(problem);
                return None;
            }
        };
        let script = Script::of(source, field, Access::Read, text)?;
        if !script.result().contains_bytes() {
            field.problem("must be a string: the name of a topic; this expression never is");
        }
        Some(Route::Named(Named {
            script,
            topics,
            path: field.path.split_once("].").map_or(&*field.path, |(_, path)| path).to_owned(),
        }))
    }

    /// All topics that it can lead to.
    pub(crate) fn topics(&self) -> &[Given<String>] {
        match self {
            Route::Topic(topic) => std::slice::from_ref(topic),
            Route::Named(named) => &named.topics,
        }
    }

    /// How a plan shows it.
    pub(crate) fn shown(&self) -> String {
        match self {
            Route::Topic(topic) => topic.value.clone(),
            Route::Named(named) => {
                let topics: Vec<_> = named.topics.iter().map(|topic| topic.value.as_str()).collect();
                format!("one of {}", topics.join(", "))
            }
        }
    }

    /// The topic of a record.
    pub(super) fn of<'r>(
        &'r self,
        runtime: &mut Runtime,
        target: &mut RecordTarget<'_>,
        timezone: &TimeZone,
    ) -> Result<&'r str, StageError> {
        let named = match self {
            Route::Topic(topic) => return Ok(&topic.value),
            Route::Named(named) => named,
        };
        named.topic(runtime, target, timezone).map_err(|error| error.in_stage(&named.path))
    }
}

impl Named {
    fn topic(
        &self,
        runtime: &mut Runtime,
        target: &mut RecordTarget<'_>,
        timezone: &TimeZone,
    ) -> Result<&str, StageError> {
        let value = self.script.run(runtime, target, timezone)?;
        let Value::Bytes(name) = &value else {
            return Err(StageError::new(format!("must name a topic, and is {}", value.kind_str())));
        };
        let found = self.topics.iter().find(|topic| topic.value.as_bytes() == &name[..]);
        found.map(|topic| topic.value.as_str()).ok_or_else(|| {
            // Anything else may be a piece of the record, which is not for logs.
            let name = std::str::from_utf8(name).ok().filter(|name| topic_problem(name).is_none());
            let name =
                name.map_or("something that is no name of a topic".to_owned(), |name| format!("the topic {name}"));
            let topics: Vec<_> = self.topics.iter().map(|topic| topic.value.as_str()).collect();
            StageError::new(format!("names {name}, which is none of its topics ({})", topics.join(", ")))
        })
    }
}
