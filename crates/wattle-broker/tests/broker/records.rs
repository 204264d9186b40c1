//! What was produced is consumed.

use std::thread;

use rdkafka::error::RDKafkaErrorCode;
use rdkafka::producer::BaseRecord;
use wattle_broker::Broker;

use crate::support::{all_values, deliver, read, send, send_all, sender, sender_with, with_topic};

#[test]
fn what_was_produced_is_consumed_in_order() {
    let broker = with_topic(2);
    let sender = sender(&broker);
    let values: Vec<String> = (0..1000).map(|number| number.to_string()).collect();
    for partition in 0..2 {
        let reports = send_all(&sender, "t", partition, values.iter().map(String::as_str));
        let offsets: Vec<i64> = reports.into_iter().map(|report| report.expect("delivered")).collect();
        assert_eq!(offsets, (0..1000).collect::<Vec<_>>());
    }
    assert_eq!(read(&broker, "t", 2, "read_committed"), [values.clone(), values].concat());
}

#[test]
fn every_codec_and_every_acks_is_taken() {
    let broker = with_topic(1);
    let mut expected = Vec::new();
    for codec in ["none", "gzip", "snappy", "lz4", "zstd"] {
        for acks in ["0", "1", "all"] {
            let sender = sender_with(&broker, &[("compression.type", codec), ("acks", acks)]);
            let value = format!("{codec} {acks}").repeat(20);
            send(&sender, "t", 0, &value).expect("delivered");
            expected.push(value);
        }
    }
    assert_eq!(all_values(&broker), expected);
}

#[test]
fn topics_do_not_wait_for_each_other() {
    let names = ["a", "b", "c", "d"];
    let builder = names.iter().fold(Broker::builder(), |builder, name| builder.topic(*name, 1));
    let broker = builder.start().expect("a broker");
    let values: Vec<String> = (0..500).map(|number| number.to_string()).collect();
    thread::scope(|scope| {
        for name in names {
            scope.spawn(|| {
                let sender = sender_with(&broker, &[("enable.idempotence", "true")]);
                let reports = send_all(&sender, name, 0, values.iter().map(String::as_str));
                assert!(reports.iter().all(Result::is_ok));
            });
        }
    });
    for name in names {
        assert_eq!(read(&broker, name, 1, "read_committed"), values);
    }
}

#[test]
fn what_a_topic_does_not_allow_is_refused() {
    let settings = [("cleanup.policy", "compact"), ("max.message.bytes", "1000")];
    let broker = Broker::builder().topic_with("t", 1, settings).start().expect("a broker");
    let sender = sender(&broker);
    let too_large = "x".repeat(2000);
    assert_eq!(send(&sender, "t", 0, &too_large), Err(RDKafkaErrorCode::MessageSizeTooLarge));
    let keyless = BaseRecord::to("t").partition(0).payload("no key");
    assert_eq!(deliver(&sender, keyless), Err(RDKafkaErrorCode::InvalidRecord));
    assert_eq!(send(&sender, "t", 0, "fine"), Ok(0));
}

#[test]
fn an_unknown_topic_is_created_only_where_the_broker_was_started_so() {
    let broker = Broker::builder().start().expect("a broker");
    let settings = [("topic.metadata.propagation.max.ms", "500")];
    let refused = send(&sender_with(&broker, &settings), "new", 0, "x").expect_err("it is not there");
    assert_eq!(refused, RDKafkaErrorCode::UnknownTopicOrPartition);
    let broker = Broker::builder().auto_create_topics(3).start().expect("a broker");
    send(&sender(&broker), "new", 2, "x").expect("delivered");
    assert_eq!(read(&broker, "new", 3, "read_committed"), ["x"]);
}
