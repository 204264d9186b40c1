//! Fence, then positions: what an old owner sent and the broker gets late is neither lost nor doubled. In both transaction scopes.

use std::convert::identity;
use std::time::Duration;

use crate::harness::ledger::Ledger;
use crate::harness::pipeline::Pipeline;
use crate::harness::process::Process;
use crate::harness::proxy::{Api, Hold};
use crate::harness::room::Room;
use crate::harness::wait::{PATIENCE, wait_until};

/// Records that the old owner commits in peace, and all that it has read when it dies.
const DONE: u64 = 10;
const RECORDS: u64 = 500;

/// The transaction scopes of the old and of the new owner.
#[derive(Clone, Copy)]
pub(super) struct Scopes {
    pub(super) old: fn(Pipeline) -> Pipeline,
    pub(super) new: fn(Pipeline) -> Pipeline,
}

/// A transaction a task: the id of the only one ends in `-0`. It ends by itself soon.
pub(super) fn short(pipeline: Pipeline) -> Pipeline {
    Pipeline { transaction_timeout: Some("5s"), ..pipeline }
}

/// A transaction a worker, of an instance that makes the id end in `-0` too.
pub(super) fn worker(pipeline: Pipeline) -> Pipeline {
    Pipeline { group_instance_id: Some("0".to_owned()), ..short(pipeline).scope_worker() }
}

/// A transaction a task that would stay open for a minute.
const TASKS: Scopes = Scopes { old: identity, new: identity };

/// An owner whose requests of one kind are held by the proxy, and which is dead.
struct Dead {
    hold: Hold,
    input: String,
    output: String,
    pipeline: Pipeline,
}

/// `part` keeps several hand-overs of one test apart.
fn kill_with_a_request_under_way(room: &Room, part: &str, api: Api, scopes: Scopes) -> Dead {
    let (input, output) = (room.topic(&format!("{part}.in"), 1), room.topic(&format!("{part}.out"), 1));
    let name = room.name(part);
    let pipeline = Pipeline::copy(&room.broker().address(), &name, &[&input], &output);
    let (proxy, group) = (room.broker().proxy(), room.cluster().group(&name));
    let mut old = room.run((scopes.old)(Pipeline { brokers: proxy.address().to_owned(), ..pipeline.clone() }));
    room.load(&[&input], 1).send(0..DONE);
    group.wait_drained(&[&input], PATIENCE);
    let hold = proxy.hold(api, &format!("{name}-0"));
    room.load(&[&input], 1).send(DONE..RECORDS);
    hold.wait_held(PATIENCE);
    assert!(old.kill(), "it was there to be killed");
    assert_eq!(group.committed(&input), [Some(10)], "the request that is held would have moved it");
    Dead { hold, input, output, pipeline: (scopes.new)(pipeline) }
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
        Ledger::of(cluster, &self.output).assert_exact(0..2 * RECORDS);
        cluster.wait_settled(&[&self.output]);
        new.stop_cleanly();
    }
}

/// The commit lands while nobody owns the partition: the new owner goes on behind it.
pub(super) fn a_late_commit_before_the_fence_is_not_repeated(room: &Room) {
    released_before(room, TASKS);
}

pub(super) fn released_before(room: &Room, scopes: Scopes) {
    let dead = kill_with_a_request_under_way(room, "before", Api::EndTxn, scopes);
    dead.hold.release();
    let group = room.cluster().group(&dead.pipeline.consumer_group);
    wait_until("the late commit counts", PATIENCE, || group.committed(&dead.input)[0] > Some(10));
    let new = dead.take_over(room);
    dead.settle(room, new);
}

/// The commit lands while the new owner starts, at several moments: before its fence it counts, after it does not.
pub(super) fn a_late_commit_during_the_takeover_is_neither_lost_nor_doubled(room: &Room) {
    released_during(room, TASKS);
}

pub(super) fn released_during(room: &Room, scopes: Scopes) {
    for delay in room.number(vec![0, 5, 20], (0..40).step_by(2).collect()) {
        let dead = kill_with_a_request_under_way(room, &format!("after{delay}"), Api::EndTxn, scopes);
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
    released_after(room, "after", Api::EndTxn, TASKS);
}

/// The same for the request that makes the positions part of the transaction.
pub(super) fn late_positions_are_refused(room: &Room) {
    released_after(room, "after", Api::TxnOffsetCommit, TASKS);
}

/// The same for the outputs.
pub(super) fn late_outputs_are_refused(room: &Room) {
    released_after(room, "after", Api::Produce, TASKS);
}

pub(super) fn released_after(room: &Room, part: &str, api: Api, scopes: Scopes) {
    let dead = kill_with_a_request_under_way(room, part, api, scopes);
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
    late_commit(room, "patient", "{}", short);
}

/// The same where the client gives up on the connection long before the transaction's timeout, and asks again on a new one.
pub(super) fn a_commit_that_was_sent_twice_never_ends_the_next_transaction(room: &Room) {
    for round in 0..room.number(2, 10) {
        late_commit(room, &format!("hasty{round}"), "{socket.timeout.ms: 1000}", short);
    }
}

pub(super) fn late_commit(room: &Room, part: &str, producer: &'static str, scope: fn(Pipeline) -> Pipeline) {
    let (input, output) = (room.topic(&format!("{part}.in"), 1), room.topic(&format!("{part}.out"), 1));
    let (proxy, name) = (room.broker().proxy(), room.name(part));
    let pipeline = Pipeline { producer, ..scope(Pipeline::copy(proxy.address(), &name, &[&input], &output)) };
    let load = room.load(&[&input], 1).start(0, 1000);
    let mut process = room.run(&pipeline);
    let group = room.cluster().group(&name);
    wait_until("it works", PATIENCE, || group.progress(&[&input]) > 500);
    let hold = proxy.hold_one(Api::EndTxn, &format!("{name}-0"));
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
