//! Answers whether the process and its streams are well, and with what they have counted. Whatever is asked is known already: nobody waits for
//! a broker.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Method, StatusCode};
use serde::Serialize;
use wattle::{Error, Membership};

use super::{StreamHandle, Watch, prometheus, spawn};
use crate::http::{Answer, Limits, Request, Server, reply};
use crate::spec::{HealthCheck, METRICS};

/// How often the brokers are asked for the lag.
const LOOK: Duration = Duration::from_secs(5);
/// How often the thread that asks sees that all is over.
pub(super) const GLANCE: Duration = Duration::from_millis(200);
/// A lag that was told longer ago says nothing any more.
const STALE: Duration = Duration::from_secs(30);
/// A task that has not begun to run after this time is a problem, also where others run.
const STARTING: Duration = Duration::from_secs(30);

/// Serves until it is dropped.
pub(super) struct Health(Server);

/// A stream that is watched.
pub(super) struct Watched {
    pub(super) handle: StreamHandle,
    lag: Mutex<Option<(Instant, i64)>>,
}

/// How a stream is.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct Report {
    id: String,
    state: &'static str,
    problems: Vec<String>,
}

#[derive(Serialize)]
struct Body<'a> {
    status: &'static str,
    streams: &'a [Report],
}

impl Health {
    /// Listens. Nothing has to be connected yet.
    pub(super) fn start(check: HealthCheck, streams: &[StreamHandle]) -> Result<Self, Error> {
        let streams: Vec<_> = streams.iter().map(Watched::new).collect();
        let streams = Arc::new(streams);
        let watched = streams.clone();
        let address = check.address.clone();
        let answer = async move |request: &mut Request| answer(request, &check, &streams);
        let server = Server::start("wattle-health", &address, Limits::default(), answer)
            .map_err(|source| Error::Io { what: format!("listen at {address} for health_check"), source })?;
        tracing::info!(address = %server.address(), "answers health checks, and {METRICS}");
        // Nobody waits for this thread: it may wait for a broker, and ends by itself when the streams have ended.
        spawn("wattle-lag".to_owned(), move || watch_lag(&watched))?;
        Ok(Health(server))
    }

    /// Where it listens, with the real port.
    #[cfg(test)]
    pub(super) fn address(&self) -> std::net::SocketAddr {
        self.0.address()
    }

    /// Answers what was asked, and no more.
    pub(super) fn stop(self) {
        self.0.stop(Duration::from_secs(1));
    }
}

impl Watched {
    pub(super) fn new(handle: &StreamHandle) -> Self {
        Watched { handle: handle.clone(), lag: Mutex::new(None) }
    }

    /// The last lag that the brokers have told, if that is not long ago.
    pub(super) fn lag(&self) -> Option<i64> {
        let lag = self.lag.lock().unwrap_or_else(PoisonError::into_inner);
        lag.filter(|(at, _)| at.elapsed() < STALE).map(|(_, lag)| lag)
    }

    /// Its state, and all that is wrong with it.
    pub(super) fn report(&self, stuck_after: Duration) -> Report {
        let handle = &self.handle;
        let (state, mut problems) = state(handle);
        if state != "failed" && state != "ended" {
            if let Some(age) = handle.snapshot().oldest_open.filter(|age| *age > stuck_after) {
                problems.push(format!("a batch was taken {} s ago and is not committed", age.as_secs()));
            }
            problems.extend(handle.parts().filter_map(|part| part.problem()));
        }
        Report { id: handle.id().to_owned(), state, problems }
    }
}

impl Report {
    pub(super) fn is_ready(&self) -> bool {
        self.problems.is_empty()
    }
}

/// In one word, and what is wrong with that.
fn state(handle: &StreamHandle) -> (&'static str, Vec<String>) {
    let problem = |text: &str| vec![text.to_owned()];
    if handle.has_failed() {
        return ("failed", problem("it has failed; the log says why"));
    }
    if handle.is_done() {
        return ("ended", Vec::new());
    }
    let Watch::Kafka(monitor) = handle.watch() else { return ("running", Vec::new()) };
    match monitor.membership() {
        Membership::NotConnected => return ("connecting", problem("it has not connected to its brokers yet")),
        Membership::Joining => return ("joining", problem("it is no member of its consumer group")),
        Membership::Member => {}
    }
    let snapshot = monitor.metrics().snapshot();
    let none_runs = snapshot.running == 0;
    let late = snapshot.starting.iter().filter(|(_, since)| none_runs || *since > STARTING);
    let late = late.map(|(task, since)| format!("task {task} has been starting for {} s", since.as_secs()));
    match (none_runs, snapshot.starting.is_empty()) {
        // There may be more members than partitions.
        (true, true) => ("idle", Vec::new()),
        (true, false) => ("starting", late.collect()),
        (false, _) => ("running", late.collect()),
    }
}

fn watch_lag(streams: &[Watched]) {
    let mut looked = None::<Instant>;
    while streams.iter().any(|stream| !stream.handle.is_done()) {
        if looked.is_none_or(|at| at.elapsed() >= LOOK) {
            looked = Some(Instant::now());
            for stream in streams {
                if let Some(lag) = stream.handle.lag() {
                    *stream.lag.lock().unwrap_or_else(PoisonError::into_inner) = Some((Instant::now(), lag));
                }
            }
        }
        std::thread::sleep(GLANCE);
    }
}

fn answer(request: &Request, check: &HealthCheck, streams: &[Watched]) -> Answer {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return reply(StatusCode::METHOD_NOT_ALLOWED, "only GET is answered here");
    }
    let path = request.path();
    let reports = || streams.iter().map(|stream| stream.report(check.stuck_after)).collect::<Vec<_>>();
    if path == check.liveness_path {
        return json(StatusCode::OK, &Body { status: "alive", streams: &[] });
    }
    if path == check.health_path || path == check.readiness_path {
        let reports = reports();
        return match reports.iter().all(Report::is_ready) {
            true => json(StatusCode::OK, &Body { status: "ready", streams: &reports }),
            false => json(StatusCode::SERVICE_UNAVAILABLE, &Body { status: "not ready", streams: &reports }),
        };
    }
    if path == METRICS {
        let mut answer = reply(StatusCode::OK, prometheus::render(streams, &reports()).trim_end());
        let kind = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
        answer.headers_mut().insert(CONTENT_TYPE, kind);
        return answer;
    }
    let HealthCheck { health_path, readiness_path, liveness_path, .. } = check;
    reply(StatusCode::NOT_FOUND, &format!("here are {health_path}, {readiness_path}, {liveness_path} and {METRICS}"))
}

fn json(status: StatusCode, body: &Body<'_>) -> Answer {
    let mut answer = reply(status, &serde_json::to_string(body).expect("texts have a JSON form"));
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    answer
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpStream;
    use std::sync::atomic::Ordering;

    use wattle::{Metrics, Stop};

    use super::*;
    use crate::run::retry::{Condition, Refusal};
    use crate::spec::RetryPolicy;

    fn check() -> HealthCheck {
        HealthCheck {
            address: "127.0.0.1:0".to_owned(),
            health_path: "/health".to_owned(),
            readiness_path: "/ready".to_owned(),
            liveness_path: "/live".to_owned(),
            stuck_after: Duration::from_secs(60),
        }
    }

    fn get(health: &Health, path: &str) -> String {
        let mut stream = TcpStream::connect(health.address()).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nConnection: close\r\n\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn readiness_says_what_is_wrong_with_which_stream_and_recovers() {
        let condition = Condition::new("s\"1", "http there".to_owned());
        let stream =
            StreamHandle::new("s\"1".to_owned(), Watch::Source(Arc::<Metrics>::default()), condition.clone(), false);
        let health = Health::start(check(), std::slice::from_ref(&stream)).unwrap();
        let ready = get(&health, "/ready");
        assert!(ready.starts_with("HTTP/1.1 200"), "{ready}");
        let body = r#"{"status":"ready","streams":[{"id":"s\"1","state":"running","problems":[]}]}"#;
        assert!(ready.trim_end().ends_with(body), "{ready}");
        let retry = condition.retry(RetryPolicy::default());
        let mut failed = false;
        retry.run(&Stop::new(), || {
            if !std::mem::replace(&mut failed, true) {
                return Err(Refusal::Later { reason: "503".to_owned(), after: None });
            }
            let ready = get(&health, "/ready");
            assert!(
                ready.starts_with("HTTP/1.1 503") && ready.contains("http there fails since 0 s, 1 attempts: 503"),
                "{ready}"
            );
            assert!(get(&health, "/metrics").contains("\nwattle_ready{stream=\"s\\\"1\"} 0\n"));
            assert!(get(&health, "/live").starts_with("HTTP/1.1 200"));
            Ok(())
        });
        assert!(get(&health, "/ready").starts_with("HTTP/1.1 200"));
        stream.0.failed.store(true, Ordering::Release);
        let ready = get(&health, "/health");
        assert!(ready.starts_with("HTTP/1.1 503") && ready.contains(r#""state":"failed""#), "{ready}");
        assert!(get(&health, "/").starts_with("HTTP/1.1 404"));
        let again = HealthCheck { address: health.address().to_string(), ..check() };
        let error = Health::start(again, &[]).err().expect("the address is in use").to_string();
        assert!(error.contains("health_check"), "{error}");
        stream.0.done.store(true, Ordering::Release);
        health.stop();
    }
}
