//! `kill -9`, again and again, with everything else that goes wrong in a bad night.

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use crate::harness::cluster::Cluster;
use crate::harness::cluster::Isolation::ReadCommitted;
use crate::harness::ledger::Ledger;
use crate::harness::load::Load;
use crate::harness::pipeline::Pipeline;
use crate::harness::process::Process;
use crate::harness::room::Room;
use crate::harness::wait::{PATIENCE, wait_until};

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
    let mut pipeline = room.copy_at(&broker.address(), &room.group(), &topics, &output);
    pipeline.batch = room.batch(200);
    let begin = Instant::now();
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
            // 3 where it was about to start.
            let code = process.wait_exit(Duration::ZERO);
            assert!(code == 1 || code == 3, "exit code {code} of a run that failed over the broker's death");
            process = room.run(&pipeline);
        }
        cluster.group(&room.group()).lag(&topics) == 0
    });
    process.stop_cleanly();
    cluster.wait_settled(&[&output]); // no reader sees what is behind an open transaction
    Ledger::of(cluster, &output).assert_exact(0..records);
    let took = begin.elapsed().as_secs();
    eprintln!("{}: {records} records over {kills} kills in {took} s: none lost, none doubled", room.group());
}

fn wait_for_progress(cluster: &Cluster, room: &Room, topics: &[&str], records: i64) {
    let group = cluster.group(&room.group());
    wait_until(&format!("{records} records are committed"), 2 * PATIENCE, || group.progress(topics) >= records);
}

/// Each time the survivor waits for what the dead one has left open, takes all partitions over, and gives half of them to the next one.
pub(super) fn several_kills_of_one_of_two_processes_in_a_transaction_are_exact(room: &Room) {
    let (input, output) = (room.topic("in", 4), room.topic("out", 4));
    let group = room.cluster().group(&room.group());
    let load = room.load(&[&input], 4).start(0, 4000);
    let pipeline = room.copy(&[&input], &output);
    let mut survivor = room.run(&pipeline);
    for _ in 0..room.number(3, 15) {
        let mut victim = room.run(&pipeline);
        group.wait_members(&[2, 2], PATIENCE);
        wait_until("both work", PATIENCE, || group.progress(&[&input]) > 0 && victim.says(&["task", "started"]));
        freeze_in_its_own_transaction(room, &mut victim, &input, &output);
        assert!(victim.kill(), "it was there to be killed");
        group.wait_members(&[4], PATIENCE);
        let seen = group.committed(&input);
        wait_until("the survivor works on all partitions", PATIENCE, || {
            group.committed(&input).iter().zip(&seen).all(|(now, seen)| now > seen)
        });
    }
    assert!(survivor.is_running());
    let total = load.finish();
    group.wait_drained(&[&input], PATIENCE);
    room.cluster().wait_settled(&[&output]);
    Ledger::of(room.cluster(), &output).assert_exact(0..total);
    survivor.stop_cleanly();
}

/// A process of 20 partitions has two transactions at a time. It is killed within some of them, and what they have open is ended by another
/// process, and by a restart of the same instance.
pub(super) fn kills_of_a_worker_with_several_producers_are_exact(room: &Room) {
    let (input, output) = (room.topic("in", 20), room.topic("out", 20));
    let (cluster, group) = (room.cluster(), room.cluster().group(&room.group()));
    let load = room.load(&[&input], 20).start(0, 4000);
    let pipeline = room.copy(&[&input], &output).known_id();
    let restarts = |process: &mut Process| {
        for end in ["", "#1"] {
            process.wait_says(&["fenced every older producer", &format!("transactional_id={}{end} ", pipeline.id())], PATIENCE);
        }
    };
    let mut process = room.run(&pipeline);
    restarts(&mut process);
    for n in 0..room.number(2, 10) {
        let seen = group.progress(&[&input]);
        wait_until("it works", PATIENCE, || group.progress(&[&input]) > seen + 1000);
        process.kill_in_transaction(cluster, &[&output]);
        if n % 2 == 0 {
            let mut other = room.run(Pipeline { group_instance_id: Some("1".to_owned()), ..pipeline.clone() });
            group.wait_members(&[20], PATIENCE);
            let seen = group.committed(&input);
            wait_until("another one works on all partitions", PATIENCE, || {
                group.committed(&input).iter().zip(&seen).all(|(now, seen)| now > seen)
            });
            other.stop_cleanly();
        }
        process = room.run(&pipeline);
        restarts(&mut process);
    }
    let total = load.finish();
    group.wait_drained(&[&input], PATIENCE);
    cluster.wait_settled(&[&output]);
    Ledger::of(cluster, &output).assert_exact(0..total);
    process.stop_cleanly();
}

/// A transaction that stays open while the other process commits on is the frozen one's.
fn freeze_in_its_own_transaction(room: &Room, process: &mut Process, input: &str, output: &str) {
    let (cluster, group) = (room.cluster(), room.cluster().group(&room.group()));
    let stable = || cluster.ends(output, ReadCommitted);
    wait_until("it is frozen in a transaction of its own", PATIENCE, || {
        process.freeze_in_transaction(cluster, &[output]);
        let (before, seen) = (stable(), group.progress(&[input]));
        wait_until("the other one commits", PATIENCE, || group.progress(&[input]) > seen + 500);
        let open = !cluster.open_transactions(&[output]).is_empty();
        if open && stable().iter().zip(&before).any(|(now, before)| now == before) {
            return true;
        }
        process.signal(Signal::SIGCONT);
        false
    });
}
