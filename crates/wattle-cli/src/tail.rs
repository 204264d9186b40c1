//! `wattle tail`: a topic's committed records as JSON lines.

use std::io::{self, BufWriter, Write};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use wattle::kafka::Tail;
use wattle::{Exit, Stop};

use crate::args::TailArgs;
use crate::connect::connect;
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
    let stop = Stop::new();
    let _listener = Listener::start(stop.clone(), GRACE, *status)?;
    let (brokers, properties) = connect(&args.cluster, status, embedded)?;
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
