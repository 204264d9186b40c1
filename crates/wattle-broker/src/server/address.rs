//! Where clients are told to connect to.

use std::fmt;
use std::net::SocketAddr;

/// Host and port, as Metadata answers them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) host: String,
    pub(crate) port: u16,
}

impl Address {
    /// From `host:port`; an IPv6 host is written in brackets.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (host, port) = text.rsplit_once(':')?;
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let port = port.parse().ok().filter(|port| *port != 0)?;
        (!host.is_empty()).then(|| Self { host: host.to_owned(), port })
    }
}

impl From<SocketAddr> for Address {
    fn from(socket: SocketAddr) -> Self {
        Self { host: socket.ip().to_string(), port: socket.port() }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_what_is_shown() {
        for text in ["127.0.0.1:9092", "kafka.example:1", "[::1]:9092"] {
            assert_eq!(Address::parse(text).expect(text).to_string(), text);
        }
        for text in ["", "host", ":9092", "host:0", "host:port", "host:65536"] {
            assert_eq!(Address::parse(text), None, "{text}");
        }
    }
}
