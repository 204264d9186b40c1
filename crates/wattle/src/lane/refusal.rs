//! What is said of an output that a broker has refused, and what of it is known to be too large.

use std::collections::BTreeMap;

use rdkafka::error::RDKafkaErrorCode as Code;

use super::guard::shown;
use crate::error::Error;
use crate::kafka::{Batch, Failure, RefusedOutput};
use crate::stage::Output;

/// Names what an operator needs of a refused output: where it was going, its size, and what it was made from.
pub(crate) fn refusal(
    failure: &Failure,
    output: &Output,
    batch: &Batch,
    limit: impl Fn(&str) -> Option<i64>,
) -> Option<Error> {
    let first = failure.refused.first()?;
    let too_large = failure.error.code() == Some(Code::MessageSizeTooLarge);
    let mut limits = BTreeMap::new();
    let mut reason = |refused: &RefusedOutput| {
        let message = output.get(refused.index);
        let limit = too_large.then(|| *limits.entry(message.topic).or_insert_with(|| limit(message.topic))).flatten();
        let allows = limit.map(|limit| format!(", the topic allows {limit} (max.message.bytes)")).unwrap_or_default();
        // Without a partition it did not come as far as that.
        let partition = if refused.partition < 0 { String::new() } else { format!("/{}", refused.partition) };
        let (topic, key, bytes) = (message.topic, shown(message.key), refused.bytes);
        format!("kafka refused a record for {topic}{partition} of key {key}: {} ({bytes} bytes{allows})", failure.error)
    };
    // A record batch of several is refused as a whole, and says nothing of any of its records.
    let is_alone = |refused: &RefusedOutput| output.size(refused.index) > refused.alone_above;
    let with_others = if too_large && !is_alone(first) { WITH_OTHERS } else { "" };
    let text = format!("{}{with_others}{}", reason(first), made_from(batch, output.get(first.index).source));
    let oversized = failure.refused.iter().filter(|refused| too_large && refused.index < output.logged_from());
    let oversized =
        oversized.filter(|refused| is_alone(refused)).map(|refused| (refused.index, reason(refused))).collect();
    Some(Error::Refused { text, oversized, alone_above: too_large.then_some(first.alone_above) })
}

/// Why a record that fits is refused.
const WITH_OTHERS: &str = ". It was in a record batch with others, which together are larger than that: the limit was lowered since this process has \
                           started, or it may not ask for it. Start it again; if that does not help, let its user describe the topic's configuration, or set \
                           batch.size below the limit in the output's client";

/// Where an output comes from, and what that means for the positions.
pub(super) fn made_from(batch: &Batch, source: usize) -> String {
    if source >= batch.len() {
        return ". A timer has made it; nothing of its batch is committed".to_owned();
    }
    let record = batch.get(source);
    let (topic, partition, offset) = (record.topic, record.partition, record.offset);
    format!(". It was made from {topic}/{partition} offset {offset}; the position stays before that record")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kafka;
    use crate::stage::Message;

    /// Of which outputs a refusal is about the record alone, where those of more than 100 bytes are alone in their batches.
    fn put_aside(sizes: &[usize]) -> (Vec<usize>, String) {
        let (batch, mut output) = (Batch::new(vec!["in".to_owned()]), Output::default());
        for size in sizes {
            output.send(Message::to("out").value(&vec![b'x'; *size][..]));
        }
        let refused =
            |(index, bytes): (usize, &usize)| RefusedOutput { index, partition: 0, bytes: *bytes, alone_above: 100 };
        let refused = sizes.iter().enumerate().map(refused).collect();
        let error = kafka::Error::of(Code::MessageSizeTooLarge);
        let failure = Failure { error, refused, outcome_unknown: false };
        let error = refusal(&failure, &output, &batch, |_| Some(90)).expect("some were refused");
        let Error::Refused { text, oversized, alone_above: Some(100) } = error else { panic!("{error:?}") };
        (oversized.into_iter().map(|(index, _)| index).collect(), text)
    }

    #[test]
    fn a_small_record_that_is_refused_with_others_is_not_put_aside() {
        let (oversized, text) = put_aside(&[500, 101, 100, 20]);
        assert_eq!(oversized, [0_usize, 1]);
        assert!(text.contains("500 bytes, the topic allows 90") && !text.contains("with others"), "{text}");
        let (oversized, text) = put_aside(&[100, 20]);
        assert!(oversized.is_empty());
        assert!(text.contains("in a record batch with others") && text.contains("batch.size"), "{text}");
    }
}
