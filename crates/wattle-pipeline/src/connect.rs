//! A plan against the clusters and databases that it names: what a start would find. Nothing is joined, created or fenced.

mod broker;
mod disk;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use wattle::{ClientProperties, ClusterView, Exit, Rights, SinkFailure};

use crate::plan::{Plan, StreamPlan};
use crate::problem::{Place, Problems, Report};
use crate::run::sql;
use crate::spec::{ErrorOutput, Input, KafkaInput, KafkaOutput, MqttInput, Output, SqlOutput};

/// What the clusters have answered.
pub struct Connected {
    /// What a start would find, one line each: the stream, and the fact.
    pub facts: Vec<(String, String)>,
    /// What would stop a start.
    pub problems: Option<Problems>,
    /// How a start would end that meets these problems: [`Exit::Unreachable`] only where all of them are silence.
    pub exit: Exit,
}

/// Asks every cluster and every database of the plan, and reports everything at once. `file`: the plan's, for the problems.
#[must_use]
pub fn connect(plan: &Plan, file: &Path) -> Connected {
    let mut look = Look::default();
    plan.streams.iter().for_each(|stream| look.stream(stream));
    let exit = look.exits.into_iter().min_by_key(|exit| *exit as u8).unwrap_or(Exit::Unreachable);
    Connected { facts: look.facts, problems: look.report.into_problems(file.to_path_buf()), exit }
}

#[derive(Default)]
struct Look {
    report: Report,
    facts: Vec<(String, String)>,
    /// By addresses; `None` where no broker answered.
    clusters: BTreeMap<(String, ClientProperties), Option<ClusterView>>,
    /// How each problem would end a start.
    exits: Vec<Exit>,
}

/// Where a component is written.
struct At<'a> {
    place: Place,
    path: &'a str,
}

impl Look {
    fn stream(&mut self, stream: &StreamPlan) {
        let (input, output) = (stream.input(), stream.output());
        let on_disk = disk::problems(stream);
        let has_file = !on_disk.iter().any(|(_, path, _)| path.ends_with(".output_type.path"));
        for (place, path, text) in on_disk {
            self.exits.push(Exit::Failed);
            self.report.add(place, path, text);
        }
        if let Input::Mqtt(input) = input {
            self.mqtt(stream, input);
        }
        if let Input::Kafka(input) = input {
            let at = At { place: input.group.place, path: input.group.path.trim_end_matches(".consumer_group") };
            self.read(stream, input, &at);
        }
        if let Some(errors) = stream.error_output() {
            self.dead_letters(stream, errors);
        }
        if let Output::Sql(output) = output
            && has_file
        {
            self.database(stream, output);
        }
        if let Output::Kafka(output) = output {
            let at = At { place: output.here.place, path: &output.here.path };
            self.written(stream, output, &at);
            if let Input::Kafka(input) = input
                && output.is_exactly_once()
                && output.is_elsewhere(input)
            {
                self.clusters_of(stream, input, output);
            }
        }
    }

    fn database(&mut self, stream: &StreamPlan, output: &SqlOutput) {
        match sql::look(output) {
            Ok(fact) => self.facts.push((stream.id().to_owned(), fact)),
            Err(failure) => {
                let (exit, text) = match failure {
                    SinkFailure::Fatal(error) => (error.exit(), error.to_string()),
                    SinkFailure::Again(text) | SinkFailure::Unknown(text) | SinkFailure::Fenced(text) => {
                        (Exit::Unreachable, text)
                    }
                };
                self.exits.push(exit);
                self.report.add(output.here.place, output.here.path.clone(), text);
            }
        }
    }

    fn mqtt(&mut self, stream: &StreamPlan, input: &MqttInput) {
        let broker = input.broker();
        match broker::ask(input) {
            Ok(()) => {
                let fact = format!(
                    "the mqtt broker {broker} lets us in, and lets us subscribe to {}",
                    input.topics.join(", ")
                );
                self.facts.push((stream.id().to_owned(), fact));
            }
            Err((exit, text)) => {
                self.exits.push(exit);
                let path = input.client_id.path.replace(".client_id", if exit == Exit::Failed { "" } else { ".host" });
                self.report.add(input.client_id.place, path, format!("the mqtt broker {broker} {text}"));
            }
        }
    }

    fn read(&mut self, stream: &StreamPlan, input: &KafkaInput, at: &At) {
        let mut problems = Vec::new();
        let Some(cluster) = self.cluster(&input.brokers, &input.client, at) else { return };
        let counts: BTreeMap<_, _> =
            input.topics.iter().filter_map(|topic| Some((topic.as_str(), *cluster.topics.get(topic)?))).collect();
        problems.extend(missing(cluster, input.topics.iter(), &input.brokers).map(|(_, text)| ("topics", text)));
        if counts.values().collect::<BTreeSet<_>>().len() > 1 {
            let counts: Vec<_> = counts.iter().map(|(topic, count)| format!("{topic} has {count}")).collect();
            let text = "input topics need equal partition counts, since partition n of all of them makes task n";
            problems.push(("topics", format!("{text}: {}", counts.join(", "))));
        }
        let topics: Vec<_> = counts.iter().map(|(topic, count)| format!("{topic} ({})", partitions(*count))).collect();
        let mut fact = format!("reads {} of cluster {}", some(&topics), cluster.id);
        let topic = input.topics.first().map_or("", String::as_str);
        match cluster.members(&input.group.value, topic) {
            Ok(members) if members.is_empty() => fact += &format!("; group {} has no members", input.group.value),
            Ok(members) => {
                let who: Vec<_> =
                    members.iter().map(|member| format!("{} at {}", member.client_id, member.host)).collect();
                fact += &format!(
                    "; group {} has members, with whom partitions are shared: {}",
                    input.group.value,
                    who.join(", ")
                );
            }
            Err(error) => problems.push(("consumer_group", error.to_string())),
        }
        problems.extend(rights(cluster, &input.topics, "topics", |rights| rights.read, "Read"));
        if let Ok(Some(Rights { read: false, .. })) = cluster.group_rights(&input.group.value) {
            let text = format!("the user lacks the right (ACL) Read on the group {}", input.group.value);
            problems.push(("consumer_group", text));
        }
        self.facts.push((stream.id().to_owned(), fact));
        self.refuse(at, problems);
    }

    fn written(&mut self, stream: &StreamPlan, output: &KafkaOutput, at: &At) {
        let mut problems = Vec::new();
        let Some(cluster) = self.cluster(&output.brokers, &output.client, at) else { return };
        let topics: Vec<String> = output.topics().map(|topic| topic.value.clone()).collect();
        problems.extend(missing(cluster, topics.iter(), &output.brokers));
        problems.extend(rights(cluster, &topics, "topic", |rights| rights.write, "Write"));
        let shown: Vec<_> = topics
            .iter()
            .filter_map(|topic| Some(format!("{topic} ({})", partitions(*cluster.topics.get(topic)?))))
            .collect();
        let mut fact = format!("writes {} of cluster {}", some(&shown), cluster.id);
        if output.is_exactly_once() {
            let (ours, longest) = (output.timeout(), cluster.longest_transaction);
            if longest.is_some_and(|longest| ours > longest) {
                let longest = longest.unwrap_or_default();
                let text = format!(
                    "is {ours:?}, and the brokers allow at most {longest:?} (transaction.max.timeout.ms); lower the one, or raise the other"
                );
                problems.push(("transaction_timeout", text));
            }
            fact += &format!("; transactions end within {}", within(ours, longest));
            if let Some(changelog) = stream.cursor_topic() {
                let (key, both) = ("transactional_id", |rights: Rights| rights.read && rights.write);
                problems.extend(rights(cluster, std::slice::from_ref(&changelog), key, both, "Read and Write"));
                match (cluster.topics.contains_key(&changelog), cluster.cleanup_policy(&changelog).as_deref()) {
                    (false, _) => fact += &format!("; {changelog} will be created for the position"),
                    (true, Some("compact")) => fact += &format!("; the position is in {changelog}"),
                    (true, policy) => {
                        let policy = policy.unwrap_or("unknown");
                        let text = format!(
                            "{changelog}, which keeps the position, has cleanup.policy={policy}; set it to compact"
                        );
                        problems.push(("transactional_id", text));
                    }
                }
            }
        }
        self.facts.push((stream.id().to_owned(), fact));
        self.refuse(at, problems);
    }

    fn dead_letters(&mut self, stream: &StreamPlan, errors: &ErrorOutput) {
        let topic = &errors.topic;
        let at = At { place: topic.place, path: topic.path.trim_end_matches(".topic") };
        let client = stream.output().kafka().map_or(&errors.client, |output| &output.client);
        let Some(cluster) = self.cluster(&errors.brokers, client, &at) else { return };
        let mut problems: Vec<_> =
            missing(cluster, std::iter::once(&topic.value), &errors.brokers).into_iter().collect();
        problems.extend(rights(cluster, std::slice::from_ref(&topic.value), "topic", |rights| rights.write, "Write"));
        self.refuse(&at, problems);
    }

    /// Whether brokers that differ lead to one cluster.
    fn clusters_of(&mut self, stream: &StreamPlan, input: &KafkaInput, output: &KafkaOutput) {
        let id = |brokers: &String, client: &ClientProperties| {
            let cluster = self.clusters.get(&(brokers.clone(), client.clone()))?.as_ref()?;
            Some(cluster.id.clone())
        };
        let (Some(source), Some(own)) = (id(&input.brokers, &input.client), id(&output.brokers, &output.client)) else {
            return;
        };
        let fact = if source == own {
            "input and output are on one cluster: the group's offsets commit in the same transaction".to_owned()
        } else {
            format!(
                "input and output are on two clusters ({source}, {own}): the position commits with the results, as a cursor on the output's"
            )
        };
        self.facts.push((stream.id().to_owned(), fact));
    }

    /// The cluster of these brokers, asked once.
    fn cluster(&mut self, brokers: &str, client: &ClientProperties, at: &At) -> Option<&ClusterView> {
        let key = (brokers.to_owned(), client.clone());
        if !self.clusters.contains_key(&key) {
            let cluster = ClusterView::connect(brokers, client);
            if let Err(error) = &cluster {
                self.exits.push(error.exit());
                self.report.add(at.place, format!("{}.brokers", at.path), error.to_string());
            }
            self.clusters.insert(key.clone(), cluster.ok());
        }
        self.clusters.get(&key)?.as_ref()
    }

    fn refuse(&mut self, at: &At, problems: Vec<(&str, String)>) {
        self.exits.extend(problems.iter().map(|_| Exit::Failed));
        for (key, text) in problems {
            self.report.add(at.place, format!("{}.{key}", at.path), text);
        }
    }
}

fn missing<'a>(
    cluster: &ClusterView,
    topics: impl Iterator<Item = &'a String>,
    brokers: &str,
) -> Option<(&'static str, String)> {
    let missing: BTreeSet<_> =
        topics.filter(|topic| !cluster.topics.contains_key(*topic)).map(String::as_str).collect();
    let names: Vec<_> = missing.into_iter().collect();
    let (list, create) = (names.join(", "), names.join(" "));
    let text = format!(
        "does not exist on {brokers}, or the user may not see it: {list}. Correct the name, or create it: wattle create {create} --brokers {brokers}"
    );
    (!names.is_empty()).then_some(("topic", text))
}

/// Topics that the user may not use so.
fn rights(
    cluster: &ClusterView,
    topics: &[String],
    key: &'static str,
    may: impl Fn(Rights) -> bool,
    right: &str,
) -> Option<(&'static str, String)> {
    let found = match cluster.topic_rights(topics) {
        Ok(found) => found,
        Err(error) => return Some((key, error.to_string())),
    };
    let denied: Vec<_> = found.into_iter().filter(|(_, rights)| !may(*rights)).map(|(topic, _)| topic).collect();
    let list = denied.join(", ");
    (!denied.is_empty()).then(|| (key, format!("the user lacks the right (ACL) {right} on the topic {list}")))
}

fn some(topics: &[String]) -> String {
    if topics.is_empty() { "no topic".to_owned() } else { topics.join(", ") }
}

fn partitions(count: i32) -> String {
    format!("{count} partition{}", if count == 1 { "" } else { "s" })
}

fn within(ours: Duration, longest: Option<Duration>) -> String {
    longest.map_or(format!("{ours:?}"), |longest| format!("{ours:?} of at most {longest:?}"))
}
