//! Takes rights away from everybody, and gives them back. All of a test's clients are anonymous.

use super::wait::{PATIENCE, wait_until};
use super::wire::{Api, Body, ask};

const EVERYBODY: &str = "User:*";
const LITERAL: u8 = 3;
const ANY: u8 = 1;
const DENY: u8 = 2;
const ALLOW: u8 = 3;
const ALL: u8 = 2;

/// Kafka's numbers for kinds of resources.
#[derive(Clone, Copy, Debug)]
#[repr(u8)]
pub(crate) enum Resource {
    Topic = 2,
    Group = 3,
    TransactionalId = 5,
}

/// Kafka's numbers for what is done with them.
#[derive(Clone, Copy, Debug)]
#[repr(u8)]
pub(crate) enum Operation {
    Read = 3,
    Write = 4,
}

/// A right that nobody has until [`Denied::allow`].
pub(crate) struct Denied {
    address: String,
    kind: Resource,
    name: String,
}

/// Everything else is still allowed: a resource with a rule of its own is closed to what no rule allows.
pub(crate) fn deny(address: &str, kind: Resource, name: &str, operation: Operation) -> Denied {
    let rule = |operation: u8, permission: u8| {
        let resource = Body::new().put([kind as u8]).bytes(name).put([LITERAL]);
        resource.bytes(EVERYBODY).bytes("*").put([operation, permission]).end()
    };
    let body = Body::new().length(2).then(rule(ALL, ALLOW)).then(rule(operation as u8, DENY)).end();
    let mut answer = ask(address, Api::CreateAcls, body);
    answer.take::<4>(); // how long to wait
    assert_eq!(answer.take_length(), 2, "two answers");
    for _ in 0..2 {
        assert_eq!(answer.take(), [0; 2], "the error's number");
        answer.take_text(); // the error's
        answer.take_end();
    }
    let denied = Denied { address: address.to_owned(), kind, name: name.to_owned() };
    wait_until("the broker knows the rules", PATIENCE, || denied.is_known());
    denied
}

impl Denied {
    /// All rules of the resource.
    fn filter(&self) -> Body {
        let resource = Body::new().put([self.kind as u8]).bytes(&self.name).put([LITERAL]);
        resource.put([0, 0]).put([ANY, ANY]).end() // of whatever principal and host
    }

    fn is_known(&self) -> bool {
        let mut answer = ask(&self.address, Api::DescribeAcls, self.filter());
        answer.take::<4>(); // how long to wait
        assert_eq!(answer.take(), [0; 2], "the error's number");
        answer.take_text(); // the error's
        answer.take_length() > 0
    }

    /// Gives the right back.
    pub(crate) fn allow(self) {
        let filters = Body::new().length(1).then(self.filter()).end();
        ask(&self.address, Api::DeleteAcls, filters);
        wait_until("the broker has forgotten the rules", PATIENCE, || !self.is_known());
    }
}
