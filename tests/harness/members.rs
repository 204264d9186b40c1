//! The members of a consumer group, of either group protocol: so many partitions has each.

use rdkafka::consumer::{BaseConsumer, Consumer};

use super::cluster::TIMEOUT;
use super::wire::{Api, Body, try_ask};

/// `None` while the group rebalances or is not there.
pub(super) fn of(address: &str, group: &str, consumer: &BaseConsumer) -> Option<Vec<usize>> {
    // An answer in part: a coordinator that is loading. The caller asks again.
    let list = consumer.fetch_group_list(Some(group), TIMEOUT).ok()?;
    match list.groups().first() {
        Some(found) if found.state() == "Stable" => {
            Some(found.members().iter().map(|member| member.assignment().map_or(0, classic)).collect())
        }
        Some(found) if found.state() == "Empty" => Some(Vec::new()),
        // To this question a group of the other protocol is none.
        None => consumers(address, group),
        Some(found) if found.state() == "Dead" => consumers(address, group),
        Some(_) => None,
    }
}

/// How many partitions a member's assignment has: version, then an array of (topic, array of partitions).
fn classic(mut bytes: &[u8]) -> usize {
    fn take<'b>(bytes: &mut &'b [u8], n: usize) -> &'b [u8] {
        let (head, tail) = bytes.split_at(n.min(bytes.len()));
        *bytes = tail;
        head
    }
    let number = |bytes: &mut &[u8]| take(bytes, 4).iter().fold(0_usize, |n, b| n << 8 | usize::from(*b));
    take(&mut bytes, 2);
    let mut total = 0;
    for _ in 0..number(&mut bytes) {
        let name = take(&mut bytes, 2).iter().fold(0_usize, |n, b| n << 8 | usize::from(*b));
        take(&mut bytes, name);
        let partitions = number(&mut bytes);
        take(&mut bytes, 4 * partitions);
        total += partitions;
    }
    total
}

/// The same of a group under the protocol `consumer`.
fn consumers(address: &str, group: &str) -> Option<Vec<usize>> {
    let question = Body::new().length(1).bytes(group).put([0]).end();
    // The embedded broker does not know the question.
    let mut answer = try_ask(address, Api::ConsumerGroupDescribe, question).ok()?;
    answer.take::<4>(); // how long to wait
    assert_eq!(answer.take_length(), 1, "one group");
    let error = i16::from_be_bytes(answer.take());
    answer.take_text(); // the error's
    answer.take_text(); // the group
    let state = answer.take_text();
    if error != 0 || state != "Stable" && state != "Empty" {
        return None;
    }
    answer.take::<8>(); // the group's epoch and the assignment's
    answer.take_text(); // the assignor
    Some((0..answer.take_length()).map(|_| member(&mut answer)).collect())
}

fn member(answer: &mut Body) -> usize {
    for _ in 0..3 {
        answer.take_text(); // its id, instance and rack
    }
    answer.take::<4>(); // its epoch
    for _ in 0..2 {
        answer.take_text(); // the client's id and host
    }
    for _ in 0..answer.take_length() {
        answer.take_text(); // a topic
    }
    answer.take_text(); // a regular expression
    let has = assignment(answer);
    assignment(answer); // what it is going to have
    answer.take_end();
    has
}

fn assignment(answer: &mut Body) -> usize {
    let mut total = 0;
    for _ in 0..answer.take_length() {
        answer.take::<16>(); // the topic's id
        answer.take_text(); // and name
        for _ in 0..answer.take_length() {
            answer.take::<4>();
            total += 1;
        }
        answer.take_end();
    }
    answer.take_end();
    total
}
