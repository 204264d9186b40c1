//! PostgreSQL: a connection for each task. Statements of a transaction are sent without waiting for each other's answers; `COMMIT` is sent when all
//! of them are there and good.
//!
//! Every wait has a bound, here and in the server: a process that is stopped in the middle of a transaction must not hold its locks, and whoever opens its
//! positions ends its session.

mod failure;
mod types;

use std::collections::{BTreeMap, HashMap};
use std::future::{Future, poll_fn};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Runtime};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Config, NoTls, Statement};
use wattle::{Error, Place, SinkFailure};

use self::failure::{Failed, LATE, failure, is_of_the_row, is_rolled_back, reason, text};
use super::row::{Cell, Row};
use super::table::{self, Table, quoted_path};
use super::{Database, Move, Opened, Target, WriteFailure, fenced};
use crate::spec::{SqlDatabase, SqlOutput};

/// Longest wait for a connection.
const CONNECT: Duration = Duration::from_secs(10);
/// Longest call, the connection not counted.
const CALL: Duration = Duration::from_secs(30);
/// What the server does by itself: it ends a statement after 20 s, a wait for a lock after 10 s, and a session whose client does nothing within a
/// transaction for 10 s.
const SETTINGS: &str = "SET statement_timeout = '20s'; SET lock_timeout = '10s'; SET idle_in_transaction_session_timeout = '10s'; \
                        SET default_transaction_isolation = 'read committed'; SET client_min_messages = 'warning'; SET DateStyle = 'ISO'; SET synchronous_commit = on";
/// Any number that nobody else has.
const CREATE_LOCK: i64 = 0x7761_7474_6c65;
/// Statements that are kept, for rows with different columns.
const STATEMENTS: usize = 128;
/// Longest look for refused rows of a batch.
const ISOLATE: Duration = Duration::from_secs(10);
/// Rows that are under way at a time.
const WINDOW: usize = 500;

pub(super) struct Postgres {
    target: Arc<Target>,
    config: Config,
    runtime: Runtime,
    /// Of our sessions, by which whoever takes our places over finds them.
    name: String,
    session: Option<Session>,
}

/// A connection, and what was prepared on it.
struct Session {
    client: Client,
    table: Arc<Table>,
    statements: HashMap<Vec<u16>, Statement>,
    advance: Statement,
}

impl Postgres {
    pub(super) fn new(target: Arc<Target>) -> Result<Self, Error> {
        let SqlDatabase::Postgres { uri } = &target.output.database else { unreachable!("made for postgres") };
        let mut config: Config = uri.parse().expect("the check has parsed it");
        config.connect_timeout(CONNECT).tcp_user_timeout(CALL).keepalives_idle(CALL);
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime =
            runtime.map_err(|source| Error::Io { what: "start the runtime of a connection".into(), source })?;
        Ok(Postgres { target, config, runtime, name: "wattle".to_owned(), session: None })
    }

    /// Runs work on the session, within bounds; a connection that is lost or late is dropped.
    fn with<T>(&mut self, work: impl AsyncFnOnce(&mut Session, &Target) -> Result<T, Failed>) -> Result<T, Failed> {
        let Postgres { target, config, runtime, name, session } = self;
        let result = runtime.block_on(async {
            // The connection has its turns here alone: it may have been ended since the last call, and notices now.
            for _ in 0..3 {
                tokio::task::yield_now().await;
            }
            let session = match &mut *session {
                Some(session) if !session.client.is_closed() => session,
                none => none.insert(bounded(2 * CONNECT, connect(config, target, name)).await?),
            };
            work(session, target).await
        });
        // After any failure but those of rows the next call begins with a new connection: nothing is left to be known of the old one.
        if matches!(result, Err(Failed::Sink(_))) {
            *session = None;
        }
        result
    }
}

/// Late is as good as lost.
async fn bounded<T>(bound: Duration, work: impl Future<Output = Result<T, Failed>>) -> Result<T, Failed> {
    let late =
        || Failed::Sink(SinkFailure::Again(format!("the database has not answered within {} s", bound.as_secs())));
    tokio::time::timeout(bound, work).await.unwrap_or_else(|_| Err(late()))
}

async fn connect(config: &Config, target: &Target, name: &str) -> Result<Session, Failed> {
    let output = &target.output;
    let client = set_up(config, output, name).await?;
    let failed = |error| failure("set up the connection", output, &error);
    make(&client, &output.positions_table, &table::create_positions(&output.positions_table), output).await?;
    if output.create_table {
        make(&client, &output.table, &table::create(output, types::type_name), output).await?;
    }
    let missing = || Failed::Sink(SinkFailure::Fatal(table::missing(output)));
    let table = Arc::new(describe(&client, output).await?.ok_or_else(missing)?);
    let sql = format!(
        "UPDATE {} SET \"position\" = $1 WHERE id = $2 AND topic = $3 AND \"partition\" = $4 AND epoch = $5 AND \"position\" IS NOT DISTINCT FROM $6",
        quoted_path(&output.positions_table)
    );
    let advance = client.prepare(&sql).await.map_err(failed)?;
    Ok(Session { client, table, statements: HashMap::new(), advance })
}

async fn set_up(config: &Config, output: &SqlOutput, name: &str) -> Result<Client, Failed> {
    let (client, connection) = config.connect(NoTls).await.map_err(|error| failure("connect", output, &error))?;
    // It ends with the client, or with the connection; what is wrong is told to the calls.
    tokio::spawn(async move { drop(connection.await) });
    let failed = |error| failure("set up the connection", output, &error);
    client.batch_execute(&format!("{SETTINGS}; SET application_name = '{name}'")).await.map_err(failed)?;
    Ok(client)
}

/// Creates a table that is not there. Asked before: who may not create tables may still use one. Under a lock, since the server refuses one of two that
/// create a table at once.
async fn make(client: &Client, name: &str, sql: &str, output: &SqlOutput) -> Result<(), Failed> {
    let failed = |error| failure("create its tables", output, &error);
    let there = client.query_one("SELECT to_regclass($1) IS NOT NULL", &[&quoted_path(name)]).await.map_err(failed)?;
    if there.get(0) {
        return Ok(());
    }
    let locked = format!("BEGIN; SELECT pg_advisory_xact_lock({CREATE_LOCK}); {sql}; COMMIT");
    client.batch_execute(&locked).await.map_err(failed)
}

/// What the table is, as far as the file of the pipeline does not say so; `None`: there is no such table.
async fn describe(client: &Client, output: &SqlOutput) -> Result<Option<Table>, Failed> {
    let failed = |error| failure("read the columns of its table", output, &error);
    // Columns that are computed cannot be written.
    let sql = "SELECT attname::text, atttypid, format_type(atttypid, atttypmod), \
               CASE WHEN atttypid = 'numeric'::regtype AND atttypmod > 4 THEN (((atttypmod - 4) & 2047) # 1024) - 1024 END, \
               attnotnull AND NOT atthasdef AND attidentity = '' FROM pg_attribute \
               WHERE attrelid = to_regclass($1) AND attnum > 0 AND NOT attisdropped AND attgenerated = '' AND attidentity <> 'a' ORDER BY attnum";
    let rows = client.query(sql, &[&quoted_path(&output.table)]).await.map_err(failed)?;
    if rows.is_empty() {
        return Ok(None);
    }
    let found = rows.iter().map(|row| (row.get(0), types::holds(row.get(1), row.get(3)), row.get(2))).collect();
    let table = Table::new(output, found, types::fits).map_err(|error| Failed::Sink(SinkFailure::Fatal(error)))?;
    let needed: Vec<String> = rows.iter().filter(|row| row.get(4)).map(|row| row.get(0)).collect();
    table::check_needed(output, &needed).map_err(|error| Failed::Sink(SinkFailure::Fatal(error)))?;
    if table.is_upsert {
        // Only a plan tells whether there is such an index.
        let sql = format!("EXPLAIN {}", table.statement(&table.key, |_| "NULL".to_owned()));
        client.batch_execute(&sql).await.map_err(|error| match error.as_db_error() {
            Some(refused) => Failed::Sink(SinkFailure::Fatal(table::no_key(output, refused.message()))),
            None => failed(error),
        })?;
    }
    // Without declared columns a record may have some of them alone, as the user may have rights.
    let insert = match output.columns.is_empty() {
        true => format!("INSERT INTO {} DEFAULT VALUES", quoted_path(&output.table)),
        false => table.statement(&table.all_columns(), |_| "NULL".to_owned()),
    };
    plan_of(client, output, &insert).await?;
    Ok(Some(table))
}

/// Refuses what cannot be executed: a plan is made only for who may, and of what takes rows.
async fn plan_of(client: &Client, output: &SqlOutput, statement: &str) -> Result<(), Failed> {
    client.batch_execute(&format!("EXPLAIN {statement}")).await.map_err(|error| match error.as_db_error() {
        Some(refused) => Failed::Sink(SinkFailure::Fatal(table::not_writable(output, refused.message()))),
        None => failure("plan the statement for its rows", output, &error),
    })
}

/// Whether the table of positions can be written, or made; and the other one made where it is missing.
async fn may_keep_positions(client: &Client, output: &SqlOutput) -> Result<(), Failed> {
    let failed = |error| failure("look at its table of positions", output, &error);
    let positions = quoted_path(&output.positions_table);
    let unfit = |text: String| Failed::Sink(SinkFailure::Fatal(Error::Unfit { text }));
    for (name, is_made) in [(&positions, true), (&quoted_path(&output.table), output.create_table)] {
        let schema = name.rsplit_once('.').map_or("", |(schema, _)| schema);
        // A name without a schema is made in the first one of the search path.
        let sql = "SELECT to_regclass($1) IS NULL, has_schema_privilege(CASE WHEN $2 = '' THEN current_schema()::text ELSE to_regnamespace(nullif($2, ''))::text END, 'CREATE')";
        let row = client.query_one(sql, &[name, &schema]).await.map_err(failed)?;
        let may_make: Option<bool> = row.get(1);
        if row.get(0) && is_made && may_make != Some(true) {
            return Err(unfit(format!(
                "the table {name} of {} is not there, and the user may not create it: create it, or give the right CREATE on its schema",
                output.database_name()
            )));
        }
        if row.get(0) || *name != positions {
            continue;
        }
        let sql = format!(
            "EXPLAIN INSERT INTO {positions} AS p (id, topic, \"partition\", epoch) VALUES (NULL, NULL, NULL, 1) \
             ON CONFLICT (id, topic, \"partition\") DO UPDATE SET epoch = p.epoch + 1, \"position\" = NULL RETURNING epoch, \"position\""
        );
        client.batch_execute(&sql).await.map_err(|error| match error.as_db_error() {
            Some(refused) => unfit(format!(
                "the table of positions {positions} of {} cannot be used: {}; the user needs SELECT, INSERT and UPDATE",
                output.database_name(),
                refused.message()
            )),
            None => failed(error),
        })?;
    }
    Ok(())
}

impl Database for Postgres {
    fn look(&mut self) -> Result<Option<Table>, SinkFailure> {
        let Postgres { target, config, runtime, name, .. } = self;
        let output = &target.output;
        let look = async {
            let client = set_up(config, output, name).await?;
            may_keep_positions(&client, output).await?;
            describe(&client, output).await
        };
        runtime.block_on(bounded(2 * CONNECT, look)).map_err(Failed::into_sink)
    }

    fn table(&mut self) -> Result<Arc<Table>, SinkFailure> {
        self.with(async |session, _| Ok(session.table.clone())).map_err(Failed::into_sink)
    }

    fn open(&mut self, places: &[Place]) -> Result<Vec<Opened>, SinkFailure> {
        let name = session_name(&self.target, places);
        self.name.clone_from(&name);
        let opened =
            self.with(async |session, target| bounded(CALL, open(&session.client, target, places, &name)).await);
        opened.map_err(Failed::into_sink)
    }

    fn write(&mut self, rows: &[Row], moves: &[Move<'_>]) -> Result<(), WriteFailure> {
        let result = self.with(async |session, target| {
            let mut committing = false;
            let work = write(session, target, rows, moves, &mut committing);
            match tokio::time::timeout(CALL, work).await {
                Ok(result) => result,
                Err(_) if committing => Err(Failed::Sink(SinkFailure::Unknown(LATE.to_owned()))),
                Err(_) => Err(Failed::Sink(SinkFailure::Again(LATE.to_owned()))),
            }
        });
        result.map_err(|failed| match failed {
            Failed::Rows(refused) => WriteFailure::Rows(refused),
            Failed::Sink(failure) => WriteFailure::Failed(failure),
        })
    }
}

/// Ends the session that has these places open, if there is one, with whatever it holds; then raises their epochs.
async fn open(client: &Client, target: &Target, places: &[Place], name: &str) -> Result<Vec<Opened>, Failed> {
    let output = &target.output;
    let failed = |error| failure("open the positions", output, &error);
    client.batch_execute(&format!("SET application_name = '{name}'")).await.map_err(failed)?;
    let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = current_setting('application_name') \
               AND datname = current_database() AND usename = current_user AND pid <> pg_backend_pid()";
    client.batch_execute(end).await.map_err(failed)?;
    let sql = format!(
        "INSERT INTO {} AS p (id, topic, \"partition\", epoch) VALUES ($1, $2, $3, 1) \
         ON CONFLICT (id, topic, \"partition\") DO UPDATE SET epoch = p.epoch + 1 RETURNING epoch, \"position\"",
        quoted_path(&output.positions_table)
    );
    let raise = client.prepare(&sql).await.map_err(failed)?;
    client.batch_execute("BEGIN").await.map_err(failed)?;
    let mut opened = Vec::new();
    for (topic, partition) in places {
        let row = client.query_one(&raise, &[&target.id, &&**topic, partition]).await.map_err(failed)?;
        opened.push(Opened { epoch: row.get(0), position: row.get(1) });
    }
    client.batch_execute("COMMIT").await.map_err(failed)?;
    Ok(opened)
}

/// The same for whoever has these places: names of sessions are short.
fn session_name(target: &Target, places: &[Place]) -> String {
    let mut hasher = DefaultHasher::new();
    (&target.output.positions_table, &target.id, places).hash(&mut hasher);
    format!("wattle {:016x}", hasher.finish())
}

async fn write(
    session: &mut Session,
    target: &Target,
    rows: &[Row],
    moves: &[Move<'_>],
    committing: &mut bool,
) -> Result<(), Failed> {
    let output = &target.output;
    session.prepare(rows, output).await?;
    let session = &*session;
    let client = &session.client;
    let begun = client.batch_execute("BEGIN");
    let (begun, written) = both(begun, insert(session, output, rows)).await;
    begun.map_err(|error| failure("begin a transaction", output, &error))?;
    if let Err(failed) = written {
        return Err(match roll_back(client, output, failed).await {
            Failed::Rows(first) => isolate(session, output, rows, first).await,
            failed => failed,
        });
    }
    for Move { place, opened, to } in moves {
        let parameters: [&(dyn ToSql + Sync); 6] =
            [to, &target.id, &&*place.0, &place.1, &opened.epoch, &opened.position];
        let moved = client.execute(&session.advance, &parameters).await;
        if moved.map_err(|error| failure("move the positions", output, &error))? != 1 {
            return Err(roll_back(client, output, Failed::Sink(fenced(place))).await);
        }
    }
    *committing = true;
    client.batch_execute("COMMIT").await.map_err(|error| match error.as_db_error() {
        Some(refused) if is_rolled_back(refused.code()) => failure("commit", output, &error),
        _ => Failed::Sink(SinkFailure::Unknown(text("commit", output, &error))),
    })
}

/// All rows that are refused like the `first` one, or as many as are found in a while. Each is tried for itself; nothing stays written.
async fn isolate(session: &Session, output: &SqlOutput, rows: &[Row], first: BTreeMap<usize, String>) -> Failed {
    let started = Instant::now();
    let good = rows.iter().position(|row| first.contains_key(&row.source)).unwrap_or_default();
    let begun = both(session.client.batch_execute("BEGIN"), insert(session, output, &rows[..good])).await;
    if let (Err(error), _) = begun {
        return failure("begin a transaction", output, &error);
    }
    if let (_, Err(failed)) = begun {
        return roll_back(&session.client, output, failed).await;
    }
    let (mut refused, mut save) = (BTreeMap::new(), "SAVEPOINT record");
    for of_source in rows[good..].chunk_by(|one, other| one.source == other.source) {
        if !refused.is_empty() && started.elapsed() > ISOLATE {
            break;
        }
        let (saved, written) = both(session.client.batch_execute(save), insert(session, output, of_source)).await;
        if let Err(error) = saved {
            return failure("set a savepoint", output, &error);
        }
        save = match written {
            Ok(()) => "RELEASE record; SAVEPOINT record",
            Err(Failed::Rows(row)) => {
                refused.extend(row);
                "ROLLBACK TO record"
            }
            Err(failed) => return roll_back(&session.client, output, failed).await,
        };
    }
    let failed = match refused.is_empty() {
        // For what somebody else had written, which is gone by now.
        true => Failed::Sink(SinkFailure::Again("a row was refused, and then it was not".to_owned())),
        false => Failed::Rows(refused),
    };
    roll_back(&session.client, output, failed).await
}

/// What has failed, once the session is ready for the next transaction.
async fn roll_back(client: &Client, output: &SqlOutput, failed: Failed) -> Failed {
    match client.batch_execute("ROLLBACK").await {
        Ok(()) => failed,
        // A refused row will be refused again; on a new connection.
        Err(error) => failure("roll back", output, &error),
    }
}

impl Session {
    /// Before the transaction: a statement that cannot be prepared would end it.
    async fn prepare(&mut self, rows: &[Row], output: &SqlOutput) -> Result<(), Failed> {
        if self.statements.len() > STATEMENTS {
            self.statements.clear();
        }
        for row in rows {
            if !self.statements.contains_key(&row.columns) {
                let sql = self.table.statement(&row.columns, |number| format!("${number}"));
                let statement = self.client.prepare(&sql).await;
                let statement =
                    statement.map_err(|error| failure("prepare the statement for its rows", output, &error))?;
                self.statements.insert(row.columns.clone(), statement);
            }
        }
        Ok(())
    }
}

/// Writes the rows, many under way at a time. The server refuses everything behind the first failure, which is the one that is told.
async fn insert(session: &Session, output: &SqlOutput, rows: &[Row]) -> Result<(), Failed> {
    for rows in rows.chunks(WINDOW) {
        let executed = rows.iter().map(|row| {
            let cells: Vec<&(dyn ToSql + Sync)> = row.cells.iter().map(|cell: &Cell| cell as _).collect();
            let statement = &session.statements[&row.columns];
            let execute = async move { session.client.execute(statement, &cells).await.map(drop) };
            Box::pin(execute) as Answer<'_>
        });
        for (row, result) in rows.iter().zip(all(executed.collect()).await) {
            let Err(error) = result else { continue };
            return Err(match error.as_db_error().filter(|refused| is_of_the_row(refused.code())) {
                Some(refused) => Failed::Rows(BTreeMap::from([(row.source, reason(refused))])),
                None => failure("write rows", output, &error),
            });
        }
    }
    Ok(())
}

type Answer<'a> = Pin<Box<dyn Future<Output = Result<(), tokio_postgres::Error>> + 'a>>;

/// All answers, in their order; each statement is sent before the first answer is waited for.
async fn all(mut futures: Vec<Answer<'_>>) -> Vec<Result<(), tokio_postgres::Error>> {
    let mut results: Vec<Option<_>> = futures.iter().map(|_| None).collect();
    poll_fn(|context| {
        let mut pending = false;
        for (future, result) in futures.iter_mut().zip(&mut results) {
            if result.is_none() {
                match future.as_mut().poll(context) {
                    Poll::Ready(value) => *result = Some(value),
                    Poll::Pending => pending = true,
                }
            }
        }
        if pending { Poll::Pending } else { Poll::Ready(()) }
    })
    .await;
    results.into_iter().flatten().collect()
}

/// Both results; the first future begins first.
async fn both<A, B>(one: impl Future<Output = A>, other: impl Future<Output = B>) -> (A, B) {
    let (mut one, mut other) = (Box::pin(one), Box::pin(other));
    let (mut first, mut second) = (None, None);
    poll_fn(|context| {
        if first.is_none()
            && let Poll::Ready(value) = one.as_mut().poll(context)
        {
            first = Some(value);
        }
        if second.is_none()
            && let Poll::Ready(value) = other.as_mut().poll(context)
        {
            second = Some(value);
        }
        if first.is_some() && second.is_some() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    (first.expect("it is there"), second.expect("it is there"))
}
