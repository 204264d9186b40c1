//! The subscriber of an `mqtt` input: a thread of its own hands messages in as they come, and acknowledges each when it is safe. It connects again for as
//! long as it takes, reads no further while there is no room, and ends where the broker refuses for good.

use std::io;
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use wattle::{Error, Header, Stop};

use super::push::{Ended, Envelope, Failure, Intake, Refusal, Safe};
use super::spawn;
use crate::mqtt::{Arrival, Connect, Incoming, Outgoing, Publish, Session, TAKEN_OVER, frame, is_final, text};
use crate::spec::MqttInput;

use connection::{Connection, Held, check_turn};
pub(super) use part::BrokerPart;

mod connection;
mod part;

/// Longest wait for a connection, an answer to it, and for bytes to be taken.
const PATIENCE: Duration = Duration::from_secs(10);
/// Waits between two tries to connect.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// Between two tries to hand a message in for which there was no room.
const NO_ROOM: Duration = Duration::from_millis(100);
/// Nothing may fill the memory: the longest message, about, that is taken. A log may take less.
const LONGEST: usize = 64 << 20;
const CLOSED: &str =
    "it has closed the connection; where that comes again and again, another client may have the same client_id";
/// Bytes that are read at once.
const CHUNK: usize = 64 << 10;

/// A subscriber that runs.
pub(super) struct Subscriber {
    leave: Stop,
    /// Closed by its end.
    end: mpsc::Receiver<()>,
}

/// Subscribes, and stays until a stop. Where the broker is not there, it is waited for.
pub(super) fn subscribe(
    stream: &str,
    input: MqttInput,
    intake: Intake,
    ended: Ended,
    stop: Stop,
    part: Arc<BrokerPart>,
) -> Result<Subscriber, Error> {
    let (ends, end) = mpsc::channel::<()>();
    let leave = Stop::new();
    let (stream, leaves) = (stream.to_owned(), leave.clone());
    let name = format!("wattle-{stream}-mqtt");
    let body = move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let outcome = runtime.map_err(Failure::Io).and_then(|runtime| {
            let client = Client { stream, input, intake, part, session: Session::new(), stop, leave: leaves };
            runtime.block_on(client.run())
        });
        // It is set here alone.
        ended.set(outcome).unwrap_or_default();
        drop(ends);
    };
    spawn(name, body)?;
    Ok(Subscriber { leave, end })
}

impl Subscriber {
    /// Acknowledges what is safe, and leaves.
    pub(super) fn stop(self, grace: Duration) {
        self.leave.stop();
        if self.end.recv_timeout(grace) == Err(mpsc::RecvTimeoutError::Timeout) {
            tracing::warn!(
                "the mqtt broker does not take the last acknowledgements; it will send those messages again"
            );
        }
    }
}

struct Client {
    stream: String,
    input: MqttInput,
    intake: Intake,
    part: Arc<BrokerPart>,
    session: Session<Safe>,
    /// Asked to take nothing more.
    stop: Stop,
    /// Asked to end.
    leave: Stop,
}

/// How a connection ends.
enum End {
    Stopped,
    /// With the reason.
    Lost(String),
    Failed(Failure),
}

impl Client {
    async fn run(mut self) -> Result<(), Failure> {
        let mut pause = FIRST_PAUSE;
        loop {
            let began = Instant::now();
            let end = self.connection().await.err().unwrap_or(End::Stopped);
            self.session.lost();
            match end {
                End::Stopped => break,
                End::Failed(failure) => return Err(failure),
                End::Lost(reason) => {
                    if self.part.lost(&reason) {
                        let broker = self.input.broker();
                        tracing::warn!(
                            stream = self.stream,
                            "no connection to the mqtt broker {broker}, tries again: {reason}"
                        );
                    }
                }
            }
            // Two processes with one client id, where the broker does not tell them, take turns that get longer.
            if began.elapsed() > LONGEST_PAUSE {
                pause = FIRST_PAUSE;
            }
            let (stop, leave) = (self.stop.clone(), self.leave.clone());
            tokio::select! {
                () = sleep(pause) => {}
                () = stop.stopped() => break,
                () = leave.stopped() => break,
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
        // Without a log, what nobody waits for would be left out.
        while let Some(safe) = self.session.oldest() {
            safe.await.unwrap_or_default();
            self.session.is_not_safe();
        }
        Ok(())
    }

    /// From the connection to its end, which is the error.
    async fn connection(&mut self) -> Result<(), End> {
        let (stop, leave) = (self.stop.clone(), self.leave.clone());
        let mut connection = tokio::select! {
            connection = self.connect() => connection?,
            () = stop.stopped() => return Ok(()),
            () = leave.stopped() => return Ok(()),
        };
        let mut stopping = false;
        loop {
            if !stopping {
                self.take_in(&mut connection)?;
            }
            self.acknowledge(&mut connection)?;
            if stopping && (self.session.waiting() == 0 || leave.is_stopped()) {
                connection.send(&Outgoing::Disconnect);
                return connection.flush().await;
            }
            connection.flush().await?;
            let again = connection.held.as_ref().map(|held| held.again);
            let Connection { socket, read, ping, .. } = &mut connection;
            let waits = self.session.waiting() > 0;
            let session = &mut self.session;
            tokio::select! {
                count = socket.read_buf(read), if again.is_none() && !stopping => match count {
                    Ok(0) => return Err(End::Lost(CLOSED.to_owned())),
                    Ok(_) => connection.heard = Instant::now(),
                    Err(error) => return Err(End::Lost(error.to_string())),
                },
                result = async { session.oldest().expect("one waits").await }, if waits => self.settle(result, &mut connection)?,
                () = sleep_until(again.unwrap_or(*ping)), if again.is_some() && !stopping => self.try_again(&mut connection)?,
                () = sleep_until(*ping) => connection.ping(stopping)?,
                () = stop.stopped(), if !stopping => stopping = true,
                () = leave.stopped() => stopping = true,
            }
        }
    }

    async fn connect(&self) -> Result<Connection, End> {
        let MqttInput { host, port, client_id, username, password, keep_alive, session_expiry, .. } = &self.input;
        let socket = timeout(PATIENCE, TcpStream::connect((host.as_str(), *port))).await;
        let socket = socket.map_err(late).and_then(|socket| socket);
        let socket = socket.map_err(|error| End::Lost(format!("cannot connect: {error}")))?;
        socket.set_nodelay(true).map_err(|error| End::Lost(error.to_string()))?;
        let keep_alive_time = Duration::from_secs((*keep_alive).into());
        let now = Instant::now();
        let mut connection = Connection {
            socket,
            read: Vec::with_capacity(CHUNK),
            write: Vec::new(),
            keep_alive: keep_alive_time,
            heard: now,
            ping: now + keep_alive_time,
            welcome: false,
            held: None,
        };
        connection.send(&Outgoing::Connect(Connect {
            client_id: &client_id.value,
            username: username.as_deref(),
            password: password.as_deref(),
            keep_alive: *keep_alive,
            session_expiry: u32::try_from(session_expiry.as_secs()).unwrap_or(u32::MAX),
            receive_maximum: self.input.receive_maximum,
        }));
        connection.flush().await?;
        let answered = timeout(PATIENCE, connection.fill(4)).await;
        answered
            .map_err(late)
            .and_then(|answered| answered)
            .map_err(|error| End::Lost(format!("does not answer: {error}")))?;
        Ok(connection)
    }

    /// Handles the packets that are there, as long as there is room for messages.
    fn take_in(&mut self, connection: &mut Connection) -> Result<(), End> {
        let bytes = std::mem::take(&mut connection.read);
        let mut at = 0;
        while connection.held.is_none() {
            let Some((head, length)) = frame(&bytes[at..]).map_err(|_| malformed())? else { break };
            if length > LONGEST {
                let broker = self.input.broker();
                return Err(refused(format!(
                    "the mqtt broker {broker} sends a message of {length} bytes; at most {LONGEST} are taken"
                )));
            }
            let Some(packet) = bytes.get(at..at + length) else { break };
            at += length;
            let incoming = Incoming::read(packet, head).map_err(|_| malformed())?;
            check_turn(connection.welcome, &incoming)?;
            if let Incoming::Publish(publish) = &incoming {
                if !self.publish(publish, connection)? {
                    connection.held = Some(Held { packet: packet.to_vec(), head, again: Instant::now() + NO_ROOM });
                }
            } else {
                self.handle(&incoming, connection)?;
            }
        }
        connection.read = bytes;
        connection.read.drain(..at);
        Ok(())
    }

    fn handle(&mut self, incoming: &Incoming<'_>, connection: &mut Connection) -> Result<(), End> {
        let broker = self.input.broker();
        match *incoming {
            Incoming::ConnAck { resumed, reason: 0, session_expiry, keep_alive, .. } => {
                self.session.connected(resumed);
                connection.welcome = true;
                let asked = self.input.session_expiry.as_secs();
                if let Some(seconds) = session_expiry.filter(|seconds| u64::from(*seconds) < asked) {
                    tracing::warn!(
                        stream = self.stream,
                        "the mqtt broker {broker} keeps the session for {seconds} s only (session_expiry asks for {asked} s): messages are lost when the process is away for longer"
                    );
                }
                if let Some(seconds) = keep_alive.filter(|seconds| *seconds > 0) {
                    connection.keep_alive = Duration::from_secs(seconds.into());
                    connection.ping = Instant::now() + connection.keep_alive;
                }
                connection.send(&Outgoing::Subscribe { filters: &self.input.topics, qos: self.input.qos });
                tracing::debug!(stream = self.stream, resumed, "connected to the mqtt broker {broker}");
            }
            Incoming::ConnAck { reason, text, .. } => {
                return Err(self.refuses("does not let us in", reason, text, "check client_id, username and password"));
            }
            Incoming::SubAck { reasons, text } => {
                self.check_subscription(reasons, text)?;
                self.part.connected();
                tracing::info!(stream = self.stream, "takes messages from the mqtt broker {broker}");
            }
            Incoming::PubRel { id } => {
                let known = self.session.released(id);
                connection.send(&Outgoing::PubComp { id, known });
            }
            Incoming::Disconnect { reason: TAKEN_OVER, .. } => {
                return Err(End::Failed(Failure::Taken(format!(
                    "another client has connected to the mqtt broker {broker} with client_id {:?}, and has the session now: give each process a client_id of its own",
                    self.input.client_id.value
                ))));
            }
            Incoming::Disconnect { reason, text } => {
                return Err(self.refuses("ends the connection", reason, text, "its log says more"));
            }
            Incoming::PingResp => {}
            Incoming::Publish(_) => unreachable!("handled where there is room"),
        }
        Ok(())
    }

    fn check_subscription(&self, reasons: &[u8], said: Option<&str>) -> Result<(), End> {
        let MqttInput { topics, qos, .. } = &self.input;
        let broker = self.input.broker();
        if reasons.len() != topics.len() {
            return Err(malformed());
        }
        for (topic, reason) in topics.iter().zip(reasons) {
            if *reason >= 0x80 {
                let (text, said) = (text(*reason), quoted(said));
                return Err(refused(format!(
                    "the mqtt broker {broker} refuses the subscription to {topic}: {text} ({reason:#04x}){said}; check topics, and what the user may read"
                )));
            }
            if reason < qos {
                return Err(refused(format!(
                    "the mqtt broker {broker} grants QoS {reason} for {topic} where qos: {qos} is asked for: set qos: {reason}, with what that guarantees, or let the broker grant more"
                )));
            }
        }
        Ok(())
    }

    /// A refusal, for good or for now.
    fn refuses(&self, what: &str, reason: u8, said: Option<&str>, remedy: &str) -> End {
        let (text, said) = (text(reason), quoted(said));
        if is_final(reason) {
            let broker = self.input.broker();
            return refused(format!("the mqtt broker {broker} {what}: {text} ({reason:#04x}){said}; {remedy}"));
        }
        End::Lost(format!("it {what}: {text} ({reason:#04x}){said}"))
    }

    /// Hands a message in, or acknowledges it where it was before; false where there is no room.
    fn publish(&mut self, publish: &Publish<'_>, connection: &mut Connection) -> Result<bool, End> {
        match self.session.arrived(publish) {
            Arrival::New => match self.intake.hand_in(envelope(publish).into_bytes()) {
                Ok(safe) => {
                    self.part.took(publish.dup);
                    self.session.took(publish, safe);
                }
                Err(Refusal::Stopped) => return Err(End::Stopped),
                Err(Refusal::Busy) => return Ok(false),
                Err(Refusal::Log(error @ wattle_wal::Error::TooLong { .. })) => {
                    return Err(refused(format!(
                        "a message on the mqtt topic {} does not fit into the write-ahead log: {error}; set durability.max_bytes to more than four times of that",
                        publish.topic
                    )));
                }
                Err(Refusal::Log(error)) if passes(&error) => {
                    if self.part.no_room(true) {
                        tracing::warn!(stream = self.stream, "takes no messages: {error}");
                    }
                    return Ok(false);
                }
                Err(Refusal::Log(error)) => return Err(End::Failed(Failure::Io(io::Error::other(error)))),
            },
            Arrival::Waits => {}
            Arrival::Safe(answer) => connection.answer(answer),
        }
        if self.part.no_room(false) {
            tracing::info!(stream = self.stream, "takes messages again");
        }
        Ok(true)
    }

    /// Once more with what there was no room for.
    fn try_again(&mut self, connection: &mut Connection) -> Result<(), End> {
        let Some(mut held) = connection.held.take() else { return Ok(()) };
        let Ok(Incoming::Publish(publish)) = Incoming::read(&held.packet, held.head) else { return Err(malformed()) };
        if !self.publish(&publish, connection)? {
            held.again = Instant::now() + NO_ROOM;
            connection.held = Some(held);
        }
        // Nothing was read meanwhile.
        connection.heard = Instant::now();
        Ok(())
    }

    /// Acknowledges what is safe, in the order of arrival.
    fn acknowledge(&mut self, connection: &mut Connection) -> Result<(), End> {
        let mut context = Context::from_waker(Waker::noop());
        while let Some(safe) = self.session.oldest() {
            match safe.as_mut().poll(&mut context) {
                Poll::Pending => break,
                Poll::Ready(result) => self.settle(result, connection)?,
            }
        }
        self.part.waiting(self.session.waiting());
        Ok(())
    }

    /// What becomes of the oldest message.
    fn settle(&mut self, result: Result<(), Refusal>, connection: &mut Connection) -> Result<(), End> {
        let refusal = match result {
            Ok(()) => {
                self.session.is_safe().into_iter().for_each(|answer| connection.answer(answer));
                return Ok(());
            }
            Err(refusal) => refusal,
        };
        self.session.is_not_safe();
        Err(match refusal {
            Refusal::Log(error) if passes(&error) => End::Lost(format!("left it, to get a message once more: {error}")),
            Refusal::Log(error) => End::Failed(Failure::Io(io::Error::other(error))),
            Refusal::Busy | Refusal::Stopped => End::Stopped,
        })
    }
}

/// The record of a message. Its key is the topic: what comes over one topic stays in its order.
fn envelope(publish: &Publish<'_>) -> Envelope {
    let header = |name: &str, value: &[u8]| Header { name: name.to_owned(), value: Some(value.to_vec()) };
    let mut headers = vec![header("wattle.mqtt.topic", publish.topic.as_bytes())];
    headers.extend(publish.dup.then(|| header("wattle.mqtt.dup", b"true")));
    headers.extend(publish.retain.then(|| header("wattle.mqtt.retain", b"true")));
    headers.extend(publish.content_type.map(|text| header("wattle.mqtt.content_type", text.as_bytes())));
    headers.extend(publish.response_topic.map(|text| header("wattle.mqtt.response_topic", text.as_bytes())));
    headers.extend(publish.correlation_data.map(|bytes| header("wattle.mqtt.correlation_data", bytes)));
    headers.extend(publish.user.iter().map(|(name, value)| header(name, value.as_bytes())));
    let mut envelope = Envelope::now();
    envelope.push(Some(publish.topic.as_bytes()), Some(publish.payload), &headers);
    envelope
}

/// Whether there will be room again.
fn passes(error: &wattle_wal::Error) -> bool {
    use wattle_wal::Error::{Busy, DiskFull, Full};
    matches!(error, Full { .. } | Busy | DiskFull { .. })
}

/// What the broker says beside its reason.
fn quoted(said: Option<&str>) -> String {
    said.map(|said| format!(": {said:?}")).unwrap_or_default()
}

fn refused(text: String) -> End {
    End::Failed(Failure::Refused(text))
}

fn malformed() -> End {
    End::Lost("what it sends is not MQTT 5".to_owned())
}

fn late(_: tokio::time::error::Elapsed) -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, format!("no answer within {} s", PATIENCE.as_secs()))
}
