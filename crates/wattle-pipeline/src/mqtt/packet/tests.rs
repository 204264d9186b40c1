use super::*;

fn read(packet: &[u8]) -> Read<Incoming<'_>> {
    let (head, length) = frame(packet)?.ok_or(Malformed)?;
    Incoming::read(packet.get(..length).ok_or(Malformed)?, head)
}

fn written(packet: &Outgoing<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    packet.write(&mut out);
    out
}

const MESSAGE: &[u8] = b"\x3d\x1c\0\x03a/b\0\x07\x10\x26\0\x01k\0\x01v\x03\0\x01t\x09\0\x02\xff\x00payl";

#[test]
fn a_message_is_read_with_what_it_carries() {
    let Ok(Incoming::Publish(publish)) = read(MESSAGE) else { panic!("{:?}", read(MESSAGE)) };
    assert_eq!((publish.dup, publish.qos, publish.retain, publish.id), (true, 2, true, 7));
    assert_eq!((publish.topic, publish.payload, publish.user), ("a/b", &b"payl"[..], vec![("k", "v")]));
    assert_eq!((publish.content_type, publish.correlation_data), (Some("t"), Some(&b"\xff\x00"[..])));
    let Ok(Incoming::Publish(publish)) = read(b"\x30\x05\0\x01x\0!") else { panic!("of QoS 0") };
    assert_eq!((publish.qos, publish.id, publish.payload), (0, 0, &b"!"[..]));
}

#[test]
fn answers_are_read_with_their_reasons() {
    let connack = |resumed, reason, session_expiry, keep_alive, text| Incoming::ConnAck {
        resumed,
        reason,
        session_expiry,
        keep_alive,
        text,
    };
    assert_eq!(read(b"\x20\x03\x01\0\0"), Ok(connack(true, 0, None, None, None)));
    let refused = b"\x20\x10\0\x87\x0d\x11\0\0\0\x05\x13\0\x09\x1f\0\x02no";
    assert_eq!(read(refused), Ok(connack(false, 0x87, Some(5), Some(9), Some("no"))));
    assert_eq!(read(b"\x20\x02\0\x01"), Ok(connack(false, 1, None, None, None)), "of MQTT 3");
    assert_eq!(read(b"\x90\x05\0\x01\0\x01\x87"), Ok(Incoming::SubAck { reasons: &[1, 0x87], text: None }));
    assert_eq!(read(b"\x62\x02\0\x09"), Ok(Incoming::PubRel { id: 9 }));
    assert_eq!(read(b"\x62\x03\0\x09\x92"), Ok(Incoming::PubRel { id: 9 }));
    assert_eq!(read(b"\xd0\0"), Ok(Incoming::PingResp));
    assert_eq!(read(b"\xe0\0"), Ok(Incoming::Disconnect { reason: 0, text: None }));
    assert_eq!(read(b"\xe0\x01\x8e"), Ok(Incoming::Disconnect { reason: 0x8e, text: None }));
    assert_eq!(read(b"\xe0\x06\x8b\x04\x1f\0\x01x"), Ok(Incoming::Disconnect { reason: 0x8b, text: Some("x") }));
}

#[test]
fn bytes_that_are_no_packet_are_refused_and_never_read_past_their_end() {
    for length in 0..MESSAGE.len() {
        assert!(read(&MESSAGE[..length]).is_err(), "{length}");
    }
    for head in 2..MESSAGE.len() {
        let mut shorter = MESSAGE[..head].to_vec();
        shorter[1] = (head - 2) as u8;
        // Cut within the payload it is another message.
        assert_eq!(read(&shorter).is_err(), head < 26, "{head}");
    }
    let wrong: [&[u8]; 14] = [
        // A wildcard and a zero in a topic, a repetition of QoS 0.
        b"\x30\x04\0\x01#\0",
        b"\x30\x04\0\x01\0\0",
        b"\x38\x04\0\x01x\0",
        // Low bits, numbers and flags that cannot be.
        b"\x60\x02\0\x09",
        b"\x62\x02\0\0",
        b"\x21\x03\0\0\0",
        b"\x20\x03\x02\0\0",
        b"\x90\x04\0\x02\0\x01",
        b"\x36\x06\0\x01x\0\x01\0",
        b"\x32\x06\0\x01x\0\0\0",
        b"\x30\x04\0\x01\xff\0",
        b"\x10\0",
        b"\x30\x04\0\x01x\x05",
        b"\x30\x06\0\x01x\x02\x7f\0",
    ];
    for packet in wrong {
        assert_eq!(read(packet), Err(Malformed), "{packet:?}");
    }
    assert_eq!(frame(b"\x30\xff\xff\xff"), Ok(None));
    assert_eq!(frame(b"\x30\xff\xff\xff\xff"), Err(Malformed));
    assert_eq!(frame(b"\x30\xff\xff\xff\x7f"), Ok(Some((5, 5 + 268_435_455))));
}

/// Packets with bytes changed, taken out, and put in at random.
#[test]
fn whatever_comes_is_refused_or_is_a_message_as_it_may_be() {
    let packets: [&[u8]; 6] = [
        MESSAGE,
        b"\x30\x05\0\x01x\0!",
        b"\x20\x10\0\x87\x0d\x11\0\0\0\x05\x13\0\x09\x1f\0\x02no",
        b"\x90\x05\0\x01\0\x01\x87",
        b"\x62\x03\0\x09\x92",
        b"\xe0\x06\x8b\x04\x1f\0\x01x",
    ];
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut random = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % below as u64) as usize
    };
    let (mut messages, mut refused) = (0, 0);
    for round in 0..200_000 {
        let mut packet = packets[round % packets.len()].to_vec();
        for _ in 0..=random(3) {
            let at = random(packet.len());
            match random(4) {
                0 => drop(packet.remove(at)),
                1 => packet.insert(at, random(256) as u8),
                _ => packet[at] = random(256) as u8,
            }
        }
        match read(&packet) {
            Ok(Incoming::Publish(message)) => {
                let texts = message.user.iter().flat_map(|(name, value)| [*name, *value]);
                let mut texts = texts.chain(message.content_type).chain(message.response_topic);
                assert!(message.qos <= 2 && (message.id != 0) == (message.qos > 0), "{packet:?}");
                assert!(!message.topic.is_empty() && !message.topic.contains(['\0', '+', '#']), "{packet:?}");
                assert!(!texts.any(|text| text.contains('\0')), "{packet:?}");
                messages += 1;
            }
            Ok(_) => {}
            Err(Malformed) => refused += 1,
        }
    }
    assert!(messages > 5_000 && refused > 10_000, "{messages} {refused}");
}

#[test]
fn what_is_written_has_the_bytes_of_the_standard() {
    let connect = Connect {
        client_id: "c",
        username: Some("u"),
        password: Some("p"),
        keep_alive: 60,
        session_expiry: 3600,
        receive_maximum: 10,
    };
    let expected = b"\x10\x1c\0\x04MQTT\x05\xc0\0\x3c\x08\x11\0\0\x0e\x10\x21\0\x0a\0\x01c\0\x01u\0\x01p";
    assert_eq!(written(&Outgoing::Connect(connect)), expected);
    let filters = ["a/#".to_owned(), "b".to_owned()];
    let subscribe = Outgoing::Subscribe { filters: &filters, qos: 1 };
    assert_eq!(written(&subscribe), b"\x82\x0d\0\x01\0\0\x03a/#\x11\0\x01b\x11");
    assert_eq!(written(&Outgoing::PubAck { id: 258 }), b"\x40\x02\x01\x02");
    assert_eq!(written(&Outgoing::PubRec { id: 1 }), b"\x50\x02\0\x01");
    assert_eq!(written(&Outgoing::PubComp { id: 1, known: true }), b"\x70\x02\0\x01");
    assert_eq!(written(&Outgoing::PubComp { id: 1, known: false }), b"\x70\x03\0\x01\x92");
    assert_eq!(written(&Outgoing::PingReq), b"\xc0\0");
    assert_eq!(written(&Outgoing::Disconnect), b"\xe0\x02\0\0");
    let filters = ["x".repeat(200)];
    assert_eq!(written(&Outgoing::Subscribe { filters: &filters, qos: 0 })[..3], [0x82, 0xce, 0x01]);
}
