//! Rows and positions in one transaction of a SQLite database.

use std::time::Duration;

use nix::sys::signal::Signal;

use super::cursor::lines;
use crate::harness::http::Client;
use crate::harness::ledger::{Seen, records};
use crate::harness::ports::free_ports;
use crate::harness::process::Process;
use crate::harness::room::Room;
use crate::harness::table::{Database, Sqlite, TableStream};
use crate::harness::wait::{PATIENCE, wait_until};

/// Two processes share the partitions; one after the other is killed, and another takes its place.
pub(super) fn rows_in_sqlite_are_written_once_over_kills(room: &Room) {
    let database = Sqlite::new(room);
    over_kills(room, &database);
}

/// The body for every database.
pub(super) fn over_kills(room: &Room, database: &dyn Database) {
    let kills = room.number(4, 30);
    let input = room.topic("in", 4);
    let group = room.cluster().group(&room.group());
    let load = room.load(&[&input], 4).start(0, 1000);
    let mut stream = TableStream::new(room, &[&input], database);
    stream.more = "    batch: {max_poll_records: 50}\n".to_owned();
    let mut processes = [room.run(&stream), room.run(&stream)];
    for n in 1..=kills {
        let seen = database.count();
        wait_until("rows are written", 2 * PATIENCE, || database.count() > seen + 500);
        let victim = &mut processes[n % 2];
        assert!(victim.kill(), "it was there to be killed; log: {}", victim.stderr());
        *victim = room.run(&stream);
    }
    let total = load.finish();
    eprintln!("{} of {total} rows after {kills} kills", database.count());
    wait_until("all rows are written", 3 * PATIENCE, || database.count() >= total);
    database.assert_exact(0..total);
    group.wait_drained(&[&input], PATIENCE);
    processes.iter_mut().for_each(Process::stop_cleanly);
    assert!(room.run_with(&stream, &["--drain"]).wait_exit(PATIENCE) == 0, "nothing is left to do");
    database.assert_exact(0..total);
}

pub(super) fn a_stopped_process_writes_no_rows_to_sqlite_when_it_goes_on(room: &Room) {
    let database = Sqlite::new(room);
    let input = room.topic("in", 2);
    let group = room.cluster().group(&room.group());
    let load = room.load(&[&input], 2).start(0, 2000);
    let stream = TableStream::new(room, &[&input], &database);
    let mut old = room.run(&stream);
    wait_until("it writes", PATIENCE, || database.count() > 500);
    freeze_between_transactions(&mut old, &database);
    let frozen = database.count();
    let mut new = room.run(&stream);
    wait_until("the new process goes on", PATIENCE, || database.count() > frozen + 2000);
    old.signal(Signal::SIGCONT);
    wait_until("it says that it lost its place", PATIENCE, || {
        old.says(&["lost", "tasks"]) || old.says(&["taken over"]) || old.says(&["away for"])
    });
    let total = load.finish();
    wait_until("all rows are written", PATIENCE, || database.count() >= total);
    database.assert_exact(0..total);
    group.wait_drained(&[&input], PATIENCE);
    new.stop_cleanly();
    old.stop_cleanly();
}

/// The cursor is in the table of positions.
pub(super) fn a_file_is_written_to_sqlite_once_over_kills(room: &Room) {
    let (kills, total) = room.number((3, 150_000), (30, 600_000));
    let database = Sqlite::new(room);
    let file = room.folder().join("input.jsonl");
    std::fs::write(&file, lines(0..total)).unwrap();
    let mut stream = TableStream::new(room, &["none"], &database);
    stream.input = format!("{{type: file, path: {}}}", file.display());
    stream.output += ", positions_id: load";
    // A slow process has most of its lines before it, whoever looks at it, and one that has to come to the end is fast.
    let [slow, fast] = [1, 5000].map(|records| format!("    batch: {{max_poll_records: {records}}}\n"));
    stream.more.clone_from(&slow);
    for _ in 0..kills {
        let mut process = room.run(&stream);
        let seen = database.count();
        wait_until("it goes on", PATIENCE, || database.count() > seen);
        assert!(process.kill(), "it was there to be killed; log: {}", process.stderr());
        assert!(database.count() < total, "killed with lines to come");
    }
    stream.more.clone_from(&fast);
    let mut process = room.run(&stream);
    assert_eq!(process.wait_exit(2 * PATIENCE), 0, "log: {}", process.stderr());
    database.assert_exact(0..total);
    let mut process = room.run(&stream);
    assert_eq!(process.wait_exit(PATIENCE), 0);
    assert!(process.says(&["0 new records"]), "log: {}", process.stderr());
    // A process that is started later takes the file over.
    let more = total + 100_000;
    std::fs::write(&file, lines(0..more)).unwrap();
    stream.more = slow;
    let mut old = room.run(&stream);
    wait_until("it goes on", PATIENCE, || database.count() > total);
    freeze_between_transactions(&mut old, &database);
    assert!(database.count() < more, "frozen with lines to come");
    stream.more = fast;
    let mut new = room.run(&stream);
    assert_eq!(new.wait_exit(PATIENCE), 0, "log: {}", new.stderr());
    old.signal(Signal::SIGCONT);
    assert_eq!(old.wait_exit(PATIENCE), 1, "it is told");
    assert!(old.says(&["W0030", "taken over"]), "log: {}", old.stderr());
    database.assert_exact(0..more);
    std::fs::remove_file(&file).unwrap();
}

/// In one it would hold the only lock.
fn freeze_between_transactions(process: &mut Process, database: &Sqlite) {
    wait_until("it is frozen between two transactions", PATIENCE, || {
        assert!(process.is_running(), "it ended before it could be frozen: {}", process.stderr());
        process.freeze();
        let free = database.is_free();
        if !free {
            process.signal(Signal::SIGCONT);
        }
        free
    });
}

pub(super) fn rows_that_sqlite_refuses_go_to_the_error_topic_or_stop_the_stream(room: &Room) {
    let database = Sqlite::new(room);
    let made = "CREATE TABLE results (i INTEGER NOT NULL, \"from\" TEXT CHECK (length(\"from\") < 100), amount TEXT)";
    database.connection().execute_batch(made).unwrap();
    refused_rows(room, &database);
}

/// The body for every database: the table is there, with a bound for the length of a text.
pub(super) fn refused_rows(room: &Room, database: &dyn Database) {
    let (input, errors) = (room.topic("in", 1), room.topic("errors", 1));
    let cluster = room.cluster();
    let long = "x".repeat(200);
    let values = [
        r#"{"i":0,"from":"a","amount":"1.50"}"#.to_owned(),
        r#"{"i":"many","from":"a"}"#.to_owned(),
        format!(r#"{{"i":1,"from":"{long}"}}"#),
        r#"{"i":2,"from":"b","colour":"red"}"#.to_owned(),
        r#"{"i":null,"from":"b"}"#.to_owned(),
        "no JSON".to_owned(),
        r#"{"i":3,"amount":"12345678901234567890.0100"}"#.to_owned(),
    ];
    let producer = crate::harness::load::confirmed_producer(&room.broker().address());
    for value in &values {
        let record = rdkafka::producer::BaseRecord::<(), _>::to(&input).partition(0).payload(value);
        crate::harness::load::send(&producer, record);
    }
    crate::harness::load::finish(&producer);
    let mut stream = TableStream::new(room, &[&input], database);
    stream.output = "mode: insert".to_owned();
    let mut process = room.run(&stream);
    assert_eq!(process.wait_exit(PATIENCE), 1);
    let words = ["W0005", &format!("{input}/0 offset 1"), "the column i holds whole numbers"];
    assert!(process.says(&words), "log: {}", process.stderr());
    assert_eq!(database.count(), 0, "nothing of its batch is written");
    stream.more = format!("    error_output: {{type: kafka, brokers: \"{}\", topic: {errors}}}\n", room.broker().address());
    let mut process = room.run_with(&stream, &["--drain"]);
    assert_eq!(process.wait_exit(PATIENCE), 0, "log: {}", process.stderr());
    assert!(process.says(&["7 in", "2 out", "5 dead"]), "log: {}", process.stderr());
    assert_eq!(database.rows("SELECT i, amount FROM results ORDER BY i"), ["0|1.50", "3|12345678901234567890.0100"]);
    let letters = records(cluster, &errors);
    let offsets: Vec<_> = letters.iter().map(|letter| letter.header("wattle.offset").unwrap()).collect();
    let mut sorted = offsets.clone();
    sorted.sort();
    assert_eq!(sorted, ["1", "2", "3", "4", "5"], "each once");
    let refused = letters.iter().find(|letter| letter.header("wattle.offset").as_deref() == Some("2")).unwrap();
    let why = refused.header("wattle.error").unwrap();
    assert!(why.contains("the database refuses the row") && !why.contains(&long), "{why}");
    assert_eq!(refused.text(), values[2], "as it was");
}

/// All records of a request have one place; each of those that are refused, by the stream or by the database, is a dead letter.
pub(super) fn every_refused_record_of_one_request_is_a_dead_letter(room: &Room) {
    let database = Sqlite::new(room);
    database.connection().execute_batch("CREATE TABLE results (i INTEGER CHECK (i > 0))").expect("a table");
    let errors = room.topic("errors", 1);
    let [port] = free_ports().expect("a free port");
    let mut stream = TableStream::new(room, &["none"], &database);
    stream.input = format!("{{type: http, address: '127.0.0.1:{port}', path: /, format: lines}}");
    stream.output = "positions_id: requests".to_owned();
    let brokers = room.broker().address();
    stream.more = format!(
        "    durability: {{path: wal}}\n    error_output: {{type: kafka, brokers: \"{brokers}\", topic: {errors}}}\n"
    );
    let mut process = room.run(&stream);
    process.wait_says(&["takes requests at"], PATIENCE);
    let body = "{\"i\":1}\n{\"i\":\"two\"}\n{\"i\":-3}\n{\"i\":4}\n{\"i\":-5}\n{\"i\":\"six\"}\n";
    let answer = Client::new(port).post("/", body).expect("an answer");
    assert_eq!(answer.status, 200);
    wait_until("the rows are there", PATIENCE, || database.count() == 2);
    process.stop_cleanly();
    assert_eq!(database.rows("SELECT i FROM results ORDER BY i"), ["1", "4"]);
    let mut letters: Vec<_> = records(room.cluster(), &errors).iter().map(Seen::text).collect();
    letters.sort();
    assert_eq!(letters, [r#"{"i":"six"}"#, r#"{"i":"two"}"#, r#"{"i":-3}"#, r#"{"i":-5}"#], "each once");
}

/// Longest wait for a process that finds the database locked.
pub(super) fn a_locked_database_is_waited_for_and_given_up_on(room: &Room) {
    let database = Sqlite::new(room);
    let input = room.topic("in", 1);
    room.load(&[&input], 1).send(0..100);
    let connection = database.connection();
    connection.execute_batch("PRAGMA journal_mode = WAL; CREATE TABLE other (x); BEGIN IMMEDIATE").unwrap();
    let mut stream = TableStream::new(room, &[&input], &database);
    stream.output += ", retry_for: 6s";
    let mut process = room.run(&stream);
    assert_eq!(process.wait_exit(Duration::from_secs(45)), 1);
    assert!(process.says(&["tried again", "locked"]), "it is visible; log: {}", process.stderr());
    assert!(process.says(&["W0032", "locked"]), "log: {}", process.stderr());
    connection.execute_batch("COMMIT").unwrap();
    assert_eq!(room.run_with(&stream, &["--drain"]).wait_exit(PATIENCE), 0);
    database.assert_exact(0..100);
    assert!(database.path().exists());
}
