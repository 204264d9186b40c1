//! A client of an `http` input, which remembers nothing: what became of a request is its answer, or that there was none.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use super::wait::PATIENCE;

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// In lower case, as they came.
    pub(crate) headers: Vec<String>,
    pub(crate) body: String,
}

/// Sends requests one after the other, over one connection as long as it lasts.
pub(crate) struct Client {
    port: u16,
    connection: Option<BufReader<TcpStream>>,
}

impl Client {
    /// Of who listens at this port.
    pub(crate) fn new(port: u16) -> Self {
        Client { port, connection: None }
    }

    /// Posts a body; `None` where no whole answer came.
    pub(crate) fn post(&mut self, path: &str, body: &str) -> Option<Answer> {
        let answer =
            self.ask(&format!("POST {path} HTTP/1.1\r\nHost: test\r\nContent-Length: {}\r\n\r\n{body}", body.len()));
        if answer.is_none() {
            self.connection = None;
        }
        answer
    }

    fn ask(&mut self, request: &str) -> Option<Answer> {
        if self.connection.is_none() {
            let stream = TcpStream::connect(("127.0.0.1", self.port)).ok()?;
            stream.set_nodelay(true).ok()?;
            stream.set_read_timeout(Some(PATIENCE)).ok()?;
            self.connection = Some(BufReader::new(stream));
        }
        let connection = self.connection.as_mut()?;
        connection.get_mut().write_all(request.as_bytes()).ok()?;
        let mut line = String::new();
        connection.read_line(&mut line).ok()?;
        let status = line.split(' ').nth(1)?.parse().ok()?;
        let mut headers = Vec::new();
        loop {
            line.clear();
            connection.read_line(&mut line).ok()?;
            match line.trim_end() {
                "" => break,
                header => headers.push(header.to_ascii_lowercase()),
            }
        }
        let length = headers.iter().find_map(|header| header.strip_prefix("content-length: ")?.parse().ok())?;
        let mut body = vec![0; length];
        connection.read_exact(&mut body).ok()?;
        if headers.iter().any(|header| header == "connection: close") {
            self.connection = None;
        }
        Some(Answer { status, headers, body: String::from_utf8_lossy(&body).into_owned() })
    }
}

/// Between two tries of a client that reaches nobody.
pub(crate) const PAUSE: Duration = Duration::from_millis(5);
