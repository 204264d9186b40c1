//! Every map of a pipeline file, with its keys as an editor shows them.

use super::Form::{
    Bool, Count, Duration, DurationOrMap, Free, FreeJson, Json, JsonList, List, Map as AMap, Names, NamesOrMaps,
    Number, Size, Text, TextOrMap, Word,
};
use super::common::{
    BROKERS, CLIENT, CLIENT_ID, CODEC, JSON_KEYS, KAFKA_KEYS, NAME, RETRY_COUNT, RETRY_FOR, SECURITY, SYNC, TOPIC_EXPR,
};
use super::{Key, Map};

const COLUMN_TYPES: &[&str] = &["integer", "float", "numeric", "text", "boolean", "bytes", "timestamp", "date", "json"];

/// Keys of which a map needs one at least, perhaps with a value.
pub(super) fn either(kind: &str) -> &'static [(&'static str, Option<bool>)] {
    match kind {
        // A file beside a pipeline file has tests alone.
        "" => &[("streams", None), ("tests", None)],
        "streams" => &[("output", None), ("outputs", None)],
        "streams.input(file)" => &[("path", None), ("input_type", None)],
        "streams.durability" => &[("path", None), ("backend", None), ("enabled", Some(false))],
        _ => &[],
    }
}

/// In the order of the guide.
pub(super) const MAPS: &[Map] = &[
    Map {
        kind: "",
        doc: "A Wattle pipeline file.",
        keys: &[
            Key::new("streams", List, "The streams: each takes records from an input, runs them through processors, and writes them to an output."),
            BROKERS,
            Key::new("health_check", AMap, "Where the process answers whether it is well, and with its metrics."),
            Key::new("logging", AMap, "What becomes of the log of wattle run, unless the command line says it.").or_empty(),
            Key::new("tests", List, "Tests for wattle test: records in, and what has to come out.").or_empty(),
        ],
    },
    Map {
        kind: "health_check",
        doc: "Where the process answers whether it is well; its metrics are at /metrics.",
        keys: &[
            Key::new("enabled", Bool, "false: nothing listens.").default("true"),
            Key::new("address", Text, "HOST:PORT.").default("127.0.0.1:8080"),
            Key::new("health_path", Text, "As readiness_path.").default("/health"),
            Key::new("readiness_path", Text, "200, or 503 where a stream has a problem.").default("/readiness"),
            Key::new("liveness_path", Text, "200 as long as the process answers.").default("/liveness"),
            Key::new("stuck_after", Duration, "A batch that is not committed for longer is a problem.").default("30s"),
        ],
    },
    Map {
        kind: "logging",
        doc: "The log of a run.",
        keys: &[
            Key::new("level", Word(&["trace", "debug", "info", "warn", "error"]), "The least level that is shown.").default("info"),
            Key::new("format", Word(&["plain", "json"]), "Lines for people, or one JSON object a line.").default("plain"),
            Key::new("file_path", Text, "The log is appended to this file, relative to the pipeline file, instead of going to stderr."),
        ],
    },
    Map {
        kind: "streams",
        doc: "One stream.",
        keys: &[
            Key::new("id", Text, "Letters, digits, - and _; unique in the file. Shown in logs."),
            Key::new("input", AMap, "Where records come from.").required(),
            Key::new("pipeline", AMap, "What happens to records.").or_empty(),
            Key::new("output", AMap, "Where records go."),
            Key::new("outputs", List, "In place of output: Kafka outputs, each of which gets every record, in one transaction."),
            Key::new("error_output", AMap, "Where records go that cannot be processed. Without it such a record stops the stream."),
            Key::new("durability", AMap, "A write-ahead log, for inputs that cannot be read again: http, mqtt and stdin."),
            Key::new("batch", AMap, "Limits of a batch, which is one transaction.").or_empty(),
            Key::new("buffer", AMap, "Limits of a batch in ArkFlow's words.").or_empty(),
            Key::new("grace_period", Duration, "Time for a clean stop. Kafka inputs only.").default("30s"),
        ],
    },
    Map {
        kind: "streams.input(kafka)",
        doc: "Topics of a Kafka cluster.",
        keys: &[
            BROKERS,
            Key::new("topics", Names, "Names of topics. Partition n of all of them is one task; they need equal partition counts.").required(),
            Key::new("consumer_group", Text, "Keeps the positions. One stream each.").required(),
            Key::new("start_from_latest", Bool, "Where a new group begins: behind the last record instead of at the first one.").default("false"),
            Key::new("transactional_offsets", Bool, "The positions commit in the output's transactions, as they do with exactly_once on one cluster anyway.")
                .default("false"),
            Key::new("group_instance_id", Text, "Static membership: a restart within the session timeout keeps its partitions."),
            Key::new("group_protocol", Word(&["classic", "consumer"]), "How the group divides the partitions; consumer is KIP-848.").default("classic"),
            Key::new("batch_max_rows", Count, "Most records of a batch, as batch.max_poll_records."),
            Key::new("batch_max_bytes", Count, "Most bytes of a batch, as batch.max_bytes without a unit."),
            CLIENT,
            CLIENT_ID,
            Key::new("fetch_min_bytes", Text, "The client property fetch.min.bytes."),
            Key::new("fetch_max_bytes", Text, "The client property fetch.max.bytes."),
            Key::new("fetch_max_partition_bytes", Text, "The client property max.partition.fetch.bytes."),
            Key::new("fetch_wait_max_ms", Text, "The client property fetch.wait.max.ms."),
            SECURITY,
            NAME,
            CODEC,
        ],
    },
    Map {
        kind: "*.security",
        doc: "SASL and TLS of a Kafka client.",
        keys: &[
            Key::new("protocol", Word(&["plaintext", "ssl", "sasl_plaintext", "sasl_ssl"]), "Follows from sasl and tls where it is left out."),
            Key::new("sasl", AMap, "Who we are."),
            Key::new("tls", AMap, "Encryption."),
        ],
    },
    Map {
        kind: "*.security.sasl",
        doc: "Who we are.",
        keys: &[
            Key::new("mechanism", Word(&["plain", "scram-sha-256", "scram-sha-512"]), "How the password is shown to the broker.").required(),
            Key::new("username", Text, "The user.").required(),
            Key::new("password", Text, "The password; take it from the environment: ${VAR}.").required(),
        ],
    },
    Map {
        kind: "*.security.tls",
        doc: "Encryption.",
        keys: &[
            Key::new("ca", Text, "Certificates that are trusted: a path, or PEM."),
            Key::new("cert", Text, "Our certificate: a path, or PEM."),
            Key::new("key", Text, "Its key: a path, or PEM."),
            Key::new("key_password", Text, "The key's password."),
            Key::new("insecure_skip_verify", Bool, "Trusts every certificate.").default("false"),
        ],
    },
    Map { kind: "*.codec(json)", doc: "JSON.", keys: &[] },
    Map {
        kind: "streams.input(file)",
        doc: "A file with one JSON value a line, or with rows of CSV.",
        keys: &[
            Key::new("path", Text, "The file, relative to the pipeline file."),
            Key::new("format", Word(&["lines", "csv"]), "Each line is a JSON value, or each row is an object of strings.").default("lines"),
            Key::new("mode", Word(&["whole", "tail"]), "To its end, or on and on, when it grows or another one takes its name.").default("whole"),
            Key::new("delimiter", Text, "Between the fields of a row of CSV: one ASCII character.").default(","),
            Key::new("columns", Names, "The names of the columns of CSV without a header line. Left out, the first row has them."),
            Key::new("input_type", AMap, "Another form of path and format."),
            NAME,
            CODEC,
        ],
    },
    Map {
        kind: "streams.input(file).input_type(json)",
        doc: "One JSON value a line.",
        keys: &[Key::new("path", Text, "The file, relative to the pipeline file.").required()],
    },
    Map {
        kind: "streams.input(file).input_type(csv)",
        doc: "Rows of CSV.",
        keys: &[Key::new("path", Text, "The file, relative to the pipeline file.").required()],
    },
    Map {
        kind: "streams.input(generate)",
        doc: "Records that are made up.",
        keys: &[
            Key::new("context", Json, "The value of every record: a string as it is, or a map or list, which becomes JSON.").required(),
            Key::new("interval", Duration, "Time between two batches. Without it records come as fast as they can be written."),
            Key::new("count", Count, "Records until the stream is done. Without it it is endless."),
            Key::new("batch_size", Count, "Records of a batch."),
            NAME,
            CODEC,
        ],
    },
    Map {
        kind: "streams.input(memory)",
        doc: "Messages that the file gives, once and in order.",
        keys: &[
            Key::new("messages", JsonList, "The values of the records: each a string as it is, or a map or list, which becomes JSON.").required(),
            NAME,
            CODEC,
        ],
    },
    Map {
        kind: "streams.input(http)",
        doc: "A server: each request brings records, and is answered when they are safe.",
        keys: &[
            Key::new("address", Text, "Where it listens, host:port. Port 0 is any that is free, which the log names.").required(),
            Key::new("path", Text, "The path of the requests: /events.").required(),
            Key::new("method", Word(&["POST", "PUT"]), "The method of the requests.").default("POST"),
            Key::new("auth", AMap, "What a request has to show."),
            Key::new("format", Word(&["json", "lines"]), "The body is one JSON value, or one a line.").default("json"),
            Key::new("max_body", Size, "The longest body.").default("900KiB"),
            Key::new("max_waiting", Count, "Requests that may wait for their answer at once; more get 429.").default("500"),
            Key::new("cors_enabled", Bool, "Only false: requests from pages of other origins are not supported.").default("false"),
            NAME,
            CODEC,
        ],
    },
    Map {
        kind: "streams.input(http).auth(bearer)",
        doc: "Authorization: Bearer TOKEN.",
        keys: &[Key::new("token", Text, "The token; take it from the environment: ${VAR}.").required()],
    },
    Map {
        kind: "streams.input(http).auth(basic)",
        doc: "Authorization: Basic, with a user and a password.",
        keys: &[
            Key::new("username", Text, "The user.").required(),
            Key::new("password", Text, "The password; take it from the environment: ${VAR}.").required(),
        ],
    },
    Map {
        kind: "streams.input(mqtt)",
        doc: "A subscriber of an MQTT 5 broker: a message is acknowledged when it is safe.",
        keys: &[
            Key::new("host", Text, "The broker's name or address.").required(),
            Key::new("port", Count, "Its port.").default("1883"),
            Key::new("client_id", Text, "The broker keeps the session under it. It stays the same over restarts, and is another one for each process.")
                .required(),
            Key::new("topics", Names, "Topics, or filters: + stands for one level, # for all below; $share/GROUP/FILTER divides the messages among processes.")
                .required(),
            Key::new("qos", Word(&["0", "1", "2"]), "What is asked for: with 1 and 2 nothing is lost, with 0 messages can be.").default("1"),
            Key::new("username", Text, "The user."),
            Key::new("password", Text, "The password; take it from the environment: ${VAR}."),
            Key::new("keep_alive", Count, "Seconds between two signs of life.").default("60"),
            Key::new("session_expiry", Duration, "For how long the broker keeps messages while the process is away.").default("168h"),
            Key::new("receive_maximum", Count, "Messages that may be on their way, not acknowledged.").default("500"),
            Key::new("clean_session", Bool, "Only false: the broker has to keep what is not acknowledged.").default("false"),
            NAME,
            CODEC,
        ],
    },
    Map {
        kind: "streams.input(stdin)",
        doc: "Lines of the standard input.",
        keys: &[
            Key::new("format", Word(&["lines", "text"]), "Each line is a JSON value, or a record as it is.").default("lines"),
            NAME,
            CODEC,
        ],
    },
    Map {
        kind: "streams.durability",
        doc: "A write-ahead log: what was accepted is on the disk before its sender is told so.",
        keys: &[
            Key::new("enabled", Bool, "Whether there is one.").default("true"),
            Key::new("path", Text, "Its folder, relative to the pipeline file. One stream of one process has it."),
            SYNC,
            Key::new("max_bytes", Size, "The most bytes on disk; above that nothing is accepted until older records are processed.").default("1GiB"),
            Key::new("backend", AMap, "Another form of path and sync.").or_empty(),
        ],
    },
    Map {
        kind: "streams.durability.backend(local)",
        doc: "A folder on a disk.",
        keys: &[Key::new("path", Text, "The folder, relative to the pipeline file."), SYNC],
    },
    Map {
        kind: "*.sync",
        doc: "A sync now and then.",
        keys: &[Key::new("periodic", DurationOrMap, "The time between two syncs: what a loss of power can take.").required()],
    },
    Map {
        kind: "*.sync.periodic",
        doc: "A time.",
        keys: &[Key::new("secs", Number, "Seconds.").default("0"), Key::new("nanos", Number, "Nanoseconds.").default("0")],
    },
    Map {
        kind: "streams.pipeline",
        doc: "What happens to records.",
        keys: &[
            Key::new("processors", List, "Processors, in order.").or_empty(),
            Key::new("thread_num", Count, "Has no effect: partitions are processed side by side anyway, and each of them in its order."),
        ],
    },
    Map {
        kind: "streams.pipeline.processors(vrl)",
        doc: "Changes the record.",
        keys: &[
            Key::new("statement", Text, "A VRL program: . is the value, %key, %timestamp and %headers can be read and written.").required(),
            NAME,
        ],
    },
    Map {
        kind: "streams.pipeline.processors(filter)",
        doc: "Keeps the record where the condition is true, and leaves it out where it is false.",
        keys: &[Key::new("condition", Text, "VRL that is true or false.").required(), NAME],
    },
    Map {
        kind: "streams.pipeline.processors(split)",
        doc: "Makes a record of each item of a list.",
        keys: &[Key::new("field", Text, "Where the list is, as in .items; without it the value is the list."), NAME],
    },
    Map {
        kind: "streams.pipeline.processors(batch)",
        doc: "Holds the records of each input partition until so many are there, and writes them together. The last processor.",
        keys: &[
            Key::new("count", Count, "So many records are written together.").required(),
            Key::new("bytes", Size, "A group ends with so many bytes, too.").default("512KiB"),
            Key::new("interval", Duration, "A group ends so long after its first record, full or not.").default("1s"),
            Key::new("timeout_ms", Count, "The same as interval, in milliseconds: ArkFlow's key."),
            Key::new("format", Word(&["records", "array"]), "records: each as it is, in one transaction. array: one record, a JSON array of their values.").default("records"),
            NAME,
        ],
    },
    Map { kind: "streams.pipeline.processors(json_to_arrow)", doc: "The value has to be JSON.", keys: JSON_KEYS },
    Map { kind: "streams.pipeline.processors(arrow_to_json)", doc: "The value has to be JSON.", keys: JSON_KEYS },
    Map {
        kind: "streams.outputs(kafka)",
        doc: "One of several topics of a Kafka cluster, written together.",
        keys: KAFKA_KEYS,
    },
    Map { kind: "streams.outputs(kafka).topic(value)", doc: "A topic.", keys: &[Key::new("value", Text, "Its name.").required()] },
    Map { kind: "streams.outputs(kafka).topic(expr)", doc: "A topic for each record.", keys: &[TOPIC_EXPR] },
    Map { kind: "streams.outputs(kafka).key(value)", doc: "The same key for every record.", keys: &[Key::new("value", Text, "The key.").required()] },
    Map { kind: "streams.outputs(kafka).key(expr)", doc: "A key from the record.", keys: &[Key::new("expr", Text, "A field's name (customer.id), or VRL: a string, an integer or null.").required()] },
    Map { kind: "streams.output(kafka).topic(expr)", doc: "A topic for each record.", keys: &[TOPIC_EXPR] },
    Map {
        kind: "streams.output(http)",
        doc: "Records as requests.",
        keys: &[
            Key::new("url", Text, "Where to; https in a build with the feature tls.").required(),
            Key::new("method", Word(&["POST", "PUT", "PATCH"]), "The method.").default("POST"),
            Key::new("headers", Free, "Further headers.").or_empty(),
            Key::new("auth", AMap, "The Authorization header."),
            Key::new("timeout", Duration, "Of one request.").default("10s"),
            Key::new("timeout_ms", Count, "As timeout, in milliseconds."),
            Key::new("body", Word(&["record", "array", "lines"]), "The value of one record, a JSON array of values, or a value a line.").default("record"),
            Key::new("batch_size", Count, "Most records of a request, with body array or lines.").default("100"),
            RETRY_FOR,
            RETRY_COUNT,
            NAME,
            CODEC,
        ],
    },
    Map {
        kind: "streams.output(http).auth(basic)",
        doc: "A user and a password.",
        keys: &[
            Key::new("username", Text, "The user.").required(),
            Key::new("password", Text, "The password; take it from the environment: ${VAR}.").required(),
        ],
    },
    Map {
        kind: "streams.output(http).auth(bearer)",
        doc: "A token.",
        keys: &[Key::new("token", Text, "The token; take it from the environment: ${VAR}.").required()],
    },
    Map {
        kind: "streams.output(file)",
        doc: "A value a line, in segments.",
        keys: &[
            Key::new("path", Text, "As in out/orders.jsonl: segments are out/orders-….jsonl.").required(),
            Key::new("roll_size", Size, "A segment of this size is complete.").default("64MiB"),
            Key::new("roll_interval", Duration, "And one of this age.").default("60s"),
            RETRY_FOR,
            RETRY_COUNT,
            NAME,
            CODEC,
        ],
    },
    Map {
        kind: "streams.output(kafka)",
        doc: "A topic of a Kafka cluster.",
        keys: KAFKA_KEYS,
    },
    Map {
        kind: "streams.output(kafka).topic(value)",
        doc: "A topic.",
        keys: &[Key::new("value", Text, "Its name.").required()],
    },
    Map {
        kind: "streams.output(kafka).key(value)",
        doc: "The same key for every record.",
        keys: &[Key::new("value", Text, "The key.").required()],
    },
    Map {
        kind: "streams.output(kafka).key(expr)",
        doc: "A key from the record.",
        keys: &[Key::new("expr", Text, "A field's name (customer.id), or VRL: a string, an integer or null.").required()],
    },
    Map {
        kind: "streams.output(sql)",
        doc: "Rows in a table, exactly once: they commit with the positions, in one transaction of the database.",
        keys: &[
            Key::new("output_type", AMap, "The database.").required(),
            Key::new("table_name", Text, "TABLE or SCHEMA.TABLE; case counts.").required(),
            Key::new("mode", Word(&["insert", "upsert"]), "A row for each record, or a row for each key.").default("insert"),
            Key::new("key", Names, "Columns of the primary key or of another unique index: needed with mode: upsert."),
            Key::new("columns", NamesOrMaps(COLUMN_TYPES), "Columns that are written, from the members of their names unless field says another one. Without it every member has to have its column."),
            Key::new("create_table", Bool, "Creates the table where it is missing; needs columns with types.").default("false"),
            Key::new("positions_table", Text, "Where the positions are; created where it is missing.").default("wattle_positions"),
            Key::new("positions_id", Text, "Names the stream there; the consumer_group of a kafka input, and needed with others."),
            Key::new("retry_for", Duration, "How long a database that is away is tried again before the stream stops.").default("5m"),
            NAME,
            CODEC,
        ],
    },
    Map {
        kind: "streams.output(sql).output_type(sqlite)",
        doc: "SQLite.",
        keys: &[Key::new("path", Text, "The database's file, relative to the pipeline file.").required()],
    },
    Map {
        kind: "streams.output(sql).output_type(postgres)",
        doc: "PostgreSQL, without TLS.",
        keys: &[
            Key::new("uri", Text, "postgres://USER:PASSWORD@HOST:PORT/DATABASE; take the password from the environment: ${VAR}.").required(),
            Key::new("ssl", AMap, "Accepted where it asks for no TLS.").or_empty(),
        ],
    },
    Map {
        kind: "streams.output(sql).output_type(postgres).ssl",
        doc: "Connections are without TLS.",
        keys: &[
            Key::new("ssl_mode", Text, "disable, allow or prefer."),
            Key::new("root_cert", Text, "Has to be left empty.").or_empty(),
            Key::new("client_cert", Text, "Has to be left empty.").or_empty(),
            Key::new("client_key", Text, "Has to be left empty.").or_empty(),
        ],
    },
    Map {
        kind: "streams.output(sql).columns.*",
        doc: "A column.",
        keys: &[
            Key::new(
                "as",
                Word(COLUMN_TYPES),
                "What it holds.",
            ),
            Key::new("field", Text, "The member of the record that it takes."),
        ],
    },
    Map {
        kind: "streams.output(stdout)",
        doc: "Values on the standard output.",
        keys: &[Key::new("append_newline", Bool, "A line break after each value.").default("true"), NAME, CODEC],
    },
    Map { kind: "streams.output(drop)", doc: "Everything is dropped; positions commit.", keys: &[NAME, CODEC] },
    Map {
        kind: "streams.error_output(kafka)",
        doc: "A topic for failed records.",
        keys: &[
            Key::new("brokers", Names, "Those of the output, where that is Kafka."),
            CLIENT,
            CLIENT_ID,
            SECURITY,
            Key::new("topic", TextOrMap, "Its name, or {type: value, value: NAME}.").required(),
        ],
    },
    Map {
        kind: "streams.error_output(kafka).topic(value)",
        doc: "A topic.",
        keys: &[Key::new("value", Text, "Its name.").required()],
    },
    Map {
        kind: "streams.batch",
        doc: "Limits of a batch. A quiet stream commits every record at once; these matter to a busy one.",
        keys: &[
            Key::new("max_poll_records", Count, "Most records.").default("10000"),
            Key::new("max_bytes", Size, "Most bytes read, and most written.").default("2MiB"),
            Key::new("max_processing_time", Duration, "What is processed by then is committed.").default("1s"),
            Key::new("commit_interval", Duration, "Wait this long for more records before a batch that is not full is committed. Kafka inputs only.")
                .default("0ms"),
        ],
    },
    Map {
        kind: "streams.buffer(memory)",
        doc: "Batches are merged.",
        keys: &[
            Key::new("capacity", Count, "Most records of a batch, as batch.max_poll_records."),
            Key::new("timeout", Duration, "Time to wait for more, as batch.commit_interval."),
        ],
    },
    Map {
        kind: "tests",
        doc: "A test of one stream.",
        keys: &[
            Key::new("name", Text, "What it shows.").required(),
            Key::new("stream", Text, "The stream's id; not needed where the file has one."),
            Key::new("input", List, "Records that go in, as one batch.").required(),
            Key::new("output", List, "What has to come out, in this order; without it nothing. What is left out of a record is not compared.").or_empty(),
            Key::new("error", Text, "The stream has to fail with a text that has this part."),
        ],
    },
    Map {
        kind: "tests.input",
        doc: "A record.",
        keys: &[
            Key::new("topic", Text, "Where it was read; the stream's first topic."),
            Key::new("key", Json, "Its key; null where it is left out."),
            Key::new("value", Json, "A string as it is, or a map or list, which becomes JSON; null where it is left out."),
            Key::new("headers", FreeJson, "Names and values.").or_empty(),
            Key::new("timestamp", Count, "Milliseconds since 1970."),
            Key::new("partition", Number, "The partition.").default("0"),
            Key::new("offset", Number, "The offset."),
        ],
    },
    Map {
        kind: "tests.output",
        doc: "A record that has to come out.",
        keys: &[
            Key::new("topic", Text, "Where it goes; the stream's topic."),
            Key::new("key", Json, "Its key."),
            Key::new("value", Json, "Its value. JSON is compared as JSON."),
            Key::new("headers", FreeJson, "Headers that must be there; others may be too.").or_empty(),
            Key::new("timestamp", Count, "Milliseconds since 1970."),
        ],
    },
];
