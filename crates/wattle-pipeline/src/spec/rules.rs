//! Rules over more than one key. A combination whose guarantee would not hold is refused, with both keys and the remedy.

use wattle::{BatchLimits, GroupProtocol, TransactionScope, instance_problem, topic_problem};

use super::kafka::{EMBEDDED, same_brokers};
use super::{ErrorOutput, HealthCheck, Input, KafkaInput, KafkaOutput, Output, SqlOutput, Stream};
use crate::problem::{Place, Report};
use crate::yaml::Given;

/// The rules inside one stream.
pub(super) fn check(stream: &Stream, report: &Report) {
    if let Input::Kafka(input) = &stream.input {
        protocol(input, report);
    }
    match (&stream.input, &stream.output) {
        (Input::Kafka(input), Output::Kafka(output)) => {
            settings(output, &stream.batch, report);
            positions(input, output, report);
            loops(input, &output.brokers, output.topics(), report);
        }
        (_, Output::Kafka(output)) => {
            settings(output, &stream.batch, report);
            cursor(&stream.input, output, report);
        }
        (Input::Kafka(_), Output::Sql(_)) => {}
        (_, Output::Sql(output)) => needs_an_id(output, report),
        (Input::Kafka(input), _) => {
            unclaimed(input, "use an output of type kafka with exactly_once: true, or ", &[], report);
        }
        _ => {}
    }
    pushed(stream, report);
    if let (Input::Kafka(input), Some(error)) = (&stream.input, &stream.error_output) {
        loops(input, &error.brokers, [&error.topic], report);
    }
    if let (Output::Kafka(output), Some(ErrorOutput { topic, .. })) = (&stream.output, &stream.error_output)
        && output.topics().any(|written| written.value == topic.value)
    {
        add(report, topic, "must not be the topic of the output: nobody could tell failed records from good ones");
    }
}

/// What the embedded broker does not speak. Other brokers say so when a process starts.
fn protocol(input: &KafkaInput, report: &Report) {
    if let Some(given) = input.group_protocol.as_ref().filter(|given| given.value == GroupProtocol::Consumer)
        && input.brokers == EMBEDDED
    {
        let text = "the embedded broker does not speak the group protocol consumer (KIP-848); use a Kafka, 4.0 or later, or remove \
                    group_protocol";
        add(report, given, text);
    }
}

/// Keys of the output among themselves.
fn settings(output: &KafkaOutput, batch: &BatchLimits, report: &Report) {
    let blank = output.transactional_id.as_ref().filter(|id| id.value.trim().is_empty());
    if output.is_exactly_once() {
        const TEXT: &str =
            "must not be blank when exactly_once is true; choose an id that stays the same over restarts";
        match (&output.transactional_id, blank) {
            (None, _) => missing(report, output, "transactional_id", TEXT),
            (_, Some(id)) => add(report, id, TEXT),
            _ => {}
        }
        if let Some(acks) = output.acks.as_ref().filter(|acks| acks.value != "all") {
            let text =
                format!("acks: {} does not go with exactly_once: true, which needs all; remove acks", acks.value);
            add(report, acks, text);
        }
        let timeout = output.timeout();
        let busy = batch.commit_interval + batch.max_processing_time;
        if busy >= timeout {
            let text = format!(
                "transaction_timeout ({timeout:?}) must be longer than batch.commit_interval (or buffer.timeout) and \
                 batch.max_processing_time together ({busy:?})"
            );
            match &output.transaction_timeout {
                Some(given) => add(report, given, text),
                None => missing(report, output, "transaction_timeout", &text),
            }
        }
    } else {
        let causes = [below(output, "exactly_once")];
        for (key, given) in [
            ("transactional_id", output.transactional_id.as_ref().map(place_of)),
            ("transaction_scope", output.transaction_scope.as_ref().map(place_of)),
            ("transaction_timeout", output.transaction_timeout.as_ref().map(place_of)),
        ] {
            if let Some(given) = given {
                unless(
                    report,
                    &causes,
                    &given,
                    format!("has no effect without exactly_once: true; set that too, or remove {key}"),
                );
            }
        }
        if let Some(group) = &output.offset_commit_group {
            unless(report, &causes, group, "requires exactly_once: true; set that too, or remove offset_commit_group");
        }
    }
}

/// Who commits the positions of a kafka input: the output's transactions or the input, and never nobody.
fn positions(input: &KafkaInput, output: &KafkaOutput, report: &Report) {
    let transactional = input.transactional_offsets.as_ref().is_some_and(|given| given.value);
    let causes = ["exactly_once", "offset_commit_group"].map(|key| below(output, key));
    if !output.is_exactly_once() {
        let remedy = "add  exactly_once: true, a transactional_id and offset_commit_group: GROUP  to the output, or ";
        return unclaimed(input, remedy, &causes, report);
    }
    if output.is_elsewhere(input) {
        return elsewhere(input, output, report);
    }
    if output.scope() == TransactionScope::Worker
        && let Some(id) = &input.group_instance_id
        && let Some(problem) = instance_problem(&id.value)
    {
        add(report, id, format!("{problem}; choose another one"));
    }
    match (&output.offset_commit_group, transactional) {
        (Some(group), _) if group.value != input.group.value && !input.group.value.is_empty() => {
            let text = format!(
                "{:?} is not the consumer_group of the input; write  offset_commit_group: {}",
                group.value, input.group.value
            );
            unless(report, std::slice::from_ref(&input.group.path), group, text);
        }
        (Some(group), false) => {
            let text = "commits the offsets of an input that does not leave them to it; set  transactional_offsets: true  in the \
                        input, or remove offset_commit_group";
            let key = input.group.path.replace(".consumer_group", ".transactional_offsets");
            unless(report, &[key], group, text);
        }
        (None, true) => unclaimed(input, "add  offset_commit_group: GROUP  to the output, or ", &causes, report),
        // Both are in one cluster, so the positions commit with the results, whether these keys say so or not.
        (None, false) | (Some(_), true) => {}
    }
}

/// Input and output have other brokers: the positions are cursors in a topic on the output's cluster.
fn elsewhere(input: &KafkaInput, output: &KafkaOutput, report: &Report) {
    let text = "commits the group's offsets in the transaction of the results, which cannot span two clusters; remove it, and the position is \
                kept on the output's cluster instead, or give input and output the same brokers";
    if let Some(group) = &output.offset_commit_group {
        add(report, group, text);
    }
    if let Some(given) = input.transactional_offsets.as_ref().filter(|given| given.value) {
        add(report, given, text);
    }
    if let Some(scope) = output.transaction_scope.as_ref().filter(|scope| scope.value == TransactionScope::Worker) {
        let text = "worker needs input and output on one cluster: its fence is the consumer group's generation; remove transaction_scope";
        add(report, scope, text);
    }
    changelog(output, report);
}

/// `transactional_offsets: true` where no output commits them.
fn unclaimed(input: &KafkaInput, remedy: &str, causes: &[String], report: &Report) {
    if let Some(given) = input.transactional_offsets.as_ref().filter(|given| given.value) {
        let group = &input.group.value;
        let remedy = remedy.replace("GROUP", group);
        let text =
            format!("no output commits the offsets of group {group:?}:\n{remedy}set  transactional_offsets: false");
        unless(report, causes, given, text);
    }
}

/// Inputs without a consumer group: their position is in a topic that is named after the transactional id.
fn cursor(input: &Input, output: &KafkaOutput, report: &Report) {
    if !output.is_exactly_once() {
        return;
    }
    let what = input.with_article();
    if let Some(scope) = output.transaction_scope.as_ref().filter(|scope| scope.value == TransactionScope::Worker) {
        let text = format!(
            "worker is for kafka inputs: its fence is the consumer group's generation, and {what} has no consumer group; remove \
             transaction_scope"
        );
        add(report, scope, text);
    }
    if let Some(group) = &output.offset_commit_group {
        let text = format!("{what} has no consumer group; remove offset_commit_group");
        add(report, group, text);
    }
    changelog(output, report);
}

/// The topic of the cursors.
fn changelog(output: &KafkaOutput, report: &Report) {
    if let Some(id) = output.transactional_id.as_ref().filter(|id| !id.value.trim().is_empty())
        && let Some(problem) = topic_problem(&format!("{}-changelog", id.value))
    {
        let text = format!("the input's position is kept in the topic {}-changelog, and {problem}", id.value);
        add(report, id, text);
    }
}

/// Inputs that cannot be read a second time.
fn pushed(stream: &Stream, report: &Report) {
    let what = stream.input.with_article();
    if stream.input.replays() {
        if let Some(log) = &stream.durability {
            let text = format!("is not needed: {what} can be read again, and no write-ahead log is written");
            report.note(log.here.place, &log.here.path, text);
        }
        return;
    }
    if let Some(log) = &stream.durability {
        if log.path.value.as_os_str().is_empty() {
            let text = "the write-ahead log needs a path: a folder of its own, on a disk that outlives the process";
            let causes = ["", ".backend*"].map(|key| format!("{}{key}", log.here.path));
            unless(report, &causes, &log.path, text);
        }
        if let Input::Http(input) = &stream.input
            && input.max_body.value as u64 >= log.longest()
        {
            let text = format!(
                "a body of {} bytes would not fit into the write-ahead log: set durability.max_bytes to more than four times of that, or a smaller \
                 max_body (below 32MiB)",
                input.max_body.value
            );
            add(report, &input.max_body, text);
        }
        return;
    }
    let text = format!(
        "what {what} takes cannot be read again after a crash: add  durability: {{path: FOLDER}}  to the stream, so that it is in a \
         write-ahead log before it is accepted"
    );
    match &stream.output {
        Output::Kafka(output) => {
            if let Some(given) = output.exactly_once.as_ref().filter(|given| given.value) {
                add(report, given, format!("{text}; or remove exactly_once"));
            }
        }
        Output::Sql(output) => report.add(output.here.place, output.here.path.clone(), text),
        _ => {}
    }
}

/// A stream that reads what it writes never ends.
fn loops<'a>(input: &KafkaInput, brokers: &str, written: impl IntoIterator<Item = &'a Given<String>>, report: &Report) {
    if !same_brokers(&input.brokers, brokers) {
        return;
    }
    for topic in written {
        if input.topics.contains(&topic.value) {
            let text =
                format!("{} is also in input.topics: the stream would read its own records forever", topic.value);
            add(report, topic, text);
        }
    }
}

/// A kafka input has its consumer group for that.
fn needs_an_id(output: &SqlOutput, report: &Report) {
    if output.positions_id.is_none() {
        let text = "names this stream in the table of positions: needed where the input has no consumer_group; choose a name that stays the same over restarts";
        report.add(output.here.place, format!("{}.positions_id", output.here.path), text);
    }
}

/// The rules between the streams of a file.
pub(super) fn check_together(streams: &[Stream], report: &Report) {
    for (i, stream) in streams.iter().enumerate() {
        let earlier = &streams[..i];
        let id = &stream.id;
        if earlier.iter().any(|other| other.id.value == id.value) {
            add(report, id, format!("two streams are called {:?}; an id must be unique", id.value));
        }
        if let Some(mine) = transactional_id(stream)
            && let Some(other) =
                earlier.iter().find(|other| transactional_id(other).is_some_and(|id| id.value == mine.value))
        {
            let text = format!(
                "streams {} and {} have the same transactional_id and would fence each other; give each its own",
                other.id.value, id.value
            );
            add(report, mine, text);
        }
        if let Some((mine, output)) = positions_id(stream)
            && let Some(other) = earlier.iter().find(|other| {
                positions_id(other).is_some_and(|(id, known)| {
                    id.value == mine.value && known.positions_place() == output.positions_place()
                })
            })
        {
            let text = format!(
                "streams {} and {} have the same positions_id in one database and would take each other's positions; give each its own",
                other.id.value, id.value
            );
            add(report, mine, text);
        }
        shared(stream, earlier, report);
        if let Some(mine) = group(stream)
            && let Some(other) = earlier.iter().find(|other| group(other).is_some_and(|g| g.value == mine.value))
        {
            let text = format!(
                "streams {} and {} have the same consumer_group and would take each other's partitions; give each its own",
                other.id.value, id.value
            );
            add(report, mine, text);
        }
    }
}

/// An address is that of a stream or of the health checks.
pub(super) fn check_health(streams: &[Stream], health: &HealthCheck, place: Place, report: &Report) {
    for stream in streams {
        let (id, waits) = (&stream.id.value, stream.batch.commit_interval);
        if waits >= health.stuck_after {
            let text = format!(
                "({:?}) must be longer than the time for which stream {id} waits for more records (batch.commit_interval or buffer.timeout: {waits:?}), or \
                 a batch that waits would count as stuck",
                health.stuck_after
            );
            report.add(place, "health_check.stuck_after", text);
        }
        if let Some(mine) = address(stream)
            && mine.value == health.address
        {
            let text = format!("stream {id} and health_check listen at the same address; give each its own");
            add(report, mine, text);
        }
    }
}

/// Where it listens, where that is a certain port.
fn address(stream: &Stream) -> Option<&Given<String>> {
    match &stream.input {
        Input::Http(input) => Some(&input.address).filter(|address| !address.value.ends_with(":0")),
        _ => None,
    }
}

/// What only one stream can have: an address, the standard input, the folder of a log.
fn shared(stream: &Stream, earlier: &[Stream], report: &Report) {
    let id = &stream.id.value;
    for other in earlier {
        let name = &other.id.value;
        if let (Some(mine), Some(theirs)) = (address(stream), address(other))
            && mine.value == theirs.value
            && !mine.value.is_empty()
        {
            add(report, mine, format!("streams {name} and {id} listen at the same address; give each its own"));
        }
        if let (Input::Mqtt(mine), Input::Mqtt(theirs)) = (&stream.input, &other.input)
            && mine.broker() == theirs.broker()
            && mine.client_id.value == theirs.client_id.value
            && !mine.client_id.value.is_empty()
        {
            let text = "and would take each other's session; give each its own";
            add(
                report,
                &mine.client_id,
                format!("streams {name} and {id} have the same client_id at one broker {text}"),
            );
        }
        if let (Input::Stdin(mine), Input::Stdin(_)) = (&stream.input, &other.input) {
            add(
                report,
                &mine.here,
                format!("streams {name} and {id} would take each other's lines of stdin; it is for one stream"),
            );
        }
        if let (Some(mine), Some(theirs)) = (&stream.durability, &other.durability)
            && !stream.input.replays()
            && !other.input.replays()
            && mine.path.value == theirs.path.value
            && !mine.path.value.as_os_str().is_empty()
        {
            add(
                report,
                &mine.path,
                format!("streams {name} and {id} have the same write-ahead log; give each a folder of its own"),
            );
        }
    }
}

fn transactional_id(stream: &Stream) -> Option<&Given<String>> {
    stream.output.kafka()?.transactional_id.as_ref().filter(|id| !id.value.trim().is_empty())
}

/// Where it was given; a consumer group is one stream's anyway.
fn positions_id(stream: &Stream) -> Option<(&Given<String>, &SqlOutput)> {
    match &stream.output {
        Output::Sql(output) => output.positions_id.as_ref().map(|id| (id, &**output)),
        _ => None,
    }
}

fn group(stream: &Stream) -> Option<&Given<String>> {
    match &stream.input {
        Input::Kafka(input) => Some(&input.group).filter(|group| !group.value.is_empty()),
        _ => None,
    }
}

fn add<T>(report: &Report, given: &Given<T>, text: impl Into<String>) {
    report.add(given.place, &given.path, text);
}

/// The same where none of `causes` has a problem that explains it.
fn unless<T>(report: &Report, causes: &[String], given: &Given<T>, text: impl Into<String>) {
    report.add_unless(causes, given.place, &given.path, text);
}

fn below(output: &KafkaOutput, key: &str) -> String {
    format!("{}.{key}", output.here.path)
}

fn missing(report: &Report, output: &KafkaOutput, key: &str, text: &str) {
    report.add(output.here.place, format!("{}.{key}", output.here.path), text);
}

fn place_of<T>(given: &Given<T>) -> Given<()> {
    Given { value: (), place: given.place, path: given.path.clone() }
}
