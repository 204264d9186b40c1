//! An MQTT 5 broker for subscribers: it keeps sessions, sends again what was not acknowledged, and can be away, forget or refuse when it should. Packets are
//! read and written by another implementation than Wattle's.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use bytes::{Bytes, BytesMut};
use rumqttc::v5::mqttbytes::QoS;
use rumqttc::v5::mqttbytes::v5::{
    ConnAck, ConnectReturnCode, Disconnect, DisconnectReasonCode, Packet, PingResp, PubRel, Publish, SubAck,
    SubscribeReasonCode,
};

/// It listens while it is up; sessions stay.
pub(crate) struct MqttBroker {
    port: u16,
    state: Arc<Mutex<State>>,
    listening: Option<(Arc<AtomicBool>, JoinHandle<()>)>,
}

#[derive(Default)]
struct State {
    sessions: HashMap<String, Session>,
    /// How often a message was sent, by its number.
    sent: BTreeMap<u64, usize>,
    /// Messages that subscribers have taken over (PUBACK, PUBREC).
    acknowledged: BTreeMap<u64, usize>,
    connections: usize,
    refuse: Option<ConnectReturnCode>,
    grant: Option<SubscribeReasonCode>,
}

/// Of one client id.
#[derive(Default)]
struct Session {
    wire: Option<TcpStream>,
    /// Counts its connections: what comes over an older one is late.
    connection: usize,
    /// Messages that may be on their way.
    window: usize,
    subscribed: bool,
    waiting: VecDeque<Message>,
    on_the_way: VecDeque<Sent>,
    last_id: u16,
}

#[derive(Clone)]
struct Message {
    number: u64,
    qos: QoS,
    topic: String,
    payload: String,
}

struct Sent {
    id: u16,
    message: Message,
    /// Taken over by PUBREC: only the number is still in use.
    released: bool,
}

impl MqttBroker {
    /// Listens on a free port.
    pub(crate) fn start() -> Self {
        let [port] = super::ports::free_ports().expect("a free port");
        let mut broker = MqttBroker { port, state: Arc::default(), listening: None };
        broker.up();
        broker
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Listens again.
    pub(crate) fn up(&mut self) {
        let listener = TcpListener::bind(("127.0.0.1", self.port)).expect("the port is free");
        let (state, down) = (self.state.clone(), Arc::new(AtomicBool::new(false)));
        let stopped = down.clone();
        let thread = thread::spawn(move || {
            for wire in listener.incoming() {
                if stopped.load(Ordering::Acquire) {
                    return;
                }
                let (Ok(wire), state) = (wire, state.clone()) else { continue };
                thread::spawn(move || serve(&wire, &state));
            }
        });
        self.listening = Some((down, thread));
    }

    /// Ends all connections; nobody listens any more.
    pub(crate) fn down(&mut self) {
        let Some((down, thread)) = self.listening.take() else { return };
        down.store(true, Ordering::Release);
        drop(TcpStream::connect(("127.0.0.1", self.port)));
        thread.join().expect("it accepts until it is told");
        self.cut();
    }

    /// Ends all connections.
    pub(crate) fn cut(&self) {
        self.lock().cut();
    }

    /// The same, if there are messages on their way; whether there were.
    pub(crate) fn cut_on_the_way(&self) -> bool {
        let mut state = self.lock();
        let open = |session: &Session| session.wire.is_some() && session.on_the_way.iter().any(|sent| !sent.released);
        let found = state.sessions.values().any(open);
        if found {
            state.cut();
        }
        found
    }

    /// Forgets what it knows of its clients, but not the messages.
    pub(crate) fn forget(&self) {
        for session in self.lock().sessions.values_mut() {
            let lost = std::mem::take(&mut session.on_the_way).into_iter().filter(|sent| !sent.released);
            lost.map(|sent| sent.message).rev().for_each(|message| session.waiting.push_front(message));
            session.subscribed = false;
        }
    }

    /// Lets nobody in.
    pub(crate) fn refuse(&self, code: ConnectReturnCode) {
        self.lock().refuse = Some(code);
    }

    /// Answers subscriptions with this.
    pub(crate) fn grant(&self, code: SubscribeReasonCode) {
        self.lock().grant = Some(code);
    }

    /// For every session there is.
    pub(crate) fn publish(&self, number: u64, qos: QoS, payload: &str) {
        let message = Message { number, qos, topic: format!("sensors/{}", number % 3), payload: payload.to_owned() };
        let mut state = self.lock();
        let State { sessions, sent, .. } = &mut *state;
        for session in sessions.values_mut() {
            session.waiting.push_back(message.clone());
            session.send(sent);
        }
    }

    /// How often each message was sent.
    pub(crate) fn sent(&self) -> BTreeMap<u64, usize> {
        self.lock().sent.clone()
    }

    /// The messages that subscribers have taken over.
    pub(crate) fn acknowledged(&self) -> BTreeMap<u64, usize> {
        self.lock().acknowledged.clone()
    }

    /// Messages that nobody has taken over.
    pub(crate) fn left(&self) -> usize {
        let open = |session: &Session| session.waiting.len() + session.on_the_way.len();
        self.lock().sessions.values().map(open).sum()
    }

    /// Subscriptions that came about.
    pub(crate) fn connections(&self) -> usize {
        self.lock().connections
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

impl Drop for MqttBroker {
    fn drop(&mut self) {
        self.down();
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Session {
    /// Sends what waits, as far as the window goes.
    fn send(&mut self, sent: &mut BTreeMap<u64, usize>) {
        while self.wire.is_some() && self.subscribed {
            let free = self.on_the_way.len() < self.window;
            let Some(message) = self.waiting.pop_front_if(|message| message.qos == QoS::AtMostOnce || free) else {
                return;
            };
            *sent.entry(message.number).or_default() += 1;
            if message.qos == QoS::AtMostOnce {
                self.write(&publish(&message, 0, false));
                continue;
            }
            self.last_id = if self.last_id == u16::MAX { 1 } else { self.last_id + 1 };
            self.write(&publish(&message, self.last_id, false));
            self.on_the_way.push_back(Sent { id: self.last_id, message, released: false });
        }
    }

    /// What a session that goes on begins with.
    fn send_again(&mut self, sent: &mut BTreeMap<u64, usize>) {
        let again: Vec<_> = self
            .on_the_way
            .iter()
            .map(|open| match open.released {
                true => Packet::PubRel(PubRel::new(open.id, None)),
                false => {
                    *sent.entry(open.message.number).or_default() += 1;
                    publish(&open.message, open.id, true)
                }
            })
            .collect();
        again.iter().for_each(|packet| self.write(packet));
    }

    /// A connection that is gone is noticed by who reads from it.
    fn write(&self, packet: &Packet) {
        if let Some(mut wire) = self.wire.as_ref() {
            wire.write_all(&encoded(packet)).ok();
        }
    }
}

fn publish(message: &Message, id: u16, dup: bool) -> Packet {
    let mut publish = Publish::new(message.topic.as_str(), message.qos, Bytes::from(message.payload.clone()), None);
    (publish.pkid, publish.dup) = (id, dup);
    Packet::Publish(publish)
}

fn encoded(packet: &Packet) -> Vec<u8> {
    let mut bytes = Default::default();
    packet.write(&mut bytes, None).expect("a packet that can be written");
    bytes.to_vec()
}

/// One connection, to its end.
fn serve(mut wire: &TcpStream, state: &Mutex<State>) {
    let mut read = Default::default();
    let Some(Packet::Connect(connect, ..)) = next(wire, &mut read) else { return };
    let client = connect.client_id;
    let connection = {
        let mut state = lock(state);
        if let Some(code) = state.refuse {
            let refusal = ConnAck { session_present: false, code, properties: None };
            wire.write_all(&encoded(&Packet::ConnAck(refusal))).ok();
            return;
        }
        assert!(!connect.clean_start, "a session that goes on was asked for");
        let properties = connect.properties.expect("a session has a time");
        assert!(properties.session_expiry_interval.is_some_and(|seconds| seconds > 0));
        let State { sessions, sent, .. } = &mut *state;
        let session = sessions.entry(client.clone()).or_default();
        if let Some(old) = session.wire.replace(wire.try_clone().expect("a descriptor")) {
            let taken = Disconnect::new(DisconnectReasonCode::SessionTakenOver);
            (&old).write_all(&encoded(&Packet::Disconnect(taken))).ok();
            old.shutdown(Shutdown::Both).ok();
        }
        session.window = properties.receive_maximum.unwrap_or(u16::MAX).into();
        let session_present = session.subscribed;
        session.write(&Packet::ConnAck(ConnAck {
            session_present,
            code: ConnectReturnCode::Success,
            properties: None,
        }));
        session.send_again(sent);
        session.connection += 1;
        session.connection
    };
    let is_open = |session: &Session| session.connection == connection && session.wire.is_some();
    while let Some(packet) = next(wire, &mut read) {
        let mut state = lock(state);
        if !is_open(&state.sessions[&client]) || matches!(packet, Packet::Disconnect(_)) {
            break;
        }
        state.answer(&client, &packet);
    }
    let mut state = lock(state);
    let session = state.sessions.get_mut(&client).expect("it is kept");
    if is_open(session) {
        session.wire = None;
    }
}

impl State {
    fn cut(&mut self) {
        for session in self.sessions.values_mut() {
            if let Some(wire) = session.wire.take() {
                wire.shutdown(Shutdown::Both).ok();
            }
        }
    }

    fn answer(&mut self, client: &str, packet: &Packet) {
        let State { sessions, sent, acknowledged, connections, grant, .. } = self;
        let session = sessions.get_mut(client).expect("it has connected");
        let place = |id: u16| {
            let place = session.on_the_way.iter().position(|sent| sent.id == id);
            place.unwrap_or_else(|| panic!("acknowledged what was not on its way: {packet:?}"))
        };
        match packet {
            Packet::Subscribe(subscribe) => {
                let code = |qos| grant.unwrap_or(SubscribeReasonCode::Success(qos));
                let return_codes = subscribe.filters.iter().map(|filter| code(filter.qos)).collect();
                session.write(&Packet::SubAck(SubAck { pkid: subscribe.pkid, return_codes, properties: None }));
                session.subscribed = true;
                *connections += 1;
                session.send(sent);
            }
            Packet::PubAck(ack) => {
                let place = place(ack.pkid);
                let done = session.on_the_way.remove(place).expect("found");
                assert_eq!(done.message.qos, QoS::AtLeastOnce);
                *acknowledged.entry(done.message.number).or_default() += 1;
                session.send(sent);
            }
            Packet::PubRec(ack) => {
                let place = place(ack.pkid);
                let open = &mut session.on_the_way[place];
                assert_eq!(open.message.qos, QoS::ExactlyOnce);
                if !std::mem::replace(&mut open.released, true) {
                    *acknowledged.entry(open.message.number).or_default() += 1;
                }
                session.write(&Packet::PubRel(PubRel::new(ack.pkid, None)));
            }
            Packet::PubComp(ack) => {
                let place = place(ack.pkid);
                assert!(session.on_the_way[place].released, "of a message that was not released");
                session.on_the_way.remove(place);
                session.send(sent);
            }
            Packet::PingReq(_) => session.write(&Packet::PingResp(PingResp)),
            other => panic!("a subscriber sends {other:?}"),
        }
    }
}

/// The next packet; `None` at the end of the connection.
fn next(mut wire: &TcpStream, read: &mut BytesMut) -> Option<Packet> {
    let mut chunk = [0; 4096];
    loop {
        match Packet::read(read, None) {
            Ok(packet) => return Some(packet),
            Err(rumqttc::v5::mqttbytes::Error::InsufficientBytes(_)) => {}
            Err(error) => panic!("a subscriber sends what is not MQTT 5: {error}"),
        }
        let count = wire.read(&mut chunk).unwrap_or(0);
        if count == 0 {
            return None;
        }
        read.extend_from_slice(&chunk[..count]);
    }
}
