//! Transactions on a file of their own, without Kafka.

use std::path::Path;

use wattle::{Batch, Message, Offset, Output, Record, TransactionalSink};

use super::*;
use crate::problem::Place as At;
use crate::spec::{ColumnSpec, SqlDatabase, SqlMode, SqlOutput};
use crate::yaml::Given;

/// A database in a folder that is removed at the end.
struct Fixture {
    folder: std::path::PathBuf,
    target: Arc<Target>,
}

impl Fixture {
    fn new(name: &str, mode: SqlMode) -> Self {
        let folder = std::env::temp_dir().join(format!("wattle-sqlite-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let column =
            |(name, kind): (&str, Kind)| ColumnSpec { name: name.to_owned(), field: name.to_owned(), kind: Some(kind) };
        let output = SqlOutput {
            database: SqlDatabase::Sqlite { name: "x.db".to_owned(), path: folder.join("x.db") },
            table: "t".to_owned(),
            mode,
            key: vec!["id".to_owned()],
            columns: [("id", Kind::Integer), ("amount", Kind::Numeric), ("seen", Kind::Boolean)].map(column).to_vec(),
            create_table: true,
            positions_table: "wattle_positions".to_owned(),
            positions_id: None,
            retry_for: Duration::ZERO,
            here: Given { value: (), place: At::default(), path: String::new() },
        };
        Fixture { folder, target: Arc::new(Target { output, id: "stream".to_owned() }) }
    }

    fn path(&self) -> &Path {
        match &self.target.output.database {
            SqlDatabase::Sqlite { path, .. } => path,
            _ => unreachable!(),
        }
    }

    /// As of a process of its own.
    fn sink(&self) -> super::super::SqlSink {
        let database = Box::new(Sqlite::new(Arc::new(File::new(self.path().to_owned())), self.target.clone()));
        super::super::SqlSink { database, opened: BTreeMap::new(), dead_letters: None, retry_for: Duration::ZERO }
    }

    fn rows(&self) -> Vec<String> {
        let connection = Connection::open(self.path()).unwrap();
        let mut statement = connection
            .prepare("SELECT id || ' ' || coalesce(amount, '-') || ' ' || coalesce(seen, '-') FROM t ORDER BY id")
            .unwrap();
        statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.folder).unwrap();
    }
}

/// A batch of these values, and the outputs that are its copy.
fn batch(values: &[&str]) -> (Batch, Output) {
    let (mut batch, mut output) = (Batch::new(vec!["in".to_owned()]), Output::default());
    for (offset, value) in (0..).zip(values) {
        let value = Some(value.as_bytes());
        let record = Record {
            topic: "in",
            partition: 0,
            offset: Offset(offset),
            timestamp: None,
            key: None,
            value,
            headers: &[],
        };
        batch.push(0, &record);
        output.send(Message::copy(&record, "t"));
    }
    (batch, output)
}

fn place() -> Place {
    ("in".into(), 0)
}

fn commit(sink: &mut super::super::SqlSink, values: &[&str], to: &str) -> Result<usize, SinkFailure> {
    let (batch, mut output) = batch(values);
    sink.commit(&batch, &mut output, &[(place(), to.to_owned())]).map(|refused| refused.len())
}

#[test]
fn rows_and_positions_commit_together() {
    let fixture = Fixture::new("together", SqlMode::Insert);
    let mut sink = fixture.sink();
    assert_eq!(sink.open(&[place()]).unwrap(), [None]);
    let values = [r#"{"id":1,"amount":"1.10","seen":true}"#, r#"{"id":2}"#];
    commit(&mut sink, &values, "2").unwrap();
    assert_eq!(fixture.rows(), ["1 1.10 1", "2 - -"]);
    // Nothing of a batch with a row that the table refuses, here for its key.
    let failure = commit(&mut sink, &[r#"{"id":3}"#, r#"{"id":1}"#], "4").unwrap_err();
    let SinkFailure::Fatal(error) = failure else { panic!("{failure:?}") };
    let text = error.to_string();
    assert!(text.contains("in/0 offset") && text.contains("UNIQUE constraint failed: t.id"), "{text}");
    assert_eq!(fixture.rows().len(), 2);
    assert_eq!(fixture.sink().open(&[place()]).unwrap(), [Some("2".to_owned())]);
}

#[test]
fn who_has_opened_last_is_the_only_one_that_writes() {
    let fixture = Fixture::new("fence", SqlMode::Insert);
    let (mut old, mut new) = (fixture.sink(), fixture.sink());
    old.open(&[place()]).unwrap();
    commit(&mut old, &[r#"{"id":1}"#], "1").unwrap();
    assert_eq!(new.open(&[place()]).unwrap(), [Some("1".to_owned())]);
    assert!(matches!(commit(&mut old, &[r#"{"id":2}"#], "2"), Err(SinkFailure::Fenced(_))));
    assert_eq!(fixture.rows().len(), 1, "nothing half written");
    commit(&mut new, &[r#"{"id":3}"#], "2").unwrap();
    // Nor does a position move that is not where it was left.
    let change = "UPDATE wattle_positions SET position = '9'";
    Connection::open(fixture.path()).unwrap().execute_batch(change).unwrap();
    assert!(matches!(commit(&mut new, &[r#"{"id":4}"#], "3"), Err(SinkFailure::Fenced(_))));
    assert_eq!(fixture.rows(), ["1 - -", "3 - -"]);
}

#[test]
fn an_upsert_changes_what_a_record_has_and_keeps_the_rest() {
    let fixture = Fixture::new("upsert", SqlMode::Upsert);
    let mut sink = fixture.sink();
    sink.open(&[place()]).unwrap();
    let values =
        [r#"{"id":1,"amount":"5"}"#, r#"{"id":1,"seen":false}"#, r#"{"id":1,"amount":"6"}"#, r#"{"id":2,"seen":null}"#];
    commit(&mut sink, &values, "4").unwrap();
    assert_eq!(fixture.rows(), ["1 6 0", "2 - -"]);
}

#[test]
fn a_lock_that_is_held_is_a_failure_that_may_pass() {
    let fixture = Fixture::new("lock", SqlMode::Insert);
    let mut sink = fixture.sink();
    sink.open(&[place()]).unwrap();
    let other = Connection::open(fixture.path()).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    assert!(
        matches!(commit(&mut sink, &[r#"{"id":1}"#], "1"), Err(SinkFailure::Again(text)) if text.contains("locked"))
    );
    other.execute_batch("COMMIT").unwrap();
    commit(&mut sink, &[r#"{"id":1}"#], "1").unwrap();
    assert_eq!(fixture.rows().len(), 1);
}

#[test]
fn a_table_that_does_not_fit_is_refused_with_its_column() {
    for (made, words) in [
        (
            "CREATE TABLE t (id INTEGER PRIMARY KEY, amount DECIMAL(10,2), seen INTEGER)",
            ["column amount", "DECIMAL(10,2)"],
        ),
        ("CREATE TABLE t (id INTEGER PRIMARY KEY, amount TEXT)", ["no column seen", "id, amount"]),
        ("CREATE TABLE t (id INTEGER, amount TEXT, seen INTEGER)", ["key: [id]", "unique index"]),
    ] {
        let fixture = Fixture::new("unfit", SqlMode::Upsert);
        Connection::open(fixture.path()).unwrap().execute_batch(made).unwrap();
        let failure = fixture.sink().open(&[place()]).unwrap_err();
        let SinkFailure::Fatal(error) = failure else { panic!("{failure:?}") };
        assert!(words.iter().all(|word| error.to_string().contains(word)), "{words:?}: {error}");
    }
}
