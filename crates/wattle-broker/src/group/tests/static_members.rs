//! Members with an instance id keep their place.

use super::*;

fn static_pair(can_skip: bool) -> Room {
    let mut room = Room { now: 1_000_000, ..Room::default() };
    let first = room.static_member("i1", can_skip);
    room.joined(first);
    let second = room.static_member("i2", can_skip);
    let mut join = room.saying("n1", &["t"]);
    join.instance = Some("i1".to_owned());
    let first = room.join(join).expect("it may join");
    assert_eq!(room.joined(first).members.len(), 2);
    room.joined(second);
    room.named = 2;
    room.sync("n2", &[]).expect("it waits");
    room.sync("n1", &[("n1", "a"), ("n2", "b")]).expect("it leads");
    room.groups.take_changed(GROUP, room.now).expect("it is stable");
    room
}

#[test]
fn a_static_member_comes_back_to_its_assignment() {
    let mut room = static_pair(false);
    let generation = room.group().generation;
    let back = room.static_member("i2", false);
    let joined = room.joined(back);
    assert_eq!((joined.member_id.as_str(), joined.generation, joined.leader.as_str()), ("n3", generation, "n1"));
    let image = room.groups.take_changed(GROUP, room.now).expect("its new id is kept");
    assert!(image.members.iter().any(|m| m.id == "n3"));
    let ticket = room.sync("n3", &[]).expect("it syncs");
    assert_eq!(room.synced(ticket), Ok("b".to_owned()));
    let beat = room.groups.heartbeat(GROUP, "n2", Some("i2"), generation, room.now);
    assert_eq!(beat, Err(Code::FencedInstanceId));
    assert_eq!(room.group().may_commit("n2", Some("i2"), generation, true), Err(Code::FencedInstanceId));
    assert_eq!(room.groups.leave(GROUP, "n2", Some("i2"), room.now), Err(Code::FencedInstanceId));
}

#[test]
fn a_static_leader_that_comes_back_does_not_assign_anew() {
    let mut room = static_pair(false);
    let back = room.static_member("i1", false);
    let joined = room.joined(back);
    assert_eq!((joined.leader.as_str(), joined.members.len(), joined.skip_assignment), ("n1", 0, false));
    let mut room = static_pair(true);
    let back = room.static_member("i1", true);
    let joined = room.joined(back);
    assert_eq!((joined.leader.as_str(), joined.members.len(), joined.skip_assignment), ("n3", 2, true));
}

#[test]
fn a_static_member_that_subscribes_to_something_else_makes_it_rebalance() {
    let mut room = static_pair(true);
    let mut join = room.saying("", &["u"]);
    join.instance = Some("i2".to_owned());
    let back = room.join(join).expect("it may join");
    assert!(room.waits(back));
}

#[test]
fn a_static_member_that_is_replaced_while_it_waits_is_fenced() {
    let mut room = static_pair(false);
    let mut join = room.saying("n1", &["t"]);
    join.instance = Some("i1".to_owned());
    let waiting = room.join(join).expect("a leader joins again");
    let back = room.static_member("i1", false);
    assert_eq!(room.refused(waiting), Code::FencedInstanceId);
    assert!(room.waits(back));
}

#[test]
fn a_static_member_leaves_by_its_instance() {
    let mut room = static_pair(false);
    assert_eq!(room.groups.leave(GROUP, "", Some("i3"), room.now), Err(Code::UnknownMemberId));
    assert_eq!(room.groups.leave(GROUP, "", Some("i2"), room.now), Ok(()));
    assert_eq!(room.group().members.len(), 1);
}

#[test]
fn a_static_member_stays_through_a_rebalance_that_it_misses() {
    let mut room = static_pair(false);
    for member in room.groups.groups.get_mut(GROUP).expect("it is there").members.values_mut() {
        member.is.session_timeout = 10 * REBALANCE;
    }
    let mut join = room.saying("n1", &["t"]);
    (join.instance, join.session_timeout) = (Some("i1".to_owned()), 10 * REBALANCE);
    let leads = room.join(join).expect("it may join");
    room.pass(REBALANCE);
    assert_eq!(room.joined(leads).members.len(), 2);
    room.pass(9 * REBALANCE);
    assert!(!room.group().members.contains_key("n2"), "its session ended");
}
