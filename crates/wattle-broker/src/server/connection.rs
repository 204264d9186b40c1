//! One connection: requests are read, controlled, handled and answered in order.

use std::io::{self, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

use bytes::Bytes;
use kafka_protocol::messages::{ApiKey, RequestKind, ResponseKind};

use crate::api::{self, Client, Dropped};
use crate::control::{After, Before, Controls};
use crate::core::Core;
use crate::server::Address;
use crate::server::clients::Entry;
use crate::server::frame::{self, Head};

/// What its thread owns. `entry` comes last: when the connection has left the list, nothing of it is left.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) stream: TcpStream,
    pub(crate) peer: SocketAddr,
    pub(crate) advertised: Address,
    pub(crate) controls: Arc<Controls>,
    pub(crate) core: Arc<Core>,
    pub(crate) entry: Entry,
}

/// Why a connection ends.
enum End {
    /// The client is at fault: what it sent, and its id where it got that far.
    Malformed(Head, String),
    /// The broker stops, or a test wants it.
    Dropped,
    /// The client has left.
    Gone(io::Error),
}

impl From<Dropped> for End {
    fn from(_: Dropped) -> Self {
        Self::Dropped
    }
}

impl Connection {
    /// Until the client leaves.
    pub(crate) fn serve(mut self) {
        tracing::debug!(peer = %self.peer, "connected");
        match self.requests() {
            Ok(()) | Err(End::Dropped) => {}
            Err(End::Malformed(head, problem)) => {
                let api = ApiKey::try_from(head.key).map_or_else(|()| head.key.to_string(), |key| format!("{key:?}"));
                let version = head.version;
                tracing::warn!(peer = %self.peer, api, version, problem, "closed the connection of a client that sent a bad request");
            }
            Err(End::Gone(error)) if error.kind() == io::ErrorKind::InvalidData => {
                tracing::warn!(peer = %self.peer, %error, "closed the connection of a client that does not speak Kafka's protocol");
            }
            Err(End::Gone(error)) => tracing::debug!(peer = %self.peer, %error, "connection lost"),
        }
        tracing::debug!(peer = %self.peer, "disconnected");
    }

    fn requests(&mut self) -> Result<(), End> {
        let mut asked = false;
        while let Some(frame) = frame::read(&mut self.stream).map_err(End::Gone)? {
            if !asked {
                self.entry.asks();
                asked = true;
            }
            self.request(frame)?;
        }
        Ok(())
    }

    fn request(&mut self, frame: Bytes) -> Result<(), End> {
        let head = frame::head(&frame);
        let Ok(key) = ApiKey::try_from(head.key) else {
            return Err(End::Malformed(head, "not a known request".into()));
        };
        let accepted = api::accepts(key, head.version);
        if key == ApiKey::ApiVersions && !accepted {
            // A client that is newer than this broker: told in the oldest version, it comes again.
            return self.answer(&api::unsupported_api_versions(), key, Head { version: 0, ..head });
        }
        if !accepted {
            return Err(End::Malformed(head, "not offered".into()));
        }
        let malformed = |problem| End::Malformed(head, problem);
        let (client, request) = frame::decode(frame, key, head.version).map_err(malformed)?;
        let client = Client { id: client, host: self.peer.ip().to_string() };
        if let Some(response) = self.controlled(key, request, head.version, &client)? {
            self.answer(&response, key, head)?;
        }
        Ok(())
    }

    /// Handles a request as the hooks allow. `None`: there is no answer, and none is expected.
    fn controlled(
        &self,
        key: ApiKey,
        mut request: RequestKind,
        version: i16,
        client: &Client,
    ) -> Result<Option<ResponseKind>, End> {
        let control = self.controls.of(&self.core, key, &request, client);
        let unanswered = matches!(&request, RequestKind::Produce(produce) if produce.acks == 0);
        let kept = control.needs_request().then(|| request.clone());
        let response = match control.before(&self.core, &mut request, version) {
            Before::Handle => {
                let response = self.handle(request, version, client)?;
                match control.after(&self.core, kept.as_ref(), response, version) {
                    After::Answer(response) => response,
                    After::Close => return Err(End::Dropped),
                }
            }
            Before::Answer(response) => response,
            Before::Close => return Err(End::Dropped),
        };
        if !unanswered {
            return Ok(Some(*response));
        }
        // Without acknowledgements the end of the connection is the only way to say that something went wrong.
        if api::refused_something(&response) { Err(End::Dropped) } else { Ok(None) }
    }

    fn handle(&self, request: RequestKind, version: i16, client: &Client) -> Result<ResponseKind, End> {
        if self.core.is_stopping() || self.core.lock().broken.is_some() {
            return Err(End::Dropped);
        }
        Ok(api::handle(&self.core, request, version, client, &self.advertised)?)
    }

    fn answer(&mut self, response: &ResponseKind, key: ApiKey, head: Head) -> Result<(), End> {
        let bytes = frame::encode(response, key, head.version, head.correlation);
        let bytes = bytes.map_err(|error| {
            let version = head.version;
            tracing::error!(?key, version, %error, "cannot encode an answer; the connection is closed");
            End::Dropped
        })?;
        self.stream.write_all(&bytes).map_err(End::Gone)
    }
}
