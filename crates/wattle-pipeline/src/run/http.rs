//! The endpoint of an `http` input: a request is answered when its records are safe, or told why they are not taken.

use std::cell::Cell;
use std::time::{Duration, Instant};

use hyper::StatusCode;
use hyper::header::{ALLOW, AUTHORIZATION, CONTENT_ENCODING, HeaderName, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use wattle::Error;

use super::push::{Envelope, Intake, Refusal};
use crate::chain::check_json;
use crate::http::{Answer, Limits, Request, Server, reply};
use crate::spec::{Authorization, HttpFormat, HttpInput};

/// Connections that may be there beside those whose requests wait.
const CONNECTIONS: usize = 64;
/// Bytes of bodies that may be in hand at once.
const BYTES: usize = 64 << 20;
/// A connection may rest for longer than the 60 s after which load balancers usually end theirs: who ends it must not be the one that is being sent to.
const IDLE: Duration = Duration::from_secs(75);
/// A log that is full takes a request now and then: that it takes them again is said when none was refused for so long.
const CALM: Duration = Duration::from_secs(10);

struct Endpoint {
    stream: String,
    input: HttpInput,
    intake: Intake,
    /// Requests and bytes in hand.
    waiting: Cell<usize>,
    bytes: Cell<usize>,
    /// When a request was last refused for the log's sake, until that is over.
    refused: Cell<Option<Instant>>,
}

/// Listens until the server is stopped.
pub(super) fn listen(stream: &str, input: HttpInput, intake: Intake) -> Result<Server, Error> {
    let address = input.address.value.clone();
    let connections = input.max_waiting.saturating_add(CONNECTIONS).min(tokio::sync::Semaphore::MAX_PERMITS);
    let limits = Limits { body: input.max_body.value, connections, head_time: IDLE, ..Limits::default() };
    let path = input.path.clone();
    let endpoint = Endpoint {
        stream: stream.to_owned(),
        input,
        intake,
        waiting: Cell::new(0),
        bytes: Cell::new(0),
        refused: Cell::new(None),
    };
    let handler = async move |request: &mut Request| endpoint.answer(request).await;
    let server = Server::start(&format!("wattle-{stream}-http"), &address, limits, handler);
    let server = server.map_err(|source| Error::Listen { address, source })?;
    tracing::info!(stream, "takes requests at http://{}{path}", server.address());
    Ok(server)
}

impl Endpoint {
    async fn answer(&self, request: &mut Request) -> Answer {
        if let Some(answer) = self.refuses_head(request) {
            return answer;
        }
        let Some(_seat) = Seat::take(self, request.announced()) else {
            let text = format!("{} requests wait already: come again", self.waiting.get());
            return with(reply(StatusCode::TOO_MANY_REQUESTS, &text), RETRY_AFTER, "1");
        };
        let body = match request.body().await {
            Ok(body) => body,
            Err(answer) => return answer,
        };
        match envelope(self.input.format, &body) {
            Ok(envelope) => self.accept(envelope).await,
            Err(text) => reply(StatusCode::BAD_REQUEST, &text),
        }
    }

    /// The answer to who is refused already for the head.
    fn refuses_head(&self, request: &Request) -> Option<Answer> {
        let HttpInput { path, method, authorization, .. } = &self.input;
        if request.path() != path {
            return Some(reply(StatusCode::NOT_FOUND, &format!("records are taken at {path}")));
        }
        if request.method().as_str() != *method {
            let text = format!("records are taken with {method}");
            return Some(with(reply(StatusCode::METHOD_NOT_ALLOWED, &text), ALLOW, method));
        }
        if let Some(authorization) = authorization
            && !authorization.admits(request.header(AUTHORIZATION.as_str()))
        {
            let answer = reply(StatusCode::UNAUTHORIZED, "the request does not show who it is from, or shows another");
            let challenge = format!("{} realm=\"wattle\"", authorization.scheme);
            return Some(with(answer, WWW_AUTHENTICATE, &challenge));
        }
        match request.header(CONTENT_ENCODING.as_str()) {
            None | Some("identity") => None,
            Some(_) => Some(reply(StatusCode::UNSUPPORTED_MEDIA_TYPE, "bodies are taken uncompressed")),
        }
    }

    async fn accept(&self, envelope: Envelope) -> Answer {
        let records = envelope.records();
        let outcome = if records == 0 { Ok(()) } else { self.intake.offer(envelope).await };
        match outcome {
            Ok(()) => {
                if self.refused.get().is_some_and(|last| last.elapsed() >= CALM) {
                    self.refused.set(None);
                    tracing::info!(stream = self.stream, "takes requests again");
                }
                reply(StatusCode::OK, &format!("{records} accepted"))
            }
            Err(Refusal::Log(error @ wattle_wal::Error::TooLong { .. })) => {
                reply(StatusCode::PAYLOAD_TOO_LARGE, &error.to_string())
            }
            Err(Refusal::Log(error)) => {
                if self.refused.replace(Some(Instant::now())).is_none() {
                    tracing::warn!(stream = self.stream, "answers requests with 503: {error}");
                }
                // The text names folders, which are nobody else's business.
                unavailable(match error {
                    wattle_wal::Error::Full { .. } => "the write-ahead log is full: nothing was accepted; come again",
                    wattle_wal::Error::Busy => "the disk is behind: nothing was accepted; come again",
                    wattle_wal::Error::DiskFull { .. } => "the disk is full: nothing was accepted; come again",
                    _ => "the write-ahead log has failed: it is not known whether the records are in it",
                })
            }
            Err(Refusal::Busy) => {
                let answer = reply(StatusCode::TOO_MANY_REQUESTS, "too many records wait already: come again");
                with(answer, RETRY_AFTER, "1")
            }
            Err(Refusal::Stopped) => unavailable("the stream stops: the records are not confirmed; come again"),
        }
    }
}

fn unavailable(text: &str) -> Answer {
    with(reply(StatusCode::SERVICE_UNAVAILABLE, text), RETRY_AFTER, "1")
}

fn with(mut answer: Answer, name: HeaderName, value: &str) -> Answer {
    answer.headers_mut().insert(name, HeaderValue::from_str(value).expect("our own words"));
    answer
}

/// The records of a body, all or none. Whitespace around them is not theirs.
fn envelope(format: HttpFormat, body: &[u8]) -> Result<Envelope, String> {
    let mut envelope = Envelope::now();
    match format {
        HttpFormat::Json => {
            check_json(body).map_err(|error| error.to_string())?;
            envelope.push(None, Some(body.trim_ascii()), &[]);
        }
        HttpFormat::Lines => {
            for (number, line) in (1..).zip(body.split(|byte| *byte == b'\n')) {
                let line = line.trim_ascii();
                if !line.is_empty() {
                    check_json(line).map_err(|error| format!("line {number}: {error}"))?;
                    envelope.push(None, Some(line), &[]);
                }
            }
        }
    }
    Ok(envelope)
}

/// A place among the requests in hand.
struct Seat<'a>(&'a Endpoint, usize);

impl<'a> Seat<'a> {
    fn take(endpoint: &'a Endpoint, bytes: usize) -> Option<Self> {
        let (waiting, held) = (endpoint.waiting.get(), endpoint.bytes.get());
        if waiting >= endpoint.input.max_waiting || (waiting > 0 && held + bytes > BYTES) {
            return None;
        }
        endpoint.waiting.set(waiting + 1);
        endpoint.bytes.set(held + bytes);
        Some(Seat(endpoint, bytes))
    }
}

impl Drop for Seat<'_> {
    fn drop(&mut self) {
        self.0.waiting.set(self.0.waiting.get() - 1);
        self.0.bytes.set(self.0.bytes.get() - self.1);
    }
}

impl Authorization {
    /// Whether the value of the header `Authorization` is the right one. How long that takes does not tell how much of it is right.
    fn admits(&self, header: Option<&str>) -> bool {
        let Some((scheme, credentials)) = header.and_then(|header| header.split_once(' ')) else { return false };
        let (given, wanted) = (credentials.trim().as_bytes(), self.credentials.as_bytes());
        let differences = given.iter().zip(wanted).fold(0, |differences, (a, b)| differences | (a ^ b));
        scheme.eq_ignore_ascii_case(self.scheme) && given.len() == wanted.len() && differences == 0
    }
}

#[cfg(test)]
mod tests {
    use wattle::Offset;

    use super::super::push::unpack;
    use super::*;

    fn values(format: HttpFormat, body: &str) -> Result<Vec<String>, String> {
        let mut values = Vec::new();
        let bytes = envelope(format, body.as_bytes())?.into_bytes();
        unpack(&bytes, Offset(0), |record| values.push(String::from_utf8(record.value.unwrap().to_vec()).unwrap()))
            .unwrap();
        Ok(values)
    }

    #[test]
    fn a_body_is_one_value_or_one_a_line() {
        let json = "\n{\"a\":\n 1}\n";
        assert_eq!(values(HttpFormat::Json, json), Ok(vec!["{\"a\":\n 1}".to_owned()]));
        assert!(values(HttpFormat::Json, "1\n2\n").unwrap_err().starts_with("not JSON at byte"));
        assert!(values(HttpFormat::Json, "").is_err());
        assert_eq!(values(HttpFormat::Lines, "1\r\n\n  \n[2]"), Ok(vec!["1".to_owned(), "[2]".to_owned()]));
        assert_eq!(values(HttpFormat::Lines, ""), Ok(Vec::new()));
        assert!(values(HttpFormat::Lines, "1\n\n{x}\n").unwrap_err().starts_with("line 3: not JSON at byte 1"));
    }

    #[test]
    fn only_the_right_credentials_are_admitted() {
        let bearer = Authorization { scheme: "Bearer", credentials: "secret".to_owned() };
        for right in ["Bearer secret", "bearer  secret"] {
            assert!(bearer.admits(Some(right)), "{right}");
        }
        for wrong in ["Basic secret", "Bearer", "Bearer secre", "Bearer secrets", "Bearer Secret", "secret", ""] {
            assert!(!bearer.admits(Some(wrong)), "{wrong}");
        }
        assert!(!bearer.admits(None));
    }
}
