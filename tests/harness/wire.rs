//! Requests that the client library does not offer, by hand: flexible versions only.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

const TIMEOUT: Duration = Duration::from_secs(20);

/// Kafka's numbers for requests, and the versions that librdkafka uses.
#[derive(Clone, Copy)]
pub(crate) enum Api {
    Produce,
    InitProducerId,
    DescribeAcls,
    CreateAcls,
    DeleteAcls,
    IncrementalAlterConfigs,
    ConsumerGroupDescribe,
}

impl Api {
    const fn key_and_version(self) -> (i16, i16) {
        match self {
            Api::Produce => (0, 9),
            Api::InitProducerId => (22, 4),
            Api::DescribeAcls => (29, 2),
            Api::CreateAcls => (30, 2),
            Api::DeleteAcls => (31, 2),
            Api::IncrementalAlterConfigs => (44, 1),
            Api::ConsumerGroupDescribe => (69, 0),
        }
    }
}

/// A request's body, or what is left of an answer's.
pub(crate) struct Body(Vec<u8>);

impl Body {
    /// Empty.
    pub(crate) fn new() -> Self {
        Body(Vec::new())
    }

    /// Another body as it is.
    pub(crate) fn then(mut self, other: Body) -> Self {
        self.0.extend(other.0);
        self
    }

    /// Bytes as they are: numbers in network order.
    pub(crate) fn put<const N: usize>(mut self, bytes: [u8; N]) -> Self {
        self.0.extend(bytes);
        self
    }

    /// The length of an array or a text; what follows is up to the caller.
    pub(crate) fn length(mut self, length: usize) -> Self {
        let mut rest = length + 1;
        while rest > 127 {
            self.0.push(rest as u8 | 128);
            rest >>= 7;
        }
        self.0.push(rest as u8);
        self
    }

    /// Text or bytes behind their length.
    pub(crate) fn bytes(self, bytes: impl AsRef<[u8]>) -> Self {
        let mut body = self.length(bytes.as_ref().len());
        body.0.extend(bytes.as_ref());
        body
    }

    /// The end of a structure.
    pub(crate) fn end(self) -> Self {
        self.put([0])
    }

    /// Takes bytes from the beginning.
    pub(crate) fn take<const N: usize>(&mut self) -> [u8; N] {
        let rest = self.0.split_off(N);
        std::mem::replace(&mut self.0, rest).try_into().expect("as long as asked for")
    }
}

impl Body {
    /// Takes the length of an array or a text; of one that is absent it is 0.
    pub(crate) fn take_length(&mut self) -> usize {
        let (mut length, mut shift) = (0, 0);
        loop {
            let [byte] = self.take();
            length |= usize::from(byte & 127) << shift;
            shift += 7;
            if byte & 128 == 0 {
                return length.saturating_sub(1);
            }
        }
    }

    /// Takes a text behind its length.
    pub(crate) fn take_text(&mut self) -> String {
        let length = self.take_length();
        let rest = self.0.split_off(length);
        String::from_utf8(std::mem::replace(&mut self.0, rest)).expect("a text")
    }

    /// Takes the end of a structure.
    pub(crate) fn take_end(&mut self) {
        assert_eq!(self.take(), [0], "no tags");
    }
}

impl AsRef<[u8]> for Body {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// Sends a request on a connection of its own and returns the answer's body.
pub(crate) fn ask(address: &str, api: Api, body: Body) -> Body {
    try_ask(address, api, body).expect("the broker answers")
}

/// The same with a broker that may be away, or not know the request.
pub(crate) fn try_ask(address: &str, api: Api, body: Body) -> io::Result<Body> {
    let (key, version) = api.key_and_version();
    let request = Body::new().put(key.to_be_bytes()).put(version.to_be_bytes()).put(7_i32.to_be_bytes());
    let request = request.put([0, 4]).put(*b"wire").end().then(body);
    let mut connection = TcpStream::connect(address)?;
    connection.set_read_timeout(Some(TIMEOUT))?;
    let length = u32::try_from(request.0.len()).expect("small");
    connection.write_all(&[&length.to_be_bytes()[..], &request.0].concat())?;
    let mut length = [0; 4];
    connection.read_exact(&mut length)?;
    let mut answer = vec![0; u32::from_be_bytes(length) as usize];
    connection.read_exact(&mut answer)?;
    let mut answer = Body(answer);
    assert_eq!(answer.take(), 7_i32.to_be_bytes(), "the answer to this request");
    answer.take_end();
    Ok(answer)
}

/// Sets one of a topic's settings and leaves the others alone.
pub(crate) fn set_topic_config(address: &str, topic: &str, key: &str, value: &str) {
    const TOPIC: u8 = 2;
    const SET: u8 = 0;
    let setting = Body::new().length(1).bytes(key).put([SET]).bytes(value).end();
    let topic = Body::new().length(1).put([TOPIC]).bytes(topic).then(setting).end();
    let body = topic.put([0]).end(); // not only to validate
    let mut answer = ask(address, Api::IncrementalAlterConfigs, body);
    answer.take::<4>(); // how long to wait
    assert_eq!(answer.take(), [2], "one answer");
    assert_eq!(i16::from_be_bytes(answer.take()), 0, "the error's number");
}
