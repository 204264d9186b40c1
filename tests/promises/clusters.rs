//! From one cluster to another: the position is a cursor beside the results, on the cluster of the outputs.

use nix::sys::signal::Signal;

use crate::harness::broker::Broker;
use crate::harness::cluster::Isolation::ReadUncommitted;
use crate::harness::cluster::{answer, options};
use crate::harness::ledger::Ledger;
use crate::harness::pipeline::Pipeline;
use crate::harness::process::Process;
use crate::harness::room::Room;
use crate::harness::wait::{PATIENCE, wait_until};

const PARTITIONS: i32 = 4;

/// A copy from the shared broker to `to`, and its topics.
fn copy(room: &Room, to: &Broker) -> (Pipeline, String, String) {
    let (input, output) = (room.topic("in", PARTITIONS), room.name("out"));
    to.cluster().create_topic(&output, PARTITIONS, &[]);
    let mut pipeline = room.copy(&[&input], &output);
    pipeline.output_brokers = Some(to.address());
    (pipeline, input, output)
}

fn start_again(room: &Room, pipeline: &Pipeline, process: &mut Process) {
    if !process.is_running() {
        let code = process.wait_exit(PATIENCE);
        assert!(code == 1 || code == 3, "exit code {code} of a run that failed over a broker's death; log: {}", process.stderr());
        *process = room.run(pipeline);
    }
}

/// Two processes, of which one is killed again and again, most of the times inside of a transaction; at last the broker of the outputs dies.
pub(super) fn kills_between_two_clusters_neither_lose_nor_double_a_record(room: &Room) {
    let kills = room.number(4, 30);
    let to = room.own_broker();
    let (pipeline, input, output) = copy(room, &to);
    let load = room.load(&[&input], PARTITIONS).start(0, 2000);
    let group = room.cluster().group(&room.group());
    let (mut first, mut second) = (room.run(&pipeline), room.run(&pipeline));
    for n in 1..=kills {
        let before: i64 = to.cluster().ends(&output, ReadUncommitted).iter().sum();
        wait_until("the copy goes on", PATIENCE, || {
            to.cluster().ends(&output, ReadUncommitted).iter().sum::<i64>() > before + 100
        });
        if n % 3 == 0 {
            assert!(first.kill(), "it was there to be killed");
        } else {
            first.kill_in_transaction(to.cluster(), &[&output]);
        }
        first = std::mem::replace(&mut second, room.run(&pipeline));
    }
    group.wait_members(&[2, 2], PATIENCE);
    to.kill();
    to.start_again();
    let seen = group.committed(&input);
    wait_until("both work again", 3 * PATIENCE, || {
        start_again(room, &pipeline, &mut first);
        start_again(room, &pipeline, &mut second);
        let on = group.committed(&input).iter().zip(&seen).all(|(now, seen)| now > seen);
        on && group.members() == Some(vec![2, 2])
    });
    let total = load.finish();
    wait_until("everything is processed", PATIENCE, || {
        start_again(room, &pipeline, &mut first);
        start_again(room, &pipeline, &mut second);
        group.lag(&[&input]) == 0
    });
    first.stop_cleanly();
    second.stop_cleanly();
    to.cluster().wait_settled(&[&output]);
    Ledger::of(to.cluster(), &output).assert_exact(0..total);
}

/// What the group says is of no weight once there is a cursor: it may be behind, gone, or somebody else's.
pub(super) fn a_cursor_on_the_cluster_of_the_outputs_wins_over_the_groups_positions(room: &Room) {
    let to = room.own_broker();
    let (pipeline, input, output) = copy(room, &to);
    let load = |ids| room.load(&[&input], PARTITIONS).send(ids);
    load(0..1000);
    let first = room.drain(&pipeline);
    assert!(!first.says(&["brokers of the inputs' cluster"]), "log: {}", first.stderr());
    let group = room.cluster().group(&room.group());
    for result in answer(room.cluster().admin().delete_groups(&[&room.group()], &options())) {
        result.expect("an empty group is deleted");
    }
    load(1000..2000);
    room.drain(&pipeline);
    Ledger::of(to.cluster(), &output).assert_exact(0..2000);
    assert_eq!(group.lag(&[&input]), 0, "the group shows where the cursor is");
    // Without a cursor the group's positions are where it begins.
    load(2000..3000);
    let mut anew = pipeline.clone();
    (anew.transactional_id, anew.topic) = (Some(room.name("anew")), room.name("out2"));
    to.cluster().create_topic(&anew.topic, PARTITIONS, &[]);
    room.drain(&anew);
    Ledger::of(to.cluster(), &anew.topic).assert_exact(2000..3000);
}

/// A process that was stopped inside of a transaction finds its partitions gone, on both clusters.
pub(super) fn a_stopped_process_between_two_clusters_writes_nothing_when_it_goes_on(room: &Room) {
    let to = room.own_broker();
    let (pipeline, input, output) = copy(room, &to);
    let load = room.load(&[&input], PARTITIONS);
    let running = load.start(0, 2000);
    let group = room.cluster().group(&room.group());
    let mut zombie = room.run(&pipeline);
    zombie.freeze_in_transaction(to.cluster(), &[&output]);
    let mut heir = room.run(&pipeline);
    group.wait_members(&[PARTITIONS as usize], PATIENCE);
    let total = running.finish();
    group.wait_drained(&[&input], PATIENCE);
    zombie.signal(Signal::SIGCONT);
    zombie.wait_says(&["lost tasks"], PATIENCE);
    load.send(total..total + 1000);
    group.wait_drained(&[&input], PATIENCE);
    zombie.stop_cleanly();
    heir.stop_cleanly();
    to.cluster().wait_settled(&[&output]);
    Ledger::of(to.cluster(), &output).assert_exact(0..total + 1000);
}

/// Other addresses do not make another cluster: then the positions are the group's, in the transaction.
pub(super) fn two_addresses_of_one_cluster_are_one_cluster(room: &Room) {
    let (input, output) = (room.topic("in", 2), room.topic("out", 2));
    let mut pipeline = room.copy(&[&input], &output);
    pipeline.output_brokers = Some(room.broker().address().replace("127.0.0.1", "localhost"));
    assert_ne!(pipeline.output_brokers.as_ref(), Some(&pipeline.brokers));
    room.load(&[&input], 2).send(0..1000);
    let process = room.drain(&pipeline);
    assert!(process.says(&["brokers of the inputs' cluster"]), "log: {}", process.stderr());
    assert_eq!(room.cluster().partitions(&format!("{}-changelog", room.group())), None, "no cursor is needed");
    Ledger::of(room.cluster(), &output).assert_exact(0..1000);
}
