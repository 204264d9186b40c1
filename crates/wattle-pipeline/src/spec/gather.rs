//! The processor `batch`: it is behind the chain, where the outputs are.

use std::time::Duration;

use wattle::{Gather, GroupFormat};

use super::batch::MOST_SIZE;
use super::{Output, Stream};
use crate::chain::{Item, Processor};
use crate::problem::Report;
use crate::yaml::{Field, Given, Map};

/// Most records of a group: each takes some memory beside its bytes.
const MOST: u64 = 100_000;
const BYTES: usize = 512 << 10;
const TIME: Duration = Duration::from_secs(1);

/// Reads an entry of `processors` of this type.
pub(crate) fn read(item: &Field, map: &mut Map) -> Given<Gather> {
    let count = map
        .required("count", "a batch needs a count: the records that are written together")
        .and_then(|field| usize::try_from(field.count(MOST)?).ok());
    let bytes = map.get("bytes").and_then(|field| field.size(MOST_SIZE));
    let (interval, millis) = (map.get("interval"), map.get("timeout_ms"));
    if let (Some(_), Some(field)) = (&interval, &millis) {
        field.problem("says the same as interval; remove one of the two");
    }
    let interval = interval.and_then(|field| field.time());
    let millis = millis.and_then(|field| field.millis());
    let format = map
        .get("format")
        .and_then(|field| field.word(&[("records", GroupFormat::Records), ("array", GroupFormat::Array)]));
    item.given(Gather {
        count: count.unwrap_or(1).max(1),
        bytes: bytes.unwrap_or(BYTES),
        time: interval.or(millis).unwrap_or(TIME),
        format: format.unwrap_or_default(),
    })
}

/// Takes the one `batch` out of a list of processors, of which it has to be the last.
pub(super) fn take(items: Vec<Item>, report: &Report) -> (Vec<Processor>, Option<Given<Gather>>) {
    let steps = items.iter().filter(|item| matches!(item, Item::Processor(_))).count();
    let (mut processors, mut gather) = (Vec::new(), None::<Given<Gather>>);
    for item in items {
        match (item, &gather) {
            (Item::Processor(processor), _) => processors.push(*processor),
            (Item::Batch(given), Some(first)) => {
                let text = format!(
                    "is a second batch, after {} (line {}); remove one of the two",
                    first.path, first.place.line
                );
                report.add(given.place, &given.path, text);
            }
            (Item::Batch(given), None) => {
                if processors.len() < steps {
                    let text = "batch has to be the last processor: what it holds goes to the output when its group ends; move it to the end";
                    report.add(given.place, &given.path, text);
                }
                gather = Some(given);
            }
        }
    }
    (processors, gather)
}

/// What is held has to be read again after a crash, and an array has to fit where it goes.
pub(super) fn check(given: &Given<Gather>, stream: &Stream, report: &Report) {
    if !stream.input.replays() && stream.durability.is_none() {
        let what = stream.input.with_article();
        let text = format!(
            "holds records that {what} cannot read again: add  durability: {{path: FOLDER}}  to the stream, so that they are in a write-ahead log meanwhile"
        );
        report.add(given.place, &given.path, text);
    }
    if given.value.format == GroupFormat::Array && matches!(stream.output, Output::Sql(_)) {
        let text = "format: array makes one list of several records, and an sql output writes objects as rows; remove format, and the rows of a group are \
                    written in one transaction";
        report.add(given.place, format!("{}.format", given.path), text);
    }
}

/// As the core counts: messages, of which a record has one for each output.
pub(super) fn limits(given: Given<Gather>, output: &Output) -> Gather {
    let ways = output.kafka().map_or(1, |output| output.routes.len());
    Gather { count: given.value.count.saturating_mul(ways), ..given.value }
}
