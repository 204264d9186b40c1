//! The processors that a file names: read and compiled by the plan.

use vrl::path::{OwnedTargetPath, OwnedValuePath, PathPrefix, parse_target_path};
use vrl::prelude::Value;
use wattle::{Gather, StageError};

use super::compile::{Access, Script};
use super::target::RecordTarget;
use crate::spec;
use crate::yaml::{Field, Given, Map};

/// An entry of `processors`.
pub(crate) enum Item {
    Processor(Box<Processor>),
    /// It is no step of the chain: it gathers what comes out of it.
    Batch(Given<Gather>),
}

/// A processor, ready to run.
pub(crate) struct Processor {
    pub(super) step: Step,
    /// `processors[2] (vrl)`, for messages.
    pub(super) name: String,
}

pub(super) enum Step {
    /// Changes the record.
    Vrl(Script),
    /// Keeps the record or leaves it out.
    Filter(Script),
    /// The value has to be JSON.
    Json(Json),
    /// Each item of a list becomes a record.
    Split(OwnedValuePath),
}

/// The predecessor's `json_to_arrow` and `arrow_to_json`. Records are JSON all the way here, so what is left of the two is what they refuse,
/// and the fields that they keep.
pub(super) struct Json {
    kind: &'static str,
    /// Members of the value that are kept; `None`: all.
    fields: Option<Vec<String>>,
}

#[derive(Clone, Copy)]
enum Kind {
    Vrl,
    Filter,
    Split,
    Batch,
    Json(&'static str),
}

const KINDS: [(&str, Kind); 6] = [
    ("vrl", Kind::Vrl),
    ("filter", Kind::Filter),
    ("split", Kind::Split),
    ("batch", Kind::Batch),
    ("json_to_arrow", Kind::Json("json_to_arrow")),
    ("arrow_to_json", Kind::Json("arrow_to_json")),
];

impl Processor {
    /// What the file calls it.
    pub(crate) fn type_name(&self) -> &'static str {
        match &self.step {
            Step::Vrl(_) => "vrl",
            Step::Filter(_) => "filter",
            Step::Json(json) => json.kind,
            Step::Split(_) => "split",
        }
    }
}

/// Reads and compiles one entry of `processors`. `text` is the file's.
pub(crate) fn read(item: &Field, text: &str) -> Option<Item> {
    let mut map = Map::of(item)?;
    let kind = map.required("type", "a processor needs a type: vrl, filter, split or batch")?.word(&KINDS)?;
    let step = match kind {
        Kind::Vrl => {
            let field = map.required("statement", "a vrl processor needs a statement: a VRL program");
            field.and_then(|field| Script::read(&field, Access::Write, text)).map(Step::Vrl)
        }
        Kind::Filter => {
            let field = map.required("condition", "a filter needs a condition: VRL that is true or false");
            field.and_then(|field| condition(&field, text)).map(Step::Filter)
        }
        Kind::Split => Some(Step::Split(map.get("field").map_or(Some(OwnedValuePath::root()), |field| path(&field))?)),
        Kind::Json(kind) => Some(Step::Json(json(kind, &mut map))),
        Kind::Batch => {
            let gather = spec::read_gather(item, &mut map);
            map.get("name").and_then(|field| field.name());
            map.finish();
            return Some(Item::Batch(gather));
        }
    };
    let called = map.get("name").and_then(|field| field.name());
    map.finish();
    let step = step?;
    let name = item.path.rsplit('.').next().unwrap_or_default();
    let name = called.map_or_else(|| name.to_owned(), |called| format!("{name} {called}"));
    let mut processor = Processor { step, name: String::new() };
    processor.name = format!("{name} ({})", processor.type_name());
    Some(Item::Processor(Box::new(processor)))
}

fn condition(field: &Field, text: &str) -> Option<Script> {
    let script = Script::read(field, Access::Read, text)?;
    if !script.result().contains_boolean() {
        field.problem("must be true or false; this condition never is");
    }
    Some(script)
}

/// A path into the value, as VRL writes it: `.items`.
fn path(field: &Field) -> Option<OwnedValuePath> {
    match parse_target_path(&field.name()?) {
        Ok(OwnedTargetPath { prefix: PathPrefix::Event, path }) => Some(path),
        _ => {
            field.problem("must be a path into the value, as in  field: .items");
            None
        }
    }
}

fn json(kind: &'static str, map: &mut Map) -> Json {
    if let Some(field) = map.get("value_field")
        && field.name().is_some_and(|name| name != "__value__")
    {
        field.problem("a record has one value here, and no columns beside it; remove value_field");
    }
    let fields = map.get("fields_to_include").map(|field| field.names().into_iter().map(|name| name.value).collect());
    Json { kind, fields }
}

impl Json {
    /// A record without a value stays one.
    pub(super) fn run(&self, target: &mut RecordTarget<'_>) -> Result<(), StageError> {
        let Some(fields) = &self.fields else { return target.check() };
        target.decode()?;
        match target.value_mut() {
            Some(Value::Null) => {}
            Some(Value::Object(members)) => members.retain(|name, _| fields.iter().any(|field| **field == **name)),
            other => {
                let found = other.map_or("nothing", |value| value.kind_str());
                return Err(StageError::new(format!("fields_to_include needs an object, not {found}")));
            }
        }
        Ok(())
    }
}

/// The items of the list at `path` of the record's value.
pub(super) fn items(target: &mut RecordTarget<'_>, path: &OwnedValuePath) -> Result<Vec<Value>, StageError> {
    target.decode()?;
    match target.value().get(path) {
        Some(Value::Array(items)) => Ok(items.clone()),
        other => {
            let found = other.map_or("nothing", Value::kind_str);
            Err(StageError::new(format!(".{path} must be a list, not {found}")))
        }
    }
}
