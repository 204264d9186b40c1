//! Keys that several maps have.

use super::Form::{Bool, Duration, Free, Map as AMap, Names, Number, Text, TextOrMap, Word, WordOrMap};
use super::Key;

pub(super) const NAME: Key = Key::new("name", Text, "What the plan and messages call it.");
pub(super) const CODEC: Key =
    Key::new("codec", AMap, "With type json every value must be JSON, also where no processor looks at it.");
pub(super) const BROKERS: Key = Key::new(
    "brokers",
    Names,
    "Addresses of some brokers, host:port, or embedded. Without it those of --brokers, of WATTLE_BROKERS, or of the file.",
);
pub(super) const CLIENT: Key = Key::new(
    "client",
    Free,
    "Further librdkafka properties. Those that carry a guarantee are refused, with the reason.",
)
.or_empty();
pub(super) const CLIENT_ID: Key = Key::new("client_id", Text, "The client property client.id.");
pub(super) const SECURITY: Key =
    Key::new("security", AMap, "SASL and TLS. TLS and SCRAM need a build with the feature tls.");

pub(super) const RETRY_FOR: Key =
    Key::new("retry_for", Duration, "A write that fails is given up after this time.").default("5m");
pub(super) const RETRY_COUNT: Key =
    Key::new("retry_count", Number, "A write that fails is given up after so many repetitions.");
pub(super) const TOPIC_EXPR: Key = Key::new("expr", Text, "A field's name, or VRL: one of topics.").required();
pub(super) const JSON_KEYS: &[Key] = &[
    Key::new("value_field", Text, "Only __value__: a record has one value."),
    Key::new("fields_to_include", Names, "Members of the value that are kept."),
    NAME,
];
pub(super) const KAFKA_KEYS: &[Key] = &[
    BROKERS,
    Key::new(
        "topic",
        TextOrMap,
        "A name, {type: value, value: NAME}, or {type: expr, expr: EXPRESSION}. It has to exist.",
    )
    .required(),
    Key::new("topics", Names, "All names that the expression of topic may give."),
    Key::new(
        "key",
        AMap,
        "The key of what is written. Without it that of the input record, or what a program wrote to %key.",
    ),
    Key::new("exactly_once", Bool, "Results and positions commit in one transaction.").default("false"),
    Key::new(
        "transactional_id",
        Text,
        "Stays the same over restarts, and belongs to this stream alone. Needed with exactly_once.",
    ),
    Key::new(
        "transaction_scope",
        Word(&["task", "worker"]),
        "A transaction for each partition, or one for all partitions of the process.",
    )
    .default("task"),
    Key::new("offset_commit_group", Text, "The input's consumer_group, with transactional_offsets: true at the input."),
    Key::new(
        "transaction_timeout",
        Duration,
        "The broker aborts a transaction that takes longer: 60s, in scope worker 10s.",
    ),
    Key::new("compression", Word(&["none", "gzip", "snappy", "lz4", "zstd"]), "Compression of what is written.")
        .default("none"),
    Key::new("acks", Word(&["0", "1", "all"]), "Who confirms a record; with exactly_once only all.").default("all"),
    CLIENT,
    CLIENT_ID,
    SECURITY,
    NAME,
    CODEC,
];
pub(super) const SYNC: Key = Key::new(
    "sync",
    WordOrMap(&["per_entry", "group_commit"]),
    "When a record counts as accepted: on the disk by a sync of its own, on the disk by one that several share, or {periodic: 1s}.",
)
.default("group_commit");

pub(super) const COLUMN_TYPES: &[&str] =
    &["integer", "float", "numeric", "text", "boolean", "bytes", "timestamp", "date", "json"];

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
