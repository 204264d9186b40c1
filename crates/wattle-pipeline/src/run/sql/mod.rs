//! Rows and positions in one transaction of a database. [`SqlSink`] turns a batch into rows and decides about those that do not fit; a [`Database`]
//! runs the transactions.
//!
//! The table of positions has a row for each place, with an *epoch*. Who opens a place raises its epoch; a batch moves the position last, and only where
//! epoch and position are those that it knows: one row, or the transaction is rolled back.

#[cfg(feature = "postgres")]
mod postgres;
mod row;
#[cfg(feature = "sqlite")]
mod sqlite;
mod table;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use wattle::{
    Batch, Error, KafkaSink, KafkaSinkConfig, Output, Place, RefusedRecord, SinkFailure, StageError, Stop,
    TransactionalSink, TransactionalSinkFactory, dead_letter, failed_record,
};

use crate::spec::{SqlDatabase, SqlOutput};
use row::{Reader, Row};
use table::Table;

/// Where rows and positions are.
trait Database: Send {
    /// The table as it is, over a connection of its own; creates and changes nothing. `None`: there is no such table.
    fn look(&mut self) -> Result<Option<Table>, SinkFailure>;

    /// The table, from the database itself; connects where there is no connection.
    fn table(&mut self) -> Result<Arc<Table>, SinkFailure>;

    /// Raises the epochs of these places and returns the positions, in one transaction.
    fn open(&mut self, places: &[Place]) -> Result<Vec<Opened>, SinkFailure>;

    /// Writes the rows in their order and moves the positions, in one transaction. Rows of one source are written all or none.
    fn write(&mut self, rows: &[Row], moves: &[Move<'_>]) -> Result<(), WriteFailure>;
}

/// A place as it is opened.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Opened {
    epoch: i64,
    position: Option<String>,
}

/// What a batch does to a position.
struct Move<'a> {
    place: &'a Place,
    opened: &'a Opened,
    to: &'a str,
}

enum WriteFailure {
    /// The database refuses the rows of these sources, each for its reason; of the first of them, or of all. Nothing is written.
    Rows(BTreeMap<usize, String>),
    Failed(SinkFailure),
}

impl From<SinkFailure> for WriteFailure {
    fn from(failure: SinkFailure) -> Self {
        WriteFailure::Failed(failure)
    }
}

/// What every database is told.
struct Target {
    output: SqlOutput,
    /// Whose rows in the table of positions are ours.
    id: String,
}

/// The sink of one task.
struct SqlSink {
    database: Box<dyn Database>,
    opened: BTreeMap<Place, Opened>,
    dead_letters: Option<DeadLetters>,
    retry_for: Duration,
}

/// Where records go that are no rows: to Kafka, before the transaction commits.
struct DeadLetters {
    config: Arc<KafkaSinkConfig>,
    topic: Arc<str>,
    sink: Option<KafkaSink>,
    /// The records of the batch under way, by their index, that are there already: a batch that is tried again does not send them again. Their places
    /// would not do: all records of one entry of a write-ahead log have the same.
    sent: BTreeSet<usize>,
}

/// Longest time that Kafka has for a dead letter in one attempt.
const DELIVER: &str = "20000";

/// `dead_letters`: the topic, and where it is.
pub(super) fn factory(
    output: SqlOutput,
    id: String,
    dead_letters: Option<(String, KafkaSinkConfig)>,
) -> TransactionalSinkFactory {
    let retry_for = output.retry_for;
    let connect = database(Arc::new(Target { output, id }));
    let dead_letters = dead_letters.map(|(topic, mut config)| {
        config.properties.entry("message.timeout.ms".to_owned()).or_insert_with(|| DELIVER.to_owned());
        (Arc::<str>::from(topic), Arc::new(config))
    });
    let checked = Mutex::new(false);
    Box::new(move || {
        if let Some((_, config)) = &dead_letters {
            let mut checked = lock(&checked);
            if !*checked {
                // Whether the topic is there is known before the first letter.
                drop(KafkaSink::factory(config)?);
                *checked = true;
            }
        }
        let dead_letters = dead_letters.as_ref().map(|(topic, config)| DeadLetters {
            config: config.clone(),
            topic: topic.clone(),
            sink: None,
            sent: BTreeSet::new(),
        });
        let sink = SqlSink { database: connect()?, opened: BTreeMap::new(), dead_letters, retry_for };
        Ok(Box::new(sink))
    })
}

/// What a start would find, in words. Creates and changes nothing.
pub(crate) fn look(output: &SqlOutput) -> Result<String, SinkFailure> {
    let target = Arc::new(Target { output: output.clone(), id: String::new() });
    let table = database(target)().map_err(SinkFailure::Fatal)?.look()?;
    let (name, of) = (&output.table, output.database_name());
    match table {
        Some(table) => {
            let columns: Vec<_> = table.columns.iter().map(|column| column.name.as_str()).collect();
            Ok(format!("writes table {name} ({}) of {of}", columns.join(", ")))
        }
        None if output.create_table => Ok(format!("table {name} of {of} will be created")),
        None => Err(SinkFailure::Fatal(table::missing(output))),
    }
}

type Connect = Box<dyn Fn() -> Result<Box<dyn Database>, Error> + Send + Sync>;

fn database(target: Arc<Target>) -> Connect {
    match &target.output.database {
        #[cfg(feature = "sqlite")]
        SqlDatabase::Sqlite { path, .. } => {
            // Of one file a process has one connection: its tasks take turns, as they would have to anyway.
            let file = Arc::new(sqlite::File::new(path.clone()));
            Box::new(move || Ok(Box::new(sqlite::Sqlite::new(file.clone(), target.clone()))))
        }
        #[cfg(feature = "postgres")]
        SqlDatabase::Postgres { .. } => Box::new(move || Ok(Box::new(postgres::Postgres::new(target.clone())?))),
        _ => unreachable!("the check refuses what is not built"),
    }
}

impl TransactionalSink for SqlSink {
    fn open(&mut self, places: &[Place]) -> Result<Vec<Option<String>>, SinkFailure> {
        // Also what the table says is known before the first record.
        self.database.table()?;
        // What comes next is another batch.
        self.dead_letters.iter_mut().for_each(|dead_letters| dead_letters.sent.clear());
        let opened = self.database.open(places)?;
        let positions = opened.iter().map(|opened| opened.position.clone()).collect();
        self.opened.extend(places.iter().cloned().zip(opened));
        Ok(positions)
    }

    fn commit(
        &mut self,
        batch: &Batch,
        output: &mut Output,
        moves: &[(Place, String)],
    ) -> Result<Vec<RefusedRecord>, SinkFailure> {
        let table = self.database.table()?;
        let (mut rows, mut refused) = self.rows(&table, output);
        loop {
            self.put_aside(batch, output, &refused)?;
            rows.retain(|row| !refused.contains_key(&row.source));
            let moved = moves.iter().map(|(place, to)| Move { place, opened: &self.opened[place], to });
            match self.database.write(&rows, &moved.collect::<Vec<_>>()) {
                Ok(()) => break,
                Err(WriteFailure::Rows(more)) => refused.extend(more),
                Err(WriteFailure::Failed(failure)) => return Err(failure),
            }
        }
        for (place, to) in moves {
            if let Some(opened) = self.opened.get_mut(place) {
                opened.position = Some(to.clone());
            }
        }
        if let Some(dead_letters) = &mut self.dead_letters {
            dead_letters.sent.clear();
        }
        let refused = refused.into_iter();
        Ok(refused.map(|(source, reason)| RefusedRecord { source, reason: StageError::new(reason) }).collect())
    }

    fn patience(&self) -> Duration {
        self.retry_for
    }
}

impl SqlSink {
    /// The rows of a batch, and the sources of which one is none.
    fn rows(&self, table: &Table, output: &Output) -> (Vec<Row>, BTreeMap<usize, String>) {
        let reader = Reader::new(table);
        let (mut rows, mut refused) = (Vec::with_capacity(output.len()), BTreeMap::new());
        let topic = self.dead_letters.as_ref().map(|dead_letters| &*dead_letters.topic);
        for message in output.iter().filter(|message| Some(message.topic) != topic) {
            match reader.read(message.source, message.value) {
                Ok(row) => rows.push(row),
                Err(reason) => drop(refused.entry(message.source).or_insert(reason)),
            }
        }
        (rows, refused)
    }

    /// Sends what cannot be processed to the dead-letter topic, each record once; without such a topic the first that is refused stops the stream.
    fn put_aside(
        &mut self,
        batch: &Batch,
        output: &Output,
        refused: &BTreeMap<usize, String>,
    ) -> Result<(), SinkFailure> {
        let Some(dead_letters) = &mut self.dead_letters else {
            let first = refused.iter().next();
            return first.map_or(Ok(()), |(source, reason)| {
                Err(SinkFailure::Fatal(failed_record(&batch.get(*source), &StageError::new(reason.clone()))))
            });
        };
        dead_letters.deliver(batch, output, refused)
    }
}

impl DeadLetters {
    fn deliver(
        &mut self,
        batch: &Batch,
        output: &Output,
        refused: &BTreeMap<usize, String>,
    ) -> Result<(), SinkFailure> {
        let mut letters = Output::default();
        let mut sources = Vec::new();
        for letter in output.iter().filter(|message| message.topic == &*self.topic) {
            if !self.sent.contains(&letter.source) {
                sources.push(letter.source);
                letters.made_from(letter.source);
                letters.send(letter.into());
            }
        }
        for (source, reason) in refused {
            if !self.sent.contains(source) {
                sources.push(*source);
                letters.made_from(*source);
                letters.send(dead_letter(
                    &batch.get(*source),
                    &self.topic,
                    &StageError::new(reason.clone()).in_stage("output"),
                ));
            }
        }
        if letters.is_empty() {
            return Ok(());
        }
        let sink = match &mut self.sink {
            Some(sink) => sink,
            none => none.insert(KafkaSink::connect(&self.config).map_err(may_pass)?),
        };
        if let Err(error) = sink.deliver_letters(batch, letters, &Stop::new()) {
            self.sink = None;
            return Err(may_pass(error));
        }
        self.sent.extend(sources);
        Ok(())
    }
}

/// Kafka may be away, like the database.
fn may_pass(error: Error) -> SinkFailure {
    match error {
        Error::Kafka { .. } | Error::Unreachable { .. } => {
            SinkFailure::Again(format!("the dead-letter topic: {error}"))
        }
        other => SinkFailure::Fatal(other),
    }
}

/// Locks also after a panic of another task, which has ended its transaction.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What is said of a position that somebody else has opened.
fn fenced(place: &Place) -> SinkFailure {
    let (topic, partition) = place;
    SinkFailure::Fenced(format!("the position of {topic}/{partition} was taken over by another process"))
}
