//! The processors of a stream as one stage: a record is decoded at most once, goes from program to program, and is written
//! as it was read where no program changed it.

use std::cell::RefCell;
use std::future::{Future, ready};
use std::sync::Arc;

use vrl::compiler::TimeZone;
use vrl::compiler::runtime::Runtime;
use vrl::prelude::Value;
use wattle::{Message, Output, Record, StageError, Transformer};

use super::json;
use super::key::Key;
use super::processor::{Processor, Step, items};
use super::route::Route;
use super::target::RecordTarget;

/// The stage.
pub(crate) struct Chain {
    processors: Vec<Processor>,
    key: Option<Key>,
    /// A record goes all of these ways.
    routes: Arc<Vec<Route>>,
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
    pub(crate) fn new(processors: Vec<Processor>, routes: Arc<Vec<Route>>, values: Values) -> Self {
        let timezone = TimeZone::parse("UTC").expect("UTC is a time zone");
        Chain { processors, key: None, routes, values, timezone }
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
        if let ([], None, [Route::Topic(topic)]) = (&self.processors[..], &self.key, &self.routes[..]) {
            out.send(Message::copy(record, topic.value.as_str()));
            return Ok(());
        }
        SCRATCH.with_borrow_mut(|scratch| self.run(0, &mut RecordTarget::new(record), out, scratch))
    }

    /// The processors from this one on, and the outputs.
    fn run(
        &self,
        from: usize,
        target: &mut RecordTarget<'_>,
        out: &mut Output,
        scratch: &mut Scratch,
    ) -> Result<(), StageError> {
        for (at, processor) in self.processors.iter().enumerate().skip(from) {
            let named = |error: StageError| error.in_stage(&processor.name);
            match &processor.step {
                Step::Vrl(script) => {
                    script.run(&mut scratch.runtime, target, &self.timezone).map_err(named)?;
                }
                Step::Filter(script) => {
                    match script.run(&mut scratch.runtime, target, &self.timezone).map_err(named)? {
                        Value::Boolean(true) => {}
                        Value::Boolean(false) => return Ok(()),
                        other => {
                            let text = format!("the condition is neither true nor false but {}", other.kind_str());
                            return Err(named(StageError::new(text)));
                        }
                    }
                }
                Step::Json(json) => json.run(target).map_err(named)?,
                Step::Split(path) => {
                    for item in items(target, path).map_err(named)? {
                        self.run(at + 1, &mut target.part(item), out, scratch)?;
                    }
                    return Ok(());
                }
            }
        }
        self.emit(target, out, scratch)
    }

    fn emit(&self, target: &mut RecordTarget<'_>, out: &mut Output, scratch: &mut Scratch) -> Result<(), StageError> {
        if let Some(key) = &self.key {
            key.set(target, &mut scratch.runtime, &self.timezone)?;
        }
        target.encode(&mut scratch.text)?;
        for route in &*self.routes {
            let topic = route.of(&mut scratch.runtime, target, &self.timezone)?;
            let message = target.message(topic, &scratch.text);
            out.send(target.write_metadata(message)?);
        }
        Ok(())
    }
}

impl Transformer for Chain {
    fn transform(&self, record: &Record<'_>, out: &mut Output) -> impl Future<Output = Result<(), StageError>> + Send {
        ready(self.process(record, out))
    }
}
