//! The smallest stage: copies a topic, exactly once.
//!
//! `cargo run --release -p wattle --example copy -- 127.0.0.1:9092 orders orders-copy`

use wattle::{Delivery, Error, Message, Stop, Worker, WorkerConfig, transformer};

fn main() -> Result<(), Error> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [brokers, input, output] = args.as_slice() else {
        eprintln!("usage: copy BROKERS INPUT-TOPIC OUTPUT-TOPIC");
        std::process::exit(2);
    };
    let application = "copy-example";
    let delivery = Delivery::ExactlyOnce { transactional_id: application.to_owned() };
    let mut config = WorkerConfig::new(application, brokers, application, [input], delivery);
    config.output_topics = vec![output.clone()];

    let output = output.clone();
    let copy = transformer(move |record, out| {
        out.send(Message::copy(record, output.as_str()));
        Ok(())
    });
    Worker::new(config, copy)?.run(&Stop::new())
}
