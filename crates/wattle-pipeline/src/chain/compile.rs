//! Programs of the file → compiled scripts. Pure: VRL's own messages become problems at their place in the file.

use vrl::compiler::runtime::{Runtime, Terminate};
use vrl::compiler::state::ExternalEnv;
use vrl::compiler::{CompileConfig, ExpressionError, Program, TimeZone, compile_with_external};
use vrl::diagnostic::{Diagnostic, DiagnosticList};
use vrl::path::{OwnedSegment, OwnedTargetPath, OwnedValuePath, PathPrefix};
use vrl::prelude::{Collection, KeyString, Kind, Value};
use wattle::StageError;

use super::nesting;
use super::target::{METADATA, READ_ONLY, RecordTarget};
use crate::problem::{Place, hint};
use crate::yaml::{Field, Scalar, Style};

/// VRL's code for an expression that can fail and does not say what happens then.
const UNHANDLED: usize = 100;

/// A compiled program.
pub(crate) struct Script {
    program: Program,
    /// The program's text, to find the line of a failure.
    source: String,
    /// Whether the program reads or writes `.`; only then is the record decoded.
    uses_value: bool,
}

/// What a program may do with the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    Read,
    Write,
}

impl Script {
    /// Reads and compiles the program behind a key. `text` is the file's.
    pub(super) fn read(field: &Field, access: Access, text: &str) -> Option<Self> {
        Script::of(field.text()?, field, access, text)
    }

    /// Compiles what stands for the text behind a key.
    pub(super) fn of(source: String, field: &Field, access: Access, text: &str) -> Option<Self> {
        let program = compile(access, &source, field, text)?;
        check_metadata(&program, field);
        check_written(&program, field);
        let info = program.info();
        let mut paths = info.target_queries.iter().chain(&info.target_assignments);
        let uses_value = paths.any(|path| path.prefix == PathPrefix::Event);
        Some(Script { program, source, uses_value })
    }

    /// What its last expression can be.
    pub(super) fn result(&self) -> Kind {
        self.program.final_type_info().result.kind().clone()
    }

    /// Runs it over a record. The error is a text with the line.
    pub(super) fn run(
        &self,
        runtime: &mut Runtime,
        target: &mut RecordTarget<'_>,
        timezone: &TimeZone,
    ) -> Result<Value, StageError> {
        if self.uses_value {
            target.decode()?;
        }
        runtime.clear();
        let result = runtime.resolve(target, &self.program, timezone);
        result.map_err(|error| StageError::new(explain(&self.source, error)))
    }
}

fn compile(access: Access, source: &str, field: &Field, text: &str) -> Option<Program> {
    let depth = nesting::depth(source);
    if depth > nesting::DEEPEST {
        field.problem(format!(
            "is nested {depth} deep, and {} is the most; write it in several statements",
            nesting::DEEPEST
        ));
        return None;
    }
    let mut config = CompileConfig::default();
    match access {
        Access::Read => config.set_read_only(),
        Access::Write => {
            for name in READ_ONLY {
                let path = OwnedTargetPath::metadata(OwnedValuePath::single_field(name));
                config.set_read_only_path(path, true);
            }
        }
    }
    let environment = ExternalEnv::new_with_kind(Kind::any(), metadata_kind());
    match compile_with_external(source, &vrl::stdlib::all(), &environment, config) {
        Ok(result) => {
            // A warning is a result that nobody uses or a name that will go: both are mistakes in a new program. One that takes the error of a
            // call and does not look at it means to.
            report(&result.warnings, source, field, text);
            Some(result.program)
        }
        Err(errors) => {
            report(&errors, source, field, text);
            None
        }
    }
}

/// The types of what is behind `%`, so that programs need no checks that cannot fail.
fn metadata_kind() -> Kind {
    let kind = |name| match name {
        "topic" => Kind::bytes(),
        "partition" | "offset" => Kind::integer(),
        "key" => Kind::bytes().or_null(),
        "timestamp" => Kind::timestamp().or_null(),
        _ => Kind::array(Collection::any()),
    };
    Kind::object(
        METADATA.into_iter().map(|name| (name.into(), kind(name))).collect::<std::collections::BTreeMap<_, _>>(),
    )
}

/// Refuses names behind `%` that are always null, or that would be written for nothing.
pub(super) fn check_metadata(program: &Program, field: &Field) {
    let info = program.info();
    let mut unknown: Vec<&KeyString> = Vec::new();
    for path in info.target_queries.iter().chain(&info.target_assignments) {
        if path.prefix == PathPrefix::Metadata
            && let Some(OwnedSegment::Field(name)) = path.path.segments.first()
            && !METADATA.contains(&&**name)
            && !unknown.contains(&name)
        {
            unknown.push(name);
        }
    }
    for name in unknown {
        field.problem(format!("%{name} is unknown; {}", hint(name, &METADATA)));
    }
}

/// Refuses what would be written behind `%` and is never, or now and then surely not, what has its place there. What may be anything is
/// looked at with each record.
fn check_written(program: &Program, field: &Field) {
    let state = program.final_type_info().state;
    let assigned = |name: &str| {
        program.info().target_assignments.iter().any(|path| {
            path.prefix == PathPrefix::Metadata
                && matches!(path.path.segments.first(), Some(OwnedSegment::Field(field)) if **field == *name)
        })
    };
    for (name, allowed, form) in [
        ("key", Kind::bytes(), "a string or null; use to_string"),
        ("timestamp", Kind::timestamp(), "a timestamp; use from_unix_timestamp or parse_timestamp"),
        ("headers", Kind::array(Collection::any()), "an array of {name, value}"),
    ] {
        let found = state.external.metadata_kind().at_path(&OwnedValuePath::single_field(name));
        // Such as what the record has at a place, or what is parsed.
        let is_open = found.contains_object() && found.contains_bytes();
        // Null where nothing is written.
        let allowed = allowed.or_null().or_undefined();
        if assigned(name) && !is_open && allowed.is_superset(&found).is_err() {
            field.problem(format!("%{name} must be {form}: this program makes it {found}"));
        }
    }
}

fn report(diagnostics: &DiagnosticList, source: &str, field: &Field, text: &str) {
    let Some(scalar) = field.scalar() else { return };
    for diagnostic in diagnostics.iter() {
        let primary = diagnostic.labels.iter().find(|label| label.primary).or(diagnostic.labels.first());
        let at = primary.map_or(0, |label| label.span.start()).min(source.len());
        let place = locate(scalar, field, source, at, text);
        let line = match place {
            Some(_) => String::new(),
            None => format!("line {}: ", line_of(source, at)),
        };
        let message = match scalar.raw {
            // Parts of the program come from variables, which may be secrets.
            Some(_) => format!("{line}{}", mask(&diagnostic.message.replace('`', "\""))),
            None => {
                let quoted = primary.map(|label| snippet(source, label.span.range())).unwrap_or_default();
                format!("{line}{quoted}{}", describe(diagnostic))
            }
        };
        match place {
            _ if diagnostic.message.starts_with("unused variable") => field.note(message),
            Some(place) => field.problem_in(place, message),
            None => field.problem(message),
        }
    }
}

/// The part of the program that a message is about, where it is short.
fn snippet(source: &str, range: std::ops::Range<usize>) -> String {
    match source.get(range).map(str::trim) {
        Some(text) if !text.is_empty() && text.len() <= 40 && !text.contains('\n') => format!("`{text}`: "),
        _ => String::new(),
    }
}

/// VRL's message, and what its labels say, one a line.
fn describe(diagnostic: &Diagnostic) -> String {
    let labels = diagnostic.labels.iter().map(|label| label.message.as_str());
    let labels = labels.filter(|label| !diagnostic.message.contains(label));
    let mut lines: Vec<_> =
        std::iter::once(diagnostic.message.as_str()).chain(labels).filter(|l| !l.is_empty()).collect();
    lines.dedup();
    if diagnostic.code == UNHANDLED {
        lines.push("convert what may have any type, as in  int!(.a) > 1 , or give a default, as in  (.a > 1) ?? false");
    }
    lines.join("\n")
}

/// The line of a byte of the program, from 1.
fn line_of(source: &str, at: usize) -> usize {
    1 + source.bytes().take(at).filter(|byte| *byte == b'\n').count()
}

/// The place in the file, for programs that stand there line by line.
fn locate(scalar: &Scalar, field: &Field, source: &str, at: usize, text: &str) -> Option<Place> {
    if scalar.style != Style::Literal || scalar.raw.is_some() {
        return None;
    }
    let index = line_of(source, at) - 1;
    let line = source.lines().nth(index)?;
    // The block begins on the first line behind the key that is like the program's first line.
    let first = source.lines().next()?;
    let start = (field.place.line..=text.lines().count())
        .find(|n| text.lines().nth(*n).is_some_and(|candidate| candidate.trim() == first.trim()))?;
    let in_file = text.lines().nth(start + index)?;
    let indent = in_file.len().checked_sub(line.len())?;
    let line_start = source[..at].rfind('\n').map_or(0, |newline| newline + 1);
    let column = 1 + indent + source[line_start..at].chars().count();
    in_file.ends_with(line).then_some(Place { line: start + index + 1, column })
}

/// Hides what stands between double quotes: it may be part of a record, or come from a variable.
pub(crate) fn mask(text: &str) -> String {
    let mut masked = String::with_capacity(text.len());
    for (i, part) in text.split('"').enumerate() {
        match i % 2 {
            0 => masked.push_str(part),
            _ => masked.push_str("\"…\""),
        }
    }
    masked
}

/// What a program said, with the line, and without what it quotes from the record: the text is logged.
fn explain(source: &str, error: Terminate) -> String {
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
