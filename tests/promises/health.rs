//! What a supervisor is told, and what nobody is.

use std::time::{Duration, Instant};

use crate::harness::http::Client;
use crate::harness::ledger::Ledger;
use crate::harness::load::Load;
use crate::harness::mode::Scope;
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

/// Streams of both scopes and one without a Kafka input, of which none has a record: nothing is stuck, and each says all the same that no broker answers.
pub(super) fn an_idle_process_whose_broker_is_away_is_not_ready(room: &Room) {
    let broker = room.own_broker();
    let address = broker.address();
    for topic in ["in", "out"] {
        broker.cluster().create_topic(&room.name(topic), 2, &[]);
    }
    let [port, http] = free_ports().expect("free ports");
    let copy = |id: &str, scope| room.copy_at(&address, &room.name(id), &[&room.name("in")], &room.name("out")).scope(scope).to_string();
    let (task, worker) = (copy("task", Scope::Task), copy("worker", Scope::Worker).replace("id: copy", "id: worker"));
    let worker = worker.strip_prefix("streams:\n").expect("it is a whole file");
    let file = format!(
        "health_check: {{address: '127.0.0.1:{port}', stuck_after: 3s}}\n{task}{worker}  - id: take\n    input: {{type: http, address: \
         '127.0.0.1:{http}', path: /x}}\n    output: {{type: kafka, brokers: ['{address}'], topic: {}}}\n",
        room.name("out")
    );
    let mut process = room.run(file);
    wait_until("it is ready", PATIENCE, || get(port, "/readiness").0 == 200);
    broker.kill();
    let begin = Instant::now();
    wait_until("each stream says so", PATIENCE, || {
        let (status, body) = get(port, "/readiness");
        status == 503 && body.matches(&format!("no broker of {address} has answered for")).count() == 3
    });
    assert!(begin.elapsed() < Duration::from_secs(6), "it was noticed after {:?}", begin.elapsed());
    assert_eq!(get(port, "/liveness").0, 200);
    broker.start_again();
    wait_until("it is ready again", PATIENCE, || get(port, "/readiness").0 == 200);
    process.stop_cleanly();
}

/// Secrets in every place of a file that has room for one, the clients as talkative as they can be, and an output that fails.
pub(super) fn no_secret_is_in_an_answer_or_in_the_log(room: &Room) {
    let (input, broker) = (room.topic("in", 1), room.broker().address());
    let [port, http] = free_ports().expect("free ports");
    let client = "client: {debug: all, sasl.username: me, sasl.password: S3cr3t-1}";
    let file = format!(
        r#"
health_check: {{address: '127.0.0.1:{port}'}}
brokers: "{broker}"
streams:
  - id: take
    input: {{type: http, address: '127.0.0.1:{http}', path: /x, auth: {{type: bearer, token: S3cr3t-2}}}}
    output: {{type: kafka, topic: "{input}", {client}}}
  - id: post
    input: {{type: kafka, topics: ["{input}"], consumer_group: {group}, {client}}}
    pipeline: {{processors: [{{type: vrl, statement: '.token = "S3cr3t-3"'}}]}}
    output: {{type: http, url: 'http://u:S3cr3t-4@127.0.0.1:1/S3cr3t-5?key=S3cr3t-6', headers: {{x-token: S3cr3t-7}}}}
"#,
        group = room.group(),
    );
    let mut process = room.shell(r#"RUST_LOG=trace RUST_BACKTRACE=full exec "$0" run "$1" --log-level trace"#, file);
    wait_until("it is ready", PATIENCE, || get(port, "/readiness").0 == 200);
    let mut bodies = vec![get(http, "/x").1];
    bodies.extend(Client::new(http).post("/x", "{}").map(|answer| answer.body));
    room.load(&[&input], 1).send(0..3);
    wait_until("the output fails", PATIENCE, || get(port, "/readiness").0 == 503);
    let paths = ["/health", "/readiness", "/liveness", "/metrics", "/", "/S3cr3"];
    bodies.extend(paths.map(|path| get(port, path).1));
    assert!(process.kill(), "it was there to be killed");
    assert!(bodies.len() == 8 && bodies.iter().all(|body| !body.is_empty()), "{bodies:?}");
    assert!(bodies.iter().any(|body| body.contains("nobody listens")), "{bodies:?}");
    assert!(process.says(&["sasl.password", "redacted"]), "the clients say what they are set to");
    let log = process.stderr() + &process.stdout().join("\n");
    let told: Vec<_> = bodies.iter().flat_map(|body| body.lines()).chain(log.lines()).collect();
    let told: Vec<_> = told.iter().filter(|line| line.contains("S3cr3t")).collect();
    assert!(told.is_empty(), "{told:?}");
}
