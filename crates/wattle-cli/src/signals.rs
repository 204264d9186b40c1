//! SIGINT and SIGTERM: the first asks for a clean stop, the second ends the process.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::unregister;
use signal_hook::{SigId, flag};
use wattle::{Exit, Stop};
use wattle_pipeline::StreamHandle;

use crate::failure::Failure;
use crate::status::Status;
use crate::text::duration;

/// The code of a process that a signal ends when nothing is left to stop: that of the work it has done.
static CODE: AtomicU8 = AtomicU8::new(0);

/// A process that stays for others after its own work has ended with this code.
pub(crate) fn end_with(code: u8) {
    CODE.store(code, Ordering::Relaxed);
}

/// What was caught before there was a listener.
static CAUGHT: Mutex<Option<io::Result<Caught>>> = Mutex::new(None);

struct Caught {
    signals: Signals,
    /// Whether one has come, or nobody is going to listen: the next one ends the process.
    last: Arc<AtomicBool>,
    registered: Vec<SigId>,
}

/// The first thing that a process does: from here on a signal does not end it, but is kept for the [`Listener`]; a second one ends it. The file that it
/// reads meanwhile may be a terminal.
pub(crate) fn catch() {
    *CAUGHT.lock().unwrap_or_else(PoisonError::into_inner) = Some(Caught::begin());
}

/// Nobody will listen: a signal ends the process from here on, also one that has come already.
pub(crate) fn let_go() {
    if let Some(Ok(caught)) = &*CAUGHT.lock().unwrap_or_else(PoisonError::into_inner)
        && caught.last.swap(true, Ordering::SeqCst)
    {
        std::process::exit(128 + SIGTERM);
    }
}

impl Caught {
    fn begin() -> io::Result<Self> {
        let (last, mut registered) = (Arc::<AtomicBool>::default(), Vec::new());
        for signal in [SIGINT, SIGTERM] {
            // In this order: the first one sets what the second one finds.
            registered.push(flag::register_conditional_default(signal, last.clone())?);
            registered.push(flag::register(signal, last.clone())?);
        }
        Ok(Caught { signals: Signals::new([SIGINT, SIGTERM])?, last, registered })
    }

    fn take() -> io::Result<Signals> {
        let caught = CAUGHT.lock().unwrap_or_else(PoisonError::into_inner).take();
        let caught = caught.unwrap_or_else(Caught::begin)?;
        for id in caught.registered {
            unregister(id);
        }
        Ok(caught.signals)
    }
}

/// Listens for signals while it lives.
pub(crate) struct Listener {
    events: Sender<Event>,
}

enum Event {
    Signal,
    /// These run now, and are named where a stop takes long.
    Streams(Vec<StreamHandle>),
    /// Nothing is left that a signal could interrupt.
    Finished,
}

impl Listener {
    /// A signal, also one that has come since [`catch`], asks `stop`. `grace_period` is what the caller gives a clean stop in
    /// all; a quarter of it is left for the end itself, so that whoever set the period does not have to kill.
    pub(crate) fn start(stop: Stop, grace_period: Duration, status: Status) -> Result<Self, Failure> {
        Self::try_start(stop, grace_period, status)
            .map_err(|error| Failure::new(Exit::Failed, format!("cannot listen for signals: {error}")))
    }

    fn try_start(stop: Stop, grace_period: Duration, status: Status) -> io::Result<Self> {
        let mut signals = Caught::take()?;
        let (events, received) = mpsc::channel();
        let sender = events.clone();
        thread::Builder::new().name("signals".into()).spawn(move || {
            // The receiver lives in a thread that ends with the process only.
            signals.forever().take_while(|_| sender.send(Event::Signal).is_ok()).for_each(drop);
        })?;
        let watch = Watch { stop, limit: grace_period.mul_f64(0.75), status, streams: Vec::new() };
        thread::Builder::new().name("stop".into()).spawn(move || watch.run(&received))?;
        Ok(Listener { events })
    }

    /// These streams run now.
    pub(crate) fn watch(&self, streams: &[StreamHandle]) {
        self.tell(Event::Streams(streams.to_vec()));
    }

    fn tell(&self, event: Event) {
        // No receiver is left only where a signal has ended everything: then the process is about to go.
        self.events.send(event).unwrap_or_default();
    }
}

/// Nothing is left to stop: from here on a signal ends the process at once.
impl Drop for Listener {
    fn drop(&mut self) {
        self.tell(Event::Finished);
    }
}

/// What the thread that waits for events knows.
struct Watch {
    stop: Stop,
    limit: Duration,
    status: Status,
    streams: Vec<StreamHandle>,
}

impl Watch {
    fn run(mut self, events: &Receiver<Event>) {
        loop {
            match events.recv() {
                Ok(Event::Signal) => break,
                Ok(Event::Streams(streams)) => self.streams = streams,
                Ok(Event::Finished) => return self.end_by_signal(events),
                Err(_) => return,
            }
        }
        self.stop.stop();
        self.status.note(&stopping(&running(&self.streams)));
        let deadline = Instant::now() + self.limit;
        let text = loop {
            match events.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(Event::Signal) => break "ended at once by a second signal".to_owned(),
                Ok(Event::Streams(streams)) => self.streams = streams,
                Ok(Event::Finished) => return self.end_by_signal(events),
                Err(RecvTimeoutError::Timeout) => break self.overdue(),
                Err(RecvTimeoutError::Disconnected) => return,
            }
        };
        let text = format!("{text}; what was not committed is processed again by the next run");
        let failure = Failure::new(Exit::Failed, text);
        self.status.failure(&failure);
        std::process::exit(failure.exit as i32);
    }

    /// The handles of streams go first: they keep connections open, for which an embedded broker would wait.
    fn end_by_signal(self, events: &Receiver<Event>) {
        drop(self);
        while let Ok(event) = events.recv() {
            if matches!(event, Event::Signal) {
                std::process::exit(CODE.load(Ordering::Relaxed).into());
            }
        }
    }

    fn overdue(&self) -> String {
        let (limit, busy) = (duration(self.limit), running(&self.streams).join(", "));
        format!("did not stop within {limit} (three quarters of the grace period); still busy: {busy}")
    }
}

fn running(streams: &[StreamHandle]) -> Vec<String> {
    streams.iter().filter(|stream| !stream.is_done()).map(|stream| stream.id().to_owned()).collect()
}

fn stopping(running: &[String]) -> String {
    let what = match running {
        [] => String::new(),
        [one] => format!(": {one} finishes its batch"),
        many => format!(": {} streams finish their batch", many.len()),
    };
    format!("stopping{what} (press again to stop at once)")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stopping_names_one_stream_and_counts_more() {
        assert_eq!(stopping(&["a".into()]), "stopping: a finishes its batch (press again to stop at once)");
        let two = stopping(&["a".into(), "b".into()]);
        assert_eq!(two, "stopping: 2 streams finish their batch (press again to stop at once)");
    }
}
