//! The messages of a session that were taken and are not acknowledged yet.
//!
//! A message is acknowledged when it is safe, on the connection that it came over, in the order of arrival. Where the connection is gone before, the broker
//! sends the message again on the next one: then it is acknowledged there and not taken a second time, if it surely is the same. That it surely is while
//! the broker has kept the session and was told nothing: the number of a message is given to another one only after that.

use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::Hasher;

use twox_hash::XxHash64;

use super::packet::Publish;

/// With `F`, which tells when a message is safe.
pub(crate) struct Session<F> {
    /// In the order of arrival.
    waiting: VecDeque<Taken<F>>,
    /// What is safe, and was never acknowledged since its connection was gone: numbers with QoS and fingerprint.
    safe: HashMap<u16, Print>,
    /// Numbers of messages of QoS 2 that are acknowledged (PUBREC), and not released by the broker.
    received: HashSet<u16>,
}

struct Taken<F> {
    /// Its number and what is known of it; `None` with QoS 0, and where the broker has forgotten the session.
    message: Option<(u16, Print)>,
    /// It came over the connection that there is.
    here: bool,
    safe: F,
}

/// QoS, and a fingerprint of the topic and the payload.
type Print = (u8, u64);

/// What a message is to us.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    New,
    /// It was taken before, and is acknowledged when it is safe.
    Waits,
    /// It was taken before and is safe.
    Safe(Answer),
}

/// The acknowledgement of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    PubAck(u16),
    PubRec(u16),
}

impl<F> Session<F> {
    pub(crate) fn new() -> Self {
        Session { waiting: VecDeque::new(), safe: HashMap::new(), received: HashSet::new() }
    }

    /// A connection begins; `resumed` where the broker has kept the session.
    pub(crate) fn connected(&mut self, resumed: bool) {
        self.waiting.iter_mut().for_each(|taken| taken.here = false);
        if !resumed {
            self.waiting.iter_mut().for_each(|taken| taken.message = None);
            self.safe.clear();
            self.received.clear();
        }
    }

    /// The connection is gone: what becomes safe now is acknowledged when it comes again.
    pub(crate) fn lost(&mut self) {
        self.waiting.iter_mut().for_each(|taken| taken.here = false);
    }

    /// Looks whether a message was taken before.
    pub(crate) fn arrived(&mut self, publish: &Publish<'_>) -> Arrival {
        let (id, print) = (publish.id, print(publish));
        if publish.qos == 2 && self.received.contains(&id) {
            return Arrival::Safe(Answer::PubRec(id));
        }
        let is_known = publish.qos > 0 && publish.dup;
        // On one connection a number is in use until it is acknowledged, so that not even the mark of a repetition is needed to know one of QoS 2.
        let is_same =
            |taken: &Taken<F>| taken.message == Some((id, print)) && (is_known || (taken.here && publish.qos == 2));
        if let Some(taken) = self.waiting.iter_mut().find(|taken| is_same(taken)) {
            taken.here = true;
            return Arrival::Waits;
        }
        match self.safe.remove(&id) {
            Some(known) if is_known && known == print => Arrival::Safe(self.answer(id, print)),
            _ => Arrival::New,
        }
    }

    /// A new message was handed in.
    pub(crate) fn took(&mut self, publish: &Publish<'_>, safe: F) {
        let message = (publish.qos > 0).then(|| (publish.id, print(publish)));
        self.waiting.push_back(Taken { message, here: true, safe });
    }

    /// What tells when the oldest one is safe; `None` where nothing waits.
    pub(crate) fn oldest(&mut self) -> Option<&mut F> {
        self.waiting.front_mut().map(|taken| &mut taken.safe)
    }

    /// The oldest one is safe: its acknowledgement, where there is one to send.
    pub(crate) fn is_safe(&mut self) -> Option<Answer> {
        let taken = self.waiting.pop_front()?;
        let (id, print) = taken.message?;
        if taken.here {
            return Some(self.answer(id, print));
        }
        self.safe.insert(id, print);
        None
    }

    /// The oldest one is not safe, and is taken when it comes again.
    pub(crate) fn is_not_safe(&mut self) {
        self.waiting.pop_front();
    }

    /// The broker has released a message of QoS 2; false where there is none with this number.
    pub(crate) fn released(&mut self, id: u16) -> bool {
        self.received.remove(&id)
    }

    /// How many messages wait to be safe.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    fn answer(&mut self, id: u16, (qos, _): Print) -> Answer {
        if qos == 1 {
            return Answer::PubAck(id);
        }
        self.received.insert(id);
        Answer::PubRec(id)
    }
}

fn print(publish: &Publish<'_>) -> Print {
    let mut hasher = XxHash64::with_seed(0);
    hasher.write(publish.topic.as_bytes());
    hasher.write(&[0]);
    hasher.write(publish.payload);
    (publish.qos, hasher.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(id: u16, qos: u8, payload: &[u8]) -> Publish<'_> {
        let (content_type, response_topic, correlation_data) = (None, None, None);
        let (dup, retain, topic, user) = (false, false, "t", Vec::new());
        Publish { dup, qos, retain, id, topic, payload, content_type, response_topic, correlation_data, user }
    }

    fn again(message: &Publish<'static>) -> Publish<'static> {
        Publish { dup: true, ..message.clone() }
    }

    fn with(messages: &[&Publish<'_>]) -> Session<()> {
        let mut session = Session::new();
        session.connected(false);
        for message in messages {
            assert_eq!(session.arrived(message), Arrival::New);
            session.took(message, ());
        }
        session
    }

    #[test]
    fn messages_are_acknowledged_in_the_order_of_arrival() {
        let mut session = with(&[&message(7, 1, b"a"), &message(0, 0, b"b"), &message(3, 2, b"c")]);
        assert_eq!(session.waiting(), 3);
        let answers: Vec<_> = (0..4).map(|_| session.is_safe()).collect();
        assert_eq!(answers, [Some(Answer::PubAck(7)), None, Some(Answer::PubRec(3)), None]);
        assert!(session.oldest().is_none());
    }

    #[test]
    fn what_comes_again_before_it_was_acknowledged_is_taken_once() {
        let (first, second) = (message(1, 1, b"a"), message(2, 1, b"b"));
        let mut session = with(&[&first, &second]);
        session.lost();
        assert_eq!(session.is_safe(), None, "not on another connection");
        session.connected(true);
        assert_eq!(session.arrived(&again(&first)), Arrival::Safe(Answer::PubAck(1)));
        assert_eq!(session.arrived(&again(&second)), Arrival::Waits);
        assert_eq!(session.is_safe(), Some(Answer::PubAck(2)));
        assert_eq!(session.arrived(&again(&second)), Arrival::New, "acknowledged: nobody knows whether it is the same");
    }

    #[test]
    fn what_comes_again_over_its_own_connection_is_taken_once_and_acknowledged_once() {
        for first in [message(1, 2, b"a"), message(1, 1, b"a")] {
            let mut session = with(&[&first]);
            assert_eq!(session.arrived(&again(&first)), Arrival::Waits);
            assert_eq!(session.arrived(&first) == Arrival::Waits, first.qos == 2, "its number is in use");
            assert_eq!((session.is_safe().is_some(), session.is_safe()), (true, None));
        }
    }

    #[test]
    fn another_message_with_the_number_of_one_is_new() {
        let first = message(1, 1, b"a");
        for other in [message(1, 1, b"b"), message(1, 2, b"a"), first.clone()] {
            let mut session = with(&[&first]);
            session.lost();
            session.connected(true);
            let dup = other.payload != b"a" || other.qos == 2;
            assert_eq!(session.arrived(&Publish { dup, ..other.clone() }), Arrival::New, "waiting, {other:?}");
            assert_eq!(session.is_safe(), None);
            assert_eq!(session.arrived(&Publish { dup, ..other }), Arrival::New, "safe");
        }
    }

    #[test]
    fn a_session_that_the_broker_has_forgotten_is_forgotten_here() {
        let (first, second, third) = (message(1, 1, b"a"), message(2, 1, b"b"), message(3, 2, b"c"));
        let mut session = with(&[&third, &first, &second]);
        assert_eq!(session.is_safe(), Some(Answer::PubRec(3)));
        session.lost();
        assert_eq!(session.is_safe(), None);
        session.connected(false);
        for message in [&first, &second, &third] {
            assert_eq!(session.arrived(&again(message)), Arrival::New);
        }
        assert_eq!((session.is_safe(), session.waiting()), (None, 0), "what it has is kept until it is safe");
        assert!(!session.released(3));
    }

    #[test]
    fn a_message_of_qos_2_is_the_same_until_it_is_released() {
        let first = message(1, 2, b"a");
        let mut session = with(&[&first]);
        assert_eq!(session.is_safe(), Some(Answer::PubRec(1)));
        session.lost();
        session.connected(true);
        assert_eq!(session.arrived(&again(&first)), Arrival::Safe(Answer::PubRec(1)));
        assert!(session.released(1) && !session.released(1));
        assert_eq!(session.arrived(&first), Arrival::New);
    }

    #[test]
    fn what_did_not_become_safe_is_taken_again() {
        let first = message(1, 1, b"a");
        let mut session = with(&[&first]);
        session.is_not_safe();
        session.lost();
        session.connected(true);
        assert_eq!(session.arrived(&again(&first)), Arrival::New);
    }
}
