//! MQTT 5, as far as a subscriber needs it: packets (`packet`), and what of a session is taken and not acknowledged yet (`session`). Of the client
//! crates none is taken: theirs acknowledge without regard to the connection that a message came over, or forget over a reconnect which messages of
//! QoS 2 they have.

mod packet;
mod reason;
mod session;

pub(crate) use packet::{Connect, Incoming, Outgoing, Publish, frame};
pub(crate) use reason::{TAKEN_OVER, is_final, text};
pub(crate) use session::{Answer, Arrival, Session};
