//! The processors of a stream as one stage: a record is decoded at most once, goes from program to program, and is written
//! as it was read where no program changed it.

use std::cell::RefCell;
use std::future::{Future, ready};

use vrl::compiler::runtime::{Runtime, Terminate};
use vrl::compiler::{ExpressionError, TimeZone};
use vrl::prelude::Value;
use wattle::{Message, Output, Record, StageError, Transformer};

use super::compile::{Processor, ProcessorKind, line_of, mask};
use super::json;
use super::key::Key;
use super::target::RecordTarget;

/// The stage.
pub(crate) struct Chain {
    processors: Vec<Processor>,
    key: Option<Key>,
    topic: String,
    values: Values,
    timezone: TimeZone,
}

/// What values may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Values {
    /// Any bytes, as long as no program looks at them.
    Any,
    /// JSON, even where no program looks at it.
    Json,
}

/// Memory that is used again for every record of a thread.
#[derive(Default)]
struct Scratch {
    runtime: Runtime,
    text: Vec<u8>,
}

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

impl Chain {
    pub(crate) fn new(processors: Vec<Processor>, topic: impl Into<String>, values: Values) -> Self {
        let timezone = TimeZone::parse("UTC").expect("UTC is a time zone");
        Chain { processors, key: None, topic: topic.into(), values, timezone }
    }

    /// Messages get this key.
    pub(crate) fn with_key(self, key: Option<Key>) -> Self {
        Chain { key, ..self }
    }

    fn process(&self, record: &Record<'_>, out: &mut Output) -> Result<(), StageError> {
        if self.values == Values::Json
            && let Some(value) = record.value
        {
            json::check(value)?;
        }
        if self.processors.is_empty() && self.key.is_none() {
            out.send(Message::copy(record, self.topic.as_str()));
            return Ok(());
        }
        SCRATCH.with_borrow_mut(|scratch| self.run(record, out, scratch))
    }

    fn run(&self, record: &Record<'_>, out: &mut Output, scratch: &mut Scratch) -> Result<(), StageError> {
        let mut target = RecordTarget::new(record);
        for processor in &self.processors {
            if processor.uses_value {
                target.decode()?;
            }
            scratch.runtime.clear();
            let result = scratch.runtime.resolve(&mut target, &processor.program, &self.timezone);
            match (processor.kind, result) {
                (ProcessorKind::Vrl, Ok(_)) | (ProcessorKind::Filter, Ok(Value::Boolean(true))) => {}
                (ProcessorKind::Filter, Ok(Value::Boolean(false))) => return Ok(()),
                (ProcessorKind::Filter, Ok(other)) => {
                    let text = format!("the condition is neither true nor false but {}", other.kind_str());
                    return Err(processor.failure(&text));
                }
                (_, Err(error)) => return Err(processor.failure(&explain(&processor.source, error))),
            }
        }
        if let Some(key) = &self.key {
            key.set(&mut target, &mut scratch.runtime, &self.timezone)?;
        }
        let message = target.message(&self.topic, &mut scratch.text)?;
        out.send(target.write_metadata(message)?);
        Ok(())
    }
}

impl Transformer for Chain {
    fn transform(&self, record: &Record<'_>, out: &mut Output) -> impl Future<Output = Result<(), StageError>> + Send {
        ready(self.process(record, out))
    }
}

impl Processor {
    fn failure(&self, text: &str) -> StageError {
        StageError::new(format!("{} ({}): {text}", self.name, self.type_name()))
    }
}

/// What a program said, with the line, and without what it quotes from the record: the text is logged.
pub(super) fn explain(source: &str, error: Terminate) -> String {
    match error.get_expression_error() {
        ExpressionError::Abort { span, message } => {
            let message = message.map(|message| format!(": {message}")).unwrap_or_default();
            format!("line {}: aborted{message}", line_of(source, span.start()))
        }
        ExpressionError::Error { message, labels, .. } => {
            let call = message.strip_prefix("function call error for \"").and_then(function_call);
            let (at, text) = match call {
                Some((name, at, text)) => (Some(at), format!("{name}: {}", mask(text))),
                None => (labels.first().map(|label| label.span.start()), mask(&message)),
            };
            let text: String = text.lines().next().unwrap_or_default().chars().take(200).collect();
            match at {
                Some(at) => format!("line {}: {text}", line_of(source, at)),
                None => text,
            }
        }
        other => other.to_string(),
    }
}

/// Takes `name" at (12:34): text` apart.
fn function_call(text: &str) -> Option<(&str, usize, &str)> {
    let (name, rest) = text.split_once("\" at (")?;
    let (span, text) = rest.split_once("): ")?;
    Some((name, span.split_once(':')?.0.parse().ok()?, text))
}
