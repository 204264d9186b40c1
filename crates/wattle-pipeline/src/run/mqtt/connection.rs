//! A connection to the broker: what has come and what goes, its signs of life, and whose turn it is.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};

use super::{End, PATIENCE, late};
use crate::mqtt::{Answer, Incoming, Outgoing};

/// A message for which there was no room.
pub(super) struct Held {
    /// The packet.
    pub(super) packet: Vec<u8>,
    pub(super) head: usize,
    pub(super) again: Instant,
}

pub(super) struct Connection {
    pub(super) socket: TcpStream,
    pub(super) read: Vec<u8>,
    pub(super) write: Vec<u8>,
    /// Time between two signs of life.
    pub(super) keep_alive: Duration,
    pub(super) heard: Instant,
    pub(super) ping: Instant,
    /// It has let us in.
    pub(super) welcome: bool,
    pub(super) held: Option<Held>,
}

impl Connection {
    pub(super) fn send(&mut self, packet: &Outgoing<'_>) {
        packet.write(&mut self.write);
    }

    pub(super) fn answer(&mut self, answer: Answer) {
        self.send(&match answer {
            Answer::PubAck(id) => Outgoing::PubAck { id },
            Answer::PubRec(id) => Outgoing::PubRec { id },
        });
    }

    /// Returns when so many bytes have come.
    pub(super) async fn fill(&mut self, bytes: usize) -> io::Result<()> {
        while self.read.len() < bytes {
            if self.socket.read_buf(&mut self.read).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(())
    }

    pub(super) async fn flush(&mut self) -> Result<(), End> {
        if self.write.is_empty() {
            return Ok(());
        }
        let written = timeout(PATIENCE, self.socket.write_all(&self.write)).await;
        self.write.clear();
        written.map_err(late).and_then(|written| written).map_err(|error| End::Lost(error.to_string()))
    }

    /// A sign of life, and a look whether the broker gives one. While nothing is read it cannot.
    pub(super) fn ping(&mut self, reads_nothing: bool) -> Result<(), End> {
        let silent = self.heard.elapsed();
        let looks = self.held.is_none() && !reads_nothing;
        if looks && silent > self.keep_alive * 3 / 2 {
            return Err(End::Lost(format!("it has said nothing for {} s", silent.as_secs())));
        }
        self.send(&Outgoing::PingReq);
        self.ping = Instant::now() + self.keep_alive;
        Ok(())
    }
}

/// The first packet of a connection lets us in or does not, and no other one does.
pub(super) fn check_turn(welcome: bool, incoming: &Incoming<'_>) -> Result<(), End> {
    let is_welcome = matches!(incoming, Incoming::ConnAck { .. });
    if is_welcome == welcome && !matches!(incoming, Incoming::Disconnect { .. }) {
        let what = if is_welcome { "a second CONNACK" } else { "something before its CONNACK" };
        return Err(End::Lost(format!("it sends {what}, which MQTT 5 does not allow")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broker_lets_us_in_first_and_once() {
        let connack =
            Incoming::ConnAck { resumed: true, reason: 0, session_expiry: None, keep_alive: None, text: None };
        let bye = Incoming::Disconnect { reason: 0x8b, text: None };
        let lost = |welcome, incoming: &Incoming<'_>| matches!(check_turn(welcome, incoming), Err(End::Lost(_)));
        assert_eq!([false, true].map(|welcome| lost(welcome, &connack)), [false, true]);
        assert_eq!([false, true].map(|welcome| lost(welcome, &Incoming::PingResp)), [true, false]);
        assert_eq!([false, true].map(|welcome| lost(welcome, &bye)), [false, false]);
    }
}
