//! What the fuzz target `requests` calls, and the test over its corpus: a few requests to a broker in memory.
//!
//! An input is first what a socket brings, then frames, each with its length before it in two bytes, little-endian. Three things make more of the bytes mean something:
//! - The kind `TIME` lets time pass: as many milliseconds as its correlation id says.
//! - Batches get their right checksum.
//! - `MEMBER` becomes the member id that was given last.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use kafka_protocol::messages::{ApiKey, RequestKind};

use crate::api;
use crate::clock::Clock;
use crate::control::Controls;
use crate::core::{Core, Settings};
use crate::housekeeping::keep_house;
use crate::recovery::recover;
use crate::server::{self, Address, End, Session};
use crate::types::Isolation;

/// The kind of a frame that lets time pass.
pub const TIME: i16 = i16::MAX;
/// Stands for a member id, as a client has it whose id is `c`.
pub const MEMBER: &[u8; 38] = b"c-MMMMMMMM-MMMM-MMMM-MMMM-MMMMMMMMMMMM";
/// A broker that has been up for so long has seen everything.
const LONGEST_WAIT: u32 = 30 * 24 * 60 * 60 * 1000;

/// Sends the requests of an input, in order.
///
/// # Panics
/// Where an answer cannot be encoded, a request breaks the broker, or what is in its logs cannot be read.
pub fn requests(mut input: &[u8]) {
    let mut socket = input;
    while let Ok(Some(_)) = server::read(&mut socket) {}
    let core = core();
    let peer = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
    let advertised = Address { host: "localhost".into(), port: 9092 };
    let session = Session { peer, advertised, controls: Arc::new(Controls::default()), core: core.clone() };
    let mut member = *MEMBER;
    while let [low, high, rest @ ..] = input {
        let length = usize::from(u16::from_le_bytes([*low, *high])).min(rest.len());
        let (frame, rest) = rest.split_at(length);
        input = rest;
        if length >= 8 {
            send(&session, frame, &mut member);
        }
    }
    keep_house(&core, true);
    check(&core);
}

fn core() -> Arc<Core> {
    let clock = Arc::new(Clock::default());
    let now = clock.now();
    let (mut state, _) = recover(None, now).expect("memory has no errors");
    let compacted = [("cleanup.policy", "compact"), ("segment.ms", "1"), ("min.cleanable.dirty.ratio", "0")];
    for (name, settings) in [("t", &[][..]), ("c", &compacted[..])] {
        let settings = settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        state.create_topic(name, 2, settings, now).expect("memory has no errors");
    }
    Arc::new(Core::new(state, clock, Settings { auto_create: Some(1), waits: false }))
}

fn send(session: &Session, frame: &[u8], member: &mut [u8; 38]) {
    let frame = prepared(frame, member);
    let head = server::head(&frame);
    if head.key == TIME {
        let millis = head.correlation.unsigned_abs().min(LONGEST_WAIT);
        session.core.clock.advance(Duration::from_millis(millis.into()));
        return keep_house(&session.core, true);
    }
    match session.answer(frame) {
        Ok(Some(answer)) if head.key == ApiKey::JoinGroup as i16 => {
            // The leader's, and the client's own behind it.
            if let Some(given) = answer.windows(MEMBER.len()).find(|text| is_member(text)) {
                member.copy_from_slice(given);
            }
        }
        Ok(_) | Err(End::Malformed(..) | End::Dropped) => {}
        Err(End::Unanswerable(head, problem)) => panic!("{head:?}: {problem}"),
    }
}

/// The frame with the member's id and the checksums of its batches.
fn prepared(frame: &[u8], member: &[u8]) -> Bytes {
    let mut frame = frame.to_vec();
    while let Some(at) = frame.windows(MEMBER.len()).position(|text| text == MEMBER && text != member) {
        frame[at..at + MEMBER.len()].copy_from_slice(member);
    }
    let bytes = Bytes::from(frame.clone());
    let head = server::head(&bytes);
    if head.key != ApiKey::Produce as i16 || !api::accepts(ApiKey::Produce, head.version) {
        return bytes;
    }
    let start = bytes.as_ptr() as usize;
    if let Ok((_, RequestKind::Produce(produce))) = server::decode(bytes, ApiKey::Produce, head.version) {
        let partitions = produce.topic_data.iter().flat_map(|topic| &topic.partition_data);
        for batch in partitions.filter_map(|partition| partition.records.as_ref()).filter(|batch| batch.len() > 21) {
            let at = batch.as_ptr() as usize - start;
            frame[at + 17..at + 21].copy_from_slice(&crc32c::crc32c(&batch[21..]).to_be_bytes());
        }
    }
    frame.into()
}

fn is_member(text: &[u8]) -> bool {
    text.iter().zip(MEMBER).all(|(byte, form)| if *form == b'M' { byte.is_ascii_hexdigit() } else { byte == form })
}

fn check(core: &Core) {
    let state = core.lock();
    assert_eq!(state.broken, None);
    for (name, topic) in &state.topics {
        for (number, log) in topic.partitions.iter().enumerate() {
            let (start, stable, end) = (log.start(), log.last_stable(), log.end());
            assert!(start <= stable && stable <= end, "{name}/{number}: {start} {stable} {end}");
            for isolation in [Isolation::ReadCommitted, Isolation::ReadUncommitted] {
                log.read(start, usize::MAX, true, isolation).expect("what was accepted can be read");
            }
            log.offset_for_time(0).and_then(|_| log.max_timestamp()).expect("what was accepted can be read");
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn no_input_that_fuzzing_has_kept_breaks_the_broker() {
        let corpus = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/requests");
        let mut count = 0;
        for file in std::fs::read_dir(corpus).expect("the corpus is there") {
            let path = file.expect("a file").path();
            eprintln!("{}", path.display());
            super::requests(&std::fs::read(path).expect("readable"));
            count += 1;
        }
        assert!(count > 0, "{corpus} is empty");
    }
}
