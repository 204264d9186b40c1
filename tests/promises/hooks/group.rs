//! Heartbeats that are answered with an error out of the blue, under load.

use wattle_broker::{ApiKey, Code};

use super::{Copy, Ends, GoesOn, Outcome, all};
use crate::harness::room::Room;
use crate::harness::wait::{PATIENCE, wait_until};

/// With whether the member is a static one.
const CODES: &[(Code, bool, Outcome)] = &[
    (Code::RebalanceInProgress, false, GoesOn),
    (Code::UnknownMemberId, false, GoesOn),
    (Code::IllegalGeneration, false, GoesOn),
    (Code::NotCoordinator, false, GoesOn),
    (Code::GroupAuthorizationFailed, false, GoesOn),
    (Code::FencedInstanceId, false, Ends(&["group.instance.id"])),
    (Code::FencedInstanceId, true, Ends(&["group.instance.id"])),
];

pub(in crate::promises) fn a_member_that_hears_bad_news_loses_and_doubles_nothing(room: &Room) {
    let name =
        |(code, is_static, _): &(Code, bool, Outcome)| format!("{code:?}{}", if *is_static { ".static" } else { "" });
    all(CODES, name, |&(code, is_static, outcome), name| {
        let mut copy = Copy::on(room, room.cluster(), name);
        copy.pipeline.group_instance_id = is_static.then(|| name.to_owned());
        let load = copy.load().start(0, 1000);
        let mut process = room.run(&copy.pipeline);
        let group = room.cluster().group(&copy.name);
        wait_until("it works", PATIENCE, || group.progress(&[&copy.input]) > 300);
        let hook = room.broker().embedded().on(ApiKey::Heartbeat).matching(&copy.name).refuse(code);
        assert!(hook.wait_fired(1, PATIENCE), "it sends heartbeats");
        process = copy.goes_on(process, outcome);
        let seen = group.progress(&[&copy.input]);
        wait_until("it goes on", PATIENCE, || group.progress(&[&copy.input]) > seen + 1000);
        let total = load.finish();
        copy.wait_drained();
        process.stop_cleanly();
        copy.is_exact(0..total);
    });
}
