//! `wattle produce`: lines of stdin as records of a topic, at least once.

use std::io::{self, BufRead, BufReader, Read};

use wattle::{
    Batch, BatchLimits, Compression, Error, Fill, KafkaSink, KafkaSinkConfig, Message, Metrics, Offset, Record, Source,
    Stop, run_source, transformer,
};

use crate::args::ProduceArgs;
use crate::connect::{check_properties, connect};
use crate::embedded::Embedded;
use crate::failure::Failure;
use crate::status::Status;
use crate::text::counted;

/// Writes until the end of stdin, and says how many records there were. An embedded broker is left in `embedded`.
pub(crate) fn run(args: &ProduceArgs, status: &Status, embedded: &mut Option<Embedded>) -> Result<(), Failure> {
    let (brokers, properties) = connect(&args.cluster, status, embedded)?;
    check_properties(&properties)?;
    let mut sink = KafkaSink::connect(&KafkaSinkConfig {
        name: "produce".to_owned(),
        brokers,
        output_topics: vec![args.topic.clone()],
        acks: "all".to_owned(),
        compression: Compression::None,
        properties,
    })?;
    let topic = args.topic.clone();
    let mut stage = transformer(move |record, out| {
        out.send(Message::copy(record, topic.as_str()));
        Ok(())
    });
    let (metrics, limits) = (Metrics::default(), BatchLimits::default());
    let mut lines = Lines { reader: BufReader::with_capacity(1 << 17, io::stdin()), line: Vec::new(), lines: 0 };
    run_source(&args.topic, &mut lines, &mut stage, &mut sink, None, &limits, &metrics, &Stop::new())?;
    let records = counted(metrics.snapshot().records, "record", "records");
    status.note(&format!("wrote {records} to {}", args.topic));
    Ok(())
}

/// `key<TAB>value`, or a value alone.
struct Lines<R> {
    reader: BufReader<R>,
    line: Vec<u8>,
    /// Lines read so far.
    lines: i64,
}

impl<R: Read + Send> Source for Lines<R> {
    /// Waits for a line, and takes those that are there with it: what somebody types is written line by line.
    fn fill(&mut self, batch: &mut Batch, limits: &BatchLimits) -> Result<Fill, Error> {
        loop {
            self.line.clear();
            let read = self.reader.read_until(b'\n', &mut self.line);
            let read = read.map_err(|source| Error::Io { what: "read stdin".to_owned(), source })?;
            if read == 0 {
                return Ok(Fill::End);
            }
            self.lines += 1;
            let line = self.line.strip_suffix(b"\n").unwrap_or(&self.line);
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            if !line.is_empty() {
                batch.push(0, &record(line, self.lines));
            }
            let full = batch.len() >= limits.records() || batch.byte_len() >= limits.bytes();
            if full || !self.reader.buffer().contains(&b'\n') {
                return Ok(Fill::More);
            }
        }
    }

    fn topics(&self) -> Vec<String> {
        vec!["stdin".to_owned()]
    }
}

/// Nothing behind the tab is null, which deletes a key.
fn record(line: &[u8], number: i64) -> Record<'_> {
    let (key, value) = match line.iter().position(|byte| *byte == b'\t') {
        Some(tab) => (Some(&line[..tab]), Some(&line[tab + 1..]).filter(|value| !value.is_empty())),
        None => (None, Some(line)),
    };
    Record { topic: "", partition: 0, offset: Offset(number), timestamp: None, key, value, headers: &[] }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_a_key_up_to_its_first_tab() {
        let text = b"ada\t{\"i\": 1}\n\nalone\r\nbob\t\nx\ty\tz";
        let mut lines = Lines { reader: BufReader::new(&text[..]), line: Vec::new(), lines: 0 };
        let mut batch = Batch::new(lines.topics());
        while lines.fill(&mut batch, &BatchLimits::default()).expect("memory can be read") != Fill::End {}
        let text = |bytes: Option<&[u8]>| bytes.map(|bytes| String::from_utf8_lossy(bytes).into_owned());
        let records: Vec<_> = (0..batch.len()).map(|i| (text(batch.get(i).key), text(batch.get(i).value))).collect();
        let some = |text: &str| Some(text.to_owned());
        let expected =
            [(some("ada"), some("{\"i\": 1}")), (None, some("alone")), (some("bob"), None), (some("x"), some("y\tz"))];
        assert_eq!(records, expected);
        assert_eq!(batch.get(3).offset.0, 5);
    }
}
