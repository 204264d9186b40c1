//! The `input` of a stream.

use std::time::Duration;

use wattle::{ClientProperties, ClientRole, GroupProtocol, StartFrom, protocol_problem};

use super::common::{self, Common};
use super::file_input::{self, FileInput};
use super::pushed::{self, HttpInput, MqttInput, StdinInput};
use super::{Surroundings, batch, kafka, mqtt};
use crate::yaml::{Field, Given, Map, payload};

pub(crate) enum Input {
    /// Much larger than the others.
    Kafka(Box<KafkaInput>),
    File(FileInput),
    Generate(GenerateInput),
    Memory(MemoryInput),
    Http(Box<HttpInput>),
    Mqtt(Box<MqttInput>),
    Stdin(StdinInput),
}

pub(crate) struct KafkaInput {
    pub(crate) brokers: String,
    pub(crate) topics: Vec<String>,
    /// Blank after a problem.
    pub(crate) group: Given<String>,
    pub(crate) group_instance_id: Option<Given<String>>,
    pub(crate) group_protocol: Option<Given<GroupProtocol>>,
    pub(crate) start_from: StartFrom,
    pub(crate) transactional_offsets: Option<Given<bool>>,
    /// Limits of a batch, see [`super::batch`].
    pub(crate) batch_max_rows: Option<Given<u64>>,
    pub(crate) batch_max_bytes: Option<Given<usize>>,
    pub(crate) client: ClientProperties,
}

#[derive(Clone)]
pub(crate) struct GenerateInput {
    /// The value of every record.
    pub(crate) value: Vec<u8>,
    pub(crate) interval: Option<Duration>,
    pub(crate) count: Option<u64>,
    pub(crate) batch_size: Option<u64>,
}

#[derive(Clone)]
pub(crate) struct MemoryInput {
    /// The values of its records.
    pub(crate) messages: Vec<Vec<u8>>,
}

impl Input {
    /// The (first) topic of its records, as programs see it; blank where there is none.
    pub(crate) fn topic(&self) -> &str {
        match self {
            Input::Kafka(input) => input.topics.first().map_or("", String::as_str),
            _ => "",
        }
    }
}

impl KafkaInput {
    pub(crate) fn protocol(&self) -> GroupProtocol {
        self.group_protocol.as_ref().map_or_else(GroupProtocol::default, |given| given.value)
    }
}

impl Input {
    /// What its type is called.
    pub(crate) fn type_name(&self) -> &'static str {
        match self {
            Input::Kafka(_) => "kafka",
            Input::File(_) => "file",
            Input::Generate(_) => "generate",
            Input::Memory(_) => "memory",
            Input::Http(_) => "http",
            Input::Mqtt(_) => "mqtt",
            Input::Stdin(_) => "stdin",
        }
    }

    /// In a sentence: `a file input`.
    pub(crate) fn with_article(&self) -> String {
        let article = if matches!(self, Input::Http(_) | Input::Mqtt(_)) { "an" } else { "a" };
        format!("{article} {} input", self.type_name())
    }

    /// Whether what was read can be read again.
    pub(crate) fn replays(&self) -> bool {
        match self {
            Input::Kafka(_) | Input::File(_) | Input::Generate(_) | Input::Memory(_) => true,
            Input::Http(_) | Input::Mqtt(_) | Input::Stdin(_) => false,
        }
    }

    /// Whether the place of a record (topic, partition, offset) stays its own: a file that replaces another one has the same lines again.
    pub(crate) fn has_places(&self) -> bool {
        self.replays() && !matches!(self, Input::File(file) if file.is_followed)
    }
}

#[derive(Clone, Copy)]
enum Kind {
    Kafka,
    File,
    Generate,
    Memory,
    Http,
    Mqtt,
    Stdin,
}

pub(super) fn read(field: &Field, surroundings: &Surroundings) -> Option<(Input, Common)> {
    let mut map = Map::of(field)?;
    let kinds = [
        ("kafka", Kind::Kafka),
        ("file", Kind::File),
        ("generate", Kind::Generate),
        ("memory", Kind::Memory),
        ("http", Kind::Http),
        ("mqtt", Kind::Mqtt),
        ("stdin", Kind::Stdin),
    ];
    let input = match map
        .required("type", "an input needs a type: kafka, file, generate, memory, http, mqtt or stdin")?
        .word(&kinds)?
    {
        Kind::Kafka => Input::Kafka(Box::new(kafka_input(&mut map, surroundings))),
        Kind::File => Input::File(file_input::read(&mut map, field, surroundings)),
        Kind::Generate => Input::Generate(generate(&mut map)),
        Kind::Memory => Input::Memory(memory(&mut map)),
        Kind::Http => Input::Http(Box::new(pushed::http(&mut map))),
        Kind::Mqtt => Input::Mqtt(Box::new(mqtt::read(&mut map))),
        Kind::Stdin => Input::Stdin(pushed::stdin(&mut map, field)),
    };
    let common = common::read(&mut map);
    map.finish();
    Some((input, common))
}

fn kafka_input(map: &mut Map, surroundings: &Surroundings) -> KafkaInput {
    let group = map.required("consumer_group", "a kafka input needs a consumer_group: it keeps the positions");
    let group = match group {
        Some(field) => field.given(field.name().unwrap_or_default()),
        None => Given { value: String::new(), place: map.place(), path: map.path_of("consumer_group") },
    };
    let latest = map.get("start_from_latest").and_then(|field| field.bool()).unwrap_or(false);
    let protocols = [GroupProtocol::Classic, GroupProtocol::Consumer].map(|protocol| (protocol.name(), protocol));
    let group_protocol = map.get("group_protocol").and_then(|f| f.word(&protocols).map(|protocol| f.given(protocol)));
    let protocol = group_protocol.as_ref().map_or_else(GroupProtocol::default, |given| given.value);
    let refused = |name: &str| protocol_problem(protocol, &group.value, name);
    let client = kafka::client(map, ClientRole::Consumer, refused);
    KafkaInput {
        brokers: kafka::brokers(map, surroundings),
        topics: map.required("topics", "a kafka input needs a list of topics").map(|f| topics(&f)).unwrap_or_default(),
        group,
        group_instance_id: map.get("group_instance_id").and_then(|field| field.name().map(|name| field.given(name))),
        group_protocol,
        start_from: if latest { StartFrom::Latest } else { StartFrom::Earliest },
        transactional_offsets: map
            .get("transactional_offsets")
            .and_then(|field| field.bool().map(|value| field.given(value))),
        batch_max_rows: map
            .get("batch_max_rows")
            .and_then(|field| field.count(batch::MOST_RECORDS).map(|rows| field.given(rows))),
        batch_max_bytes: map.get("batch_max_bytes").and_then(|field| {
            let bytes = field.count(batch::MOST_BYTES as u64)?;
            Some(field.given(usize::try_from(bytes).unwrap_or(usize::MAX)))
        }),
        client,
    }
}

fn topics(field: &Field) -> Vec<String> {
    kafka::topics(field).into_iter().map(|topic| topic.value).collect()
}

fn generate(map: &mut Map) -> GenerateInput {
    let context = map.required("context", "a generate input needs a context: the value of its records");
    let value = context.and_then(|field| payload(&field));
    GenerateInput {
        value: value.unwrap_or_default().into_bytes(),
        interval: map.get("interval").and_then(|field| field.time()),
        count: map.get("count").and_then(|field| field.count(i64::MAX as u64)),
        batch_size: map.get("batch_size").and_then(|field| field.count(batch::MOST_RECORDS)),
    }
}

/// Each message is a string as it is, or a map or list, which becomes JSON.
fn memory(map: &mut Map) -> MemoryInput {
    let messages = map.required("messages", "a memory input needs a list of messages: the values of its records");
    let messages = messages.and_then(|field| field.filled_list()).unwrap_or_default();
    MemoryInput { messages: messages.iter().filter_map(payload).map(String::into_bytes).collect() }
}
