//! The rules of membership, in virtual time.

mod static_members;

use std::collections::BTreeMap;

use super::*;

const GROUP: &str = "g";
const SESSION: Millis = 10_000;
const REBALANCE: Millis = 60_000;

/// Names its own newcomers `n1`, `n2`, ….
#[derive(Default)]
struct Room {
    groups: Groups,
    now: Millis,
    named: u32,
}

impl Room {
    fn group(&self) -> &Group {
        self.groups.get(GROUP).expect("the group is there")
    }

    fn saying(&mut self, member: &str, topics: &[&str]) -> Join {
        self.named += 1;
        Join {
            member_id: member.to_owned(),
            new_id: format!("n{}", self.named),
            instance: None,
            client_id: "client".to_owned(),
            client_host: "host".to_owned(),
            session_timeout: SESSION,
            rebalance_timeout: REBALANCE,
            protocol_type: "consumer".to_owned(),
            protocols: vec![("range".to_owned(), subscription(topics)), ("robin".to_owned(), subscription(topics))],
            id_first: false,
            can_skip_assignment: false,
        }
    }

    fn join(&mut self, join: Join) -> Result<Ticket, Refusal> {
        self.groups.join(GROUP, join, self.now)
    }

    /// Joins under a new id; the rebalance may wait for others.
    fn newcomer(&mut self) -> Ticket {
        let join = self.saying("", &["t"]);
        self.join(join).expect("it may join")
    }

    fn again(&mut self, member: &str) -> Ticket {
        let join = self.saying(member, &["t"]);
        self.join(join).expect("it may join")
    }

    fn static_member(&mut self, instance: &str, can_skip: bool) -> Ticket {
        let mut join = self.saying("", &["t"]);
        join.instance = Some(instance.to_owned());
        join.can_skip_assignment = can_skip;
        self.join(join).expect("it may join")
    }

    fn joined(&mut self, ticket: Ticket) -> Joined {
        self.groups.take_joined(GROUP, ticket).expect("it is answered").expect("it is in")
    }

    fn refused(&mut self, ticket: Ticket) -> Code {
        self.groups.take_joined(GROUP, ticket).expect("it is answered").expect_err("it is refused").code
    }

    fn waits(&mut self, ticket: Ticket) -> bool {
        self.groups.take_joined(GROUP, ticket).is_none()
    }

    fn sync(&mut self, member: &str, assignments: &[(&str, &str)]) -> Result<Ticket, Code> {
        let assignments = assignments.iter().map(|(id, what)| ((*id).to_owned(), what.as_bytes().to_vec())).collect();
        let generation = self.group().generation;
        let sync = Sync { member_id: member.to_owned(), generation, assignments, ..Sync::default() };
        self.groups.sync(GROUP, sync, self.now)
    }

    fn synced(&mut self, ticket: Ticket) -> Result<String, Code> {
        let answer = self.groups.take_synced(GROUP, ticket).expect("it is answered");
        answer.map(|assignment| String::from_utf8(assignment).expect("it is text"))
    }

    fn heartbeat(&mut self, member: &str) -> Result<(), Code> {
        let generation = self.group().generation;
        self.groups.heartbeat(GROUP, member, None, generation, self.now)
    }

    fn pass(&mut self, millis: Millis) -> Vec<Image> {
        self.now += millis;
        self.groups.expire(self.now)
    }

    /// A stable group of these many members, `n1` leading.
    fn stable(members: u32) -> Self {
        let mut room = Room { now: 1_000_000, ..Room::default() };
        let mut tickets = vec![room.newcomer()];
        for _ in 1..members {
            tickets.push(room.newcomer());
        }
        tickets.remove(0);
        // The first was alone in a generation of its own.
        if members > 1 {
            tickets.push(room.again("n1"));
            room.named -= 1;
        }
        for ticket in tickets {
            room.joined(ticket);
        }
        let ids: Vec<String> = room.group().members.keys().cloned().collect();
        let all: Vec<(&str, &str)> = ids.iter().map(|id| (id.as_str(), id.as_str())).collect();
        let syncs: Vec<Ticket> =
            ids.iter().map(|id| room.sync(id, if id == "n1" { &all } else { &[] }).expect("it syncs")).collect();
        for (id, ticket) in ids.iter().zip(syncs) {
            assert_eq!(room.synced(ticket).as_ref(), Ok(id));
        }
        assert_eq!(room.group().phase, Phase::Stable);
        room
    }
}

fn subscription(topics: &[&str]) -> Vec<u8> {
    let mut bytes = vec![0, 1];
    bytes.extend(i32::try_from(topics.len()).expect("few").to_be_bytes());
    for topic in topics {
        bytes.extend(i16::try_from(topic.len()).expect("short").to_be_bytes());
        bytes.extend(topic.as_bytes());
    }
    bytes
}

#[test]
fn one_member_is_in_at_once() {
    let mut room = Room::default();
    let ticket = room.newcomer();
    let joined = room.joined(ticket);
    assert_eq!((joined.generation, joined.leader.as_str(), joined.protocol.as_str()), (1, "n1", "range"));
    assert_eq!(joined.members, vec![("n1".to_owned(), None, subscription(&["t"]))]);
    assert_eq!(room.group().phase, Phase::CompletingRebalance);
    let ticket = room.sync("n1", &[("n1", "all")]).expect("it syncs");
    assert_eq!(room.synced(ticket), Ok("all".to_owned()));
    assert_eq!(room.heartbeat("n1"), Ok(()));
}

#[test]
fn a_newcomer_is_told_its_id_first() {
    let mut room = Room::default();
    let mut join = room.saying("", &["t"]);
    join.id_first = true;
    let refusal = room.join(join).expect_err("it is told its id");
    assert_eq!(refusal, Refusal { code: Code::MemberIdRequired, member_id: "n1".to_owned() });
    let ticket = room.again("n1");
    assert_eq!(room.joined(ticket).member_id, "n1");
}

#[test]
fn an_id_that_was_given_holds_the_rebalance_up_until_it_expires() {
    let mut room = Room::stable(1);
    let mut join = room.saying("", &["t"]);
    join.id_first = true;
    room.join(join).expect_err("it is told its id");
    let again = room.again("n1");
    assert!(room.waits(again));
    room.pass(SESSION);
    assert_eq!(room.joined(again).generation, 2);
}

#[test]
fn refuses_what_cannot_be() {
    let mut room = Room::stable(1);
    let mut refused = |change: fn(&mut Join)| {
        let mut join = room.saying("", &["t"]);
        change(&mut join);
        room.join(join).expect_err("it is refused").code
    };
    assert_eq!(refused(|j| j.session_timeout = 0), Code::InvalidSessionTimeout);
    assert_eq!(refused(|j| j.session_timeout = 30 * 60_000 + 1), Code::InvalidSessionTimeout);
    assert_eq!(refused(|j| j.protocols.clear()), Code::InconsistentGroupProtocol);
    assert_eq!(refused(|j| j.protocol_type.clear()), Code::InconsistentGroupProtocol);
    assert_eq!(refused(|j| j.protocol_type = "connect".to_owned()), Code::InconsistentGroupProtocol);
    assert_eq!(refused(|j| j.protocols = vec![("sticky".to_owned(), vec![])]), Code::InconsistentGroupProtocol);
    assert_eq!(refused(|j| j.member_id = "stranger".to_owned()), Code::UnknownMemberId);
    assert_eq!(refused(|j| (j.member_id, j.instance) = ("n1".into(), Some("i".into()))), Code::UnknownMemberId);
    let elsewhere = room.saying("n1", &["t"]);
    assert_eq!(room.groups.join("other", elsewhere, 0).expect_err("no such group").code, Code::UnknownMemberId);
    assert!(room.groups.get("other").is_none());
}

#[test]
fn the_protocol_is_one_that_all_speak_and_most_prefer() {
    let mut room = Room::stable(1);
    let mut join = room.saying("", &["t"]);
    join.protocols = vec![("sticky".to_owned(), vec![]), ("robin".to_owned(), vec![7])];
    let newcomer = room.join(join).expect("one in common is enough");
    let again = room.again("n1");
    assert_eq!(room.joined(newcomer).protocol, "robin");
    let joined = room.joined(again);
    assert_eq!(joined.members.len(), 2);
    assert!(joined.members.iter().any(|(_, _, metadata)| metadata == &[7]));
}

#[test]
fn a_second_member_waits_for_the_first() {
    let mut room = Room::stable(1);
    let newcomer = room.newcomer();
    assert!(room.waits(newcomer));
    assert_eq!(room.heartbeat("n1"), Err(Code::RebalanceInProgress));
    assert_eq!(room.sync("n1", &[]), Err(Code::RebalanceInProgress));
    let again = room.again("n1");
    let (first, second) = (room.joined(again), room.joined(newcomer));
    assert_eq!((first.generation, second.generation), (2, 2));
    assert_eq!((first.members.len(), second.members.len()), (2, 0));
    let follower = room.sync("n2", &[]).expect("it waits");
    assert_eq!(room.groups.take_synced(GROUP, follower), None);
    let leader = room.sync("n1", &[("n1", "a"), ("n2", "b")]).expect("it leads");
    assert_eq!((room.synced(leader), room.synced(follower)), (Ok("a".into()), Ok("b".into())));
}

#[test]
fn only_a_leader_or_a_change_makes_a_stable_group_rebalance() {
    let mut room = Room::stable(2);
    let generation = room.group().generation;
    let same = room.again("n2");
    assert_eq!(room.joined(same).generation, generation);
    assert_eq!(room.group().phase, Phase::Stable);
    let leads = room.again("n1");
    assert!(room.waits(leads));
    let mut room = Room::stable(2);
    let changed = room.saying("n2", &["t", "u"]);
    let changed = room.join(changed).expect("it may join");
    assert!(room.waits(changed));
    assert_eq!(room.group().phase, Phase::PreparingRebalance);
}

#[test]
fn a_lost_answer_is_given_again_while_the_leader_assigns() {
    let mut room = Room::default();
    let first = room.newcomer();
    room.joined(first);
    let again = room.again("n1");
    let joined = room.joined(again);
    assert_eq!((joined.generation, joined.members.len()), (1, 1));
}

#[test]
fn a_repeated_request_ends_the_one_before() {
    let mut room = Room::stable(2);
    let leads = room.again("n1");
    let repeated = room.again("n1");
    assert_eq!(room.refused(leads), Code::RebalanceInProgress);
    let other = room.again("n2");
    assert_eq!(room.joined(repeated).generation, room.joined(other).generation);
    let first = room.sync("n2", &[]).expect("it waits");
    let second = room.sync("n2", &[]).expect("it waits");
    assert_eq!(room.synced(first), Err(Code::RebalanceInProgress));
    room.sync("n1", &[("n2", "b")]).expect("it leads");
    assert_eq!(room.synced(second), Ok("b".to_owned()));
}

#[test]
fn generations_and_members_are_checked() {
    let mut room = Room::stable(1);
    let generation = room.group().generation;
    let beat = |room: &mut Room, member: &str, instance: Option<&str>, generation: i32| {
        room.groups.heartbeat(GROUP, member, instance, generation, room.now)
    };
    assert_eq!(beat(&mut room, "n1", None, generation - 1), Err(Code::IllegalGeneration));
    assert_eq!(beat(&mut room, "n1", None, generation + 1), Err(Code::IllegalGeneration));
    assert_eq!(beat(&mut room, "n9", None, generation), Err(Code::UnknownMemberId));
    assert_eq!(beat(&mut room, "n1", Some("i"), generation), Err(Code::UnknownMemberId));
    assert_eq!(room.groups.heartbeat("none", "n1", None, 1, 0), Err(Code::UnknownMemberId));
    let sync = |room: &mut Room, sync: Sync| room.groups.sync(GROUP, sync, room.now).expect_err("it is refused");
    let right = Sync { member_id: "n1".to_owned(), generation, ..Sync::default() };
    assert_eq!(sync(&mut room, Sync { generation: 0, ..right.clone() }), Code::IllegalGeneration);
    assert_eq!(sync(&mut room, Sync { member_id: "x".to_owned(), ..right.clone() }), Code::UnknownMemberId);
    let other = Sync { protocol: Some("robin".to_owned()), ..right.clone() };
    assert_eq!(sync(&mut room, other), Code::InconsistentGroupProtocol);
    let other = Sync { protocol_type: Some("connect".to_owned()), ..right };
    assert_eq!(sync(&mut room, other), Code::InconsistentGroupProtocol);
}

#[test]
fn a_silent_member_expires_and_the_others_rebalance() {
    let mut room = Room::stable(2);
    room.pass(SESSION - 1);
    assert_eq!(room.heartbeat("n1"), Ok(()));
    assert_eq!(room.group().members.len(), 2);
    room.pass(1);
    assert_eq!(room.group().members.keys().collect::<Vec<_>>(), ["n1"]);
    assert_eq!(room.heartbeat("n2"), Err(Code::UnknownMemberId));
    assert_eq!(room.heartbeat("n1"), Err(Code::RebalanceInProgress));
    let again = room.again("n1");
    assert_eq!(room.joined(again).members.len(), 1);
}

#[test]
fn who_waits_does_not_expire_and_who_does_not_come_is_out() {
    let mut room = Room::stable(2);
    let again = room.again("n1");
    for _ in 0..11 {
        room.pass(SESSION / 2);
        assert_eq!(room.heartbeat("n2"), Err(Code::RebalanceInProgress));
        assert!(room.waits(again));
    }
    room.pass(SESSION / 2);
    let joined = room.joined(again);
    assert_eq!((joined.members.len(), joined.leader.as_str()), (1, "n1"));
    assert_eq!(room.heartbeat("n2"), Err(Code::UnknownMemberId));
}

#[test]
fn a_leader_that_does_not_assign_is_replaced() {
    let mut room = Room::stable(2);
    let (first, second) = (room.again("n1"), room.again("n2"));
    room.joined(first);
    room.joined(second);
    let waiting = room.sync("n2", &[]).expect("it waits");
    for _ in 0..11 {
        room.pass(SESSION / 2);
        assert_eq!(room.heartbeat("n1"), Ok(()));
    }
    room.pass(SESSION / 2);
    assert_eq!(room.synced(waiting), Err(Code::RebalanceInProgress));
    let again = room.again("n2");
    assert_eq!(room.joined(again).leader, "n2");
}

#[test]
fn leaving_is_quick_and_the_last_one_leaves_it_empty() {
    let mut room = Room::stable(2);
    assert_eq!(room.groups.leave(GROUP, "n9", None, room.now), Err(Code::UnknownMemberId));
    assert_eq!(room.groups.leave(GROUP, "n1", None, room.now), Ok(()));
    let again = room.again("n2");
    assert_eq!(room.joined(again).leader, "n2");
    assert!(room.groups.take_changed(GROUP, room.now).is_some());
    assert_eq!(room.groups.leave(GROUP, "n2", None, room.now), Ok(()));
    assert_eq!(room.group().phase, Phase::Empty);
    let image = room.groups.take_changed(GROUP, room.now).expect("it became empty");
    assert!(image.members.is_empty());
    assert_eq!(room.groups.leave("none", "n2", None, room.now), Err(Code::UnknownMemberId));
}

#[test]
fn an_empty_group_is_remembered_for_a_while_and_with_positions_for_ever() {
    for positions in [false, true] {
        let mut room = Room::stable(1);
        room.groups.leave(GROUP, "n1", None, room.now).expect("it leaves");
        room.groups.take_changed(GROUP, room.now).expect("it became empty");
        if positions {
            room.groups.commit(GROUP, vec![(place("t"), committed(1, room.now))]);
        }
        room.pass(REMEMBERED);
        assert!(room.groups.get(GROUP).is_some());
        room.pass(1);
        assert_eq!(room.groups.get(GROUP).is_some(), positions);
    }
}

#[test]
fn who_may_commit() {
    let mut room = Room::stable(1);
    let generation = room.group().generation;
    let may = |room: &mut Room, group: &str, member: &str, generation: i32, transactional: bool| {
        room.groups.may_commit(group, member, None, generation, transactional, room.now)
    };
    for transactional in [false, true] {
        assert_eq!(may(&mut room, GROUP, "n1", generation, transactional), Ok(()));
        assert_eq!(may(&mut room, GROUP, "n1", generation - 1, transactional), Err(Code::IllegalGeneration));
        assert_eq!(may(&mut room, GROUP, "n1", -1, transactional), Err(Code::IllegalGeneration));
        assert_eq!(may(&mut room, GROUP, "n9", generation, transactional), Err(Code::UnknownMemberId));
        assert_eq!(may(&mut room, "none", "", -1, transactional), Ok(()));
        assert_eq!(may(&mut room, "none", "n1", 1, transactional), Err(Code::IllegalGeneration));
    }
    assert_eq!(may(&mut room, GROUP, "", -1, false), Err(Code::UnknownMemberId));
    assert_eq!(may(&mut room, GROUP, "", -1, true), Ok(()));
    let again = room.again("n1");
    let generation = room.joined(again).generation;
    assert_eq!(may(&mut room, GROUP, "n1", generation, false), Err(Code::RebalanceInProgress));
    assert_eq!(may(&mut room, GROUP, "n1", generation, true), Ok(()));
    room.groups.leave(GROUP, "n1", None, room.now).expect("it leaves");
    assert_eq!(may(&mut room, GROUP, "", -1, false), Ok(()));
    assert_eq!(may(&mut room, GROUP, "n1", generation, false), Err(Code::UnknownMemberId));
}

#[test]
fn members_survive_a_restart_with_new_sessions() {
    let mut room = Room::stable(2);
    let image = room.groups.take_changed(GROUP, room.now).expect("it is stable");
    let generation = image.generation;
    let mut after = Groups::default();
    after.restore(image, room.now + SESSION);
    assert_eq!(after.snapshot(), room.groups.snapshot());
    room.groups = after;
    room.pass(2 * SESSION - 1);
    assert_eq!(room.heartbeat("n1"), Ok(()));
    room.pass(1);
    assert_eq!(room.group().members.len(), 1);
    assert_eq!(room.group().generation, generation);
}

fn place(topic: &str) -> TopicPartition {
    TopicPartition { topic: topic.to_owned(), partition: 0 }
}

fn committed(offset: i64, at: Millis) -> Committed {
    Committed { offset, leader_epoch: -1, metadata: String::new(), at }
}

#[test]
fn positions_come_and_go() {
    let mut groups = Groups::default();
    groups.commit("a", vec![(place("t"), committed(1, 5)), (place("u"), committed(2, 5))]);
    groups.commit("b", vec![(place("t"), committed(3, 5))]);
    groups.commit("a", vec![(place("t"), committed(4, 6))]);
    groups.forget("a", &[place("u")]);
    assert_eq!(groups.snapshot()[0].1, vec![(place("t"), committed(4, 6))]);
    groups.forget_topic("t");
    assert!(groups.snapshot().iter().all(|(_, positions)| positions.is_empty()));
    groups.remove("a");
    assert!(groups.get("a").is_none());
}

/// Whatever members do, the journal replayed is the snapshot, and nobody waits for ever.
#[test]
fn the_journal_replayed_is_the_snapshot() {
    for seed in 1..200_u64 {
        let mut random = seed;
        let mut pick = move |n: u64| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random % n
        };
        let mut room = Room { now: 1_000_000, ..Room::default() };
        let mut replayed = Groups::default();
        let mut waiting = Vec::new();
        for _ in 0..120 {
            let known: Vec<String> =
                room.groups.get(GROUP).map_or_else(Vec::new, |g| g.members.keys().cloned().collect());
            let member = known.get(usize::try_from(pick(4)).expect("small")).cloned().unwrap_or_default();
            let mut images = Vec::new();
            match pick(6) {
                0 => {
                    let mut join = room.saying(&member, &["t", "u"][..1 + usize::try_from(pick(2)).expect("small")]);
                    join.id_first = pick(2) == 0;
                    join.instance = (pick(3) == 0).then(|| format!("i{}", pick(3)));
                    waiting.extend(room.join(join));
                }
                1 => waiting.extend(room.groups.get(GROUP).is_some().then(|| room.again_if(&member)).flatten()),
                2 | 3 => drop(room.groups.get(GROUP).is_some().then(|| room.sync(&member, &[(&member, "x")]))),
                4 => drop(room.groups.leave(GROUP, &member, None, room.now)),
                _ => images = room.pass(Millis::try_from(pick(7_000)).expect("small")),
            }
            images.extend(room.groups.take_changed(GROUP, room.now));
            images.into_iter().for_each(|image| replayed.restore(image, room.now));
            let journaled: BTreeMap<_, _> =
                replayed.snapshot().into_iter().map(|(i, p)| (i.name.clone(), (i, p))).collect();
            for (image, positions) in room.groups.snapshot().into_iter().filter(|(image, _)| image.generation > 0) {
                assert_eq!(journaled.get(&image.name), Some(&(image, positions)), "seed {seed}");
            }
        }
        for _ in 0..30 {
            room.pass(REBALANCE);
        }
        for ticket in waiting {
            // Taken by nobody until now: every one of them is answered.
            assert!(room.groups.take_joined(GROUP, ticket).is_some(), "seed {seed}: ticket {ticket} still waits");
        }
    }
}

impl Room {
    fn again_if(&mut self, member: &str) -> Option<Ticket> {
        let join = self.saying(member, &["t"]);
        self.join(join).ok()
    }
}
