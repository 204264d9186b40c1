//! `kill -9`, again and again, with everything else that goes wrong in a bad night.

use crate::harness::cluster::Cluster;
use crate::harness::ledger::Ledger;
use crate::harness::load::Load;
use crate::harness::pipeline::Pipeline;
use crate::harness::room::Room;
use crate::harness::wait::{PATIENCE, wait_until};
use std::time::Duration;

const PARTITIONS: i32 = 6;

/// Three input topics of six partitions. One process is killed and started again many times, a second one joins and leaves,
/// the broker is killed once; all records were there before, so that every kill meets records in flight.
pub(super) fn any_number_of_kills_neither_loses_nor_doubles_a_record(room: &Room) {
    let (kills, records) = room.number((4, 60_000), (20, 600_000));
    let records = records * room.pace().div_ceil(2) as u64;
    let broker = room.own_broker();
    let cluster = broker.cluster();
    let topics = ["a", "b", "c"].map(|part| room.name(part));
    let topics = topics.each_ref().map(String::as_str);
    let output = room.name("out");
    for topic in topics.iter().chain([&output.as_str()]) {
        cluster.create_topic(topic, PARTITIONS, &[]);
    }
    let load = Load { address: broker.address(), topics: topics.map(str::to_owned).to_vec(), partitions: PARTITIONS };
    load.send(0..records);
    let mut pipeline = Pipeline::copy(&broker.address(), &room.group(), &topics, &output);
    pipeline.batch = room.batch(200);
    let mut process = room.run(&pipeline);
    let mut at = 0;
    for n in 1..=kills {
        // Evenly over the records, and never before the process that is killed has committed something.
        wait_for_progress(cluster, room, &topics, (records as i64 * n / (kills + 3)).max(at + 1));
        if n == kills / 2 {
            let mut second = room.run(&pipeline);
            cluster.group(&room.group()).wait_members(&[PARTITIONS as usize * 3 / 2; 2], PATIENCE);
            assert!(process.kill(), "it was there to be killed");
            process = room.run(&pipeline);
            cluster.group(&room.group()).wait_members(&[PARTITIONS as usize * 3 / 2; 2], PATIENCE);
            second.stop_cleanly();
        } else if n % 2 == 0 {
            process.kill_in_transaction(cluster, &[&output]);
            process = room.run(&pipeline);
        } else {
            assert!(process.kill(), "it was there to be killed");
            process = room.run(&pipeline);
        }
        at = cluster.group(&room.group()).progress(&topics);
        assert!(0 < at && at < records as i64, "killed with records in flight: at {at} of {records}");
        eprintln!("kill {n} of {kills}: the group stands at {at} of {records}");
    }
    broker.kill();
    broker.start_again();
    at = cluster.group(&room.group()).progress(&topics);
    assert!(at < records as i64, "the broker died with records in flight: at {at} of {records}");
    wait_until("everything is processed", 3 * PATIENCE, || {
        if !process.is_running() {
            assert_eq!(process.wait_exit(Duration::ZERO), 1, "a run that failed over the broker's death");
            process = room.run(&pipeline);
        }
        cluster.group(&room.group()).lag(&topics) == 0
    });
    process.stop_cleanly();
    Ledger::of(cluster, &output).assert_exact(0..records);
    cluster.wait_settled(&[&output]);
}

fn wait_for_progress(cluster: &Cluster, room: &Room, topics: &[&str], records: i64) {
    let group = cluster.group(&room.group());
    wait_until(&format!("{records} records are committed"), 2 * PATIENCE, || group.progress(topics) >= records);
}
