//! Everything that goes wrong in a bad night, by seed. The same by hand, for longer: `cargo chaos`.

use crate::chaos::{Options, Stage, plan, run};
use crate::harness::room::Room;

/// Faults of processes and of the broker: the counts of each key are 1, 2, 3, … and every record is counted.
pub(super) fn counts_are_exact_whatever_becomes_of_processes_and_broker(room: &Room) {
    let kinds = ["terminate", "freeze", "broker"].to_vec();
    let kills = room.number(2, 25);
    run(room, &Options { seed: 52, kills, stage: Stage::Count, processes: (1, 3), kinds, rate: 2000 });
}

/// Those of requests and of other clients too.
pub(super) fn a_storm_of_faults_by_seed_is_exact(room: &Room) {
    let kinds = ["freeze", "rebalance", "broker", "hold", "delay", "cut", "late", "intruder", "refused"].to_vec();
    let kills = room.number(3, 30);
    run(room, &Options { seed: 7, kills, stage: Stage::Copy, processes: (1, 3), kinds, rate: 2000 });
}

/// A failure can be repeated: its plan is that of its options.
pub(super) fn a_seed_repeats_its_plan(_: &Room) {
    let kinds = vec!["freeze", "hold", "cut", "disk"];
    let options = |seed| Options { seed, kills: 50, stage: Stage::Count, processes: (1, 4), kinds: kinds.clone(), rate: 100 };
    assert_eq!(plan(&options(7)), plan(&options(7)));
    assert_ne!(plan(&options(7)), plan(&options(8)));
    let steps = plan(&options(7));
    for (kind, least) in [("kill", 50), ("freeze", 4), ("hold", 4), ("cut", 4), ("disk", 4)] {
        let times = steps.iter().filter(|step| step.kind == kind).count();
        assert!(times >= least && (kind != "kill" || times == 50), "{times} times {kind}");
    }
    assert!((1..=4).all(|n| steps.iter().any(|step| step.processes == n)), "every number of processes");
}
