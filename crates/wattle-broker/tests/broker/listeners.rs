//! Where the broker answers, and who is there.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, Consumer};
use wattle_broker::{Broker, Error};

use crate::support::{LONG, config, send, sender, with_topic};

#[test]
fn each_listener_answers_the_address_of_its_own() {
    let builder = Broker::builder().listen("127.0.0.1:0").listen_advertised("127.0.0.1:0", "localhost:4321");
    let broker = builder.listen("0.0.0.0:0").topic("t", 1).start().expect("a broker");
    let addresses = broker.addresses();
    assert_eq!(addresses[1], "localhost:4321");
    let wildcard = addresses[2].replace("0.0.0.0", "127.0.0.1");
    for address in [&addresses[0], &wildcard] {
        let mut config = config(&broker);
        let consumer: BaseConsumer = config.set("bootstrap.servers", address).create().expect("a consumer");
        let metadata = consumer.fetch_metadata(None, LONG).expect("metadata");
        let told = &metadata.brokers()[0];
        assert_eq!(format!("{}:{}", told.host(), told.port()), **address);
    }
}

#[test]
fn a_taken_address_is_an_error_that_names_it() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a socket");
    let address = taken.local_addr().expect("an address").to_string();
    let refused = Broker::builder().listen(&address).start().expect_err("it is taken");
    assert!(matches!(&refused, Error::Listen { .. }) && refused.to_string().contains(&address), "{refused}");
    let refused = Broker::builder().listen_advertised("127.0.0.1:0", "nowhere").start().expect_err("no port");
    assert!(refused.to_string().contains("nowhere"), "{refused}");
}

#[test]
fn a_process_can_live_until_its_last_client_leaves() {
    let broker = with_topic(1);
    // A port probe is no client.
    let probe = TcpStream::connect(broker.address()).expect("connected");
    assert_eq!(broker.clients(), 0);
    let client = sender(&broker);
    send(&client, "t", 0, "a").expect("delivered");
    assert!(broker.clients() >= 1);
    let quiet = Duration::from_millis(100);
    thread::scope(|scope| {
        let waiting = scope.spawn(|| broker.wait_until_idle(quiet));
        assert!(!waiting.is_finished());
        drop(client);
        waiting.join().expect("it ends");
    });
    assert_eq!(broker.clients(), 0);
    drop(probe);
}

#[test]
fn what_is_no_request_ends_its_connection_and_nothing_else() {
    let broker = with_topic(1);
    let frame = |body: &[u8]| [&u32::try_from(body.len()).expect("small").to_be_bytes(), body].concat();
    let too_large = [0x7f; 12].to_vec();
    let unknown_api = frame(&[0x70, 0, 0, 0, 0, 0, 0, 1, 0xff, 0xff]);
    let cut = frame(&[0, 3, 0, 9, 0, 0, 0, 1, 0, 50, b'x']);
    let http = b"GET / HTTP/1.1\r\n\r\n".to_vec();
    for bytes in [too_large, unknown_api, cut, http] {
        let mut stream = TcpStream::connect(broker.address()).expect("connected");
        stream.set_read_timeout(Some(LONG)).expect("a timeout");
        stream.write_all(&bytes).expect("written");
        let begun = Instant::now();
        // Closed with or without unread bytes: the end, or a reset.
        assert_eq!(stream.read(&mut [0; 16]).unwrap_or(0), 0, "{bytes:?}");
        assert!(begun.elapsed() < LONG, "{bytes:?}: the connection stays open");
    }
    send(&sender(&broker), "t", 0, "a").expect("the broker goes on");
}
