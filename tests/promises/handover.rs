//! What an old owner sent and the broker gets late is neither lost nor doubled. In scope `task` the new owner fences it, in scope `worker`
//! nothing but the group does, since the new owner's id is another one.

use std::time::Duration;

use crate::harness::ledger::Ledger;
use crate::harness::mode::Scope;
use crate::harness::pipeline::Pipeline;
use crate::harness::process::Process;
use crate::harness::proxy::{Api, Hold};
use crate::harness::room::Room;
use crate::harness::wait::{PATIENCE, wait_until};

/// Records that the old owner commits in peace, and all that it has read when it dies.
const DONE: u64 = 10;
const RECORDS: u64 = 500;
/// A transaction that nobody ends is over soon.
const SHORT: &str = "5s";

/// An owner whose requests of one kind are held by the proxy, and which is dead.
struct Dead {
    hold: Hold,
    input: String,
    output: String,
    pipeline: Pipeline,
}

/// One whose scope is that of the new owner.
fn kill_with_a_request_under_way(room: &Room, part: &str, api: Api) -> Dead {
    kill_one_of_scope(room.mode().scope, room, part, api)
}

/// `part` keeps several hand-overs of one test apart.
fn kill_one_of_scope(scope: Scope, room: &Room, part: &str, api: Api) -> Dead {
    let (input, output) = (room.topic(&format!("{part}.in"), 1), room.topic(&format!("{part}.out"), 1));
    let name = room.name(part);
    let pipeline = room.copy_at(&room.broker().address(), &name, &[&input], &output);
    let (proxy, group) = (room.broker().proxy(), room.cluster().group(&name));
    let mut old = pipeline.clone().scope(scope).known_id();
    old.brokers = proxy.address().to_owned();
    if scope == Scope::Worker && !room.mode().is_worker() {
        old.group_instance_id = Some("00".to_owned()); // no task has this id
    }
    if scope == Scope::Worker || room.mode().is_worker() {
        old.transaction_timeout = Some(SHORT); // nobody fences it
    }
    let mut old = room.run(old);
    room.load(&[&input], 1).send(0..DONE);
    group.wait_drained(&[&input], PATIENCE);
    let hold = proxy.hold(api, &format!("{name}-0"));
    room.load(&[&input], 1).send(DONE..RECORDS);
    hold.wait_held(PATIENCE);
    assert!(old.kill(), "it was there to be killed");
    assert_eq!(group.committed(&input), [Some(10)], "the request that is held would have moved it");
    Dead { hold, input, output, pipeline }
}

impl Dead {
    fn take_over(&self, room: &Room) -> Process {
        room.run(&self.pipeline)
    }

    fn settle(&self, room: &Room, mut new: Process) {
        let cluster = room.cluster();
        cluster.group(&self.pipeline.consumer_group).wait_drained(&[&self.input], PATIENCE);
        // New records behind the late request: nothing is stuck, nothing of it ends their transaction.
        room.load(&[&self.input], 1).send(RECORDS..2 * RECORDS);
        cluster.group(&self.pipeline.consumer_group).wait_drained(&[&self.input], PATIENCE);
        cluster.wait_settled(&[&self.output]); // no reader sees what is behind an open transaction
        Ledger::of(cluster, &self.output).assert_exact(0..2 * RECORDS);
        new.stop_cleanly();
    }
}

/// The commit lands while nobody owns the partition: the new owner goes on behind it.
pub(super) fn a_late_commit_before_the_fence_is_not_repeated(room: &Room) {
    let dead = kill_with_a_request_under_way(room, "before", Api::EndTxn);
    dead.hold.release();
    let group = room.cluster().group(&dead.pipeline.consumer_group);
    wait_until("the late commit counts", PATIENCE, || group.committed(&dead.input)[0] > Some(10));
    let new = dead.take_over(room);
    dead.settle(room, new);
}

/// The commit lands while the new owner starts, at several moments. In scope `task` it counts before the fence, and after it does not;
/// in scope `worker` the new owner waits for it.
pub(super) fn a_late_commit_during_the_takeover_is_neither_lost_nor_doubled(room: &Room) {
    for delay in room.number(vec![0, 5, 20], (0..40).step_by(2).collect()) {
        let dead = kill_with_a_request_under_way(room, &format!("after{delay}"), Api::EndTxn);
        let new = dead.take_over(room);
        let group = room.cluster().group(&dead.pipeline.consumer_group);
        group.wait_members(&[1], PATIENCE);
        // Not a wait for anything: it varies the moment.
        std::thread::sleep(Duration::from_millis(delay));
        dead.hold.release();
        dead.settle(room, new);
    }
}

/// The commit lands when the new owner has processed everything again: it is refused.
pub(super) fn a_late_commit_after_the_takeover_is_refused(room: &Room) {
    released_after(room, kill_with_a_request_under_way(room, "after", Api::EndTxn));
}

/// The same for the request that makes the positions part of the transaction.
pub(super) fn late_positions_are_refused(room: &Room) {
    released_after(room, kill_with_a_request_under_way(room, "after", Api::TxnOffsetCommit));
}

/// The same for the outputs.
pub(super) fn late_outputs_are_refused(room: &Room) {
    released_after(room, kill_with_a_request_under_way(room, "after", Api::Produce));
}

/// A stopped application has changed its scope from this one; what it has left open does, and does not, hold positions.
pub(super) fn the_scope_was(scope: Scope, room: &Room) {
    for (part, api) in [("pending", Api::EndTxn), ("free", Api::TxnOffsetCommit)] {
        released_after(room, kill_one_of_scope(scope, room, part, api));
    }
}

fn released_after(room: &Room, dead: Dead) {
    let new = dead.take_over(room);
    let cluster = room.cluster();
    let group = cluster.group(&dead.pipeline.consumer_group);
    group.wait_drained(&[&dead.input], PATIENCE);
    // What the old owner has written is in the way of readers until its transaction ends.
    cluster.wait_settled(&[&dead.output]);
    Ledger::of(cluster, &dead.output).assert_exact(0..RECORDS);
    let positions = group.committed(&dead.input);
    dead.hold.release();
    assert_eq!(group.committed(&dead.input), positions, "a late request moves nothing");
    dead.settle(room, new);
}

/// The commit's answer does not come in time while its owner lives on; it must not end a later transaction half way.
pub(super) fn a_commit_that_is_late_never_ends_the_next_transaction(room: &Room) {
    late_commit(room, "patient", "{}");
}

/// The same where the client gives up on the connection long before the transaction's timeout, and asks again on a new one.
pub(super) fn a_commit_that_was_sent_twice_never_ends_the_next_transaction(room: &Room) {
    for round in 0..room.number(2, 10) {
        late_commit(room, &format!("hasty{round}"), "{socket.timeout.ms: 1000}");
    }
}

fn late_commit(room: &Room, part: &str, producer: &'static str) {
    let (input, output) = (room.topic(&format!("{part}.in"), 1), room.topic(&format!("{part}.out"), 1));
    let (proxy, name) = (room.broker().proxy(), room.name(part));
    let pipeline = room.copy_at(proxy.address(), &name, &[&input], &output).known_id();
    let pipeline = Pipeline { producer, transaction_timeout: Some(SHORT), ..pipeline };
    let load = room.load(&[&input], 1).start(0, 1000);
    let mut process = room.run(&pipeline);
    let group = room.cluster().group(&name);
    wait_until("it works", PATIENCE, || group.progress(&[&input]) > 500);
    let hold = proxy.hold_one(Api::EndTxn, &pipeline.id());
    hold.wait_held(PATIENCE);
    // Nothing commits while it is held; whatever is committed then came after it.
    let seen = group.progress(&[&input]);
    wait_until("it goes on without the answer, or ends", PATIENCE, || {
        group.progress(&[&input]) > seen || !process.is_running()
    });
    hold.release();
    let total = load.finish();
    if process.is_running() {
        process.wait_says(&["new producer"], PATIENCE); // a late request of the old epoch is refused
        group.wait_drained(&[&input], PATIENCE);
    } else {
        assert_ne!(process.wait_exit(Duration::ZERO), 0, "exit code");
        room.drain(&pipeline);
    }
    Ledger::of(room.cluster(), &output).assert_exact(0..total);
}
