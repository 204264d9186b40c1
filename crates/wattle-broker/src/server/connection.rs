//! One connection: requests are read, and answered in order.

use std::io::{self, Write};
use std::net::TcpStream;

use kafka_protocol::messages::ApiKey;

use crate::server::clients::Entry;
use crate::server::frame::{self, Head};
use crate::server::session::{End, Session};

/// What its thread owns. `entry` comes last: when the connection has left the list, nothing of it is left.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) stream: TcpStream,
    pub(crate) session: Session,
    pub(crate) entry: Entry,
}

/// Why a connection ends.
enum Closed {
    /// By us.
    Ended(End),
    /// The client has left.
    Gone(io::Error),
}

impl Connection {
    /// Until the client leaves.
    pub(crate) fn serve(mut self) {
        let peer = self.session.peer;
        tracing::debug!(%peer, "connected");
        match self.requests() {
            Ok(()) | Err(Closed::Ended(End::Dropped)) => {}
            Err(Closed::Ended(End::Malformed(head, problem))) => {
                let (api, version) = (name(head), head.version);
                tracing::warn!(%peer, api, version, problem, "closed the connection of a client that sent a bad request");
            }
            Err(Closed::Ended(End::Unanswerable(head, problem))) => {
                let (api, version) = (name(head), head.version);
                tracing::error!(%peer, api, version, problem, "cannot encode an answer; the connection is closed");
            }
            Err(Closed::Gone(error)) if error.kind() == io::ErrorKind::InvalidData => {
                tracing::warn!(%peer, %error, "closed the connection of a client that does not speak Kafka's protocol");
            }
            Err(Closed::Gone(error)) => tracing::debug!(%peer, %error, "connection lost"),
        }
        tracing::debug!(%peer, "disconnected");
    }

    fn requests(&mut self) -> Result<(), Closed> {
        let mut asked = false;
        while let Some(frame) = frame::read(&mut self.stream).map_err(Closed::Gone)? {
            if !asked {
                self.entry.asks();
                asked = true;
            }
            if let Some(answer) = self.session.answer(frame).map_err(Closed::Ended)? {
                self.stream.write_all(&answer).map_err(Closed::Gone)?;
            }
        }
        Ok(())
    }
}

fn name(head: Head) -> String {
    ApiKey::try_from(head.key).map_or_else(|()| head.key.to_string(), |key| format!("{key:?}"))
}
