//! Hosts, and addresses of hosts with their ports.

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::yaml::Field;

/// What is wrong with the name or the address of a host; an IPv6 address is in brackets where `:` could begin a port.
pub(super) fn host_problem(host: &str) -> Option<&'static str> {
    let is_number = |label: &str| !label.is_empty() && label.bytes().all(|byte| byte.is_ascii_digit());
    let is_label = |label: &str| {
        let sound = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_');
        !label.is_empty() && label.len() <= 63 && !label.starts_with('-') && label.chars().all(sound)
    };
    if host.is_empty() {
        return Some("has no host");
    }
    if let Some(address) = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        return address.parse::<Ipv6Addr>().is_err().then_some("has no IPv6 address between the brackets");
    }
    let name = host.strip_suffix('.').unwrap_or(host);
    let labels: Vec<_> = name.split('.').collect();
    if labels.last().is_some_and(|label| is_number(label)) {
        return host.parse::<Ipv4Addr>().is_err().then_some("is neither the name nor the address of a host");
    }
    (name.len() > 253 || !labels.into_iter().all(is_label))
        .then_some("is no name of a host: those have letters, digits, . - and _ only")
}

/// `HOST:PORT` of a listener; a name is looked up when it starts.
pub(super) fn address(field: &Field) -> Option<String> {
    let address = field.name()?;
    if let Some(problem) = address_problem(&address) {
        field.problem(problem);
        return None;
    }
    Some(address)
}

/// What is wrong with `HOST:PORT`. Port 0 is one where a listener may have any.
fn address_problem(address: &str) -> Option<&'static str> {
    const FORM: &str = "must be HOST:PORT, as in 127.0.0.1:8080; 0.0.0.0 stands for all addresses of the machine";
    match address.rsplit_once(':') {
        Some((host, port)) if port.parse::<u16>().is_ok() => host_problem(host).map(|_| FORM),
        _ => Some(FORM),
    }
}

/// What is wrong with an address of a broker: `HOST:PORT`, or as librdkafka also takes it, without a port or with a protocol before it.
pub(super) fn broker_problem(address: &str) -> Option<&'static str> {
    const FORM: &str = "is no address of a broker; write HOST:PORT, as in kafka-1:9092";
    let rest = address.split_once("://").map_or(address, |(_, rest)| rest);
    let (host, port) = match rest.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, port),
        _ => (rest, "9092"),
    };
    let is_port = port.parse::<u16>().is_ok_and(|port| port > 0);
    (!is_port || host_problem(host).is_some()).then_some(FORM)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_names_or_addresses() {
        for right in ["localhost", "a.b-c.d_e", "10.0.0.1", "kafka-1", "example.com.", "1s", "[::1]", "ü.example"] {
            assert_eq!(host_problem(right), None, "{right}");
        }
        for wrong in ["", "x:1883", "1", "1.5", "10.0.0.256", ".nan", "-1", "a b", "a/b", "a\nb", "[x]", "a..b"] {
            assert!(host_problem(wrong).is_some(), "{wrong}");
        }
    }

    #[test]
    fn addresses_have_a_port() {
        for right in ["localhost:0", "0.0.0.0:8080", "[::]:80"] {
            assert_eq!(address_problem(right), None, "{right}");
        }
        for wrong in ["localhost", ":80", "x:65536", "x:-1", "a:b:80", "::1:80"] {
            assert!(address_problem(wrong).is_some(), "{wrong}");
        }
        for right in ["localhost:9092", "kafka", "SASL_SSL://b:1", "[::1]:9092", "[::1]"] {
            assert_eq!(broker_problem(right), None, "{right}");
        }
        for wrong in ["b:0", "b:x", "b:", "1", "a b:1", "SASL_SSL://", "b:1:2"] {
            assert!(broker_problem(wrong).is_some(), "{wrong}");
        }
    }
}
