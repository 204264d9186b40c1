//! An `output` of type `http`: records as requests.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ureq::http::{HeaderName, HeaderValue, Method, Uri};

use super::batch::MOST_RECORDS;
use super::retry::{self, RetryPolicy};
use crate::yaml::{Field, Map};

#[derive(Clone)] // no `Debug`: the URL and the headers may be secrets
pub(crate) struct HttpOutput {
    pub(crate) url: Uri,
    pub(crate) method: Method,
    pub(crate) headers: Vec<(HeaderName, HeaderValue)>,
    /// Of one request.
    pub(crate) timeout: Duration,
    pub(crate) body: Body,
    /// Most records of a request.
    pub(crate) batch_size: usize,
    pub(crate) retry: RetryPolicy,
}

/// What a request carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Body {
    /// The value of one record.
    Record,
    /// A JSON array of values.
    Array,
    /// A value a line.
    Lines,
}

impl HttpOutput {
    /// Whether a request can hold several values, which have to be JSON then.
    pub(crate) fn joins(&self) -> bool {
        self.body != Body::Record
    }
}

impl Body {
    pub(crate) fn content_type(self) -> HeaderValue {
        HeaderValue::from_static(match self {
            Body::Record | Body::Array => "application/json",
            Body::Lines => "application/x-ndjson",
        })
    }
}

/// The header that tells a request from others and from its repetitions.
pub(crate) const KEY: &str = "idempotency-key";

const TIMEOUT: Duration = Duration::from_secs(10);
const BATCH: u64 = 100;

pub(super) fn read(map: &mut Map) -> Option<HttpOutput> {
    let url = map.required("url", "an http output needs the url that records are sent to").and_then(|f| url(&f));
    let methods = [("POST", Method::POST), ("PUT", Method::PUT), ("PATCH", Method::PATCH)];
    let names = ["POST", "PUT", "PATCH"].map(|name| (name, name));
    let method = map.get("method").and_then(|field| field.word(&names)).unwrap_or("POST");
    let method = methods.into_iter().find(|(name, _)| *name == method).map_or(Method::POST, |(_, method)| method);
    let mut headers = map.get_filled("headers").map(|field| headers(&field)).unwrap_or_default();
    headers.extend(map.get("auth").and_then(|field| authorization(&field)));
    let timeout = timeout(map);
    let bodies = [("record", Body::Record), ("array", Body::Array), ("lines", Body::Lines)];
    let body = map.get("body").and_then(|field| field.word(&bodies)).unwrap_or(Body::Record);
    let batch_size = map.get("batch_size");
    if let (Some(field), Body::Record) = (&batch_size, body) {
        let text = "is for requests of several records; add  body: array  or  body: lines , or remove batch_size";
        field.problem_unless(&[map.path_of("body")], text);
    }
    let default = if body == Body::Record { 1 } else { BATCH };
    let batch_size = batch_size.and_then(|field| field.count(MOST_RECORDS)).unwrap_or(default);
    let retry = retry::read(map);
    let batch_size = usize::try_from(batch_size).unwrap_or(usize::MAX);
    Some(HttpOutput { url: url?, method, headers, timeout, body, batch_size, retry })
}

fn url(field: &Field) -> Option<Uri> {
    let text = field.name()?;
    let url = text.parse::<Uri>().ok().filter(|url| url.host().is_some());
    match url.as_ref().and_then(Uri::scheme_str) {
        Some("http") => url,
        Some("https") if cfg!(feature = "tls") => url,
        Some("https") => {
            field.problem("this build has no TLS; build wattle with --features tls, or use http");
            None
        }
        _ => {
            field.problem("must be a URL, as in http://host:8080/path");
            None
        }
    }
}

/// `timeout`, or the predecessor's `timeout_ms`.
fn timeout(map: &mut Map) -> Duration {
    let (own, millis) = (map.get("timeout"), map.get("timeout_ms"));
    if let (Some(_), Some(field)) = (&own, &millis) {
        field.problem("says the same as timeout; remove one of the two");
    }
    let millis = millis.and_then(|field| field.millis());
    own.and_then(|field| field.time()).or(millis).unwrap_or(TIMEOUT)
}

fn headers(field: &Field) -> Vec<(HeaderName, HeaderValue)> {
    const OURS: [&str; 5] = [KEY, "content-length", "transfer-encoding", "host", "connection"];
    let Some(map) = Map::of(field) else { return Vec::new() };
    let header = |(name, field): (&str, Field)| {
        let Ok(name) = name.parse::<HeaderName>() else {
            field.problem("is no name of a header");
            return None;
        };
        if OURS.contains(&name.as_str()) {
            field.problem("is set for each request; remove it");
            return None;
        }
        let value = HeaderValue::from_str(&field.string()?);
        if value.is_err() {
            field.problem("a header's value is one line of ASCII text");
        }
        Some((name, value.ok()?))
    };
    map.entries().filter_map(header).collect()
}

/// `{type: basic, username, password}` or `{type: bearer, token}`.
fn authorization(field: &Field) -> Option<(HeaderName, HeaderValue)> {
    let mut map = Map::of(field)?;
    let kinds = [("basic", true), ("bearer", false)];
    let kind = map.required("type", "needs type: basic or type: bearer")?.word(&kinds)?;
    let mut part = |name: &'static str| map.required(name, "is missing").and_then(|field| field.name());
    let value = match kind {
        true => {
            let (username, password) = (part("username"), part("password"));
            username.zip(password).map(|(name, word)| format!("Basic {}", STANDARD.encode(format!("{name}:{word}"))))
        }
        false => part("token").map(|token| format!("Bearer {token}")),
    };
    map.finish();
    let value = HeaderValue::from_str(&value?);
    if value.is_err() {
        field.problem("must be ASCII text");
    }
    let mut value = value.ok()?;
    value.set_sensitive(true);
    Some((ureq::http::header::AUTHORIZATION, value))
}
