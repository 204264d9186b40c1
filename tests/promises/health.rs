//! What a supervisor is told while a broker is away.

use crate::harness::ledger::Ledger;
use crate::harness::load::Load;
use crate::harness::ports::free_ports;
use crate::harness::receiver::get;
use crate::harness::room::Room;
use crate::harness::wait::{PATIENCE, wait_until};

/// A process that waits for its broker is alive, and not ready. When the broker is back, it is.
pub(super) fn a_process_whose_broker_is_away_is_alive_and_not_ready(room: &Room) {
    let broker = room.own_broker();
    let (input, output) = (room.name("in"), room.name("out"));
    for topic in [&input, &output] {
        broker.cluster().create_topic(topic, 2, &[]);
    }
    let [port] = free_ports().expect("a free port");
    let mut pipeline = room.copy_at(&broker.address(), &room.group(), &[&input], &output);
    pipeline.transaction_timeout = Some("60s");
    let file = format!("health_check: {{address: '127.0.0.1:{port}', stuck_after: 2s}}\n{pipeline}");
    let load = Load { address: broker.address(), topics: vec![input.clone()], partitions: 2 }.start(0, 2000);
    let mut process = room.run(file);
    let becomes = |what: &str, status: u16| {
        wait_until(what, PATIENCE, || {
            let answers = process.says(&["answers health checks"]);
            let liveness = get(port, "/liveness").0;
            assert!(liveness == 200 || liveness == 0 && !answers, "liveness {liveness}");
            get(port, "/readiness").0 == status
        });
    };
    becomes("it is ready", 200);
    broker.kill();
    becomes("it is not ready", 503);
    broker.start_again();
    becomes("it is ready again", 200);
    assert!(process.is_running(), "log: {}", process.stderr());
    let total = load.finish();
    broker.cluster().group(&room.group()).wait_drained(&[&input], PATIENCE);
    process.stop_cleanly();
    broker.cluster().wait_settled(&[&output]);
    Ledger::of(broker.cluster(), &output).assert_exact(0..total);
}
