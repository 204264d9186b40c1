//! What a request becomes, without the socket that it came from: decoded, controlled, handled, encoded.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use kafka_protocol::messages::{ApiKey, RequestKind, ResponseKind};

use crate::api::{self, Client, Dropped};
use crate::control::{After, Before, Controls};
use crate::core::Core;
use crate::server::Address;
use crate::server::frame::{self, Head};

/// One client's side of the broker.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) peer: SocketAddr,
    pub(crate) advertised: Address,
    pub(crate) controls: Arc<Controls>,
    pub(crate) core: Arc<Core>,
}

/// Why a session ends.
#[derive(Debug)]
pub(crate) enum End {
    /// The client is at fault: what it sent, and its id where it got that far.
    Malformed(Head, String),
    /// The broker stops, or a test wants it.
    Dropped,
    /// A bug in here: there is an answer, and it cannot be encoded.
    Unanswerable(Head, String),
}

impl From<Dropped> for End {
    fn from(_: Dropped) -> Self {
        Self::Dropped
    }
}

impl Session {
    /// The answer to a request, size included. `None`: there is none, and none is expected.
    pub(crate) fn answer(&self, frame: Bytes) -> Result<Option<BytesMut>, End> {
        let head = frame::head(&frame);
        let Ok(key) = ApiKey::try_from(head.key) else {
            return Err(End::Malformed(head, "not a known request".into()));
        };
        let accepted = api::accepts(key, head.version);
        if key == ApiKey::ApiVersions && !accepted {
            // A client that is newer than this broker: told in the oldest version, it comes again.
            return encode(&api::unsupported_api_versions(), key, Head { version: 0, ..head }).map(Some);
        }
        if !accepted {
            return Err(End::Malformed(head, "not offered".into()));
        }
        let malformed = |problem| End::Malformed(head, problem);
        let (client, request) = frame::decode(frame, key, head.version).map_err(malformed)?;
        let client = Client { id: client, host: self.peer.ip().to_string() };
        let response = self.controlled(key, request, head.version, &client)?;
        response.map(|response| encode(&response, key, head)).transpose()
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
}

fn encode(response: &ResponseKind, key: ApiKey, head: Head) -> Result<BytesMut, End> {
    let bytes = frame::encode(response, key, head.version, head.correlation);
    bytes.map_err(|error| End::Unanswerable(head, error.to_string()))
}
