//! `kill -9`, again and again, with everything else that goes wrong in a bad night.

use std::time::{Duration, Instant};

use crate::harness::ledger::Ledger;
use crate::harness::load::Load;
use crate::harness::pipeline::Pipeline;
use crate::harness::process::Process;
use crate::harness::proxy::Api;
use crate::harness::room::Room;
use crate::harness::wait::{PATIENCE, wait_until};

const PARTITIONS: i32 = 6;

/// Three input topics of six partitions. One process is killed and started again many times, a second one joins and leaves,
/// the broker is killed once; records are written all the time, so that every kill meets some in flight.
pub(super) fn any_number_of_kills_neither_loses_nor_doubles_a_record(room: &Room) {
    let (kills, rate) = room.number((4, 2500), (20, 5000));
    let broker = room.own_broker();
    let cluster = broker.cluster();
    let topics = ["a", "b", "c"].map(|part| room.name(part));
    let topics = topics.each_ref().map(String::as_str);
    let output = room.name("out");
    for topic in topics.iter().chain([&output.as_str()]) {
        cluster.create_topic(topic, PARTITIONS, &[]);
    }
    let load = Load { address: broker.address(), topics: topics.map(str::to_owned).to_vec(), partitions: PARTITIONS };
    let load = load.start(0, rate);
    let pipeline = room.copy_at(&broker.address(), &room.group(), &topics, &output);
    let begin = Instant::now();
    let mut process = room.run(&pipeline);
    let mut at = 0;
    for n in 1..=kills {
        // Never before the process that is killed has committed something.
        wait_until("more is committed", 2 * PATIENCE, || cluster.group(&room.group()).progress(&topics) > at + 1000);
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
        eprintln!("kill {n} of {kills}: the group stands at {at}");
    }
    broker.kill();
    broker.start_again();
    let records = load.finish();
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

/// Each time the survivor waits for what the dead one has left open, takes all partitions over, and gives half of them to the next one. The
/// requests of the one that dies are the only ones at the proxy, which takes the last one with it: its commit, its positions, its outputs.
pub(super) fn several_kills_of_one_of_two_processes_in_a_transaction_are_exact(room: &Room) {
    let (input, output) = (room.topic("in", 4), room.topic("out", 4));
    let group = room.cluster().group(&room.group());
    let load = room.load(&[&input], 4).start(0, 4000);
    let (pipeline, proxy) = (room.copy(&[&input], &output), room.broker().proxy());
    let mut survivor = room.run(&pipeline);
    for n in 0..room.number(3, 15) {
        let mut victim = room.run(Pipeline { brokers: proxy.address().to_owned(), ..pipeline.clone() });
        group.wait_members(&[2, 2], PATIENCE);
        victim.wait_says(&["task", "started"], PATIENCE);
        let last = proxy.hold([Api::EndTxn, Api::TxnOffsetCommit, Api::Produce][n % 3], &format!("{}-", room.group()));
        last.wait_held(PATIENCE);
        assert!(victim.kill(), "it was there to be killed");
        last.discard();
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
