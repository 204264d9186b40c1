//! The standard input: a thread of its own reads lines, and waits with the next ones until those are safe.

use std::io::{self, BufRead, BufReader, Read};
use std::time::Duration;

use wattle::{Error, Stop};

use super::push::{Ended, Envelope, Failure, Intake, Refusal};
use super::spawn;
use crate::spec::StdinFormat;

/// A line that is longer is an error: nothing may fill the memory.
const LONGEST_LINE: u64 = 16 << 20;
/// Lines that are there together are handed on together, up to so many bytes.
const CHUNK: usize = 256 << 10;
/// Between two tries where the disk is full.
const PAUSE: Duration = Duration::from_secs(1);

/// Reads until the end of the input, or a stop. Nobody waits for the thread, which may be reading for ever.
pub(super) fn start(stream: &str, format: StdinFormat, intake: Intake, ended: Ended, stop: Stop) -> Result<(), Error> {
    let stream = stream.to_owned();
    let body = move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
        let outcome = runtime.and_then(|runtime| {
            let put = |envelope: Envelope| runtime.block_on(put(&stream, &intake, envelope, &stop));
            hand_on(BufReader::with_capacity(CHUNK, io::stdin().lock()), format, put)
        });
        // It is set here alone.
        ended.set(outcome.map_err(Failure::Io)).unwrap_or_default();
    };
    spawn("wattle-stdin".to_owned(), body).map(drop)
}

/// Hands lines on as they come.
fn hand_on(
    mut input: BufReader<impl Read>,
    format: StdinFormat,
    mut put: impl FnMut(Envelope) -> io::Result<bool>,
) -> io::Result<()> {
    let mut line = Vec::new();
    loop {
        let mut envelope = Envelope::now();
        let mut more = true;
        // The first one is waited for.
        while more && (envelope.records() == 0 || (envelope.byte_len() < CHUNK && input.buffer().contains(&b'\n'))) {
            more = read_line(&mut input, &mut line)?;
            if more && (format == StdinFormat::Text || !line.trim_ascii().is_empty()) {
                envelope.push(None, Some(&line), &[]);
            }
        }
        if envelope.records() > 0 && !put(envelope)? || !more {
            return Ok(());
        }
    }
}

/// Reads a line, without its end; false at the end of the input.
fn read_line(input: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<bool> {
    line.clear();
    let length = input.take(LONGEST_LINE + 1).read_until(b'\n', line)? as u64;
    if line.last() == Some(&b'\n') {
        line.pop();
        if line.last() == Some(&b'\r') {
            line.pop();
        }
    } else if length > LONGEST_LINE {
        let text = format!("a line is longer than {} MiB", LONGEST_LINE >> 20);
        return Err(io::Error::new(io::ErrorKind::InvalidData, text));
    }
    Ok(length > 0)
}

/// Returns when the lines are safe; false where the stream ends.
async fn put(stream: &str, intake: &Intake, envelope: Envelope, stop: &Stop) -> io::Result<bool> {
    let bytes = envelope.into_bytes();
    let mut told = false;
    loop {
        let outcome = tokio::select! {
            outcome = intake.put(bytes.clone()) => outcome,
            () = stop.stopped() => return Ok(false),
        };
        match outcome {
            Ok(()) => return Ok(true),
            Err(Refusal::Stopped) => return Ok(false),
            Err(Refusal::Log(error @ wattle_wal::Error::DiskFull { .. })) => {
                if !std::mem::replace(&mut told, true) {
                    tracing::warn!(stream, "reads no further: {error}");
                }
            }
            // The stream says so too, when it has read what is there.
            Err(Refusal::Log(error)) => return Err(io::Error::other(error)),
            Err(Refusal::Busy) => {}
        }
        tokio::time::sleep(PAUSE).await;
    }
}

#[cfg(test)]
mod tests {
    use wattle::Offset;

    use super::super::push::unpack;
    use super::*;

    fn handed_on(text: &[u8], format: StdinFormat) -> Vec<Vec<String>> {
        let mut entries = Vec::new();
        let put = |envelope: Envelope| {
            let mut lines = Vec::new();
            let line = |value: Option<&[u8]>| String::from_utf8_lossy(value.unwrap()).into_owned();
            unpack(&envelope.into_bytes(), Offset(0), |record| lines.push(line(record.value))).unwrap();
            entries.push(lines);
            Ok(true)
        };
        hand_on(BufReader::with_capacity(8, text), format, put).unwrap();
        entries
    }

    #[test]
    fn lines_that_are_there_are_handed_on_together() {
        assert_eq!(handed_on(b"1\n\n2\r\n3\n4", StdinFormat::Lines), [vec!["1", "2", "3"], vec!["4"]]);
        assert_eq!(handed_on(b"a\n\nb", StdinFormat::Text), [vec!["a", ""], vec!["b"]]);
        assert_eq!(handed_on(b"", StdinFormat::Text), [[""; 0]; 0]);
        assert_eq!(handed_on(b"\n\n", StdinFormat::Lines), [[""; 0]; 0]);
    }

    #[test]
    fn a_line_without_end_is_refused() {
        let text = vec![b'x'; (LONGEST_LINE + 1) as usize];
        let error = hand_on(BufReader::new(&text[..]), StdinFormat::Text, |_| Ok(true)).unwrap_err();
        assert!(error.to_string().contains("longer than 16 MiB"), "{error}");
    }
}
