//! Streams into a table of a database, and the oracle over it: every record is there once.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, TransactionBehavior};

use super::postgres::Postgres;
use super::room::Room;

/// A database, as the tests look at it.
pub(crate) trait Database {
    /// For `output_type` of a pipeline.
    fn output_type(&self) -> String;

    /// The rows of an answer, the values of each with `|` between them; none while there is no such table.
    fn rows(&self, sql: &str) -> Vec<String>;

    fn count(&self) -> u64 {
        self.rows("SELECT count(*) FROM results").first().map_or(0, |count| count.parse().expect("a number"))
    }

    /// # Panics
    /// Unless the rows are those of these records, each once.
    fn assert_exact(&self, ids: Range<u64>) {
        let mut times: BTreeMap<u64, u32> = BTreeMap::new();
        for id in self.rows("SELECT i FROM results") {
            *times.entry(id.parse().expect("a number")).or_default() += 1;
        }
        let missing: Vec<_> = ids.clone().filter(|id| !times.contains_key(id)).take(10).collect();
        let twice: Vec<_> = times.iter().filter(|(_, times)| **times > 1).take(10).collect();
        let strange: Vec<_> = times.keys().filter(|id| !ids.contains(id)).take(10).collect();
        assert!(
            missing.is_empty() && twice.is_empty() && strange.is_empty(),
            "of {ids:?} are missing {missing:?}, doubled {twice:?}, of others {strange:?}"
        );
    }
}

/// A file.
pub(crate) struct Sqlite(PathBuf);

impl Sqlite {
    pub(crate) fn new(room: &Room) -> Self {
        Sqlite(room.folder().join("rows.db"))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Whether nobody holds the lock of a writer.
    pub(crate) fn is_free(&self) -> bool {
        let mut connection = self.connection();
        connection.busy_timeout(Duration::from_millis(100)).expect("a bound");
        connection.transaction_with_behavior(TransactionBehavior::Immediate).is_ok()
    }

    pub(crate) fn connection(&self) -> Connection {
        let connection = Connection::open(&self.0).expect("a database");
        connection.busy_timeout(Duration::from_secs(20)).expect("a bound");
        connection
    }
}

impl Database for Sqlite {
    fn output_type(&self) -> String {
        format!("{{type: sqlite, path: {}}}", self.0.display())
    }

    fn rows(&self, sql: &str) -> Vec<String> {
        let connection = self.connection();
        let Ok(mut statement) = connection.prepare(sql) else { return Vec::new() };
        let count = statement.column_count();
        let text = |value: rusqlite::types::Value| match value {
            rusqlite::types::Value::Null => String::new(),
            rusqlite::types::Value::Integer(value) => value.to_string(),
            rusqlite::types::Value::Real(value) => value.to_string(),
            rusqlite::types::Value::Text(value) => value,
            rusqlite::types::Value::Blob(value) => String::from_utf8_lossy(&value).into_owned(),
        };
        let rows = statement.query_map([], |row| {
            let values = (0..count).map(|index| row.get(index).map(text));
            Ok(values.collect::<Result<Vec<_>, _>>()?.join("|"))
        });
        rows.expect("an answer").map(|row| row.expect("a row")).collect()
    }
}

impl Database for Postgres {
    fn output_type(&self) -> String {
        format!("{{type: postgres, uri: \"{}\"}}", self.uri())
    }

    fn rows(&self, sql: &str) -> Vec<String> {
        let is_there = self.ask("SELECT to_regclass('results') IS NOT NULL") == ["t"];
        if is_there { self.ask(sql) } else { Vec::new() }
    }
}

/// One stream into the table `results`, which it creates without a key: nothing but Wattle keeps a row from being there twice.
#[derive(Clone)]
pub(crate) struct TableStream {
    /// As YAML flow.
    pub(crate) input: String,
    pub(crate) output_type: String,
    /// Further keys of the output, as inside of a YAML flow map.
    pub(crate) output: String,
    /// Further keys of the stream, as lines of YAML.
    pub(crate) more: String,
}

impl TableStream {
    /// From these topics of the shared broker; sessions are short.
    pub(crate) fn new(room: &Room, topics: &[&str], database: &dyn Database) -> Self {
        let client = "client: {session.timeout.ms: 3000, heartbeat.interval.ms: 500}";
        let (brokers, group) = (room.broker().address(), room.group());
        TableStream {
            input: format!(
                "{{type: kafka, brokers: \"{brokers}\", topics: {topics:?}, consumer_group: {group}, {client}}}"
            ),
            output_type: database.output_type(),
            output: "create_table: true, columns: {i: integer, from: text}".to_owned(),
            more: String::new(),
        }
    }
}

impl fmt::Display for TableStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TableStream { input, output_type, output, more } = self;
        writeln!(f, "streams:\n  - id: table\n    input: {input}")?;
        writeln!(f, "    output: {{type: sql, output_type: {output_type}, table_name: results, {output}}}\n{more}")
    }
}
