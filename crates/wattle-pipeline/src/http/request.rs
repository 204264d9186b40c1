//! A request, whose body is read by who wants it, and its answer.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Incoming};
use hyper::header::{CONTENT_TYPE, EXPECT, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Method, Response, StatusCode};

/// What a handler gives back.
pub(crate) type Answer = Response<Full<Bytes>>;

/// What is thrown away of a body that nobody wants, so that its sender comes to read the answer.
const THROWN_AWAY: usize = 16 << 20;
/// The longest time for that.
const LINGER: Duration = Duration::from_secs(2);

/// A request whose head is there.
pub(crate) struct Request {
    head: Parts,
    body: Incoming,
    limit: usize,
    time: Duration,
}

/// An answer of one line of text.
pub(crate) fn reply(status: StatusCode, text: &str) -> Answer {
    let mut answer = Response::new(Full::from(format!("{text}\n")));
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    answer
}

impl Request {
    pub(super) fn new(request: hyper::Request<Incoming>, limit: usize, time: Duration) -> Self {
        let (head, body) = request.into_parts();
        Request { head, body, limit, time }
    }

    pub(crate) fn method(&self) -> &Method {
        &self.head.method
    }

    /// Without the query.
    pub(crate) fn path(&self) -> &str {
        self.head.uri.path()
    }

    /// A header's value; `None` where it is missing or no text.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.headers.get(name)?.to_str().ok()
    }

    /// The most bytes that the body may have: those that its sender has announced, or the limit.
    pub(crate) fn announced(&self) -> usize {
        let announced = self.body.size_hint().exact().unwrap_or(self.limit as u64);
        usize::try_from(announced).unwrap_or(usize::MAX).min(self.limit)
    }

    /// Reads the body, once.
    ///
    /// # Errors
    /// The answer to give: 413 where it is too long, 408 where it is too slow, 400 where it breaks off.
    pub(crate) async fn body(&mut self) -> Result<Bytes, Answer> {
        let too_long =
            || reply(StatusCode::PAYLOAD_TOO_LARGE, &format!("the body is longer than {} bytes", self.limit));
        if self.body.size_hint().lower() > self.limit as u64 {
            return Err(too_long());
        }
        let read = tokio::time::timeout(self.time, read(&mut self.body, self.limit)).await;
        match read {
            Ok(Ok(Some(bytes))) => Ok(bytes),
            Ok(Ok(None)) => Err(too_long()),
            Ok(Err(error)) => Err(reply(StatusCode::BAD_REQUEST, &format!("the body cannot be read: {error}"))),
            Err(_) => {
                let text = format!("the body did not come within {:?}", self.time);
                Err(reply(StatusCode::REQUEST_TIMEOUT, &text))
            }
        }
    }

    /// Reads what is left of the body: a connection that is closed over unread bytes takes the answer away from its reader. Who waits to be
    /// asked for the body does not send it.
    pub(super) async fn finish(mut self) {
        if !self.head.headers.contains_key(EXPECT) && !self.body.is_end_stream() {
            let rest = tokio::time::timeout(LINGER.min(self.time), skip(&mut self.body, THROWN_AWAY)).await;
            tracing::trace!(?rest, "read past a body that nobody wants");
        }
    }
}

/// `None` where it is longer than `limit`.
async fn read(body: &mut Incoming, limit: usize) -> Result<Option<Bytes>, hyper::Error> {
    let mut bytes = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame?.into_data() else { continue };
        if bytes.len() + data.len() > limit {
            return Ok(None);
        }
        bytes.extend_from_slice(&data);
    }
    Ok(Some(bytes.freeze()))
}

async fn skip(body: &mut Incoming, most: usize) -> Result<(), hyper::Error> {
    let mut skipped = 0;
    while skipped < most
        && let Some(frame) = body.frame().await
    {
        skipped += frame?.data_ref().map_or(0, Bytes::len);
    }
    Ok(())
}
