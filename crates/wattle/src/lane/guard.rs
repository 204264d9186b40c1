//! Names a record that its topic cannot take before anything is produced, by its key: what a broker says of it is no more than a size.

use super::commit::made_from;
use crate::config::Compression;
use crate::error::Error;
use crate::kafka::Batch;
use crate::stage::Output;
use crate::worker::Limits;

/// Bytes that a record takes at least beside its key, value and headers, alone in a batch.
const OVERHEAD: usize = 68;
/// Characters of a key that are shown.
const SHOWN: usize = 64;

/// The first output that is larger than its topic allows. Compressed ones are left to the broker, which judges what arrives.
pub(super) fn too_large(
    output: &Output,
    batch: &Batch,
    limits: &Limits,
    compression: Compression,
    changelog: Option<&str>,
) -> Option<Error> {
    if compression != Compression::None {
        return None;
    }
    output.larger_than(limits.batch_size.saturating_sub(OVERHEAD)).find_map(|(index, bytes)| {
        let message = output.get(index);
        let limit = *limits.record.get(message.topic)?;
        (bytes + OVERHEAD > limit).then(|| {
            let what = if changelog == Some(message.topic) { "the state" } else { "a record" };
            let text = format!(
                "{what} of key {} has {bytes} bytes, and {} allows {limit} (max.message.bytes): raise the limit, or make it smaller{}",
                shown(message.key),
                message.topic,
                made_from(batch, message.source),
            );
            Error::Refused { text }
        })
    })
}

/// A key in words: at most so many characters, whatever it is.
pub(super) fn shown(key: Option<&[u8]>) -> String {
    let Some(key) = key else { return "null".to_owned() };
    let head = String::from_utf8_lossy(&key[..key.len().min(4 * SHOWN)]);
    let mut text: String = head.chars().take(SHOWN).flat_map(char::escape_debug).collect();
    if head.chars().count() > SHOWN || key.len() > 4 * SHOWN {
        text.push('…');
    }
    format!("\"{text}\"")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::kafka::{Offset, Record};
    use crate::stage::Message;

    fn limits() -> Limits {
        Limits { batch_size: 1000, record: BTreeMap::from([("out".to_owned(), 1000), ("log".to_owned(), 2000)]) }
    }

    #[test]
    fn a_record_that_is_too_large_is_named_by_its_key_before_it_is_sent() {
        let mut batch = Batch::new(vec!["in".to_owned()]);
        let (topic, key) = ("in", Some(b"k".as_slice()));
        let record = Record { topic, partition: 3, offset: Offset(7), timestamp: None, key, value: None, headers: &[] };
        batch.push(0, &record);
        let mut output = Output::default();
        let value = vec![b'x'; 1500];
        output.send(Message::to("log").key(b"fits".as_slice()).value(&value[..]));
        assert!(too_large(&output, &batch, &limits(), Compression::None, Some("log")).is_none());
        output.send(Message::to("out").key(b"large\xff\n".as_slice()).value(&value[..]));
        let text = too_large(&output, &batch, &limits(), Compression::None, None).expect("too large").to_string();
        for word in ["a record of key \"large\u{fffd}\\n\"", "1507 bytes", "out allows 1000", "in/3 offset 7"] {
            assert!(text.contains(word), "{word}: {text}");
        }
        assert!(too_large(&output, &batch, &limits(), Compression::Zstd, None).is_none());
        output.clear();
        let value = vec![b'x'; 2000];
        output.send(Message::to("log").key(b"k".as_slice()).value(&value[..]));
        let text =
            too_large(&output, &batch, &limits(), Compression::None, Some("log")).expect("too large").to_string();
        assert!(text.contains("the state of key \"k\""), "{text}");
    }

    #[test]
    fn a_key_is_shown_in_bounds() {
        assert_eq!(shown(Some(&[b'a'; 64])), format!("\"{}\"", "a".repeat(64)));
        assert_eq!(shown(Some(&[b'a'; 65])).chars().count(), 67);
        assert_eq!(shown(Some(&[0xff; 10_000])).chars().count(), 67);
        assert_eq!(shown(None), "null");
    }
}
