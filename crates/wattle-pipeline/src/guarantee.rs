//! Why a stream has its guarantee: what the plan says behind the level.

use wattle::TransactionScope;
use wattle_wal::SyncMode;

use crate::spec::{Input, KafkaOutput, Stream};

pub(crate) fn exactly_once(stream: &Stream, output: &KafkaOutput) -> &'static str {
    match &stream.input {
        Input::Kafka(input) if output.is_elsewhere(input) => {
            "the position commits with the results, as a cursor on the output's cluster (or as the group's offsets, if both brokers lead to one \
             cluster)"
        }
        Input::Kafka(_) if output.scope() == TransactionScope::Worker => {
            "offsets commit in the same transaction, which partitions of a worker share (transaction_scope)"
        }
        Input::Kafka(_) => "offsets commit in the same transaction, one per partition",
        Input::File(_) => "the file's position commits with the records",
        Input::Generate(_) => "the number of records made commits with them",
        Input::Memory(_) => "the number of messages given commits with them",
        Input::Http(_) | Input::Mqtt(_) | Input::Stdin(_) => {
            "from the write-ahead log on, whose position commits with the records"
        }
    }
}

/// With an output of type `sql`.
pub(crate) fn in_database(stream: &Stream) -> String {
    let what = match &stream.input {
        Input::Kafka(_) => "rows and positions commit in one transaction of the database, one per partition",
        Input::File(_) => "rows and the file's position commit in one transaction of the database",
        Input::Generate(_) => "rows and the number of records made commit in one transaction of the database",
        Input::Memory(_) => "rows and the number of messages given commit in one transaction of the database",
        Input::Http(_) | Input::Mqtt(_) | Input::Stdin(_) => {
            "from the write-ahead log on, whose position commits with the rows in one transaction of the database"
        }
    };
    let errors = stream.error_output.as_ref();
    format!("{what}{}", errors.map_or("", |_| "; failed records go to Kafka before it, at least once"))
}

pub(crate) fn at_least_once(stream: &Stream) -> &'static str {
    match (&stream.input, &stream.durability) {
        (Input::Kafka(_), _) => "offsets commit after the output confirmed; a crash between the two repeats records",
        (Input::File(_), _) => "no position is committed; a restart reads the file from its beginning",
        (Input::Generate(_), _) => "no position is committed; a restart begins again",
        (Input::Memory(_), _) => "no position is committed; a restart begins again",
        (Input::Http(_) | Input::Mqtt(_) | Input::Stdin(_), Some(_)) => {
            "the write-ahead log's position moves after the output confirmed; a crash between the two repeats records"
        }
        (Input::Http(_), None) => "a request is answered after the output confirmed its records",
        (Input::Mqtt(_), None) => "a message is acknowledged after the output confirmed it",
        (Input::Stdin(_), None) => "as long as the process lives: what it has read of stdin, nobody can read again",
    }
}

/// What the input cannot do about its part of the way; empty where there is nothing of that kind.
pub(crate) fn of_input(stream: &Stream) -> &'static str {
    match &stream.input {
        Input::Mqtt(input) if input.qos == 0 => {
            "at most once from the MQTT broker: with qos 0 it sends a message once and waits for no answer; then "
        }
        _ => "",
    }
}

/// What a write-ahead log adds; empty where none is written.
pub(crate) fn of_log(stream: &Stream) -> String {
    let Some(log) = stream.durability.as_ref().filter(|_| !stream.input.replays()) else { return String::new() };
    match (log.options.sync, &stream.input) {
        (SyncMode::Periodic(time), _) => {
            format!("; a loss of power can take what was accepted in the last {time:?} (sync: periodic)")
        }
        (_, Input::Http(_)) => "; a request is answered when it is on the disk".to_owned(),
        (_, Input::Mqtt(input)) if input.qos > 0 => "; a message is acknowledged when it is on the disk".to_owned(),
        _ => String::new(),
    }
}
