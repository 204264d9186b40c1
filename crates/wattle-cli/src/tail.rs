//! `wattle tail`: a topic's committed records as JSON lines.

use std::fs;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use wattle::kafka::Tail;
use wattle::{ClientProperties, Exit, Stop};
use wattle_pipeline::EMBEDDED;

use crate::args::TailArgs;
use crate::embedded::Embedded;
use crate::failure::Failure;
use crate::json::Line;
use crate::signals::Listener;
use crate::status::Status;

/// Longest wait for a record before stdout is looked at again.
const WAIT: Duration = Duration::from_millis(200);

/// Everything that was printed is on its way: a stop has nothing to finish.
const GRACE: Duration = Duration::from_secs(5);

/// Prints records until there were `--count` of them, a signal comes, or the reader of stdout goes away. An embedded broker is left
/// in `embedded`, since others may still use it.
pub(crate) fn run(args: &TailArgs, status: &Status, embedded: &mut Option<Embedded>) -> Result<(), Failure> {
    const NONE: &str =
        "no brokers are named: give --brokers host:port, or set WATTLE_BROKERS; for the embedded broker, --embedded";
    let stop = Stop::new();
    let _listener = Listener::start(stop.clone(), GRACE, *status)?;
    let mut brokers = args.brokers.get().ok_or_else(|| Failure::refused(NONE))?;
    if brokers == EMBEDDED {
        brokers = embedded.insert(Embedded::open(*status)?).address().to_owned();
    }
    let properties = args.client_file.as_deref().map(client_file).transpose()?.unwrap_or_default();
    let tail = Tail::open(&brokers, &args.topic, args.from_beginning, &properties)?;
    if status.is_live() && !args.from_beginning {
        status.note(&format!("waiting for new records of {} (Ctrl-C ends)", args.topic));
    }
    match print(tail, args.count, &stop) {
        Ok(()) => Ok(()),
        Err(Ended::Kafka(error)) => Err(error.into()),
        // A reader that has seen enough (`| head`) is no failure.
        Err(Ended::Stdout(error)) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        Err(Ended::Stdout(error)) => Err(Failure::new(Exit::Failed, format!("cannot write to stdout: {error}"))),
    }
}

/// Why printing ended early.
enum Ended {
    Kafka(wattle::Error),
    Stdout(io::Error),
}

impl From<wattle::Error> for Ended {
    fn from(error: wattle::Error) -> Self {
        Ended::Kafka(error)
    }
}

impl From<io::Error> for Ended {
    fn from(error: io::Error) -> Self {
        Ended::Stdout(error)
    }
}

fn print(mut tail: Tail, count: Option<u64>, stop: &Stop) -> Result<(), Ended> {
    let mut out = BufWriter::new(io::stdout().lock());
    let mut left = count;
    while left != Some(0) && !stop.is_stopped() {
        // Lines are flushed where no record follows at once, so that a long topic is not written in tiny pieces.
        let next = match tail.next(Duration::ZERO)? {
            Some(record) => Some(record),
            None => {
                out.flush()?;
                has_reader()?;
                tail.next(WAIT)?
            }
        };
        if let Some(record) = next {
            writeln!(out, "{}", Line::of(&record).text())?;
            left = left.map(|left| left - 1);
        }
    }
    Ok(out.flush()?)
}

/// Notices that the reader of a pipe has gone, which a write would notice only at the next record.
fn has_reader() -> io::Result<()> {
    let stdout = io::stdout();
    let mut fds = [PollFd::new(&stdout, PollFlags::empty())];
    poll(&mut fds, Some(&rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 }))?;
    if fds[0].revents().intersects(PollFlags::ERR | PollFlags::HUP) {
        return Err(io::ErrorKind::BrokenPipe.into());
    }
    Ok(())
}

/// Reads `key=value` lines; blank lines and lines that begin with `#` say nothing.
pub(crate) fn client_file(path: &Path) -> Result<ClientProperties, Failure> {
    let text = fs::read_to_string(path)
        .map_err(|error| Failure::refused(format!("cannot read the client file {}: {error}", path.display())))?;
    let mut properties = ClientProperties::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let place = || format!("{}:{}", path.display(), index + 1);
        // The line itself is not shown: it may hold a password.
        let (key, value) =
            line.split_once('=').ok_or_else(|| Failure::refused(format!("{}: not a key=value line", place())))?;
        let key = key.trim();
        if properties.insert(key.to_owned(), value.trim().to_owned()).is_some() {
            return Err(Failure::refused(format!("{}: {key} is set a second time; keep one", place())));
        }
    }
    Ok(properties)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(name: &str, text: &str) -> Result<ClientProperties, Failure> {
        let path = std::env::temp_dir().join(format!("wattle-{}-{name}", std::process::id()));
        fs::write(&path, text).expect("the temporary folder is writable");
        let result = client_file(&path);
        fs::remove_file(&path).expect("the file was just written");
        result
    }

    #[test]
    fn a_client_file_has_comments_and_values_with_equal_signs() {
        let properties = parse("good", "# TLS\n\nsasl.password = a=b\nsecurity.protocol=SASL_SSL\n").expect("is legal");
        assert_eq!(properties["sasl.password"], "a=b");
        assert_eq!(properties.len(), 2);
    }

    #[test]
    fn a_broken_line_is_named_and_not_shown() {
        let failure = parse("bad", "a=1\nsasl.password: hunter2\n").expect_err("has no equal sign");
        let text = format!("{failure:?}");
        assert!(text.contains(":2: not a key=value line") && !text.contains("hunter2"), "{text}");
    }
}
