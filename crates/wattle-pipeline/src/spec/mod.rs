//! Typed values → checked streams. Values that were refused are replaced by defaults, so that every check can run and
//! every problem is found at once; streams with problems never leave the plan.

mod batch;
mod common;
mod durability;
mod file_input;
mod file_output;
mod gather;
mod health;
mod host;
mod http_output;
mod input;
mod kafka;
mod logging;
mod mqtt;
mod output;
mod pushed;
mod retry;
mod route;
mod rules;
mod security;
mod sql;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use common::Common;
pub(crate) use durability::Durability;
pub(crate) use file_input::{CsvFormat, FileFormat, FileInput};
pub(crate) use file_output::FileOutput;
pub(crate) use gather::read as read_gather;
pub(crate) use health::{HealthCheck, METRICS};
pub(crate) use http_output::{Body, HttpOutput, KEY};
pub(crate) use input::{GenerateInput, Input, KafkaInput, MemoryInput};
pub use kafka::EMBEDDED;
pub use logging::Logging;
pub(crate) use output::{ErrorOutput, KafkaOutput, Output};
pub(crate) use pushed::{Authorization, HttpFormat, HttpInput, MqttInput, StdinFormat};
pub(crate) use retry::RetryPolicy;
pub(crate) use sql::{ColumnSpec, Database as SqlDatabase, Kind, Mode as SqlMode, SqlOutput};
use wattle::{BatchLimits, GroupFormat};

use crate::cases::{self, Case};
use crate::chain::{self, Chain, Processor, Route, Values};
use crate::problem::Report;
use crate::yaml::{Field, Given, Map, Node};

/// What a spec needs to know beside the file.
pub(crate) struct Surroundings<'a> {
    /// The text of the file.
    pub(crate) text: &'a str,
    /// The folder that paths are relative to.
    pub(crate) folder: &'a Path,
    /// The file itself.
    pub(crate) file: &'a Path,
    /// Brokers for Kafka components that name none; they come before those of the file.
    pub(crate) brokers: Option<&'a str>,
}

/// One stream of the file.
pub(crate) struct Stream {
    pub(crate) id: Given<String>,
    pub(crate) input: Input,
    pub(crate) processors: Vec<Processor>,
    pub(crate) output: Output,
    /// Where records go that cannot be processed.
    pub(crate) error_output: Option<ErrorOutput>,
    /// The write-ahead log, where one is asked for.
    pub(crate) durability: Option<Durability>,
    pub(crate) batch: BatchLimits,
    pub(crate) grace_period: Option<Duration>,
    /// What the input and the output are called.
    pub(crate) names: [Option<String>; 2],
    /// Values must be JSON, also where no processor looks at them.
    pub(crate) is_json: bool,
}

impl Stream {
    /// Its processors as a stage, which takes them out.
    pub(crate) fn chain(&mut self) -> Chain {
        let joins = match &self.output {
            Output::Http(output) => output.joins(),
            Output::File(_) => true,
            _ => self.batch.gather.as_ref().is_some_and(|gather| gather.format == GroupFormat::Array),
        };
        let values = match &self.input {
            _ if self.is_json || joins => Values::Json,
            Input::File(file) if file.format == FileFormat::Lines => Values::Json,
            Input::Stdin(input) if input.format == StdinFormat::Lines => Values::Json,
            _ => Values::Any,
        };
        let key = match &mut self.output {
            Output::Kafka(output) => output.key.take(),
            _ => None,
        };
        let routes = match &self.output {
            Output::Kafka(output) => output.routes.clone(),
            other => Arc::new(vec![Route::to(other.topic())]),
        };
        Chain::new(std::mem::take(&mut self.processors), routes, values).with_key(key)
    }
}

/// The whole file.
#[derive(Default)]
pub(crate) struct File {
    pub(crate) cases: Vec<Case>,
    pub(crate) streams: Vec<Stream>,
    pub(crate) logging: Logging,
    /// Where its process answers whether it is well.
    pub(crate) health: Option<HealthCheck>,
}

/// Reads and checks the whole file.
pub(crate) fn read(root: &Node, surroundings: &Surroundings, report: &Report) -> File {
    let Some(mut root) = Map::root(root, report) else { return File::default() };
    let health = root.get("health_check").and_then(|field| Some((field.place, health::read(&field)?)));
    // After a problem here the streams are not told that they have no brokers.
    let brokers = root.get("brokers").map(|field| kafka::addresses(&field)).map(|given| match given.is_empty() {
        true => EMBEDDED.to_owned(),
        false => given,
    });
    let items = root.required("streams", "a pipeline file needs a list of streams").and_then(|field| {
        let items = field.list()?;
        if items.is_empty() {
            field.problem("must hold at least one stream");
        }
        Some(items)
    });
    let logging = root.get_filled("logging").map(|field| logging::read(&field, surroundings)).unwrap_or_default();
    let tests = root.get_filled("tests");
    root.finish();
    let brokers = surroundings.brokers.or(brokers.as_deref());
    let surroundings = Surroundings { brokers, ..*surroundings };
    let items = items.unwrap_or_default();
    let streams: Vec<_> =
        items.iter().enumerate().filter_map(|(i, item)| stream(item, i, &surroundings, report)).collect();
    rules::check_together(&streams, report);
    if let Some((place, health)) = &health {
        rules::check_health(&streams, health, *place, report);
    }
    let cases = tests.map(|field| cases::read(&field, surroundings.file, &streams)).unwrap_or_default();
    File { cases, streams, logging, health: health.map(|(_, health)| health) }
}

fn stream(item: &Field, index: usize, surroundings: &Surroundings, report: &Report) -> Option<Stream> {
    let mut map = Map::of(item)?;
    let id = map.get("id").and_then(|field| id(&field)).unwrap_or_else(|| item.given(format!("stream-{index}")));
    let input = map.required("input", "a stream needs an input").and_then(|field| input::read(&field, surroundings));
    let items = map.get_filled("pipeline").map(|field| pipeline(&field, surroundings)).unwrap_or_default();
    let (processors, gather) = gather::take(items, report);
    let output = output(&mut map, surroundings);
    let error_output = map.get("error_output");
    let durability = map.get("durability").and_then(|field| durability::read(&field, surroundings));
    let batch = map.get_filled("batch");
    let buffer = map.get_filled("buffer");
    let grace_period = map.get("grace_period");
    map.finish();

    let (input, input_common) = input.unzip();
    let (output, output_common) = output.unzip();
    let batch = batch::read(batch.as_ref(), buffer.as_ref(), input.as_ref());
    let grace_period = grace_period.and_then(|field| {
        if !matches!(input, Some(Input::Kafka(_)) | None) {
            field.problem("only a kafka input waits for a grace period; remove it");
        }
        field.duration()
    });
    let error_output = error_output.and_then(|f| output::read_error_output(&f, output.as_ref(), surroundings));
    let (Some(input), Some(output)) = (input, output) else { return None };
    let common = [input_common, output_common].map(Option::unwrap_or_default);
    let mut stream = Stream {
        id,
        input,
        processors,
        output,
        error_output,
        durability,
        batch,
        grace_period,
        is_json: common.iter().any(|common| common.is_json),
        names: common.map(|common| common.name),
    };
    rules::check(&stream, report);
    if let Some(given) = gather {
        gather::check(&given, &stream, report);
        stream.batch.gather = Some(gather::limits(given, &stream.output));
    }
    Some(stream)
}

/// `output`, or the list `outputs`.
fn output(map: &mut Map, surroundings: &Surroundings) -> Option<(Output, Common)> {
    let Some(list) = map.get("outputs") else {
        let field = map.required("output", "a stream needs an output, or a list of outputs that are written together");
        return output::read(&field?, surroundings);
    };
    if let Some(one) = map.get("output") {
        one.problem("a stream has an output or a list of outputs; move it into the list, or remove one of the two");
    }
    output::read_list(&list, surroundings)
}

fn id(field: &Field) -> Option<Given<String>> {
    let id = field.name()?;
    if !id.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_') {
        field.problem("may consist of letters, digits, - and _ only");
        return None;
    }
    Some(field.given(id))
}

fn pipeline(field: &Field, surroundings: &Surroundings) -> Vec<chain::Item> {
    let Some(mut map) = Map::of(field) else { return Vec::new() };
    if let Some(field) = map.get("thread_num")
        && field.count(u64::MAX).is_some_and(|threads| threads > 1)
    {
        field.note("has no effect: partitions are processed side by side anyway, and each of them in its order");
    }
    let items = map.get_filled("processors").and_then(|field| field.list()).unwrap_or_default();
    map.finish();
    items.iter().filter_map(|item| chain::read(item, surroundings.text)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fails to compile for a type that can be shown: then the name of `f` is of two traits.
    macro_rules! cannot_be_shown {
        ($($shown:ty),+) => {$({
            trait Ambiguous<Why> { fn f() {} }
            #[allow(dead_code, reason = "a name is all that is wanted of it")]
            struct Shown;
            impl<T: ?Sized> Ambiguous<()> for T {}
            impl<T: ?Sized + std::fmt::Debug> Ambiguous<Shown> for T {}
            let _: fn() = <$shown as Ambiguous<_>>::f;
        })+};
    }

    #[test]
    fn what_holds_secrets_has_no_debug_text_that_a_panic_could_show() {
        cannot_be_shown!(Authorization, HttpInput, MqttInput, HttpOutput, SqlOutput, SqlDatabase, KafkaInput);
        cannot_be_shown!(KafkaOutput, ErrorOutput, Input, Output, Stream, crate::plan::Plan, crate::StreamPlan);
    }
}
