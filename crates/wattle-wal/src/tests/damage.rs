//! Files that are cut short, and files that are damaged.

use super::*;

/// Entries in two complete segments and one that a killed process has left. Every entry was accepted.
fn three_segments() -> (Sim, Vec<(u64, String)>) {
    let disk = Sim::default();
    let log = open(&disk, SyncMode::GroupCommit);
    for i in 0.. {
        append(&log, &format!("entry {i} {}", "abcdefgh".repeat(i % 40)));
        if disk.segments().len() == 3 && disk.bytes(&disk.segments()[2]).len() > 600 {
            break;
        }
    }
    let entries = read(&log, None);
    (disk.killed(), entries)
}

#[test]
fn a_cut_at_every_place_leaves_a_prefix_or_is_refused() {
    let (disk, entries) = three_segments();
    for (place, name) in disk.segments().into_iter().enumerate() {
        let whole = disk.bytes(&name);
        for length in 0..whole.len() {
            let cut = disk.killed();
            cut.replace(&name, whole[..length].to_vec());
            match try_open(&cut) {
                Ok(log) => {
                    assert_eq!(place, 2, "{name} cut to {length}");
                    let found = read(&log, None);
                    assert_eq!(found, entries[..found.len()], "{name} cut to {length}");
                    let kept: usize = found.len() - entries.iter().filter(|(number, _)| *number < base(&name)).count();
                    assert_eq!(
                        kept,
                        whole_frames(&whole, length),
                        "{name} cut to {length}: every whole entry is there"
                    );
                }
                Err(Error::Damaged { path, at, .. }) => {
                    assert!(path.ends_with(&name) && at <= length as u64, "{name} cut to {length}: {path:?} {at}");
                    assert!(place < 2 || length < 48, "{name} cut to {length}");
                    assert_eq!(cut.bytes(&name).len(), length, "nothing was changed");
                }
                Err(other) => panic!("{name} cut to {length}: {other}"),
            }
        }
    }
}

fn base(name: &str) -> u64 {
    crate::segment::base(name).unwrap()
}

/// How many frames are within the first `length` bytes.
fn whole_frames(bytes: &[u8], length: usize) -> usize {
    let mut at = 48;
    let mut count = 0;
    while at + 24 <= length {
        at += 24 + u32::from_le_bytes(bytes[at + 4..at + 8].try_into().unwrap()) as usize;
        count += usize::from(at <= length);
    }
    count
}

#[test]
fn a_changed_byte_at_every_place_is_refused_with_file_and_place() {
    let (disk, _) = three_segments();
    let mut rng = fastrand::Rng::with_seed(7);
    for name in disk.segments() {
        let whole = disk.bytes(&name);
        for place in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[place] ^= rng.u8(1..);
            let damaged = disk.killed();
            damaged.replace(&name, bytes.clone());
            match try_open(&damaged) {
                Err(error @ Error::Damaged { .. }) => {
                    let text = error.to_string();
                    let Error::Damaged { path, at, .. } = error else { unreachable!() };
                    assert!(path.ends_with(&name), "{name} at {place}: {path:?}");
                    let length = u64::from(u32::from_le_bytes(whole[at as usize + 4..][..4].try_into().unwrap()));
                    let frame = if length < 4096 { at + 24 + length } else { at + 24 };
                    let is_near = if place < 48 { at < 48 } else { (at..frame).contains(&(place as u64)) };
                    assert!(is_near, "{name} at {place}: {at}");
                    assert!(text.contains("Bring the file back") && text.contains("move the whole folder"), "{text}");
                    assert_eq!(damaged.bytes(&name), bytes, "nothing was changed");
                }
                Err(other) => panic!("{name} at {place}: {other}"),
                Ok(_) => panic!("{name} at {place}: accepted"),
            }
        }
    }
}

#[test]
fn a_damage_in_the_middle_is_no_torn_tail_even_if_it_looks_like_one() {
    // 40 entries of 200 bytes; what a sector had is zero, as if it had never been written. The entries behind know better.
    let disk = Sim::default();
    let log = Log::on(
        std::sync::Arc::new(disk.clone()),
        Options { segment_bytes: 1 << 20, max_bytes: 2 << 20, ..Options::default() },
    );
    let log = log.unwrap();
    for _ in 0..40 {
        append(&log, &"x".repeat(200));
    }
    let name = &disk.segments()[0];
    let whole = disk.bytes(name);
    for sector in 1..whole.len() / 512 {
        let mut bytes = whole.clone();
        bytes[sector * 512..][..512].fill(0);
        let damaged = disk.killed();
        damaged.replace(name, bytes);
        let is_last = whole.len() < (sector + 1) * 512 + 224;
        match try_open(&damaged) {
            Err(Error::Damaged { at, .. }) => assert!(at <= sector as u64 * 512 && !is_last, "{sector}: {at}"),
            Ok(log) => assert!(is_last && texts(&log, None).len() >= 36, "{sector}"),
            Err(other) => panic!("{other}"),
        }
    }
}

#[test]
fn a_missing_segment_is_refused_by_name() {
    let (disk, _) = three_segments();
    let names = disk.segments();
    let missing = |gone: &[String]| {
        let disk = disk.killed();
        gone.iter().for_each(|name| crate::disk::Disk::remove(&disk, name).unwrap());
        try_open(&disk).err().map(|error| error.to_string())
    };
    assert!(missing(&names[1..2]).unwrap().contains(&names[1]));
    assert!(missing(&names).unwrap().contains("its segments are gone"));
    // The last one is found missing by the position that was committed.
    assert!(missing(&names[2..]).is_none());
    // A first one that is gone was deleted because it was covered, as far as the others know; the position knows better.
    let disk = disk.killed();
    crate::disk::Disk::remove(&disk, &names[0]).unwrap();
    assert!(matches!(try_open(&disk).unwrap().reader(Some(Position(0))), Err(Error::OutOfRange { .. })));
}

#[test]
fn segments_of_two_logs_are_told_apart() {
    let (disk, _) = three_segments();
    let (other, _) = three_segments();
    let name = &disk.segments()[1];
    disk.replace(name, other.bytes(name));
    let refused = try_open(&disk).err().unwrap().to_string();
    assert!(refused.contains("another log") && refused.contains(name.as_str()), "{refused}");
}

#[test]
fn a_damaged_mark_means_a_replay_and_never_a_loss() {
    let disk = Sim::default();
    let log = open(&disk, SyncMode::GroupCommit);
    for i in 0..10 {
        let number = append(&log, &i.to_string());
        read(&log, None);
        if i < 5 {
            log.cover(number.next()).unwrap();
        }
    }
    let mark = disk.bytes("covered");
    for place in 0..mark.len() {
        let damaged = disk.killed();
        let mut bytes = mark.clone();
        bytes[place] ^= 1;
        damaged.replace("covered", bytes);
        let replayed = texts(&try_open(&damaged).unwrap(), None).len();
        assert!([5, 6].contains(&replayed), "{place}: {replayed}");
    }
    let damaged = disk.killed();
    damaged.replace("covered", vec![0xff; mark.len()]);
    assert_eq!(texts(&try_open(&damaged).unwrap(), None).len(), 10);
}

#[test]
fn an_entry_in_the_place_of_another_hides_none() {
    let disk = Sim::default();
    let log = open(&disk, SyncMode::PerEntry);
    for text in ["one", "two", "six", "ten"] {
        append(&log, text);
    }
    let name = &disk.segments()[0];
    let whole = disk.bytes(name);
    let frame = |number: usize| 48 + number * 27..48 + (number + 1) * 27;
    // The last one where the third was, and nothing behind it: the numbers still go up.
    let mut bytes = whole[..frame(2).end].to_vec();
    bytes[frame(2)].copy_from_slice(&whole[frame(3)]);
    let damaged = disk.killed();
    damaged.replace(name, bytes);
    let refused = try_open(&damaged).err().map(|error| error.to_string());
    assert!(refused.is_some_and(|text| text.contains("at byte 102: its number is out of order")));
}
