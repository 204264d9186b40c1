//! A small HTTP/1.1 server on a thread of its own. What clients can make it hold is bounded: connections, heads, bodies, and the time that
//! each may take.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, oneshot, watch};
use tokio::task::{JoinSet, LocalSet};

use super::{Answer, Request};

/// What clients can ask for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// The most bytes of a body; a longer one is answered with 413.
    pub(crate) body: usize,
    /// Connections at once. Further ones wait until the system's queue is full.
    pub(crate) connections: usize,
    /// The longest time for a request's head to come, from the end of the request before it.
    pub(crate) head_time: Duration,
    /// The longest time for a body to come.
    pub(crate) body_time: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        let time = Duration::from_secs(30);
        Limits { body: 1 << 20, connections: 1024, head_time: time, body_time: time }
    }
}

/// The most bytes of a head.
const HEAD: usize = 64 << 10;
/// After a connection that the system did not give, for example since there is no descriptor left.
const PAUSE: Duration = Duration::from_millis(50);

/// Serves until it is stopped or dropped.
pub(crate) struct Server {
    address: SocketAddr,
    stop: Option<oneshot::Sender<Duration>>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Listens at `address`, where port 0 is any that is free, and gives each request to `handler` on the server's thread, which must not block.
    ///
    /// # Errors
    /// Where the address cannot be had, or the system gives no thread.
    pub(crate) fn start<H>(name: &str, address: &str, limits: Limits, handler: H) -> io::Result<Self>
    where
        H: AsyncFn(&mut Request) -> Answer + Send + 'static,
    {
        let listener = std::net::TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let entered = runtime.enter();
        let listener = TcpListener::from_std(listener)?;
        drop(entered);
        let (stop, stopped) = oneshot::channel();
        let serve = move || LocalSet::new().block_on(&runtime, serve(listener, limits, Rc::new(handler), stopped));
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(serve)?;
        Ok(Server { address, stop: Some(stop), thread: Some(thread) })
    }

    /// Where it listens, with the real port.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Takes no more connections and no more requests, and returns when those in hand are answered, or this time has passed.
    pub(crate) fn stop(mut self, grace: Duration) {
        self.finish(grace);
    }

    fn finish(&mut self, grace: Duration) {
        let (Some(stop), Some(thread)) = (self.stop.take(), self.thread.take()) else { return };
        // A server that has panicked is not there to hear it.
        stop.send(grace).unwrap_or_default();
        if thread.join().is_err() {
            tracing::error!(address = %self.address, "the HTTP server panicked");
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.finish(Duration::ZERO);
    }
}

async fn serve<H>(listener: TcpListener, limits: Limits, handler: Rc<H>, mut stop: oneshot::Receiver<Duration>)
where
    H: AsyncFn(&mut Request) -> Answer + 'static,
{
    let seats = Arc::new(Semaphore::new(limits.connections));
    let ending = watch::Sender::new(false);
    let mut connections = JoinSet::new();
    let grace = loop {
        let next = async {
            let seat = seats.clone().acquire_owned().await.expect("nobody closes it");
            listener.accept().await.map(|(stream, _)| (stream, seat))
        };
        let accepted = tokio::select! {
            grace = &mut stop => break grace,
            accepted = next => accepted,
        };
        while connections.try_join_next().is_some() {}
        match accepted {
            Ok((stream, seat)) => {
                let served = connection(stream, limits, handler.clone(), ending.subscribe());
                connections.spawn_local(async move {
                    served.await;
                    drop(seat);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "the HTTP server got no connection");
                tokio::time::sleep(PAUSE).await;
            }
        }
    };
    drop(listener);
    ending.send_replace(true);
    let all = async { while connections.join_next().await.is_some() {} };
    // What is left of them is dropped.
    tokio::time::timeout(grace.unwrap_or_default(), all).await.unwrap_or_default();
}

async fn connection<H>(stream: TcpStream, limits: Limits, handler: Rc<H>, mut ending: watch::Receiver<bool>)
where
    H: AsyncFn(&mut Request) -> Answer,
{
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "answers may be late");
    }
    let service = service_fn(|request| async {
        let mut request = Request::new(request, limits.body, limits.body_time);
        let answer = handler(&mut request).await;
        request.finish().await;
        Ok::<_, Infallible>(answer)
    });
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(limits.head_time).max_buf_size(HEAD);
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
    let outcome = tokio::select! {
        outcome = &mut connection => outcome,
        _ = ending.wait_for(|ending| *ending) => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = outcome {
        tracing::debug!(%error, "an HTTP connection ended");
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpStream;

    use hyper::{Method, StatusCode};
    use tokio::sync::Notify;

    use super::*;
    use crate::http::reply;

    /// Says what it was asked; to `/wait` only when it is told to.
    fn start(limits: Limits, go: Arc<Notify>) -> Server {
        let handler = async move |request: &mut Request| match (request.method(), request.path()) {
            (&Method::GET, "/health") => reply(StatusCode::OK, "well"),
            (&Method::GET, "/wait") => {
                go.notified().await;
                reply(StatusCode::OK, "waited")
            }
            (&Method::POST, "/") => match request.body().await {
                Ok(bytes) => reply(StatusCode::OK, &format!("{} bytes", bytes.len())),
                Err(answer) => answer,
            },
            _ => reply(StatusCode::NOT_FOUND, "nothing here"),
        };
        Server::start("http-test", "127.0.0.1:0", limits, handler).unwrap()
    }

    fn say(server: &Server, text: &str) -> TcpStream {
        let mut stream = TcpStream::connect(server.address()).unwrap();
        stream.write_all(text.as_bytes()).unwrap();
        stream
    }

    /// Everything up to the end of the connection.
    fn hear(mut stream: TcpStream) -> String {
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    }

    fn ask(server: &Server, text: &str) -> String {
        hear(say(server, text))
    }

    fn assert_answer(answer: &str, status: &str, body: &str) {
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status}")) && answer.ends_with(&format!("\r\n\r\n{body}\n")),
            "{answer}"
        );
    }

    #[test]
    fn requests_of_one_connection_are_answered_in_turn() {
        let server = start(Limits::default(), Arc::default());
        let twice =
            "GET /health?full HTTP/1.1\r\n\r\nPOST / HTTP/1.1\r\nContent-Length: 3\r\nConnection: close\r\n\r\n{}\n";
        let answers = ask(&server, twice);
        assert!(answers.starts_with("HTTP/1.1 200") && answers.contains("\r\n\r\nwell\nHTTP/1.1 200"), "{answers}");
        assert!(answers.ends_with("\r\n\r\n3 bytes\n"), "{answers}");
        assert_answer(&ask(&server, "GET /no HTTP/1.1\r\nConnection: close\r\n\r\n"), "404", "nothing here");
    }

    #[test]
    fn a_body_is_bounded_whether_its_length_is_told_or_not() {
        let server = start(Limits { body: 10, ..Limits::default() }, Arc::default());
        let (length, rest) = (1 << 20, "x".repeat(1 << 20));
        let told = format!("POST / HTTP/1.1\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{rest}");
        assert_answer(&ask(&server, &told), "413", "the body is longer than 10 bytes");
        let head = "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n";
        assert_answer(&ask(&server, &format!("{head}5\r\nhello\r\n5\r\nworld\r\n0\r\n\r\n")), "200", "10 bytes");
        let chunked = format!("{head}5\r\nhello\r\n6\r\nworlds\r\n0\r\n\r\n");
        assert_answer(&ask(&server, &chunked), "413", "the body is longer than 10 bytes");
    }

    /// Which of the two lengths is meant is not known to who has passed the request on: so nothing behind its body is a request.
    #[test]
    fn a_request_with_two_lengths_ends_its_connection() {
        let server = start(Limits::default(), Arc::default());
        let lengths =
            ["Content-Length: 4\r\nTransfer-Encoding: chunked", "Transfer-Encoding: chunked\r\nContent-Length: 4"];
        for lengths in lengths {
            let head = format!("POST / HTTP/1.1\r\n{lengths}\r\n\r\n");
            let answers = ask(&server, &format!("{head}0\r\n\r\nGET /health HTTP/1.1\r\n\r\n"));
            assert_answer(&answers, "200", "0 bytes");
            assert_eq!(answers.matches("HTTP/1.1").count(), 1, "{answers}");
        }
        let wrong = "POST / HTTP/1.1\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\n{}{}{}";
        assert!(ask(&server, wrong).starts_with("HTTP/1.1 400"));
    }

    #[test]
    fn who_is_slow_is_not_waited_for() {
        // What is to come is there in time on a busy machine too.
        let (soon, later) = (Duration::from_millis(50), Duration::from_millis(700));
        let server = start(Limits { head_time: soon, ..Limits::default() }, Arc::default());
        assert_eq!(ask(&server, ""), "", "a connection without a request");
        let half = ask(&server, "GET /health HT");
        assert!(half.is_empty() || half.starts_with("HTTP/1.1 408"), "{half}");
        let server = start(Limits { head_time: later, body_time: soon, ..Limits::default() }, Arc::default());
        let body = ask(&server, "POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\n{}");
        assert_answer(&body, "408", "the body did not come within 50ms");
        assert!(ask(&server, "GET /health HTTP/1.1\r\n\r\n").ends_with("well\n"), "an idle connection ends too");
    }

    #[test]
    fn a_connection_above_the_limit_waits_for_another_one_to_end() {
        let server = start(Limits { connections: 1, ..Limits::default() }, Arc::default());
        let first = say(&server, "");
        let second = say(&server, "GET /health HTTP/1.1\r\nConnection: close\r\n\r\n");
        second.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        let waits = (&second).read(&mut [0]).unwrap_err();
        assert!(matches!(waits.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut), "{waits}");
        drop(first);
        second.set_read_timeout(None).unwrap();
        assert_answer(&hear(second), "200", "well");
    }

    #[test]
    fn a_stop_answers_what_is_in_hand() {
        let go = Arc::<Notify>::default();
        let server = start(Limits::default(), go.clone());
        let address = server.address();
        let (idle, waiting) = (say(&server, ""), say(&server, "GET /wait HTTP/1.1\r\n\r\n"));
        // Behind the request that waits, on the server's one thread.
        ask(&server, "GET /health HTTP/1.0\r\n\r\n");
        let stopping = std::thread::spawn(move || server.stop(Duration::from_secs(60)));
        assert_eq!(hear(idle), "");
        go.notify_one();
        assert_answer(&hear(waiting), "200", "waited");
        stopping.join().unwrap();
        assert!(TcpStream::connect(address).is_err(), "nobody listens any more");
    }

    #[test]
    fn an_address_in_use_is_said_at_once() {
        let server = start(Limits::default(), Arc::default());
        let handler = async |_: &mut Request| reply(StatusCode::OK, "");
        let again = Server::start("http-test", &server.address().to_string(), Limits::default(), handler);
        assert_eq!(again.err().map(|error| error.kind()), Some(io::ErrorKind::AddrInUse));
    }
}
