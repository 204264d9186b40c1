//! SQLite: a file, in the process. One writer at a time, of all processes: so a transaction is short, and begins with the lock.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, ErrorCode, OpenFlags, ToSql, params, params_from_iter};
use wattle::{Error, Place, SinkFailure};

use super::row::{Cell, Row};
use super::table::{self, Holds, Table, quoted_path};
use super::{Database, Move, Opened, Target, WriteFailure, fenced, lock};
use crate::spec::Kind;

/// Longest wait for the lock of another process.
const BUSY: Duration = Duration::from_secs(5);
/// Statements that are kept, for rows with different columns.
const STATEMENTS: usize = 128;

/// One file, with the connection that the tasks of a process share.
pub(super) struct File {
    path: PathBuf,
    open: Mutex<Option<Open>>,
}

struct Open {
    connection: Connection,
    table: Arc<Table>,
}

pub(super) struct Sqlite {
    file: Arc<File>,
    target: Arc<Target>,
}

impl File {
    pub(super) fn new(path: PathBuf) -> Self {
        File { path, open: Mutex::new(None) }
    }
}

impl Sqlite {
    pub(super) fn new(file: Arc<File>, target: Arc<Target>) -> Self {
        Sqlite { file, target }
    }

    fn with<T, E: From<SinkFailure>>(&self, work: impl FnOnce(&mut Open) -> Result<T, E>) -> Result<T, E> {
        let mut open = lock(&self.file.open);
        if open.is_none() {
            *open = Some(self.connect()?);
        }
        let result = work(open.as_mut().expect("it is open now"));
        if result.is_err() && open.as_ref().is_some_and(|open| !open.connection.is_autocommit()) {
            // A transaction that could not be ended goes with its connection.
            *open = None;
        }
        result
    }

    fn connect(&self) -> Result<Open, SinkFailure> {
        let failed = |error| self.failure("open the database", &error);
        let connection = Connection::open(&self.file.path).map_err(failed)?;
        connection.busy_timeout(BUSY).map_err(failed)?;
        connection.set_prepared_statement_cache_capacity(STATEMENTS);
        let settings = "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON";
        connection.execute_batch(settings).map_err(failed)?;
        let output = &self.target.output;
        let mut made = table::create_positions(&output.positions_table);
        if output.create_table {
            made = format!("{made};{}", table::create(output, type_name));
        }
        connection.execute_batch(&made).map_err(|error| self.failure("create its tables", &error))?;
        let table = self.describe(&connection)?.ok_or_else(|| SinkFailure::Fatal(table::missing(output)))?;
        Ok(Open { connection, table: Arc::new(table) })
    }

    /// What the table is, as far as the file of the pipeline does not say so; `None`: there is no such table.
    fn describe(&self, connection: &Connection) -> Result<Option<Table>, SinkFailure> {
        let output = &self.target.output;
        let failed = |error| self.failure("read the columns of its table", &error);
        let (schema, name) = output.table.split_once('.').unwrap_or(("main", &output.table));
        let mut columns =
            connection.prepare("SELECT name, type, hidden, \"notnull\" AND dflt_value IS NULL AND NOT (pk = 1 AND lower(type) = 'integer') FROM pragma_table_xinfo(?1, ?2)").map_err(failed)?;
        let rows = columns
            .query_map([name, schema], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))
            .map_err(failed)?;
        let (mut found, mut needed) = (Vec::new(), Vec::new());
        for row in rows {
            let (name, declared, hidden, is_needed): (String, String, i64, bool) = row.map_err(failed)?;
            // Others are computed.
            if hidden == 0 {
                needed.extend(is_needed.then(|| name.clone()));
                found.push((name, holds(&declared), declared));
            }
        }
        if found.is_empty() {
            return Ok(None);
        }
        let table = Table::new(output, found, fits).map_err(SinkFailure::Fatal)?;
        if table.is_upsert {
            let prepared = connection.prepare(&table.statement(&table.key, parameter));
            prepared.map_err(|error| SinkFailure::Fatal(table::no_key(output, &error.to_string())))?;
        }
        table::check_needed(output, &needed).map_err(SinkFailure::Fatal)?;
        // A view takes no rows.
        let prepared = connection.prepare(&table.statement(&table.all_columns(), parameter));
        prepared.map_err(|error| SinkFailure::Fatal(table::not_writable(output, &error.to_string())))?;
        Ok(Some(table))
    }

    fn failure(&self, what: &str, error: &rusqlite::Error) -> SinkFailure {
        let text = format!("{}: {what}: {error}", self.file.path.display());
        match error.sqlite_error_code() {
            // A disk may be mended or freed, and a lock is let go of.
            Some(
                ErrorCode::DatabaseBusy
                | ErrorCode::DatabaseLocked
                | ErrorCode::DiskFull
                | ErrorCode::SystemIoFailure
                | ErrorCode::CannotOpen
                | ErrorCode::OutOfMemory
                | ErrorCode::OperationInterrupted,
            ) => SinkFailure::Again(text),
            _ => SinkFailure::Fatal(Error::Unfit { text }),
        }
    }
}

impl Database for Sqlite {
    fn look(&mut self) -> Result<Option<Table>, SinkFailure> {
        if !self.file.path.try_exists().unwrap_or(true) {
            return Ok(None);
        }
        let connection = Connection::open_with_flags(&self.file.path, OpenFlags::SQLITE_OPEN_READ_ONLY);
        self.describe(&connection.map_err(|error| self.failure("open the database", &error))?)
    }

    fn table(&mut self) -> Result<Arc<Table>, SinkFailure> {
        self.with(|open| Ok(open.table.clone()))
    }

    fn open(&mut self, places: &[Place]) -> Result<Vec<Opened>, SinkFailure> {
        let sql = format!(
            "INSERT INTO {} (id, topic, \"partition\", epoch) VALUES (?1, ?2, ?3, 1) \
             ON CONFLICT (id, topic, \"partition\") DO UPDATE SET epoch = epoch + 1 RETURNING epoch, \"position\"",
            quoted_path(&self.target.output.positions_table)
        );
        let failed = |error| self.failure("open the positions", &error);
        self.with(|open| {
            let transaction = begin(&mut open.connection).map_err(failed)?;
            let mut opened = Vec::new();
            for (topic, partition) in places {
                let row = transaction
                    .prepare_cached(&sql)
                    .map_err(failed)?
                    .query_row(params![self.target.id, &**topic, partition], |row| {
                        Ok(Opened { epoch: row.get(0)?, position: row.get(1)? })
                    });
                opened.push(row.map_err(failed)?);
            }
            transaction.commit().map_err(failed)?;
            Ok(opened)
        })
    }

    fn write(&mut self, rows: &[Row], moves: &[Move<'_>]) -> Result<(), WriteFailure> {
        let failed = |what, error| WriteFailure::Failed(self.failure(what, &error));
        self.with(|open| {
            let table = open.table.clone();
            let transaction = begin(&mut open.connection).map_err(|error| failed("begin a transaction", error))?;
            let refused = insert(&transaction, &table, rows).map_err(|error| failed("write rows", error))?;
            if !refused.is_empty() {
                transaction.rollback().map_err(|error| failed("roll back", error))?;
                return Err(WriteFailure::Rows(refused));
            }
            self.advance(&transaction, moves)?;
            match transaction.commit() {
                Ok(()) => Ok(()),
                // The disk: what is in the file is known when it is read again.
                Err(error)
                    if matches!(error.sqlite_error_code(), Some(ErrorCode::SystemIoFailure | ErrorCode::DiskFull)) =>
                {
                    Err(SinkFailure::Unknown(format!("{}: commit: {error}", self.file.path.display())).into())
                }
                // Refused at once, and rolled back by the drop.
                Err(error) => Err(failed("commit", error)),
            }
        })
    }
}

impl Sqlite {
    /// The last step: who has opened a place since finds here that it may not.
    fn advance(&self, transaction: &rusqlite::Transaction<'_>, moves: &[Move<'_>]) -> Result<(), WriteFailure> {
        let failed = |error| WriteFailure::Failed(self.failure("move the positions", &error));
        let sql = format!(
            "UPDATE {} SET \"position\" = ?1 WHERE id = ?2 AND topic = ?3 AND \"partition\" = ?4 AND epoch = ?5 AND \"position\" IS ?6",
            quoted_path(&self.target.output.positions_table)
        );
        for Move { place, opened, to } in moves {
            let mut update = transaction.prepare_cached(&sql).map_err(failed)?;
            let parameters = params![to, self.target.id, &*place.0, place.1, opened.epoch, opened.position];
            if update.execute(parameters).map_err(failed)? != 1 {
                return Err(fenced(place).into());
            }
        }
        Ok(())
    }
}

/// With the lock from its beginning: one that began to read before could not get it any more. It is rolled back when it is dropped.
fn begin(connection: &mut Connection) -> rusqlite::Result<rusqlite::Transaction<'_>> {
    connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)
}

/// Writes the rows; returns the sources of those that the database refuses.
fn insert(
    transaction: &rusqlite::Transaction<'_>,
    table: &Table,
    rows: &[Row],
) -> rusqlite::Result<BTreeMap<usize, String>> {
    let mut refused = BTreeMap::new();
    let mut statement: Option<(&[u16], rusqlite::CachedStatement<'_>)> = None;
    for row in rows {
        if statement.as_ref().is_none_or(|(columns, _)| *columns != row.columns) {
            let sql = table.statement(&row.columns, parameter);
            statement = Some((&row.columns, transaction.prepare_cached(&sql)?));
        }
        let Some((_, prepared)) = &mut statement else { continue };
        match prepared.execute(params_from_iter(&row.cells)) {
            Ok(_) => {}
            Err(error) if is_of_the_row(&error) => drop(refused.entry(row.source).or_insert_with(|| reason(&error))),
            Err(error) => return Err(error),
        }
    }
    Ok(refused)
}

/// Whether another row would have been taken.
fn is_of_the_row(error: &rusqlite::Error) -> bool {
    let of_row =
        [ErrorCode::ConstraintViolation, ErrorCode::TypeMismatch, ErrorCode::TooBig, ErrorCode::ParameterOutOfRange];
    error.sqlite_error_code().is_some_and(|code| of_row.contains(&code))
}

/// Without the code's own text in front, which says less.
fn reason(error: &rusqlite::Error) -> String {
    match error {
        rusqlite::Error::SqliteFailure(_, Some(text)) => format!("the database refuses the row: {text}"),
        other => format!("the database refuses the row: {other}"),
    }
}

fn parameter(number: usize) -> String {
    format!("?{number}")
}

impl ToSql for Cell {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(match self {
            Cell::Null => ToSqlOutput::Borrowed(ValueRef::Null),
            Cell::Boolean(value) => ToSqlOutput::from(i64::from(*value)),
            Cell::Integer(value) => ToSqlOutput::from(*value),
            Cell::Float(value) => ToSqlOutput::from(*value),
            Cell::Text(value) => ToSqlOutput::from(value.as_str()),
            Cell::Bytes(value) => ToSqlOutput::from(&value[..]),
        })
    }
}

/// What SQLite makes of the declared type of a column (its affinity), in the order of its rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Affinity {
    Integer,
    Text,
    Blob,
    Real,
    Numeric,
}

fn affinity(declared: &str) -> Affinity {
    let declared = declared.to_ascii_uppercase();
    let has = |words: &[&str]| words.iter().any(|word| declared.contains(word));
    match () {
        () if has(&["INT"]) => Affinity::Integer,
        () if has(&["CHAR", "CLOB", "TEXT"]) => Affinity::Text,
        () if declared.is_empty() || has(&["BLOB"]) => Affinity::Blob,
        () if has(&["REAL", "FLOA", "DOUB"]) => Affinity::Real,
        () => Affinity::Numeric,
    }
}

/// What a column holds whose type only the database declares.
fn holds(declared: &str) -> Holds {
    let upper = declared.to_ascii_uppercase();
    match affinity(declared) {
        Affinity::Integer => Holds::Integer,
        Affinity::Text => Holds::Text,
        Affinity::Real => Holds::Float,
        Affinity::Blob if upper.contains("BLOB") => Holds::Bytes,
        Affinity::Blob => Holds::Text,
        Affinity::Numeric if upper.starts_with("BOOL") => Holds::Boolean,
        Affinity::Numeric if upper.starts_with("TIMESTAMP") || upper.starts_with("DATETIME") => Holds::Timestamp,
        Affinity::Numeric if upper == "DATE" => Holds::Date,
        Affinity::Numeric => Holds::NumberOnly,
    }
}

/// What a column holds that the file declares too; `None` where its affinity would change a value.
fn fits(kind: Kind, declared: &str, _: Holds) -> Option<Holds> {
    let affinity = affinity(declared);
    let is = |fitting: &[Affinity]| fitting.contains(&affinity);
    let (holds, fits) = match kind {
        Kind::Integer => (Holds::Integer, is(&[Affinity::Integer, Affinity::Numeric, Affinity::Blob])),
        Kind::Boolean => (Holds::Boolean, is(&[Affinity::Integer, Affinity::Numeric, Affinity::Blob])),
        Kind::Float => (Holds::Float, is(&[Affinity::Real, Affinity::Numeric, Affinity::Blob])),
        Kind::Numeric => (Holds::Numeric, is(&[Affinity::Text, Affinity::Blob])),
        Kind::Text => (Holds::Text, is(&[Affinity::Text, Affinity::Blob])),
        Kind::Json => (Holds::Json, is(&[Affinity::Text, Affinity::Blob])),
        Kind::Bytes => (Holds::Bytes, true),
        Kind::Timestamp => (Holds::Timestamp, is(&[Affinity::Text, Affinity::Blob, Affinity::Numeric])),
        Kind::Date => (Holds::Date, is(&[Affinity::Text, Affinity::Blob, Affinity::Numeric])),
    };
    fits.then_some(holds)
}

/// The type of a column that is created.
fn type_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Integer | Kind::Boolean => "INTEGER",
        Kind::Float => "REAL",
        Kind::Numeric | Kind::Text | Kind::Timestamp | Kind::Date | Kind::Json => "TEXT",
        Kind::Bytes => "BLOB",
    }
}

#[cfg(test)]
mod tests;
