//! The `output` and the `error_output` of a stream.

use std::sync::Arc;
use std::time::Duration;

use wattle::{ClientProperties, ClientRole, Compression, TransactionScope};

use super::common::{self, Common};
use super::file_output::{self, FileOutput};
use super::http_output::{self, HttpOutput};
use super::route::{is_kafka, route, routes};
use super::{KafkaInput, SqlOutput, Surroundings, kafka, sql};
use crate::chain::{Key, Route, key};
use crate::yaml::{Field, Given, Map};

pub(crate) enum Output {
    Kafka(Box<KafkaOutput>),
    Sql(Box<SqlOutput>),
    Http(Box<HttpOutput>),
    File(Box<FileOutput>),
    Stdout { append_newline: bool },
    Drop,
}

pub(crate) struct KafkaOutput {
    pub(crate) brokers: String,
    /// Where each record goes: one way, or several in one transaction. Empty after a problem.
    pub(crate) routes: Arc<Vec<Route>>,
    /// Instead of the key that the record has.
    pub(crate) key: Option<Key>,
    /// Whether the key is there and true.
    pub(crate) exactly_once: Option<Given<bool>>,
    pub(crate) transactional_id: Option<Given<String>>,
    pub(crate) offset_commit_group: Option<Given<String>>,
    pub(crate) transaction_scope: Option<Given<TransactionScope>>,
    pub(crate) transaction_timeout: Option<Given<Duration>>,
    pub(crate) compression: Compression,
    pub(crate) acks: Option<Given<&'static str>>,
    pub(crate) client: ClientProperties,
    /// The output itself, for problems about keys that it lacks.
    pub(crate) here: Given<()>,
}

/// Where records go that cannot be processed.
pub(crate) struct ErrorOutput {
    pub(crate) topic: Given<String>,
    /// Those of the output, where that is Kafka too.
    pub(crate) brokers: String,
    /// Of a producer of its own, where the output is none.
    pub(crate) client: ClientProperties,
}

impl Output {
    pub(crate) fn kafka(&self) -> Option<&KafkaOutput> {
        match self {
            Output::Kafka(output) => Some(output),
            _ => None,
        }
    }

    /// The (first) topic of its messages; for what is no topic, the output's type.
    pub(crate) fn topic(&self) -> &str {
        match self {
            Output::Kafka(output) => output.topics().next().map_or("", |topic| &topic.value),
            Output::Sql(output) => &output.table,
            Output::Http(_) => "http",
            Output::File(_) => "file",
            Output::Stdout { .. } => "stdout",
            Output::Drop => "drop",
        }
    }
}

impl KafkaOutput {
    /// All topics that records can go to.
    pub(crate) fn topics(&self) -> impl Iterator<Item = &Given<String>> {
        self.routes.iter().flat_map(Route::topics)
    }

    /// Whether it has other brokers than a Kafka input. They may still lead to the same cluster.
    pub(crate) fn is_elsewhere(&self, input: &KafkaInput) -> bool {
        let known = !input.brokers.is_empty() && !self.brokers.is_empty();
        known && !kafka::same_brokers(&input.brokers, &self.brokers)
    }

    pub(crate) fn is_exactly_once(&self) -> bool {
        self.exactly_once.as_ref().is_some_and(|given| given.value)
    }

    pub(crate) fn scope(&self) -> TransactionScope {
        self.transaction_scope.as_ref().map_or_else(TransactionScope::default, |given| given.value)
    }

    /// The transaction timeout, given or by the scope.
    pub(crate) fn timeout(&self) -> Duration {
        self.transaction_timeout.as_ref().map_or(self.scope().default_timeout(), |given| given.value)
    }
}

#[derive(Clone, Copy)]
enum Kind {
    Kafka,
    Sql,
    Http,
    File,
    Stdout,
    Drop,
}

pub(super) fn read(field: &Field, surroundings: &Surroundings) -> Option<(Output, Common)> {
    let mut map = Map::of(field)?;
    let kinds = [
        ("kafka", Kind::Kafka),
        ("sql", Kind::Sql),
        ("http", Kind::Http),
        ("file", Kind::File),
        ("stdout", Kind::Stdout),
        ("drop", Kind::Drop),
    ];
    let kind = map.required("type", "an output needs a type: kafka, sql, http, file, stdout or drop")?.word(&kinds)?;
    let output = match kind {
        Kind::Kafka => Output::Kafka(Box::new(kafka_output(&mut map, field, surroundings))),
        Kind::Sql => Output::Sql(Box::new(sql::read(&mut map, field, surroundings))),
        Kind::Http => Output::Http(Box::new(http_output::read(&mut map)?)),
        Kind::File => Output::File(Box::new(file_output::read(&mut map, surroundings)?)),
        Kind::Stdout => {
            Output::Stdout { append_newline: map.get("append_newline").and_then(|f| f.bool()).unwrap_or(true) }
        }
        Kind::Drop => Output::Drop,
    };
    let common = common::read(&mut map);
    map.finish();
    Some((output, common))
}

/// As far as clients and brokers count: 31 bits of milliseconds.
fn transaction_timeout(field: &Field) -> Option<Duration> {
    let time = field.duration()?;
    if time < Duration::from_secs(1) || time.as_millis() > i32::MAX as u128 {
        field.problem(
            "must be from 1s to 596h, and at most the brokers' transaction.max.timeout.ms, which is 15m by default",
        );
        return None;
    }
    Some(time)
}

/// A list of outputs, which are written together: all topics of one cluster. The keys of the transaction are those of the first.
pub(super) fn read_list(field: &Field, surroundings: &Surroundings) -> Option<(Output, Common)> {
    let items = field.list()?;
    let Some(first) = items.first() else {
        field.problem("must hold at least one output");
        return None;
    };
    let mut map = Map::of(first)?;
    if !is_kafka(&mut map) {
        return None;
    }
    let mut output = Box::new(kafka_output(&mut map, first, surroundings));
    let common = common::read(&mut map);
    map.finish();
    let own = Arc::into_inner(std::mem::take(&mut output.routes)).unwrap_or_default();
    output.routes = Arc::new(routes(own, &output.brokers, &items, surroundings));
    Some((Output::Kafka(output), common))
}

fn kafka_output(map: &mut Map, field: &Field, surroundings: &Surroundings) -> KafkaOutput {
    let compressions = [Compression::None, Compression::Gzip, Compression::Snappy, Compression::Lz4, Compression::Zstd]
        .map(|compression| (compression.name(), compression));
    let scopes = [("task", TransactionScope::Task), ("worker", TransactionScope::Worker)];
    let acks = ["0", "1", "all"].map(|acks| (acks, acks));
    KafkaOutput {
        brokers: kafka::brokers(map, surroundings),
        routes: Arc::new(route(map, surroundings.text).into_iter().collect()),
        key: map.get("key").and_then(|field| key::read(&field, surroundings.text)),
        exactly_once: map.get("exactly_once").and_then(|field| field.bool().map(|value| field.given(value))),
        // Blank counts as given: the rules say what is missing.
        transactional_id: map.get("transactional_id").map(|field| match field.node.is_null() {
            true => field.given(String::new()),
            false => field.given(field.string().unwrap_or_else(|| "refused".to_owned())),
        }),
        offset_commit_group: map.get("offset_commit_group").and_then(|f| f.name().map(|name| f.given(name))),
        transaction_scope: map.get("transaction_scope").and_then(|f| f.word(&scopes).map(|scope| f.given(scope))),
        transaction_timeout: map
            .get("transaction_timeout")
            .and_then(|f| transaction_timeout(&f).map(|time| f.given(time))),
        compression: map.get("compression").and_then(|field| field.word(&compressions)).unwrap_or_default(),
        acks: map.get("acks").and_then(|field| field.word(&acks).map(|acks| field.given(acks))),
        client: kafka::client(map, ClientRole::Producer, |_| None),
        here: field.given(()),
    }
}

/// A name, or `{type: value, value: NAME}`; blank after a problem.
fn topic(field: &Field) -> String {
    if !field.is_structure() {
        return kafka::topic(field);
    }
    let Some(mut map) = Map::of(field) else { return String::new() };
    let Some(kind) = map.required("type", "needs type: value") else { return String::new() };
    if kind.word(&[("value", ())]).is_none() {
        return String::new();
    }
    let topic = map.required("value", "needs the topic's name").map(|field| kafka::topic(&field));
    map.finish();
    topic.unwrap_or_default()
}

/// The dead-letter topic.
pub(super) fn read_error_output(
    field: &Field,
    output: Option<&Output>,
    surroundings: &Surroundings,
) -> Option<ErrorOutput> {
    let mut map = Map::of(field)?;
    map.required("type", "an error_output needs type: kafka").and_then(|field| field.word(&[("kafka", ())]));
    let topic = map.required("topic", "an error_output needs a topic").map(|field| field.given(topic(&field)));
    let (brokers, client) = match output {
        Some(Output::Kafka(output)) => (with_output(&mut map, output), ClientProperties::new()),
        _ => (kafka::brokers(&mut map, surroundings), kafka::client(&mut map, ClientRole::Producer, |_| None)),
    };
    map.finish();
    let topic = topic.filter(|topic| !topic.value.is_empty())?;
    Some(ErrorOutput { topic, brokers, client })
}

/// The output's brokers, which are those of its dead letters.
fn with_output(map: &mut Map, output: &KafkaOutput) -> String {
    if let Some(field) = map.get("brokers") {
        let names: Vec<_> = field.names().into_iter().map(|name| name.value).collect();
        if !names.is_empty() && !kafka::same_brokers(&names.join(","), &output.brokers) {
            field.problem("must be the same as output.brokers, since both are written together; remove it");
        }
    }
    for key in ["client", "client_id", "security"] {
        if let Some(field) = map.get(key) {
            field.problem("is that of the output, since both are written together; remove it");
        }
    }
    output.brokers.clone()
}
