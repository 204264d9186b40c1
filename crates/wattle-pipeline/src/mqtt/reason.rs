//! The reasons that MQTT 5 has for a refusal, in words.

/// Another client came with our client id.
pub(crate) const TAKEN_OVER: u8 = 0x8e;

/// The reason in words.
pub(crate) fn text(reason: u8) -> &'static str {
    match reason {
        0 => "normal end",
        1..=5 => "it does not speak MQTT 5",
        0x80 => "unspecified error",
        0x81 => "malformed packet",
        0x82 => "protocol error",
        0x83 => "a reason of its own",
        0x84 => "it does not speak MQTT 5",
        0x85 => "the client id is not valid",
        0x86 => "bad username or password",
        0x87 => "not authorized",
        0x88 => "the server is not available",
        0x89 => "the server is busy",
        0x8a => "banned",
        0x8b => "the server shuts down",
        0x8c => "bad authentication method",
        0x8d => "it has heard nothing for too long",
        TAKEN_OVER => "another client has the session",
        0x8f => "the topic filter is not valid",
        0x91 => "the packet's number is in use",
        0x93 => "more messages than allowed are on their way",
        0x95 => "the packet is too large",
        0x97 => "a quota is exceeded",
        0x98 => "an administrator ended it",
        0x9a => "retained messages are not supported",
        0x9b => "the QoS is not supported",
        0x9c => "another server has to be used",
        0x9d => "the server has moved",
        0x9e => "shared subscriptions are not supported",
        0x9f => "connections come too fast",
        0xa1 => "subscription identifiers are not supported",
        0xa2 => "wildcard subscriptions are not supported",
        _ => "an unknown reason",
    }
}

/// Whether trying again does not help: somebody has to change something.
pub(crate) fn is_final(reason: u8) -> bool {
    matches!(reason, 1..=5 | 0x81 | 0x82 | 0x84..=0x87 | 0x8a | 0x8c | 0x8f | 0x95 | 0x9a..=0x9e | 0xa1 | 0xa2)
}
