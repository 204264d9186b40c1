//! Which folders are taken.

use std::fs;

use tempfile::TempDir;
use wattle_broker::{Broker, Error};

use crate::support::{committed_values, send, sender};

#[test]
fn a_folder_with_other_things_is_refused() {
    let folder = TempDir::new().expect("a folder");
    fs::write(folder.path().join("letter.txt"), "dear").expect("written");
    let refused = Broker::builder().folder(folder.path()).start().expect_err("it is not ours");
    assert!(matches!(refused, Error::Foreign { .. }), "{refused}");
    assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 1, "nothing was added");
}

#[test]
fn a_folder_in_use_is_refused_with_its_owners_address() {
    let folder = TempDir::new().expect("a folder");
    let owner = Broker::builder().folder(folder.path()).topic("t", 1).start().expect("a broker");
    let refused = Broker::builder().folder(folder.path()).start().expect_err("it is in use");
    let Error::InUse { address, pid, .. } = &refused else { panic!("{refused}") };
    assert_eq!((address, *pid), (&owner.address(), std::process::id()));
    send(&sender(&owner), "t", 0, "a").expect("the owner goes on");
    drop(owner);
    let next = Broker::builder().folder(folder.path()).start().expect("it is free");
    assert_eq!(committed_values(&next), ["a"]);
}

#[test]
fn topics_to_begin_with_are_checked_before_anything_is_created() {
    let parent = TempDir::new().expect("a folder");
    let folder = parent.path().join("new");
    let start = |name: &str, partitions, settings: &[(&str, &str)]| {
        let builder = Broker::builder().folder(&folder).topic_with(name, partitions, settings.iter().copied());
        builder.start().expect_err("it cannot be")
    };
    assert!(matches!(start("a b", 1, &[]), Error::Topic { .. }));
    assert!(matches!(start("a", 0, &[]), Error::Topic { .. }));
    assert!(matches!(start("a", 1, &[("retention.msec", "1")]), Error::Setting { .. }));
    assert!(!folder.exists());
}
