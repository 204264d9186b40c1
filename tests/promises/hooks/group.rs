//! Heartbeats that are answered with an error out of the blue, under load.

use wattle_broker::{ApiKey, Code};

use super::{Copy, Ends, GoesOn, Outcome, all};
use crate::harness::room::Room;
use crate::harness::wait::{PATIENCE, wait_until};

const CODES: &[(Code, Outcome)] = &[
    (Code::RebalanceInProgress, GoesOn),
    (Code::UnknownMemberId, GoesOn),
    (Code::IllegalGeneration, GoesOn),
    (Code::NotCoordinator, GoesOn),
    (Code::FencedInstanceId, Ends(&["group.instance.id"])),
    (Code::GroupAuthorizationFailed, Ends(&["authorization failed"])),
];

pub(in crate::promises) fn a_member_that_hears_bad_news_loses_and_doubles_nothing(room: &Room) {
    all(CODES, |(code, _)| format!("{code:?}"), |&(code, outcome), name| {
        let copy = Copy::on(room, room.cluster(), name);
        let load = copy.load().start(0, 1000);
        let mut process = room.run(&copy.pipeline);
        let group = room.cluster().group(&copy.name);
        wait_until("it works", PATIENCE, || group.progress(&[&copy.input]) > 300);
        let hook = room.broker().embedded().on(ApiKey::Heartbeat).matching(&copy.name).refuse(code);
        assert!(hook.wait_fired(1, PATIENCE), "it sends heartbeats");
        if let Ends(words) = outcome {
            assert_eq!(process.wait_exit(PATIENCE), 1, "exit code");
            assert!(process.says(words), "{words:?} in {}", process.stderr());
            process = room.run(&copy.pipeline);
        }
        let seen = group.progress(&[&copy.input]);
        wait_until("it goes on", PATIENCE, || group.progress(&[&copy.input]) > seen + 1000);
        let total = load.finish();
        copy.wait_drained();
        process.stop_cleanly();
        copy.is_exact(0..total);
    });
}
