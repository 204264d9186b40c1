//! What Kafka inputs and outputs have in common: brokers, topic names, client properties.

use wattle::{ClientProperties, ClientRole, property_problem, topic_problem};

use super::host::broker_problem;
use super::{Surroundings, security};
use crate::yaml::{Field, Given, Map};

/// Keys that are client properties under another name.
const CONSUMER_KEYS: [(&str, &str); 5] = [
    ("client_id", "client.id"),
    ("fetch_min_bytes", "fetch.min.bytes"),
    ("fetch_max_bytes", "fetch.max.bytes"),
    ("fetch_max_partition_bytes", "max.partition.fetch.bytes"),
    ("fetch_wait_max_ms", "fetch.wait.max.ms"),
];
const PRODUCER_KEYS: [(&str, &str); 1] = [("client_id", "client.id")];

/// In place of brokers' addresses: the broker that `wattle` brings with it. Whoever runs a plan starts it, and says where it is.
pub const EMBEDDED: &str = "embedded";

/// The `brokers` key, or the brokers of the surroundings; with one comma between addresses. Blank after a problem.
pub(super) fn brokers(map: &mut Map, surroundings: &Surroundings) -> String {
    if let Some(field) = map.get("brokers") {
        return addresses(&field);
    }
    let brokers = surroundings.brokers.map(join).unwrap_or_default();
    if brokers.is_empty() {
        let text = "no brokers: set this key, or brokers for the whole file, pass --brokers HOST:PORT, or set \
                    WATTLE_BROKERS; without a Kafka at hand pass --embedded";
        map.missing("brokers", text);
    } else if let Some(problem) = brokers_problem(&brokers) {
        map.missing("brokers", &problem);
    }
    brokers
}

/// A `brokers` key's addresses. Blank after a problem.
pub(super) fn addresses(field: &Field) -> String {
    let names: Vec<_> = field.names().into_iter().map(|name| name.value).collect();
    let brokers = join(&names.join(","));
    match brokers_problem(&brokers) {
        // A list of which nothing is left has its problem.
        Some(problem) if !names.is_empty() => field.problem(problem),
        _ => return brokers,
    }
    String::new()
}

fn brokers_problem(brokers: &str) -> Option<String> {
    if brokers == EMBEDDED {
        return None;
    }
    let problem = |address: &str| match address {
        EMBEDDED => Some("embedded is a cluster of its own; remove it, or the addresses beside it".to_owned()),
        _ => broker_problem(address).map(|problem| format!("{address:?} {problem}")),
    };
    brokers.split(',').find_map(problem)
}

fn join(brokers: &str) -> String {
    brokers.split(',').map(str::trim).filter(|address| !address.is_empty()).collect::<Vec<_>>().join(",")
}

/// Whether two lists of addresses are the same, in any order.
pub(super) fn same_brokers(one: &str, other: &str) -> bool {
    let sorted = |brokers: &str| {
        let mut addresses: Vec<_> = brokers.split(',').map(str::to_ascii_lowercase).collect();
        addresses.sort_unstable();
        addresses.dedup();
        addresses
    };
    sorted(one) == sorted(other)
}

/// A topic's name; blank after a problem.
pub(super) fn topic(field: &Field) -> String {
    let Some(name) = field.name() else { return String::new() };
    match topic_problem(&name) {
        Some(problem) => {
            field.problem(problem);
            String::new()
        }
        None => name,
    }
}

/// A list of topics' names.
pub(super) fn topics(field: &Field) -> Vec<Given<String>> {
    let mut topics: Vec<Given<String>> = Vec::new();
    for name in field.names() {
        if let Some(problem) = topic_problem(&name.value) {
            field.problem_at(&name, problem);
        } else if topics.iter().any(|topic| topic.value == name.value) {
            field.problem_at(&name, "the topic is listed twice");
        } else {
            topics.push(name);
        }
    }
    topics
}

/// The `client` key (librdkafka properties, of which some are ours, and others go against other keys, as `refused` says), `security`, and
/// the keys that stand for a property. Values may be secrets: no message shows one.
pub(super) fn client(map: &mut Map, role: ClientRole, refused: impl Fn(&str) -> Option<String>) -> ClientProperties {
    let mut properties = ClientProperties::new();
    let mut set = |name: &str, value: String, field: &Field| match refused(name)
        .or_else(|| property_problem(role, name, &value))
    {
        Some(problem) => field.problem(with_remedy(problem)),
        None if properties.contains_key(name) => {
            field.problem(format!("client.{name} sets it too; keep one of the two"))
        }
        None => drop(properties.insert(name.to_owned(), value)),
    };
    if let Some(client) = map.get_filled("client").and_then(|field| Map::of(&field)) {
        for (name, field) in client.entries() {
            if let Some(value) = field.string() {
                set(name, value, &field);
            }
        }
    }
    let keys: &[_] = if role == ClientRole::Consumer { &CONSUMER_KEYS } else { &PRODUCER_KEYS };
    for (key, property) in keys {
        if let Some(field) = map.get(key)
            && let Some(value) = field.string()
        {
            set(property, value, &field);
        }
    }
    if let Some(field) = map.get("security") {
        for (property, value, field) in security::read(&field) {
            set(property, value, &field);
        }
    }
    properties
}

/// A problem with a property, and what to do.
fn with_remedy(problem: String) -> String {
    let is_build = problem.contains("not supported in this build") || problem.contains("not available at build time");
    match problem.starts_with("cannot be set") {
        _ if is_build => format!("{problem}; use a wattle that is built with --features tls"),
        true => format!("{problem}; remove it"),
        false => problem,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brokers_are_the_same_in_any_order() {
        assert!(same_brokers("a:1,b:2", "B:2,a:1"));
        assert!(!same_brokers("a:1", "a:1,b:2"));
    }
}
