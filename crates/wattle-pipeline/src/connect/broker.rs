//! What an MQTT broker says to our user and our subscriptions. Under a client id of its own and for this connection alone: the session of a process that
//! runs is left as it is, and no message is acknowledged.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use wattle::Exit;

use crate::mqtt::{Connect, Incoming, Outgoing, frame, is_final, text};
use crate::spec::MqttInput;

/// For each answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// Longer packets are messages that have no part in this.
const LONGEST: usize = 1 << 20;

type Refused = (Exit, String);

/// Connects, subscribes and leaves. The error: how a start would end, and what the broker does.
pub(super) fn ask(input: &MqttInput) -> Result<(), Refused> {
    let mut socket = connect(input).map_err(|error| silent(&error))?;
    let client_id = format!("wattle-check-{}", std::process::id());
    let connect = Connect {
        client_id: &client_id,
        username: input.username.as_deref(),
        password: input.password.as_deref(),
        keep_alive: input.keep_alive,
        session_expiry: 0,
        receive_maximum: input.receive_maximum,
    };
    send(&mut socket, &Outgoing::Connect(connect))?;
    answer(&mut socket, |incoming| match *incoming {
        Incoming::ConnAck { reason: 0, .. } => Some(Ok(())),
        Incoming::ConnAck { reason, .. } => Some(Err(refused("does not let us in", reason, "username and password"))),
        _ => None,
    })?;
    // A member of a shared subscription would get messages that are for the others.
    let alone = |filter: &String| match filter.strip_prefix("$share/").and_then(|shared| shared.split_once('/')) {
        Some((_, filter)) => filter.to_owned(),
        None => filter.clone(),
    };
    let filters: Vec<String> = input.topics.iter().map(alone).collect();
    send(&mut socket, &Outgoing::Probe { filters: &filters, qos: input.qos })?;
    answer(&mut socket, |incoming| match incoming {
        Incoming::SubAck { reasons, .. } => Some(granted(input, reasons)),
        _ => None,
    })?;
    send(&mut socket, &Outgoing::Disconnect)
}

fn connect(input: &MqttInput) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "its name has no address");
    for address in (input.host.as_str(), input.port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, PATIENCE) {
            Ok(socket) => {
                socket.set_read_timeout(Some(PATIENCE))?;
                socket.set_write_timeout(Some(PATIENCE))?;
                return Ok(socket);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn send(socket: &mut TcpStream, packet: &Outgoing<'_>) -> Result<(), Refused> {
    let mut bytes = Vec::new();
    packet.write(&mut bytes);
    socket.write_all(&bytes).map_err(|error| silent(&error))
}

/// Reads packets up to the one that `read` takes.
fn answer(socket: &mut TcpStream, read: impl Fn(&Incoming<'_>) -> Option<Result<(), Refused>>) -> Result<(), Refused> {
    let malformed = |_| (Exit::Failed, "does not speak MQTT 5".to_owned());
    let (mut bytes, begin) = (Vec::new(), Instant::now());
    while begin.elapsed() < PATIENCE {
        let Some((head, length)) = frame(&bytes).map_err(malformed)?.filter(|(_, length)| bytes.len() >= *length)
        else {
            let mut chunk = [0; 4096];
            match socket.read(&mut chunk) {
                Ok(0) => return Err((Exit::Unreachable, "closes the connection".to_owned())),
                Ok(count) => bytes.extend_from_slice(&chunk[..count]),
                Err(error) => return Err(silent(&error)),
            }
            if bytes.len() > LONGEST {
                break;
            }
            continue;
        };
        match Incoming::read(&bytes[..length], head).map_err(malformed)? {
            Incoming::Disconnect { reason, .. } => return Err(refused("ends the connection", reason, "its log")),
            incoming => {
                if let Some(result) = read(&incoming) {
                    return result;
                }
            }
        }
        bytes.drain(..length);
    }
    Err((Exit::Unreachable, "does not answer".to_owned()))
}

fn granted(input: &MqttInput, reasons: &[u8]) -> Result<(), Refused> {
    let of = |(topic, reason): (&String, &u8)| match *reason {
        reason if reason >= 0x80 => {
            Some(said(&format!("refuses the subscription to {topic}"), reason, "what the user may read"))
        }
        reason if reason < input.qos => Some(format!(
            "grants QoS {reason} for {topic} where qos: {} is asked for: set qos: {reason}, or let it grant more",
            input.qos
        )),
        _ => None,
    };
    let problems: Vec<_> = input.topics.iter().zip(reasons).filter_map(of).collect();
    if problems.is_empty() { Ok(()) } else { Err((Exit::Failed, problems.join("; and it "))) }
}

fn refused(what: &str, reason: u8, remedy: &str) -> Refused {
    let exit = if is_final(reason) { Exit::Failed } else { Exit::Unreachable };
    (exit, said(what, reason, remedy))
}

fn said(what: &str, reason: u8, remedy: &str) -> String {
    format!("{what}: {} ({reason:#04x}); look at {remedy}", text(reason))
}

fn silent(error: &io::Error) -> Refused {
    let late = matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut);
    let text = if late { format!("no answer within {} s", PATIENCE.as_secs()) } else { error.to_string() };
    (Exit::Unreachable, format!("does not answer: {text}"))
}
