//! Rows and positions in one transaction of a PostgreSQL database.

use std::time::Instant;

use nix::sys::signal::Signal;

use super::sqlite::{over_kills, refused_rows};
use crate::harness::process::Process;
use crate::harness::postgres::Postgres;
use crate::harness::room::Room;
use crate::harness::table::{Database, TableStream};
use crate::harness::wait::{PATIENCE, wait_until};

/// Two processes share the partitions; one after the other is killed, and another takes its place.
pub(super) fn rows_in_postgres_are_written_once_over_kills(room: &Room) {
    let database = room.postgres();
    over_kills(room, &database);
}

/// Stopped with a transaction open; another process takes over meanwhile, and does not wait for its locks.
pub(super) fn a_stopped_process_writes_no_rows_to_postgres_when_it_goes_on(room: &Room) {
    let database = room.postgres();
    let input = room.topic("in", 2);
    let group = room.cluster().group(&room.group());
    let load = room.load(&[&input], 2).start(0, 3000);
    let stream = TableStream::new(room, &[&input], &database);
    let mut old = room.run(&stream);
    wait_until("it writes", PATIENCE, || database.count() > 500);
    freeze_in_transaction(&mut old, &database);
    let frozen = database.count();
    let begin = Instant::now();
    let mut new = room.run(&stream);
    wait_until("the new process goes on", PATIENCE, || database.count() > frozen + 2000);
    eprintln!("taken over after {:?}", begin.elapsed());
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

/// Where it is stopped now nothing of it is under way.
fn freeze_in_transaction(process: &mut Process, database: &Postgres) {
    let open = || {
        let sql = "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'wattle%' AND xact_start IS NOT NULL";
        database.ask(sql) != ["0"]
    };
    wait_until("it is frozen in a transaction", PATIENCE, || {
        assert!(process.is_running(), "it ended before it could be frozen: {}", process.stderr());
        process.freeze();
        // What was on its way is through when it is asked for the second time.
        if open() && open() {
            return true;
        }
        process.signal(Signal::SIGCONT);
        false
    });
}

/// The database dies as by a crash while records flow, and while it is away a rebalance is not held up.
pub(super) fn a_database_that_is_restarted_loses_and_doubles_nothing(room: &Room) {
    let database = room.postgres();
    let input = room.topic("in", 4);
    let group = room.cluster().group(&room.group());
    let load = room.load(&[&input], 4).start(0, 2000);
    let stream = TableStream::new(room, &[&input], &database);
    let mut one = room.run(&stream);
    wait_until("it writes", PATIENCE, || database.count() > 500);
    database.kill();
    // It depends on what its tasks were about.
    wait_until("it tries again", PATIENCE, || one.says(&["runs again"]) || one.says(&["tried again"]));
    let mut two = room.run(&stream);
    group.wait_members(&[2, 2], PATIENCE);
    two.wait_says(&["cannot be reached", "tried again"], PATIENCE);
    database.start_again();
    let seen = database.count();
    wait_until("they go on", PATIENCE, || database.count() > seen + 1000);
    for _ in 0..room.number(1, 10) {
        database.kill();
        database.start_again();
        let seen = database.count();
        wait_until("they go on", PATIENCE, || database.count() > seen + 1000);
    }
    let total = load.finish();
    wait_until("all rows are written", PATIENCE, || database.count() >= total);
    database.assert_exact(0..total);
    one.stop_cleanly();
    two.stop_cleanly();
}

pub(super) fn rows_that_postgres_refuses_go_to_the_error_topic_or_stop_the_stream(room: &Room) {
    let database = room.postgres();
    database.ask("CREATE TABLE results (i bigint NOT NULL, \"from\" varchar(100), amount numeric)");
    refused_rows(room, &database);
}

/// Every type in, and the same out; an upsert keeps the last state of a key.
pub(super) fn values_keep_what_they_are_and_an_upsert_keeps_the_last(room: &Room) {
    let database = room.postgres();
    let columns = "i bigint PRIMARY KEY, f float8, n numeric, t text, b boolean, y bytea, ts timestamptz, d date, j jsonb, u uuid, \
                   made timestamptz NOT NULL DEFAULT now()";
    database.ask(&format!("CREATE TABLE results ({columns})"));
    let file = room.folder().join("input.jsonl");
    let full = r#"{"i":1,"f":0.1,"n":"12345678901234567890.10","t":"a\"b\\c\u00e9\n","b":true,"y":"AP8=","ts":"2026-12-31T23:59:59.123456+01:00","d":"2026-02-28","j":{"x":[1.10,null]},"u":"00000000-0000-0000-0000-000000000001"}"#;
    let later = r#"{"i":1,"t":"later"}"#;
    std::fs::write(&file, format!("{full}\n{later}\n{{\"i\":2,\"n\":1e2}}\n")).unwrap();
    let mut stream = TableStream::new(room, &["none"], &database);
    stream.input = format!("{{type: file, path: {}}}", file.display());
    stream.output = "mode: upsert, key: [i], positions_id: load".to_owned();
    let mut process = room.run(&stream);
    assert_eq!(process.wait_exit(PATIENCE), 0, "log: {}", process.stderr());
    let row = "SELECT i, f, n, t, b, encode(y, 'hex'), ts AT TIME ZONE 'UTC', d, j, u FROM results ORDER BY i";
    assert_eq!(
        database.rows(row),
        [
            r#"1|0.1|12345678901234567890.10|later|t|00ff|2026-12-31 22:59:59.123456|2026-02-28|{"x": [1.10, null]}|00000000-0000-0000-0000-000000000001"#,
            "2||100|||||||",
        ]
    );
    std::fs::remove_file(&file).unwrap();
}
