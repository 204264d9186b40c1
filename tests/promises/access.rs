//! Rights that are missing: a process that waits for them looks alive.

use std::thread;

use crate::harness::acl::{Operation, Resource, deny};
use crate::harness::ledger::Ledger;
use crate::harness::room::Room;
use crate::harness::wait::PATIENCE;

/// Each is missing for itself. When it is there, a restart is enough.
pub(super) fn a_right_that_is_missing_is_named_and_the_process_ends(room: &Room) {
    let cases = [
        ("id", Resource::TransactionalId, Operation::Write),
        ("group", Resource::Group, Operation::Read),
        ("in", Resource::Topic, Operation::Read),
        ("out", Resource::Topic, Operation::Write),
    ];
    thread::scope(|scope| {
        for (part, kind, operation) in cases {
            scope.spawn(move || is_named(room, part, kind, operation));
        }
    });
}

fn is_named(room: &Room, part: &str, kind: Resource, operation: Operation) {
    let (input, output) = (room.topic(&format!("{part}.in"), 1), room.topic(&format!("{part}.out"), 1));
    let (address, name) = (room.broker().address(), room.name(part));
    let pipeline = room.copy_at(&address, &name, &[&input], &output);
    room.load(&[&input], 1).send(0..10);
    let resource = match (kind, part) {
        (Resource::TransactionalId, _) => pipeline.id(),
        (Resource::Group, _) => pipeline.consumer_group.clone(),
        (Resource::Topic, "in") => input.clone(),
        (Resource::Topic, _) => output.clone(),
    };
    let denied = deny(&address, kind, &resource, operation);
    // Whether the id may be used is told to who uses it, and of a group that is not there yet nothing is told.
    if matches!(kind, Resource::Topic) {
        let mut check = room.check(&pipeline);
        assert_eq!(check.wait_exit(PATIENCE), 1, "{part}: {}", check.stderr());
        assert!(check.says(&["the user lacks the right (ACL)", &resource]), "{part}: {}", check.stderr());
    }
    let mut process = room.run(&pipeline);
    assert_eq!(process.wait_exit(PATIENCE), 1, "exit code; log: {}", process.stderr());
    assert!(process.says(&["W0010", "authorization failed", &resource]), "{part}: {}", process.stderr());
    let lines = process.stderr().lines().count();
    assert!(lines < 50, "{part}: {lines} lines of log");
    denied.allow();
    room.drain(&pipeline);
    Ledger::of(room.cluster(), &output).assert_exact(0..10);
}
