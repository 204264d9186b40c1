//! A request's bytes from the wire: size, header, body.

use std::io::{self, Read};
use std::panic::{AssertUnwindSafe, catch_unwind};

use bytes::{Bytes, BytesMut};
use kafka_protocol::messages::{ApiKey, RequestKind, ResponseHeader, ResponseKind};
use kafka_protocol::protocol::{Encodable, decode_request_header_from_buffer};

use crate::server::lengths;

/// As Kafka's `socket.request.max.bytes`.
pub(crate) const MAX_REQUEST_BYTES: usize = 100 * 1024 * 1024;

/// The head of a request that has not been decoded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Head {
    pub(crate) key: i16,
    pub(crate) version: i16,
    pub(crate) correlation: i32,
}

/// Reads one request; `None` when the client has closed the connection between two of them.
pub(crate) fn read(from: &mut impl Read) -> io::Result<Option<Bytes>> {
    let mut size = [0; 4];
    match from.read_exact(&mut size) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        read => read?,
    }
    let size = usize::try_from(i32::from_be_bytes(size)).unwrap_or(usize::MAX);
    if !(8..=MAX_REQUEST_BYTES).contains(&size) {
        let problem = format!("a request of {size} bytes; 8 to {MAX_REQUEST_BYTES} are allowed");
        return Err(io::Error::new(io::ErrorKind::InvalidData, problem));
    }
    // As much memory as has come, whatever the client says.
    let mut frame = Vec::with_capacity(size.min(1 << 20));
    from.by_ref().take(size as u64).read_to_end(&mut frame)?;
    if frame.len() < size {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(Some(frame.into()))
}

/// The first eight bytes, which are the same in all versions.
pub(crate) fn head(frame: &Bytes) -> Head {
    let number = |at: usize| i16::from_be_bytes([frame[at], frame[at + 1]]);
    let correlation = i32::from_be_bytes([frame[4], frame[5], frame[6], frame[7]]);
    Head { key: number(0), version: number(2), correlation }
}

/// The client's id and the request. Where the decoder panics, the bytes are no request either.
pub(crate) fn decode(mut frame: Bytes, key: ApiKey, version: i16) -> Result<(String, RequestKind), String> {
    let decoded = catch_unwind(AssertUnwindSafe(|| {
        lengths::check(&frame, key, version)?;
        let header = decode_request_header_from_buffer(&mut frame)?;
        let client = header.client_id.map(|id| id.to_string()).unwrap_or_default();
        Ok::<_, Box<dyn std::error::Error>>((client, RequestKind::decode(key, &mut frame, version)?))
    }));
    decoded.map_err(|_| "the bytes are not such a request".to_owned())?.map_err(|error| format!("{error:#}"))
}

/// The answer's bytes, size included.
pub(crate) fn encode(
    response: &ResponseKind,
    key: ApiKey,
    version: i16,
    correlation: i32,
) -> Result<BytesMut, Box<dyn std::error::Error>> {
    let mut out = BytesMut::with_capacity(256);
    out.extend_from_slice(&[0; 4]);
    ResponseHeader::default()
        .with_correlation_id(correlation)
        .encode(&mut out, key.response_header_version(version))?;
    response.encode(&mut out, version)?;
    let size = i32::try_from(out.len() - 4)?;
    out[..4].copy_from_slice(&size.to_be_bytes());
    Ok(out)
}
