//! MQTT: bytes as packets of a broker, and a session with a broker that keeps to the standard over connections that come and go.

use std::collections::VecDeque;

use crate::mqtt::{Answer, Arrival, Incoming, Publish, Session, frame};

/// The first byte says which: bytes that a socket brings, or steps of a session.
///
/// # Panics
/// Where the length of a packet is another one once more of it is there; where a packet that was read is another one when it is written and read again. Where a
/// message is acknowledged that is not safe, or taken twice although nothing of it was lost, or never.
pub fn mqtt(input: &[u8]) {
    match input {
        [0, bytes @ ..] => packets(bytes),
        [_, steps @ ..] => {
            let mut model = Model::new();
            steps.iter().for_each(|step| model.step(step % 8, usize::from(step / 8)));
            model.settle();
        }
        [] => {}
    }
}

fn packets(mut bytes: &[u8]) {
    while let Ok(Some((head, length))) = frame(bytes) {
        for fewer in 0..bytes.len().min(length) {
            let expected = (fewer >= head).then_some((head, length));
            assert_eq!(frame(&bytes[..fewer]), Ok(expected), "with {fewer} bytes");
        }
        let Some((packet, rest)) = bytes.split_at_checked(length) else { return };
        let Ok(incoming) = Incoming::read(packet, head) else { return };
        let again = written(&incoming);
        let (head, length) = frame(&again).ok().flatten().expect("a whole packet");
        assert_eq!(length, again.len());
        assert_eq!(Incoming::read(&again, head).as_ref(), Ok(&incoming));
        bytes = rest;
    }
    assert!(frame(bytes) != Ok(None) || bytes.len() < 5, "no packet needs more bytes to say how long it is");
}

/// As the standard has it.
fn written(packet: &Incoming<'_>) -> Vec<u8> {
    let (mut body, mut properties, mut payload) = (Vec::new(), Vec::new(), &[][..]);
    let mut texts: Vec<(u8, Option<&[u8]>)> = Vec::new();
    let mut has_properties = true;
    let first = match packet {
        Incoming::ConnAck { resumed, reason, session_expiry, keep_alive, text } => {
            body.extend([u8::from(*resumed), *reason]);
            session_expiry.iter().for_each(|seconds| properties.extend([&[17][..], &seconds.to_be_bytes()].concat()));
            keep_alive.iter().for_each(|seconds| properties.extend([&[19][..], &seconds.to_be_bytes()].concat()));
            texts.push((31, text.map(str::as_bytes)));
            0x20
        }
        Incoming::SubAck { reasons, text } => {
            body.extend([0, 1]);
            texts.push((31, text.map(str::as_bytes)));
            payload = reasons;
            0x90
        }
        Incoming::Publish(publish) => {
            put(&mut body, publish.topic.as_bytes());
            body.extend(publish.id.to_be_bytes().iter().filter(|_| publish.qos > 0));
            texts.push((3, publish.content_type.map(str::as_bytes)));
            texts.push((8, publish.response_topic.map(str::as_bytes)));
            texts.push((9, publish.correlation_data));
            for (name, value) in &publish.user {
                properties.push(38);
                put(&mut properties, name.as_bytes());
                put(&mut properties, value.as_bytes());
            }
            payload = publish.payload;
            0x30 | u8::from(publish.dup) << 3 | publish.qos << 1 | u8::from(publish.retain)
        }
        Incoming::PubRel { id } => {
            body.extend(id.to_be_bytes());
            has_properties = false;
            0x62
        }
        Incoming::PingResp => {
            has_properties = false;
            0xd0
        }
        Incoming::Disconnect { reason, text } => {
            body.push(*reason);
            texts.push((31, text.map(str::as_bytes)));
            0xe0
        }
    };
    for (id, text) in texts {
        if let Some(text) = text {
            properties.push(id);
            put(&mut properties, text);
        }
    }
    if has_properties {
        varint(&mut body, properties.len());
    }
    let mut packet = vec![first];
    varint(&mut packet, body.len() + properties.len() + payload.len());
    [packet, body, properties, payload.to_vec()].concat()
}

fn put(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend(u16::try_from(bytes.len()).expect("it was read with such a length").to_be_bytes());
    out.extend_from_slice(bytes);
}

fn varint(out: &mut Vec<u8>, mut number: usize) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// A message, and what has become of it.
struct Message {
    qos: u8,
    id: u16,
    payload: [u8; 1],
    /// So often it was taken, where that was not in vain.
    taken: usize,
    /// So often its acknowledgement was lost: with QoS 1 it may be taken once more for each.
    lost: usize,
    is_safe: bool,
    /// The broker has it, and has to deliver it.
    is_owed: bool,
    /// The client has acknowledged it (PUBREC), as far as the broker knows.
    is_received: bool,
}

/// What is on its way to the client: a message by its index, sent before or not, or the release of one.
enum Packet {
    Publish(usize, bool),
    PubRel(u16),
}

/// What is on its way to the broker.
enum Reply {
    Acknowledged(Answer),
    /// PUBCOMP.
    Completed(u16),
}

struct Model {
    session: Session<()>,
    is_connected: bool,
    messages: Vec<Message>,
    to_client: VecDeque<Packet>,
    to_broker: VecDeque<Reply>,
    /// Taken, and not safe yet.
    waiting: VecDeque<usize>,
}

impl Model {
    fn new() -> Self {
        Model {
            session: Session::new(),
            is_connected: false,
            messages: Vec::new(),
            to_client: VecDeque::new(),
            to_broker: VecDeque::new(),
            waiting: VecDeque::new(),
        }
    }

    fn step(&mut self, kind: u8, detail: usize) {
        match kind {
            0 | 1 if self.is_connected => self.publish((detail % 3) as u8, 1 + (detail / 3 % 4) as u16, detail / 12),
            2 if self.is_connected => self.client_reads(!detail.is_multiple_of(8)),
            3 => self.oldest_is_safe(),
            4 if self.is_connected => self.broker_reads(),
            5 => self.disconnect(),
            6 if !self.is_connected => self.connect(!detail.is_multiple_of(8)),
            7 if self.is_connected && !self.waiting.is_empty() => self.oldest_is_not_safe(),
            _ => {}
        }
    }

    /// The message that the broker has under a number.
    fn owed(&mut self, id: u16) -> Option<&mut Message> {
        self.messages.iter_mut().find(|message| message.is_owed && message.id == id)
    }

    /// A number goes to one message at a time; contents may be the same.
    fn publish(&mut self, qos: u8, id: u16, payload: usize) {
        let id = if qos == 0 { 0 } else { id };
        if qos > 0 && self.owed(id).is_some() {
            return;
        }
        let (payload, is_owed) = ([payload as u8], qos > 0);
        let message = Message { qos, id, payload, taken: 0, lost: 0, is_safe: false, is_owed, is_received: false };
        self.to_client.push_back(Packet::Publish(self.messages.len(), false));
        self.messages.push(message);
    }

    fn client_reads(&mut self, has_room: bool) {
        let Some(packet) = self.to_client.pop_front() else { return };
        let (index, dup) = match packet {
            Packet::PubRel(id) => {
                self.session.released(id);
                return self.to_broker.push_back(Reply::Completed(id));
            }
            Packet::Publish(index, dup) => (index, dup),
        };
        let Message { qos, id, payload, .. } = self.messages[index];
        let (content_type, response_topic, correlation_data, user) = (None, None, None, Vec::new());
        let (retain, topic, payload) = (false, "t", &payload[..]);
        let publish =
            Publish { dup, qos, retain, id, topic, payload, content_type, response_topic, correlation_data, user };
        match self.session.arrived(&publish) {
            Arrival::New if has_room => {
                self.session.took(&publish, ());
                self.waiting.push_back(index);
                let message = &mut self.messages[index];
                message.taken += 1;
                let most = if qos == 1 { 1 + message.lost } else { 1 };
                assert!(message.taken <= most, "message {index} of QoS {qos} is taken {} times", message.taken);
            }
            Arrival::New => self.to_client.push_front(packet),
            Arrival::Waits => assert!(self.waiting.contains(&index), "message {index} was never taken"),
            Arrival::Safe(answer) => self.answer(answer),
        }
    }

    fn answer(&mut self, answer: Answer) {
        assert!(self.is_connected);
        let (id, qos) = match answer {
            Answer::PubAck(id) => (id, 1),
            Answer::PubRec(id) => (id, 2),
        };
        let message = self.owed(id).unwrap_or_else(|| panic!("{answer:?} is for no message"));
        assert!(message.qos == qos && message.is_safe, "{answer:?} is for a message that is not safe");
        self.to_broker.push_back(Reply::Acknowledged(answer));
    }

    fn oldest_is_safe(&mut self) {
        let Some(index) = self.waiting.pop_front() else { return assert!(self.session.oldest().is_none()) };
        self.messages[index].is_safe = true;
        self.session.is_safe().into_iter().for_each(|answer| self.answer(answer));
        assert_eq!(self.session.waiting(), self.waiting.len());
    }

    /// The connection is given up over it.
    fn oldest_is_not_safe(&mut self) {
        let index = self.waiting.pop_front().expect("one is waiting");
        self.messages[index].taken -= 1;
        self.session.is_not_safe();
        self.disconnect();
    }

    fn broker_reads(&mut self) {
        match self.to_broker.pop_front() {
            Some(Reply::Acknowledged(Answer::PubAck(id))) => {
                self.owed(id).expect("looked for when it was sent").is_owed = false;
            }
            Some(Reply::Acknowledged(Answer::PubRec(id))) => {
                self.owed(id).expect("looked for when it was sent").is_received = true;
                self.to_client.push_back(Packet::PubRel(id));
            }
            Some(Reply::Completed(id)) => {
                let message = self.owed(id).filter(|message| message.is_received);
                message.expect("a message was released").is_owed = false;
            }
            None => {}
        }
    }

    /// What is on its way is lost.
    fn disconnect(&mut self) {
        for reply in std::mem::take(&mut self.to_broker) {
            if let Reply::Acknowledged(Answer::PubAck(id)) = reply {
                self.owed(id).expect("the broker does not know").lost += 1;
            }
        }
        self.to_client.clear();
        self.session.lost();
        self.is_connected = false;
    }

    /// The broker has kept the session and sends again what is not acknowledged, or knows nothing.
    fn connect(&mut self, resumed: bool) {
        self.is_connected = true;
        self.session.connected(resumed);
        for (index, message) in self.messages.iter_mut().enumerate().filter(|(_, message)| message.is_owed) {
            if !resumed {
                message.is_owed = false;
            } else if message.is_received {
                self.to_client.push_back(Packet::PubRel(message.id));
            } else {
                self.to_client.push_back(Packet::Publish(index, true));
            }
        }
    }

    /// Without more faults everything that the broker has is taken and acknowledged.
    fn settle(&mut self) {
        if !self.is_connected {
            self.connect(true);
        }
        while !(self.to_client.is_empty() && self.to_broker.is_empty() && self.waiting.is_empty()) {
            self.client_reads(true);
            self.oldest_is_safe();
            self.broker_reads();
        }
        for (index, message) in self.messages.iter().enumerate() {
            assert!(!message.is_owed, "message {index} of QoS {} is never acknowledged", message.qos);
        }
    }
}
