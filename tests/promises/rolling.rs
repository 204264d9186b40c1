//! Restarts of one process after the other, while batches take longer than the group waits for a silent member.

use rdkafka::producer::BaseRecord;

use super::state::{assert_counts, start_at};
use crate::harness::load::{confirmed_producer, finish, send};
use crate::harness::room::Room;
use crate::harness::wait::PATIENCE;

/// Of each partition, one is the one that takes long.
const RECORDS: u64 = 100;
/// The example's session is 6 s, and a process that starts has its partitions in less than this on a busy machine too.
const LONG: &str = "12000";

/// The stage waits for one record of each partition for longer than the session. Both processes are restarted before it is through:
/// what they have begun is dropped, they stop at once, nobody is expelled, and every record is counted once.
pub(super) fn a_rolling_restart_during_batches_that_outlast_the_session_is_exact(room: &Room) {
    let (input, output) = (room.topic("in", 2), room.topic("out", 2));
    let group = room.cluster().group(&room.group());
    let producer = confirmed_producer(&room.broker().address());
    room.load(&[&input], 2).send(0..RECORDS);
    for (i, partition) in (RECORDS..).zip(0..2) {
        let slow = format!(r#"{{"i":{i},"takes_ms":{LONG}}}"#);
        send(&producer, BaseRecord::to(&input).partition(partition).key("slow").payload(&slow));
    }
    finish(&producer);
    room.load(&[&input], 2).send(RECORDS + 2..2 * RECORDS);
    let start = || start_at(room, &room.broker().address(), "enrich", &input, &output, &[]);
    let assert_under_way = || {
        let slow = RECORDS as i64 / 2;
        let committed = group.committed(&input);
        assert!(committed.iter().all(|at| at.is_none_or(|at| at <= slow)), "the slow records are done: {committed:?}");
    };
    let mut processes = [start(), start()];
    for process in &mut processes {
        group.wait_members(&[1, 1], PATIENCE);
        assert_under_way();
        process.stop_cleanly();
        assert!(!process.says(&["lost"]), "it was expelled: {}", process.stderr());
        *process = start();
    }
    group.wait_members(&[1, 1], PATIENCE);
    assert_under_way();
    group.wait_drained(&[&input], PATIENCE);
    for process in &mut processes {
        assert!(!process.says(&["lost"]), "it was expelled: {}", process.stderr());
        process.stop_cleanly();
    }
    assert_counts(room, &output, 2, 2 * RECORDS);
}
