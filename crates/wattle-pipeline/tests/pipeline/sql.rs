//! Outputs of type `sql`: the forms that are accepted, and what is refused with the remedy.

use crate::support::{KAFKA_IN, accepted, plan, problems, refuses, stream};

const SQLITE: &str = "type: sql, output_type: {type: sqlite, path: a.db}, table_name: t";
const POSTGRES: &str =
    "type: sql, output_type: {type: postgres, uri: 'postgres://me:secret@db:5432/shop'}, table_name: s.t";
const FILE_IN: &str = "type: file, path: x.jsonl";

#[test]
fn rows_are_exactly_once_from_every_source_that_has_positions() {
    let shown = accepted(&stream(KAFKA_IN, SQLITE)).to_string();
    assert!(shown.contains("kafka a → sqlite a.db: insert t"), "{shown}");
    assert!(shown.contains("exactly once: rows and positions commit in one transaction of the database"), "{shown}");
    let shown =
        accepted(&stream(FILE_IN, &format!("{POSTGRES}, positions_id: load, mode: upsert, key: id"))).to_string();
    assert!(shown.contains("file x.jsonl → postgres db:5432/shop: upsert s.t"), "{shown}");
    assert!(shown.contains("exactly once: rows and the file's position") && !shown.contains("secret"), "{shown}");
}

#[test]
fn dead_letters_are_at_least_once_and_the_check_says_so() {
    let text = format!("{}    error_output: {{type: kafka, topic: dead}}\n", stream(KAFKA_IN, SQLITE));
    let shown = accepted(&text).to_string();
    assert!(
        shown.contains("(failed records: dead)")
            && shown.contains("failed records go to Kafka before it, at least once"),
        "{shown}"
    );
    refuses(&text.replace("topic: dead", "topic: a"), &["error_output.topic", "also in input.topics"]);
    accepted(&text.replace("topic: dead", "topic: a, brokers: other:1"));
}

#[test]
fn the_predecessors_forms_are_accepted_and_other_databases_refused_by_name() {
    let of = |output_type: &str| stream(KAFKA_IN, &format!("type: sql, output_type: {output_type}, table_name: t"));
    accepted(&of("{type: postgres, uri: 'postgresql://db/shop', ssl: {ssl_mode: disable}}"));
    accepted(&of("{type: postgres, uri: 'postgres://db/shop', ssl: }"));
    for (output_type, parts) in [
        (
            "{type: mysql, uri: 'mysql://db/shop'}",
            ["output_type.type", "mysql is not supported: rows go to a postgres or a sqlite"],
        ),
        ("{type: duckdb, path: a}", ["output_type.type", "duckdb is not supported"]),
        ("{type: postgres, uri: 'postgres://db/shop', ssl: {ssl_mode: require}}", ["ssl.ssl_mode", "TLS"]),
        ("{type: postgres, uri: 'postgres://db/shop?sslmode=verify-full'}", ["output_type.uri", "TLS"]),
        ("{type: postgres, uri: 'mysql://me:secret@db/shop'}", ["output_type.uri", "begin with postgres://"]),
        ("{type: postgres, uri: 'postgres://me:secret@db:port/shop'}", ["output_type.uri", "no uri of a database"]),
        ("{type: postgres}", ["output_type.uri", "needs a uri"]),
        ("{type: sqlite}", ["output_type.path", "needs the path"]),
        ("{type: sqlite, path: a, uri: b}", ["output_type.uri", "unknown key"]),
    ] {
        refuses(&of(output_type), &parts);
        assert!(!problems(&of(output_type))[0].contains("secret"));
    }
}

#[test]
fn keys_that_do_not_go_together_are_refused_with_the_remedy() {
    for (more, parts) in [
        ("mode: upsert", &["output.key", "key: [id]"][..]),
        ("mode: replace", &["output.mode", "not known"]),
        ("key: id", &["output.key", "mode: upsert"]),
        ("create_table: true", &["output.create_table", "columns: {id: integer"]),
        ("create_table: true, columns: [id]", &["output.create_table", "type of the column id"]),
        ("mode: upsert, key: no, columns: {id: integer}", &["output.key", "none of the columns"]),
        ("columns: {id: int}", &["output.columns.id", "not known", "integer"]),
        ("columns: {id: {kind: integer}}", &["output.columns.id.kind", "unknown key"]),
        ("positions_table: t", &["output.table_name", "positions"]),
        ("retry_for: long", &["output.retry_for", "unit of time"]),
        ("exactly_once: true", &["output.exactly_once", "unknown key"]),
    ] {
        refuses(&stream(KAFKA_IN, &format!("{SQLITE}, {more}")), parts);
    }
    accepted(&stream(KAFKA_IN, &format!("{SQLITE}, create_table: true, columns: {{id: integer}}, key: id")));
    accepted(&stream(
        KAFKA_IN,
        &format!("{SQLITE}, columns: {{id: {{as: integer, field: number}}, name: {{field: n}}, x: }}"),
    ));
}

#[test]
fn a_source_without_a_group_needs_a_name_for_its_position() {
    refuses(&stream(FILE_IN, SQLITE), &["output.positions_id", "consumer_group"]);
    refuses(&stream("type: generate, context: x", SQLITE), &["output.positions_id"]);
    let two = |first: &str, second: &str| {
        let of = |output: &str| format!("  - input: {{{FILE_IN}}}\n    output: {{{output}, positions_id: load}}\n");
        plan(&format!("streams:\n{}{}", of(first), of(second)))
    };
    let problems = two(SQLITE, &SQLITE.replace("table_name: t", "table_name: u")).err().expect("one database");
    assert!(problems.to_string().contains("same positions_id"), "{problems}");
    assert!(two(SQLITE, POSTGRES).is_ok(), "two databases");
}
