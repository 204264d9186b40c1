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

/// What a start would meet is known before, in words, and looking changes nothing.
pub(super) fn a_check_asks_a_database_what_may_be_written_and_writes_nothing(room: &Room) {
    let database = room.postgres();
    database.ask(
        "CREATE TABLE results (i bigint, \"from\" text); CREATE TABLE needy (i bigint, \"from\" text, made date NOT NULL, \
         day date NOT NULL DEFAULT now()); CREATE VIEW seen AS SELECT i, \"from\" || '' AS \"from\" FROM results; CREATE ROLE reader LOGIN; \
         GRANT SELECT ON results TO reader",
    );
    let check = |table: &str, user: &str| {
        let mut stream = TableStream::new(room, &["none"], &database);
        stream.input = "{type: generate, context: {i: 1}}".to_owned();
        stream.output_type = stream.output_type.replace("//wattle@", &format!("//{user}@"));
        stream.output = "columns: {i: integer, from: text}, positions_id: p".to_owned();
        let mut process = room.check(stream.to_string().replace("table_name: results", &format!("table_name: {table}")));
        (process.wait_exit(PATIENCE), process.stderr())
    };
    assert_eq!(check("results", "wattle").0, 0);
    for (table, user, part) in [
        ("needy", "wattle", "needs a value for made, which the output does not write"),
        ("seen", "wattle", "rows cannot be written to the table seen"),
        ("results", "reader", "wattle_positions\" of 127.0.0.1"),
    ] {
        let (code, said) = check(table, user);
        assert!(code == 1 && said.contains(part), "{table} {user} {code}: {said}");
    }
    assert_eq!(database.ask("SELECT count(*) FROM pg_class WHERE relname = 'wattle_positions'"), ["0"], "nothing is made");
    let positions = "CREATE TABLE wattle_positions (id text, topic text, partition integer, position text, epoch bigint, \
                     PRIMARY KEY (id, topic, partition))";
    database.ask(&format!("{positions}; GRANT SELECT ON wattle_positions TO reader"));
    let (code, said) = check("results", "reader");
    assert!(code == 1 && said.contains("the user needs SELECT, INSERT and UPDATE"), "{said}");
    database.ask("GRANT INSERT, UPDATE ON wattle_positions TO reader");
    let (code, said) = check("results", "reader");
    assert!(code == 1 && said.contains("permission denied for table results"), "{said}");
    database.ask("GRANT INSERT ON results TO reader");
    assert_eq!(check("results", "reader"), (0, String::new()));
    assert_eq!(database.ask("SELECT count(*) FROM wattle_positions"), ["0"], "nothing is written");
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
