//! The `mqtt` input: a subscriber of an MQTT 5 broker.

use std::net::Ipv6Addr;
use std::time::Duration;

use super::MqttInput;
use super::host::host_problem;
use crate::yaml::{Field, Given, Map};

const PORT: u16 = 1883;
const KEEP_ALIVE: u16 = 60;
/// Longer than any weekend.
const SESSION_EXPIRY: Duration = Duration::from_secs(7 * 24 * 3600);
const RECEIVE_MAXIMUM: u16 = 500;
/// Of MQTT, in bytes.
const LONGEST_TEXT: usize = 0xffff;

pub(super) fn read(map: &mut Map) -> MqttInput {
    let here = map.place();
    let host = map.required("host", "an mqtt input needs the host of its broker").and_then(|field| host(&field));
    let port = map.get("port").and_then(|field| port(&field)).unwrap_or(PORT);
    const NO_ID: &str =
        "an mqtt input needs a client_id: the broker keeps the session under it; another one for each process";
    let client_id = match map.required("client_id", NO_ID) {
        Some(field) => field.given(text(&field).unwrap_or_default()),
        None => Given { value: String::new(), place: here, path: map.path_of("client_id") },
    };
    let topics = map.required("topics", "an mqtt input needs a list of topics, or of filters with + and #");
    let topics = topics.map(|field| topics_of(&field)).unwrap_or_default();
    if let Some(field) = map.get("clean_session")
        && field.bool() == Some(true)
    {
        field.problem(
            "the broker would forget what comes while the process is away, and what is not acknowledged; remove it, or set it to false",
        );
    }
    let username = map.get("username").and_then(|field| text(&field));
    let password = map.get("password").and_then(|field| {
        if username.is_none() {
            field.problem_unless(&[map.path_of("username")], "needs a username");
        }
        text(&field)
    });
    MqttInput {
        host: host.unwrap_or_default(),
        port,
        client_id,
        topics,
        qos: map.get("qos").and_then(|field| field.word(&[("0", 0), ("1", 1), ("2", 2)])).unwrap_or(1),
        username,
        password,
        keep_alive: map
            .get("keep_alive")
            .and_then(|field| field.count(0xffff))
            .map_or(KEEP_ALIVE, |seconds| seconds as u16),
        session_expiry: map.get("session_expiry").and_then(|field| session_expiry(&field)).unwrap_or(SESSION_EXPIRY),
        receive_maximum: map
            .get("receive_maximum")
            .and_then(|field| field.count(0xffff))
            .map_or(RECEIVE_MAXIMUM, |count| count as u16),
    }
}

fn host(field: &Field) -> Option<String> {
    let host = field.name()?;
    // An IPv6 address needs no brackets, since no port follows.
    if host.parse::<Ipv6Addr>().is_err() && host_problem(&host).is_some() {
        field.problem("must be a name or an address alone, without mqtt:// before it, and without a port, which is a key of its own");
        return None;
    }
    Some(host)
}

fn port(field: &Field) -> Option<u16> {
    field.count(0xffff).map(|port| port as u16)
}

fn session_expiry(field: &Field) -> Option<Duration> {
    let time = field.duration()?;
    if time < Duration::from_secs(1) {
        field.problem("must be at least 1s, and longer than any time that the process is away: then the broker forgets the messages");
        return None;
    }
    Some(time)
}

/// What MQTT takes as a text.
fn text(field: &Field) -> Option<String> {
    let text = field.name()?;
    if text.len() > LONGEST_TEXT {
        field.problem(format!("must have at most {LONGEST_TEXT} bytes"));
        return None;
    }
    Some(text)
}

fn topics_of(field: &Field) -> Vec<String> {
    let mut topics: Vec<Given<String>> = Vec::new();
    for topic in field.names() {
        if let Err(problem) = check_filter(&topic.value) {
            field.problem_at(&topic, problem);
        }
        if let Some(other) = topics.iter().find(|other| overlap(&other.value, &topic.value)) {
            field.note(format!(
                "{} and {} have topics in common: the broker may send a message of those once for each",
                other.value, topic.value
            ));
        }
        topics.push(topic);
    }
    topics.into_iter().map(|topic| topic.value).collect()
}

fn check_filter(filter: &str) -> Result<(), &'static str> {
    if filter.len() > LONGEST_TEXT {
        return Err("is no topic: it is too long");
    }
    let levels = match filter.strip_prefix("$share/") {
        Some(shared) => match shared.split_once('/') {
            Some((group, levels)) if !group.is_empty() && !group.contains(['+', '#']) && !levels.is_empty() => levels,
            _ => return Err("a shared subscription is $share/GROUP/FILTER"),
        },
        None => filter,
    };
    let mut levels = levels.split('/').peekable();
    while let Some(level) = levels.next() {
        if level.contains('#') && (level != "#" || levels.peek().is_some()) {
            return Err("# stands for all levels below, and has to be the whole last level: sensors/#");
        }
        if level.contains('+') && level != "+" {
            return Err("+ stands for one whole level: sensors/+/temperature");
        }
    }
    Ok(())
}

/// Whether a topic can match both. Shared subscriptions get copies of their own.
fn overlap(one: &str, other: &str) -> bool {
    if one.starts_with("$share/") || other.starts_with("$share/") {
        return one == other;
    }
    let (mut one, mut other) = (one.split('/'), other.split('/'));
    loop {
        match (one.next(), other.next()) {
            (Some("#"), _) | (_, Some("#")) | (None, None) => return true,
            (Some(a), Some(b)) if a == b || a == "+" || b == "+" => {}
            _ => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_are_those_of_mqtt() {
        for right in ["a", "/", "a/b", "#", "+", "a/#", "+/b/#", "$share/g/a/#", "$SYS/x", "a//b"] {
            assert_eq!(check_filter(right), Ok(()), "{right}");
        }
        for wrong in ["a#", "#/a", "a/#/b", "a+", "a/b+/c", "$share/g", "$share//a", "$share/g/", "$share/+/a"] {
            assert!(check_filter(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn filters_that_have_topics_in_common_are_known() {
        for (one, other) in [("a", "a"), ("a/#", "a/b"), ("a/#", "a"), ("+/b", "a/+"), ("#", "x/y"), ("a/+/c", "a/b/#")]
        {
            assert!(overlap(one, other) && overlap(other, one), "{one} {other}");
        }
        for (one, other) in [("a", "b"), ("a/+", "a/b/c"), ("a/b", "a"), ("+/x", "a/y"), ("$share/g/a", "a")] {
            assert!(!overlap(one, other) && !overlap(other, one), "{one} {other}");
        }
    }
}
