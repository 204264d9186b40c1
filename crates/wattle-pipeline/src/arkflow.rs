//! What ArkFlow's files may say and Wattle does not do: each word with what to write instead. Readers ask for what Wattle does; what none of
//! them asks for is looked up here before it is called unknown.

/// Values that a key `type` may have there: where, the value, what to write.
const TYPES: &[(&str, &str, &str)] = &[
    (
        "streams.input",
        "multiple_inputs",
        "write a stream for each input; several Kafka topics of one cluster may be one input: topics: [A, B]",
    ),
    ("streams.input", "nats", "write what it receives to a Kafka topic first"),
    ("streams.input", "pulsar", "write what it receives to a Kafka topic first"),
    ("streams.input", "redis", "write what it receives to a Kafka topic first"),
    ("streams.input", "sql", "write its rows to a file or a Kafka topic first"),
    ("streams.input", "modbus", "write what it reads to a Kafka topic first"),
    ("streams.input", "websocket", "write what it receives to a Kafka topic first"),
    ("streams.output", "influxdb", "write to a Kafka topic, and from there with a connector"),
    ("streams.output", "mongodb", "write to a Kafka topic, and from there with a connector"),
    ("streams.output", "mqtt", "write to a Kafka topic, and from there with a connector"),
    ("streams.output", "nats", "write to a Kafka topic, and from there with a connector"),
    ("streams.output", "pulsar", "write to a Kafka topic, and from there with a connector"),
    ("streams.output", "redis", "write to a Kafka topic, and from there with a connector"),
    ("streams.output", "s3", "write to a Kafka topic, and from there with a connector"),
    ("streams.output", "pgvector", "write to a Kafka topic, and from there with a connector"),
    ("streams.output", "milvus", "write to a Kafka topic, and from there with a connector"),
    ("streams.output", "qdrant", "write to a Kafka topic, and from there with a connector"),
    (
        "streams.durability.backend",
        "object_store",
        "the log is a folder on a disk of this machine that outlives the process; write path: FOLDER",
    ),
    ("streams.buffer", "tumbling_window", WINDOWS),
    ("streams.buffer", "sliding_window", WINDOWS),
    ("streams.buffer", "session_window", WINDOWS),
    ("streams.buffer", "join", "joins come later; use a stage in Rust with state"),
    (
        "streams.pipeline.processors",
        "sql",
        "SQL comes later; filter and vrl do record by record what a SELECT with WHERE does",
    ),
    ("streams.pipeline.processors", "python", "write it as a vrl processor, or as a stage in Rust"),
    ("streams.pipeline.processors", "protobuf_to_arrow", "values are JSON; write a stage in Rust for other formats"),
    ("streams.pipeline.processors", "arrow_to_protobuf", "values are JSON; write a stage in Rust for other formats"),
    ("streams.pipeline.processors", "embedding", "call the model from a stage in Rust, which may wait"),
    ("streams.pipeline.processors", "llm", "call the model from a stage in Rust, which may wait"),
    ("streams.pipeline.processors", "wasm", "write it as a vrl processor, or as a stage in Rust"),
    (CODEC, "protobuf", "values are JSON; write a stage in Rust for other formats"),
    (CODEC, "debezium_json", "values are JSON: read .payload in a vrl processor, and remove codec"),
    (CODEC, "schema_registry", "values are JSON; write a stage in Rust for other formats"),
    ("streams.error_output(kafka).topic", "expr", "failed records go to one topic; give its name: topic: NAME"),
    ("streams.output(sql).output_type", "mysql", DATABASES),
    ("streams.output(sql).output_type", "mariadb", DATABASES),
    ("streams.output(sql).output_type", "mssql", DATABASES),
    ("streams.output(sql).output_type", "oracle", DATABASES),
    ("streams.output(sql).output_type", "duckdb", DATABASES),
    ("streams.input(file).input_type", "avro", LINES),
    ("streams.input(file).input_type", "arrow", LINES),
    ("streams.input(file).input_type", "parquet", LINES),
];

/// Keys: the map, the key, what to do.
const KEYS: &[(&str, &str, &str)] = &[
    ("", "jobs", "jobs are not supported; write each as a stream"),
    ("health_check", "api_prefix", NO_API),
    ("health_check", "api_token", NO_API),
    ("health_check", "cors_origins", NO_API),
    ("health_check", "hub_url", NO_HUB),
    ("health_check", "node_id", NO_HUB),
    ("health_check", "node_token", NO_HUB),
    ("health_check", "agent_lease_ttl_ms", NO_HUB),
    (
        "streams",
        "temporary",
        "lookups are not supported; remove it, or write a stage in Rust that keeps what it needs as state",
    ),
    ("streams.buffer(memory)", "name", "a stream has one buffer, which needs no name; remove it"),
    ("streams.buffer(memory)", "join", "joins come later; use a stage in Rust with state"),
    ("streams.input(file)", "query", "SQL comes later; use filter and vrl"),
    ("streams.input(file)", "ballista", "SQL comes later; use filter and vrl"),
    ("streams.input(file).input_type(json)", "store", HERE),
    ("streams.input(file).input_type(csv)", "store", HERE),
    ("streams.output(kafka)", "value_field", "a record has one value; write  . = .FIELD  in a vrl processor"),
    (
        "streams.output(http)",
        "body_field",
        "the body is the record's value; make it what you need in a vrl processor, and remove body_field",
    ),
    (ERRORS, "acks", TOGETHER),
    (ERRORS, "codec", "a failed record is written as it was read; remove codec"),
    (ERRORS, "compression", TOGETHER),
    (ERRORS, "exactly_once", TOGETHER),
    (ERRORS, "key", "a failed record keeps its key; remove it"),
    (ERRORS, "name", "a stream has one error_output, which needs no name; remove it"),
    (ERRORS, "offset_commit_group", TOGETHER),
    (ERRORS, "transactional_id", TOGETHER),
    (ERRORS, "value_field", "a failed record is written as it was read; remove value_field"),
    (
        "streams.pipeline.processors(vrl)",
        "timezone",
        "times without a zone are UTC; name another zone in the program where it reads a time",
    ),
    (CODEC_JSON, "on_error", "a value that is not JSON goes to error_output, or stops the stream; remove on_error"),
];

/// The `codec` of any component.
const CODEC: &str = "*.codec";
const CODEC_JSON: &str = "*.codec(json)";
const ERRORS: &str = "streams.error_output(kafka)";
const TOGETHER: &str = "failed records are written together with the output, by its keys; remove it";
const WINDOWS: &str =
    "windows come later; a memory buffer merges batches, and a stage in Rust with timers can be a window";
const DATABASES: &str = "rows go to a postgres or a sqlite";
const HERE: &str = "only files on this machine are read; fetch it first";
const LINES: &str = "a file holds one JSON value a line, or CSV; convert it first";
const NO_API: &str = "Wattle has no control API; remove it, and change a pipeline by its file and a restart";
const NO_HUB: &str = "Wattle has no hub; remove it, and start the same file on every machine: Kafka divides the work";

/// What to write instead of a `type` that is ArkFlow's.
pub(crate) fn of_type(map: &str, value: &str) -> Option<&'static str> {
    look_up(TYPES, map, value)
}

/// What to do about a key that is ArkFlow's.
pub(crate) fn of_key(map: &str, key: &str) -> Option<&'static str> {
    look_up(KEYS, map, key)
}

fn look_up(table: &[(&str, &str, &'static str)], map: &str, word: &str) -> Option<&'static str> {
    let is_here = |place: &str| place.strip_prefix('*').map_or(place == map, |end| map.ends_with(end));
    table.iter().find(|(place, known, _)| *known == word && is_here(place)).map(|(.., text)| *text)
}
