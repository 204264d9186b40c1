//! What clients may and may not write.

use super::*;

fn refused(batch: Bytes, set: &[(&str, &str)]) -> (Code, String) {
    let mut log = memory();
    match log.append(batch, &config(set), NOW) {
        Err(Refused::Code(code, Some(text))) => {
            assert_eq!((log.end(), log.bytes()), (0, 0));
            (code, text)
        }
        other => panic!("{other:?}"),
    }
}

/// A batch with some bytes changed, and the right checksum.
fn changed(writer: Writer, change: impl FnOnce(&mut Vec<u8>)) -> Bytes {
    let mut bytes = batch(writer, &plain(2)).to_vec();
    change(&mut bytes);
    let crc = crc32c::crc32c(&bytes[21..]);
    bytes[17..21].copy_from_slice(&crc.to_be_bytes());
    bytes.into()
}

#[test]
fn formats_and_checksums() {
    let whole = batch(ANYONE, &plain(2));
    for end in 0..whole.len() {
        let (code, _) = refused(whole.slice(..end), &[]);
        assert_eq!(code, if end == 0 { Code::InvalidRecord } else { Code::CorruptMessage });
    }
    for at in 17..whole.len() {
        let mut damaged = whole.to_vec();
        damaged[at] ^= 1;
        let (code, _) = refused(damaged.into(), &[]);
        assert_eq!(code, Code::CorruptMessage, "{at}");
    }
    for magic in [0, 1] {
        let old = changed(ANYONE, |bytes| bytes[16] = magic);
        assert_eq!(refused(old, &[]).0, Code::UnsupportedForMessageFormat);
    }
    assert_eq!(refused([&whole[..], &whole[..]].concat().into(), &[]).0, Code::InvalidRecord);
}

#[test]
fn fields() {
    let bit = |bits: u8| changed(ANYONE, move |bytes| bytes[22] |= bits);
    assert_eq!(refused(bit(0x20), &[]).0, Code::InvalidRecord);
    assert_eq!(refused(bit(0x40), &[]).0, Code::InvalidRecord);
    assert_eq!(refused(bit(0x10), &[]).0, Code::InvalidRecord);
    assert_eq!(refused(bit(0x08), &[]).0, Code::InvalidTimestamp);
    assert_eq!(refused(bit(0x05), &[]).0, Code::UnsupportedCompressionType);
    assert_eq!(refused(changed(ANYONE, |bytes| bytes[60] = 3), &[]).0, Code::InvalidRecord);
    assert_eq!(refused(changed(ANYONE, |bytes| bytes[57..61].fill(0)), &[]).0, Code::InvalidRecord);
    assert_eq!(refused(batch(idempotent(1, -1, 0), &plain(1)), &[]).0, Code::InvalidRecord);
    assert_eq!(refused(batch(idempotent(1, 0, -1), &plain(1)), &[]).0, Code::InvalidRecord);
}

#[test]
fn sizes_count_the_whole_batch() {
    let whole = batch(ANYONE, &plain(2));
    let limit = |size: usize| size.to_string();
    assert_eq!(refused(whole.clone(), &[("max.message.bytes", &limit(whole.len() - 1))]).0, Code::MessageTooLarge);
    append(&mut memory(), whole.clone(), &config(&[("max.message.bytes", &limit(whole.len()))])).unwrap();
}

#[test]
fn compacted_topics_need_keys_in_every_codec() {
    let compact = [("cleanup.policy", "compact")];
    for codec in 0..=4 {
        let writer = Writer { codec, ..ANYONE };
        append(&mut memory(), batch(writer, &plain(2)), &config(&compact)).unwrap();
        let (code, text) = refused(batch(writer, &[(Some("key"), None, NOW), (None, Some("value"), NOW)]), &compact);
        assert_eq!(code, Code::InvalidRecord);
        assert!(text.contains("record 1 "), "{text}");
    }
    let unreadable = changed(Writer { codec: 4, ..ANYONE }, |bytes| bytes.truncate(70));
    let mut unreadable = unreadable.to_vec();
    unreadable[8..12].copy_from_slice(&58i32.to_be_bytes());
    assert_eq!(refused(unreadable.into(), &compact).0, Code::InvalidRecord);
}

#[test]
fn times_are_limited() {
    let at = |time| batch(ANYONE, &[(Some("key"), Some("value"), time), (Some("key"), Some("value"), NOW)]);
    let set = [("message.timestamp.before.max.ms", "10"), ("message.timestamp.after.max.ms", "20")];
    for (time, fits) in [(NOW - 11, false), (NOW - 10, true), (NOW + 20, true), (NOW + 21, false)] {
        match fits {
            true => drop(append(&mut memory(), at(time), &config(&set)).unwrap()),
            false => assert_eq!(refused(at(time), &set).0, Code::InvalidTimestamp),
        }
    }
    append(&mut memory(), at(0), &config(&[])).unwrap();
}
