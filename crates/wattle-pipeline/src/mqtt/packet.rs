//! The packets of MQTT 5 that a subscriber reads and writes. What a packet may hold and we do not need is read over; what is no packet is refused.

/// What a broker sends.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Incoming<'a> {
    ConnAck {
        /// The broker has kept our session.
        resumed: bool,
        reason: u8,
        /// For how many seconds it keeps it, where that is not what was asked for.
        session_expiry: Option<u32>,
        /// Seconds, where they are not what was asked for.
        keep_alive: Option<u16>,
        text: Option<&'a str>,
    },
    SubAck {
        /// One for each filter.
        reasons: &'a [u8],
        text: Option<&'a str>,
    },
    Publish(Publish<'a>),
    /// A message of QoS 2 is released.
    PubRel {
        id: u16,
    },
    PingResp,
    Disconnect {
        reason: u8,
        text: Option<&'a str>,
    },
}

/// A message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Publish<'a> {
    /// It was sent before.
    pub(crate) dup: bool,
    /// 0, 1 or 2.
    pub(crate) qos: u8,
    /// It was there before the subscription.
    pub(crate) retain: bool,
    /// 0 with QoS 0.
    pub(crate) id: u16,
    pub(crate) topic: &'a str,
    pub(crate) payload: &'a [u8],
    pub(crate) content_type: Option<&'a str>,
    pub(crate) response_topic: Option<&'a str>,
    pub(crate) correlation_data: Option<&'a [u8]>,
    pub(crate) user: Vec<(&'a str, &'a str)>,
}

/// What we send.
pub(crate) enum Outgoing<'a> {
    Connect(Connect<'a>),
    /// To these filters, with this QoS at most. Retained messages come with a subscription that is new, and not again.
    Subscribe {
        filters: &'a [String],
        qos: u8,
    },
    /// The same without any retained message.
    Probe {
        filters: &'a [String],
        qos: u8,
    },
    PubAck {
        id: u16,
    },
    PubRec {
        id: u16,
    },
    PubComp {
        id: u16,
        /// Whether there was such a message.
        known: bool,
    },
    PingReq,
    /// The session stays.
    Disconnect,
}

/// With a session that the broker keeps.
pub(crate) struct Connect<'a> {
    pub(crate) client_id: &'a str,
    pub(crate) username: Option<&'a str>,
    pub(crate) password: Option<&'a str>,
    /// Seconds.
    pub(crate) keep_alive: u16,
    /// Seconds.
    pub(crate) session_expiry: u32,
    /// Messages of QoS 1 and 2 that may be on their way.
    pub(crate) receive_maximum: u16,
}

/// Bytes that are no packet of MQTT 5.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Malformed;

type Read<T> = Result<T, Malformed>;

/// The only subscription there is at a time.
const SUBSCRIPTION: u16 = 1;
const NOT_FOUND: u8 = 0x92;
/// Retain handling 1: retained messages for new subscriptions alone.
const RETAINED_WHEN_NEW: u8 = 1 << 4;
const RETAINED_NEVER: u8 = 2 << 4;

/// The length of the packet that begins there with its head, as `(head, whole)`; `None` where more bytes are needed to know.
pub(crate) fn frame(bytes: &[u8]) -> Read<Option<(usize, usize)>> {
    let mut rest = Rest(bytes.get(1..).unwrap_or_default());
    let before = rest.0.len();
    match rest.varint() {
        Ok(length) => {
            let head = 1 + before - rest.0.len();
            Ok(Some((head, head + length as usize)))
        }
        Err(Malformed) if before < 4 => Ok(None),
        Err(malformed) => Err(malformed),
    }
}

impl<'a> Incoming<'a> {
    /// Reads one whole packet, whose head has this length.
    pub(crate) fn read(packet: &'a [u8], head: usize) -> Read<Self> {
        let (first, mut rest) = (packet[0], Rest(&packet[head..]));
        // What the low bits have to be, where they are no flags of a message.
        let reserved = if first >> 4 == 6 { 2 } else { 0 };
        if first >> 4 != 3 && first & 15 != reserved {
            return Err(Malformed);
        }
        Ok(match first >> 4 {
            2 => {
                let (flags, reason) = (rest.u8()?, rest.u8()?);
                if flags > 1 {
                    return Err(Malformed);
                }
                let (mut session_expiry, mut keep_alive, mut text) = (None, None, None);
                // An answer in the form of MQTT 3 has none.
                rest.properties(|id, value| match (id, value) {
                    (17, Value::Number(seconds)) => session_expiry = Some(seconds),
                    (19, Value::Number(seconds)) => keep_alive = u16::try_from(seconds).ok(),
                    (31, Value::Text(reason)) => text = Some(reason),
                    _ => {}
                })?;
                Incoming::ConnAck { resumed: flags & 1 == 1, reason, session_expiry, keep_alive, text }
            }
            3 => Incoming::Publish(publish(first, rest)?),
            6 => Incoming::PubRel { id: rest.id()? },
            9 => {
                if rest.id()? != SUBSCRIPTION {
                    return Err(Malformed);
                }
                let text = rest.reason_text()?;
                Incoming::SubAck { reasons: rest.0, text }
            }
            13 => Incoming::PingResp,
            14 => {
                let reason = if rest.0.is_empty() { 0 } else { rest.u8()? };
                Incoming::Disconnect { reason, text: rest.reason_text()? }
            }
            _ => return Err(Malformed),
        })
    }
}

fn publish(first: u8, mut rest: Rest<'_>) -> Read<Publish<'_>> {
    let (dup, qos, retain) = (first & 8 != 0, first >> 1 & 3, first & 1 != 0);
    let topic = rest.text()?;
    let id = if qos == 0 { 0 } else { rest.id()? };
    if qos == 3 || (qos == 0 && dup) || topic.is_empty() || topic.contains(['+', '#']) {
        return Err(Malformed);
    }
    let (mut content_type, mut response_topic, mut correlation_data, mut user) = (None, None, None, Vec::new());
    if rest.0.is_empty() {
        return Err(Malformed);
    }
    rest.properties(|id, value| match (id, value) {
        (3, Value::Text(kind)) => content_type = Some(kind),
        (8, Value::Text(topic)) => response_topic = Some(topic),
        (9, Value::Bytes(bytes)) => correlation_data = Some(bytes),
        (38, Value::Pair(name, value)) => user.push((name, value)),
        _ => {}
    })?;
    let payload = rest.0;
    Ok(Publish { dup, qos, retain, id, topic, payload, content_type, response_topic, correlation_data, user })
}

impl Outgoing<'_> {
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        let body = match self {
            Outgoing::Connect(connect) => connect.body(),
            Outgoing::Subscribe { filters, qos } | Outgoing::Probe { filters, qos } => {
                let retained = if matches!(self, Outgoing::Probe { .. }) { RETAINED_NEVER } else { RETAINED_WHEN_NEW };
                let mut body = SUBSCRIPTION.to_be_bytes().to_vec();
                body.push(0);
                for filter in *filters {
                    put(&mut body, filter.as_bytes());
                    body.push(qos | retained);
                }
                body
            }
            Outgoing::PubAck { id } | Outgoing::PubRec { id } | Outgoing::PubComp { id, known: true } => {
                id.to_be_bytes().to_vec()
            }
            Outgoing::PubComp { id, known: false } => [&id.to_be_bytes()[..], &[NOT_FOUND]].concat(),
            Outgoing::PingReq => Vec::new(),
            Outgoing::Disconnect => vec![0, 0],
        };
        out.push(match self {
            Outgoing::Connect(_) => 0x10,
            Outgoing::Subscribe { .. } | Outgoing::Probe { .. } => 0x82,
            Outgoing::PubAck { .. } => 0x40,
            Outgoing::PubRec { .. } => 0x50,
            Outgoing::PubComp { .. } => 0x70,
            Outgoing::PingReq => 0xc0,
            Outgoing::Disconnect => 0xe0,
        });
        let mut length = body.len();
        while length >= 0x80 {
            out.push(length as u8 | 0x80);
            length >>= 7;
        }
        out.push(length as u8);
        out.extend(body);
    }
}

impl Connect<'_> {
    fn body(&self) -> Vec<u8> {
        const USERNAME: u8 = 0x80;
        const PASSWORD: u8 = 0x40;
        let flags = self.username.map_or(0, |_| USERNAME) | self.password.map_or(0, |_| PASSWORD);
        let mut body = b"\0\x04MQTT\x05".to_vec();
        body.push(flags);
        body.extend(self.keep_alive.to_be_bytes());
        body.push(8); // bytes of properties
        body.push(17);
        body.extend(self.session_expiry.to_be_bytes());
        body.push(33);
        body.extend(self.receive_maximum.to_be_bytes());
        put(&mut body, self.client_id.as_bytes());
        for text in [self.username, self.password].into_iter().flatten() {
            put(&mut body, text.as_bytes());
        }
        body
    }
}

/// With its length, which is checked where the text comes from.
fn put(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend((bytes.len() as u16).to_be_bytes());
    out.extend_from_slice(bytes);
}

/// The value of a property.
enum Value<'a> {
    Number(u32),
    Text(&'a str),
    Bytes(&'a [u8]),
    Pair(&'a str, &'a str),
}

/// What is not read yet.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn take(&mut self, length: usize) -> Read<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(Malformed)?;
        self.0 = rest;
        Ok(taken)
    }

    fn u8(&mut self) -> Read<u8> {
        self.take(1).map(|bytes| bytes[0])
    }

    fn u16(&mut self) -> Read<u16> {
        self.take(2).map(|bytes| u16::from_be_bytes([bytes[0], bytes[1]]))
    }

    /// The number of a packet, which is never 0.
    fn id(&mut self) -> Read<u16> {
        self.u16().and_then(|id| if id == 0 { Err(Malformed) } else { Ok(id) })
    }

    fn u32(&mut self) -> Read<u32> {
        self.take(4).map(|bytes| u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
    }

    /// At most four bytes.
    fn varint(&mut self) -> Read<u32> {
        let mut number = 0;
        for shift in [0, 7, 14, 21] {
            let byte = self.u8()?;
            number |= u32::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(Malformed)
    }

    fn bytes(&mut self) -> Read<&'a [u8]> {
        let length = self.u16()?;
        self.take(length.into())
    }

    /// Other control characters than a zero are allowed.
    fn text(&mut self) -> Read<&'a str> {
        let text = std::str::from_utf8(self.bytes()?).map_err(|_| Malformed)?;
        if text.contains('\0') { Err(Malformed) } else { Ok(text) }
    }

    /// Gives each property to `each`. None at all stand for an empty list.
    fn properties(&mut self, mut each: impl FnMut(u8, Value<'a>)) -> Read<()> {
        if self.0.is_empty() {
            return Ok(());
        }
        let length = self.varint()?;
        let mut rest = Rest(self.take(length as usize)?);
        while !rest.0.is_empty() {
            let id = rest.u8()?;
            let value = match id {
                1 | 23 | 25 | 36 | 37 | 40 | 41 | 42 => Value::Number(rest.u8()?.into()),
                19 | 33 | 34 | 35 => Value::Number(rest.u16()?.into()),
                2 | 17 | 24 | 39 => Value::Number(rest.u32()?),
                11 => Value::Number(rest.varint()?),
                3 | 8 | 18 | 21 | 26 | 28 | 31 => Value::Text(rest.text()?),
                9 | 22 => Value::Bytes(rest.bytes()?),
                38 => Value::Pair(rest.text()?, rest.text()?),
                _ => return Err(Malformed),
            };
            each(id, value);
        }
        Ok(())
    }

    /// What the broker says to its reason.
    fn reason_text(&mut self) -> Read<Option<&'a str>> {
        let mut text = None;
        self.properties(|id, value| {
            if let (31, Value::Text(reason)) = (id, value) {
                text = Some(reason);
            }
        })?;
        Ok(text)
    }
}

#[cfg(test)]
mod tests;
