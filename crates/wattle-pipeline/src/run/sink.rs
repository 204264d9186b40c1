//! Outputs that are not Kafka topics.

use std::io::{self, Write};

use wattle::{Batch, Error, Sent, Stop};

use super::outside::{Refusals, Target};

/// Writes values to the standard output: one write a batch, so that streams do not mix within it.
pub(super) struct StdoutSink {
    append_newline: bool,
    text: Vec<u8>,
}

impl StdoutSink {
    pub(super) fn new(append_newline: bool) -> Self {
        StdoutSink { append_newline, text: Vec::new() }
    }

    fn render(&mut self, messages: &[Sent<'_>]) {
        self.text.clear();
        for message in messages {
            self.text.extend_from_slice(message.value.unwrap_or(b"null"));
            if self.append_newline {
                self.text.push(b'\n');
            }
        }
    }
}

impl Target for StdoutSink {
    fn write(&mut self, _: &Batch, messages: &[Sent<'_>], _: &mut Refusals, _: &Stop) -> Result<bool, Error> {
        self.render(messages);
        let mut stdout = io::stdout().lock();
        let written = stdout.write_all(&self.text).and_then(|()| stdout.flush());
        written.map(|()| true).map_err(|source| Error::Io { what: "write to stdout".to_owned(), source })
    }
}

/// Keeps nothing.
pub(super) struct DropSink;

impl Target for DropSink {
    fn write(&mut self, _: &Batch, _: &[Sent<'_>], _: &mut Refusals, _: &Stop) -> Result<bool, Error> {
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use wattle::{Message, Output};

    use super::*;

    #[test]
    fn values_are_lines_and_null_is_a_word() {
        let mut output = Output::default();
        output.send(Message::to("t").value(&b"{\"a\":1}"[..]));
        output.send(Message::to("t"));
        let messages: Vec<_> = output.iter().collect();
        let mut sink = StdoutSink::new(true);
        sink.render(&messages);
        assert_eq!(sink.text, b"{\"a\":1}\nnull\n");
        let mut sink = StdoutSink::new(false);
        sink.render(&messages);
        assert_eq!(sink.text, b"{\"a\":1}null");
    }
}
