//! MQTT to Kafka: a message is acknowledged when it is safe, and none that the broker was to deliver is lost.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use rumqttc::v5::mqttbytes::QoS;
use rumqttc::v5::mqttbytes::v5::{ConnectReturnCode, SubscribeReasonCode};

use crate::harness::cluster::Cluster;
use crate::harness::cluster::Isolation::{ReadCommitted, ReadUncommitted};
use crate::harness::ledger::{Ledger, count, records};
use crate::harness::mqtt::MqttBroker;
use crate::harness::ports::free_ports;
use crate::harness::process::Process;
use crate::harness::receiver::get;
use crate::harness::room::Room;
use crate::harness::wait::{PATIENCE, wait_until};

/// Messages that nobody has acknowledged, at most.
const BACKLOG: usize = 200;

/// A stream from MQTT to a topic.
struct Bridge<'a> {
    room: &'a Room,
    cluster: &'a Cluster,
    port: u16,
    output: String,
    qos: u8,
    /// The keys of `durability`, or none.
    durability: Option<String>,
    /// Further keys of the file.
    more: String,
}

impl<'a> Bridge<'a> {
    fn new(room: &'a Room, broker: &MqttBroker) -> Self {
        Bridge::on(room, room.cluster(), broker)
    }

    fn on(room: &'a Room, cluster: &'a Cluster, broker: &MqttBroker) -> Self {
        let output = room.name("out");
        cluster.create_topic(&output, 2, &[]);
        Bridge { room, cluster, port: broker.port(), output, qos: 1, durability: Some(String::new()), more: String::new() }
    }

    fn yaml(&self) -> String {
        let Bridge { room, cluster, port, output, qos, durability, more } = self;
        let (id, brokers) = (room.group(), cluster.address());
        let input = format!("type: mqtt, host: 127.0.0.1, port: {port}, client_id: bridge, topics: ['sensors/#'], qos: {qos}, receive_maximum: 50");
        let (log, exactly_once) = match durability {
            Some(keys) => {
                (format!("    durability: {{path: wal{keys}}}\n"), format!("exactly_once: true, transactional_id: {id}, "))
            }
            None => (String::new(), String::new()),
        };
        format!(
            "streams:\n  - id: bridge\n    input: {{{input}}}\n{log}    batch: {}\n    \
             output: {{type: kafka, {exactly_once}topic: {output}, brokers: \"{brokers}\"}}\n{more}",
            room.batch(100)
        )
    }

    /// Starts it, and returns when it takes messages.
    fn run(&self, broker: &MqttBroker) -> Process {
        let before = broker.connections();
        let mut process = self.room.run(self.yaml());
        wait_until("it takes messages", PATIENCE, || {
            assert!(process.is_running(), "it ended: {}", process.stderr());
            broker.connections() > before
        });
        process
    }

    fn ledger(&self) -> Ledger {
        Ledger::of(self.cluster, &self.output)
    }
}

fn message(number: u64) -> String {
    format!(r#"{{"i":{number},"from":"sensors/{}"}}"#, number % 3)
}

/// Runs `work` while messages are published that `qos` gives; returns how many.
fn beside_a_publisher(broker: &MqttBroker, qos: impl Fn(u64) -> QoS + Sync, work: impl FnOnce(&AtomicU64)) -> u64 {
    let (published, enough) = (AtomicU64::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| {
            while !enough.load(Ordering::Relaxed) {
                if broker.left() >= BACKLOG {
                    thread::sleep(Duration::from_millis(1)); // it is to be full nearly always
                    continue;
                }
                let number = published.fetch_add(1, Ordering::Relaxed);
                broker.publish(number, qos(number), &message(number));
            }
        });
        // Also where it fails: the scope waits for the publisher.
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| work(&published)));
        enough.store(true, Ordering::Relaxed);
        done.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
    published.into_inner()
}

/// All are there; one that is there more often was sent more often, and says so.
fn assert_repeated_by_the_broker(bridge: &Bridge<'_>, broker: &MqttBroker, total: u64) {
    let (mut times, mut first) = (BTreeMap::<u64, usize>::new(), BTreeMap::<u64, usize>::new());
    for record in records(bridge.cluster, &bridge.output) {
        let value: serde_json::Value = serde_json::from_str(&record.text()).expect("JSON");
        let number = value["i"].as_u64().expect("a number");
        *times.entry(number).or_default() += 1;
        let topic = format!("sensors/{}", number % 3);
        assert_eq!((record.key.as_deref(), record.header("wattle.mqtt.topic")), (Some(topic.as_bytes()), Some(topic.clone())));
        if record.header("wattle.mqtt.dup").is_none() {
            *first.entry(number).or_default() += 1;
        }
    }
    let missing: Vec<_> = (0..total).filter(|number| !times.contains_key(number)).take(10).collect();
    assert!(missing.is_empty(), "of {total} are missing {missing:?} ..");
    let sent = broker.sent();
    let more: Vec<_> = times.iter().filter(|(number, times)| **times > sent[number]).take(10).collect();
    assert!(more.is_empty(), "written more often than sent: {more:?} ..");
    assert!(first.values().all(|times| *times == 1), "a repetition says that it is one");
    let acknowledged = broker.acknowledged();
    assert!(acknowledged.len() as u64 == total && acknowledged.values().all(|times| *times == 1));
    eprintln!("{total} messages, {} of them sent again, {} records", sent.values().filter(|n| **n > 1).count(), times.values().sum::<usize>());
}

/// Killed again and again while messages come, under each sync mode. What was acknowledged before the last kill is written without the MQTT broker.
pub(super) fn messages_that_were_acknowledged_are_written_over_kills(room: &Room) {
    let kills = room.number(2, 30);
    let mut broker = MqttBroker::start();
    let mut bridge = Bridge::new(room, &broker);
    bridge.qos = 2;
    let qos = |number| if number % 4 == 0 { QoS::ExactlyOnce } else { QoS::AtLeastOnce };
    let mut process = bridge.run(&broker);
    let total = beside_a_publisher(&broker, qos, |_| {
        for n in 1..=kills {
            let before = broker.acknowledged().len();
            wait_until("messages are acknowledged", PATIENCE, || broker.acknowledged().len() > before + 100);
            if n % 2 == 0 {
                process.kill_in_transaction(room.cluster(), &[&bridge.output]);
            } else {
                wait_until("messages are on their way", PATIENCE, || broker.left() > 0);
                assert!(process.kill(), "it was there to be killed");
            }
            let sync = ["group_commit", "per_entry", "{periodic: {secs: 10, nanos: 0}}"][n % 3];
            bridge.durability = Some(format!(", sync: {sync}"));
            process = bridge.run(&broker);
        }
        let before = broker.acknowledged().len();
        wait_until("messages are acknowledged", PATIENCE, || broker.acknowledged().len() > before + 100);
        assert!(process.kill(), "it was there to be killed");
        wait_until("messages come meanwhile", PATIENCE, || broker.left() > 0);
    });
    broker.down();
    let acknowledged: BTreeSet<u64> = broker.acknowledged().into_keys().collect();
    process = room.run(bridge.yaml());
    wait_until("what was acknowledged is written", PATIENCE, || bridge.ledger().has(&acknowledged));
    broker.up();
    wait_until("the rest is acknowledged", PATIENCE, || broker.left() == 0);
    wait_until("everything is written", PATIENCE, || bridge.ledger().has(&(0..total).collect()));
    process.stop_cleanly();
    assert_repeated_by_the_broker(&bridge, &broker, total);
    assert!(broker.sent().values().any(|times| *times > 1), "the broker has sent some again");
    let [all, committed] = [ReadUncommitted, ReadCommitted].map(|isolation| count(room.cluster(), &bridge.output, isolation));
    assert!(all > committed, "aborted records lie between the others");
}

/// At least once: what was acknowledged is in the output at that moment, whenever the process is killed.
pub(super) fn messages_without_a_log_are_acknowledged_when_the_output_has_them(room: &Room) {
    let broker = MqttBroker::start();
    let mut bridge = Bridge::new(room, &broker);
    bridge.durability = None;
    let mut process = bridge.run(&broker);
    let total = beside_a_publisher(&broker, |_| QoS::AtLeastOnce, |_| {
        for _ in 0..room.number(2, 10) {
            let before = broker.acknowledged().len();
            wait_until("messages are acknowledged", PATIENCE, || {
                broker.acknowledged().len() > before + 100 && broker.left() > 0
            });
            assert!(process.kill(), "it was there to be killed");
            let acknowledged = broker.acknowledged().into_keys().collect();
            assert!(bridge.ledger().has(&acknowledged), "acknowledged what was not in the output");
            process = bridge.run(&broker);
        }
    });
    wait_until("everything is acknowledged", PATIENCE, || broker.left() == 0);
    process.stop_cleanly();
    assert_repeated_by_the_broker(&bridge, &broker, total);
    assert!(broker.sent().values().any(|times| *times > 1), "kills met messages on their way");
}

/// Connections are cut while messages come: one process takes each of them once. Then the broker is away, and readiness says so.
pub(super) fn a_broker_that_is_away_is_waited_for_and_repeats_nothing_of_qos_2(room: &Room) {
    let mut broker = MqttBroker::start();
    let mut bridge = Bridge::new(room, &broker);
    let [port] = free_ports().expect("a free port");
    bridge.qos = 2;
    bridge.more = format!("health_check: {{address: '127.0.0.1:{port}'}}\n");
    let mut process = bridge.run(&broker);
    wait_until("it is ready", PATIENCE, || get(port, "/readiness").0 == 200);
    let mut total = beside_a_publisher(&broker, |_| QoS::ExactlyOnce, |_| {
        for _ in 0..room.number(3, 50) {
            let (acknowledged, connections) = (broker.acknowledged().len(), broker.connections());
            wait_until("it goes on", PATIENCE, || broker.acknowledged().len() > acknowledged + 20);
            wait_until("messages are on their way when it is cut", PATIENCE, || broker.cut_on_the_way());
            wait_until("it comes again", PATIENCE, || broker.connections() > connections);
        }
    });
    broker.down();
    process.wait_says(&["warn", "no connection to the mqtt broker", "tries again"], PATIENCE);
    wait_until("readiness says what is wrong", PATIENCE, || {
        let (status, body) = get(port, "/readiness");
        status == 503 && body.contains("is not connected since") && body.contains("cannot connect")
    });
    broker.publish(total, QoS::ExactlyOnce, &message(total));
    total += 1;
    broker.up();
    wait_until("everything is acknowledged", PATIENCE, || broker.left() == 0);
    wait_until("readiness recovers", PATIENCE, || get(port, "/readiness").0 == 200);
    wait_until("everything is written", PATIENCE, || bridge.ledger().has(&(0..total).collect()));
    let (_, metrics) = get(port, "/metrics");
    let connections = format!("wattle_mqtt_connections_total{{stream=\"bridge\"}} {}", broker.connections());
    assert!(metrics.contains(&connections), "{connections}: {metrics}");
    process.stop_cleanly();
    assert!(broker.sent().values().any(|times| *times > 1), "the broker has sent some again");
    bridge.ledger().assert_once(&(0..total).collect(), &BTreeSet::new());
}

/// A broker that has lost the session sends everything once more that was not acknowledged: nothing is lost.
pub(super) fn a_session_that_the_broker_forgets_loses_nothing(room: &Room) {
    let broker = MqttBroker::start();
    let bridge = Bridge::new(room, &broker);
    let mut process = bridge.run(&broker);
    let total = beside_a_publisher(&broker, |_| QoS::AtLeastOnce, |_| {
        for _ in 0..3 {
            let (acknowledged, connections) = (broker.acknowledged().len(), broker.connections());
            wait_until("it goes on", PATIENCE, || broker.acknowledged().len() > acknowledged + 20 && broker.left() > 0);
            broker.cut();
            broker.forget();
            wait_until("it comes again", PATIENCE, || broker.connections() > connections);
        }
    });
    wait_until("everything is acknowledged", PATIENCE, || broker.left() == 0);
    wait_until("everything is written", PATIENCE, || bridge.ledger().has(&(0..total).collect()));
    process.stop_cleanly();
}

/// The output is away for longer than the log has room: the broker keeps the rest.
pub(super) fn a_log_that_is_full_holds_messages_back(room: &Room) {
    let kafka = room.own_broker();
    let broker = MqttBroker::start();
    let mut bridge = Bridge::on(room, kafka.cluster(), &broker);
    bridge.durability = Some(", max_bytes: 1MiB".to_owned());
    let mut process = bridge.run(&broker);
    broker.publish(0, QoS::AtLeastOnce, &message(0));
    wait_until("it is written", PATIENCE, || bridge.ledger().has(&BTreeSet::from([0])));
    kafka.kill();
    let total = 300;
    let filler = "x".repeat(10_000);
    for number in 1..total {
        let message = message(number).replace('}', &format!(r#","filler":"{filler}"}}"#));
        broker.publish(number, QoS::AtLeastOnce, &message);
    }
    process.wait_says(&["warn", "takes no messages", "is full: max_bytes is 1048576"], PATIENCE);
    let acknowledged = broker.acknowledged().len();
    assert!((50..150).contains(&acknowledged), "{acknowledged} of 10 kB are acknowledged, with room for 1 MiB");
    assert!(broker.left() > 100, "the broker keeps the others");
    kafka.start_again();
    // What a supervisor does, whenever it ends over the outage.
    let mut supervise = || {
        if !process.is_running() {
            process = bridge.run(&broker);
        }
    };
    wait_until("everything is acknowledged", 2 * PATIENCE, || {
        supervise();
        broker.left() == 0
    });
    wait_until("everything is written", PATIENCE, || {
        supervise();
        bridge.ledger().has(&(0..total).collect())
    });
    process.stop_cleanly();
    assert_repeated_by_the_broker(&bridge, &broker, total);
}

pub(super) fn a_broker_that_refuses_ends_the_stream_and_so_does_another_client_with_its_id(room: &Room) {
    let broker = MqttBroker::start();
    let mut bridge = Bridge::new(room, &broker);
    let mut first = bridge.run(&broker);
    bridge.durability = Some("-2".to_owned());
    let mut second = bridge.run(&broker);
    assert_eq!(first.wait_exit(PATIENCE), 1);
    assert!(first.says(&["W0025", "another client has connected", "client_id \"bridge\""]), "{}", first.stderr());
    second.stop_cleanly();
    let refused = |words: &[&str]| {
        let mut process = room.run(bridge.yaml());
        assert_eq!(process.wait_exit(PATIENCE), 1);
        assert!(process.says(&[&["W0024"], words].concat()), "{words:?} in: {}", process.stderr());
    };
    broker.grant(SubscribeReasonCode::NotAuthorized);
    refused(&["refuses the subscription to sensors/#: not authorized (0x87)"]);
    broker.grant(SubscribeReasonCode::Success(QoS::AtMostOnce));
    refused(&["grants QoS 0 for sensors/# where qos: 1 is asked for"]);
    broker.refuse(ConnectReturnCode::BadUserNamePassword);
    refused(&["does not let us in: bad username or password (0x86)"]);
}
