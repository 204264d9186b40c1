//! Names an output that cannot be meant, or that its topic cannot take, before anything is produced: what a broker says of it is no more than a
//! size, and one that creates topics takes a misspelt one.

use super::refusal::made_from;
use crate::config::{Compression, Delivery, WorkerConfig};
use crate::error::Error;
use crate::kafka::{ALONE, Batch};
use crate::stage::Output;
use crate::worker::Limits;

/// Characters of a key that are shown.
const SHOWN: usize = 64;

/// Refuses what must not be sent.
pub(super) fn check(output: &Output, batch: &Batch, config: &WorkerConfig, limits: &Limits) -> Result<(), Error> {
    if let Some(text) = undeclared(output, batch, config) {
        return Err(Error::Refused { text, oversized: Vec::new(), alone_above: None });
    }
    // At least once without a place for them, what comes before them is delivered.
    let exactly_once = matches!(config.delivery, Delivery::ExactlyOnce { .. });
    if exactly_once || config.dead_letter_topic.is_some() {
        check_sizes(output, batch, config.compression, config.changelog_topic.as_deref(), limits)?;
    }
    Ok(())
}

/// Refuses outputs that are larger than their topics allow. Compressed ones are left to the broker, which judges what arrives.
pub(crate) fn check_sizes(
    output: &Output,
    batch: &Batch,
    compression: Compression,
    changelog: Option<&str>,
    limits: &Limits,
) -> Result<(), Error> {
    if compression != Compression::None {
        return Ok(());
    }
    let (mut first, mut oversized) = (None, Vec::new());
    for (index, bytes) in output.larger_than(limits.batch_size.saturating_sub(ALONE)) {
        let message = output.get(index);
        let Some(limit) = limits.record.get(message.topic).filter(|limit| bytes + ALONE > **limit) else { continue };
        let is_state = changelog == Some(message.topic);
        let what = if is_state { "the state" } else { "a record" };
        let (key, topic) = (shown(message.key), message.topic);
        let reason = format!("{what} of key {key} has {bytes} bytes, and {topic} allows {limit} (max.message.bytes)");
        let made_from = made_from(batch, message.source);
        if is_state {
            let text = format!("{reason}: raise the limit, or make it smaller{made_from}");
            return Err(Error::Refused { text, oversized: Vec::new(), alone_above: None });
        }
        first.get_or_insert_with(|| {
            format!(
                "{reason}: raise the limit, make it smaller, or set a topic for dead letters (error_output){made_from}"
            )
        });
        oversized.push((index, reason));
    }
    first.map_or(Ok(()), |text| Err(Error::Refused { text, oversized, alone_above: None }))
}

/// The first output to a topic that the application has not named as one of its own; none where it has named none.
fn undeclared(output: &Output, batch: &Batch, config: &WorkerConfig) -> Option<String> {
    let topics = &config.output_topics;
    if topics.is_empty() {
        return None;
    }
    let ours = topics.iter().chain(&config.dead_letter_topic).chain(&config.changelog_topic);
    let mut last = "";
    let strange = output.iter().find(|message| {
        let known = message.topic == last || ours.clone().any(|topic| topic == message.topic);
        last = message.topic;
        !known
    })?;
    Some(format!(
        "the stage writes to the topic {}, which is none of its output topics ({}): name it there, or mend the stage{}",
        strange.topic,
        topics.join(", "),
        made_from(batch, strange.source),
    ))
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

    fn config() -> WorkerConfig {
        let delivery = Delivery::ExactlyOnce { transactional_id: "t".to_owned() };
        let mut config = WorkerConfig::new("n", "b", "g", ["in"], delivery);
        config.changelog_topic = Some("log".to_owned());
        config
    }

    fn refused(output: &Output, batch: &Batch, config: &WorkerConfig) -> Option<String> {
        check(output, batch, config, &limits()).err().map(|error| error.to_string())
    }

    #[test]
    fn a_record_that_is_too_large_is_named_by_its_key_before_it_is_sent() {
        let mut batch = Batch::new(vec!["in".to_owned()]);
        let (topic, key) = ("in", Some(b"k".as_slice()));
        let record = Record { topic, partition: 3, offset: Offset(7), timestamp: None, key, value: None, headers: &[] };
        batch.push(0, &record);
        let (mut output, mut config) = (Output::default(), config());
        let value = vec![b'x'; 1500];
        output.send(Message::to("log").key(b"fits".as_slice()).value(&value[..]));
        assert_eq!(refused(&output, &batch, &config), None);
        output.send(Message::to("out").key(b"large\xff\n".as_slice()).value(&value[..]));
        let text = refused(&output, &batch, &config).expect("too large");
        for word in ["a record of key \"large\u{fffd}\\n\"", "1507 bytes", "out allows 1000", "in/3 offset 7"] {
            assert!(text.contains(word), "{word}: {text}");
        }
        config.compression = Compression::Zstd;
        assert_eq!(refused(&output, &batch, &config), None);
        config.compression = Compression::None;
        output.clear();
        let value = vec![b'x'; 2000];
        output.send(Message::to("log").key(b"k".as_slice()).value(&value[..]));
        let text = refused(&output, &batch, &config).expect("too large");
        assert!(text.contains("the state of key \"k\""), "{text}");
    }

    #[test]
    fn a_topic_that_was_not_declared_is_named() {
        let batch = Batch::new(vec!["in".to_owned()]);
        let (mut output, mut config) = (Output::default(), config());
        for topic in ["counts", "counts", "log", "dead", "cuonts"] {
            output.send(Message::to(topic));
        }
        assert_eq!(refused(&output, &batch, &config), None, "nothing is declared");
        config.output_topics = vec!["totals".to_owned(), "counts".to_owned()];
        config.dead_letter_topic = Some("dead".to_owned());
        let text = refused(&output, &batch, &config).expect("the last one");
        assert!(text.contains("the topic cuonts") && text.contains("(totals, counts)"), "{text}");
        output.clear();
        output.send(Message::to("totals"));
        assert_eq!(refused(&output, &batch, &config), None);
    }

    #[test]
    fn a_key_is_shown_in_bounds() {
        assert_eq!(shown(Some(&[b'a'; 64])), format!("\"{}\"", "a".repeat(64)));
        assert_eq!(shown(Some(&[b'a'; 65])).chars().count(), 67);
        assert_eq!(shown(Some(&[0xff; 10_000])).chars().count(), 67);
        assert_eq!(shown(None), "null");
    }
}
