//! Inputs that records are pushed to, and that cannot be read a second time: `http`, `mqtt` (which is read in `mqtt`) and `stdin`.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::batch::MOST_RECORDS;
use super::host;
use crate::yaml::{Field, Given, Map};

#[derive(Clone)]
pub(crate) struct HttpInput {
    /// Host and port.
    pub(crate) address: Given<String>,
    pub(crate) path: String,
    pub(crate) method: &'static str,
    pub(crate) authorization: Option<Authorization>,
    pub(crate) format: HttpFormat,
    pub(crate) max_body: Given<usize>,
    /// Requests that may wait for their answer at once.
    pub(crate) max_waiting: usize,
}

/// What a request must show.
#[derive(Clone)]
pub(crate) struct Authorization {
    /// The scheme, for the answer to who shows nothing.
    pub(crate) scheme: &'static str,
    /// What stands behind the scheme. A secret.
    pub(crate) credentials: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum HttpFormat {
    /// The body is one JSON value.
    Json,
    /// Each line of the body is one.
    Lines,
}

/// A subscriber of an MQTT 5 broker.
#[derive(Clone)]
pub(crate) struct MqttInput {
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) client_id: Given<String>,
    /// Topics, or filters with `+` and `#`.
    pub(crate) topics: Vec<String>,
    /// What is asked for: 0, 1 or 2.
    pub(crate) qos: u8,
    pub(crate) username: Option<String>,
    /// A secret.
    pub(crate) password: Option<String>,
    /// Seconds.
    pub(crate) keep_alive: u16,
    /// For how long the broker keeps the session while we are away.
    pub(crate) session_expiry: Duration,
    /// Messages that may be on their way, not acknowledged.
    pub(crate) receive_maximum: u16,
}

impl MqttInput {
    /// For messages.
    pub(crate) fn broker(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }
}

pub(crate) struct StdinInput {
    pub(crate) format: StdinFormat,
    /// The input itself.
    pub(crate) here: Given<()>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum StdinFormat {
    /// Each line is a JSON value.
    Lines,
    /// Each line is a record as it is.
    Text,
}

const MAX_BODY: usize = 900 << 10;
const MAX_WAITING: usize = 500;

pub(super) fn http(map: &mut Map) -> HttpInput {
    let here = map.place();
    let address = map.required("address", "an http input needs an address to listen at, for example 0.0.0.0:8080");
    let path = map.required("path", "an http input needs the path that it takes requests at, for example /events");
    if let Some(field) = map.get("cors_enabled")
        && field.bool() == Some(true)
    {
        field.problem("requests from pages of other origins (CORS) are not supported; remove it, or set it to false");
    }
    HttpInput {
        address: match address {
            Some(field) => field.given(host::address(&field).unwrap_or_default()),
            None => Given { value: String::new(), place: here, path: map.path_of("address") },
        },
        path: path.and_then(|field| request_path(&field)).unwrap_or_default(),
        method: map.get("method").and_then(|f| f.word(&[("POST", "POST"), ("PUT", "PUT")])).unwrap_or("POST"),
        authorization: map.get("auth").and_then(|field| authorization(&field)),
        format: map
            .get("format")
            .and_then(|field| field.word(&[("json", HttpFormat::Json), ("lines", HttpFormat::Lines)]))
            .unwrap_or(HttpFormat::Json),
        max_body: match map.get("max_body") {
            Some(field) => field.given(field.size("64MiB").unwrap_or(MAX_BODY)),
            None => Given { value: MAX_BODY, place: here, path: map.path_of("max_body") },
        },
        max_waiting: map
            .get("max_waiting")
            .and_then(|field| field.count(MOST_RECORDS))
            .map_or(MAX_WAITING, |count| usize::try_from(count).unwrap_or(usize::MAX)),
    }
}

pub(super) fn stdin(map: &mut Map, field: &Field) -> StdinInput {
    let formats = [("lines", StdinFormat::Lines), ("text", StdinFormat::Text)];
    let format = map.get("format").and_then(|field| field.word(&formats)).unwrap_or(StdinFormat::Lines);
    StdinInput { format, here: field.given(()) }
}

fn request_path(field: &Field) -> Option<String> {
    let path = field.name()?;
    let sendable = |c: char| c.is_ascii_graphic() && c != '?' && c != '#';
    if !path.starts_with('/') || !path.chars().all(sendable) {
        field.problem("must begin with / and hold what a request can send: no spaces, ? or #");
        return None;
    }
    Some(path)
}

fn authorization(field: &Field) -> Option<Authorization> {
    let mut map = Map::of(field)?;
    let kind = map.required("type", "needs type: bearer or basic")?.word(&[("bearer", true), ("basic", false)])?;
    let authorization = if kind {
        let token = map.required("token", "bearer needs the token that requests must show").and_then(|f| f.name());
        token.map(|credentials| Authorization { scheme: "Bearer", credentials })
    } else {
        let username = map.required("username", "basic needs a username").and_then(|f| f.name());
        let password = map.required("password", "basic needs a password").and_then(|f| f.string());
        username.zip(password).map(|(username, password)| Authorization {
            scheme: "Basic",
            credentials: STANDARD.encode(format!("{username}:{password}")),
        })
    };
    map.finish();
    authorization
}
