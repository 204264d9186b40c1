//! SIGINT and SIGTERM: the first asks for a clean stop, the second ends the process.

use std::io;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use wattle::{Exit, Stop};
use wattle_pipeline::StreamHandle;

use crate::failure::Failure;
use crate::status::Status;
use crate::text::duration;

/// Listens for signals while it lives.
pub(crate) struct Listener {
    streams: Sender<Vec<StreamHandle>>,
}

impl Listener {
    /// From here on a signal does not kill the process but asks `stop`. `grace_period` is what the caller gives a clean stop in
    /// all; a quarter of it is left for the end itself, so that whoever set the period does not have to kill.
    pub(crate) fn start(stop: Stop, grace_period: Duration, status: Status) -> io::Result<Self> {
        let mut signals = Signals::new([SIGINT, SIGTERM])?;
        let (signal_sender, signal) = mpsc::channel();
        thread::Builder::new().name("signals".into()).spawn(move || {
            // The receiver lives in a thread that ends with the process only.
            signals.forever().take_while(|_| signal_sender.send(()).is_ok()).for_each(drop);
        })?;
        let (streams_sender, streams) = mpsc::channel();
        thread::Builder::new().name("stop".into()).spawn(move || {
            if signal.recv().is_err() {
                return;
            }
            stop.stop();
            let streams: Vec<StreamHandle> = streams.try_iter().last().unwrap_or_default();
            status.note(&stopping(&running(&streams)));
            let limit = grace_period.mul_f64(0.75);
            let text = match signal.recv_timeout(limit) {
                Ok(()) => "ended at once by a second signal".to_owned(),
                Err(RecvTimeoutError::Timeout) => format!(
                    "did not stop within {} (three quarters of the grace period); still busy: {}",
                    duration(limit),
                    running(&streams).join(", ")
                ),
                Err(RecvTimeoutError::Disconnected) => return,
            };
            let failure = Failure::new(
                Exit::Failed,
                format!("{text}; what was not committed is processed again by the next run"),
            );
            status.failure(&failure);
            std::process::exit(failure.exit as i32);
        })?;
        Ok(Listener { streams: streams_sender })
    }

    /// These streams run now.
    pub(crate) fn watch(&self, streams: &[StreamHandle]) {
        // No receiver is left only where a signal has come before: then the stop is under way already.
        self.streams.send(streams.to_vec()).unwrap_or_default();
    }
}

fn running(streams: &[StreamHandle]) -> Vec<String> {
    streams.iter().filter(|stream| !stream.is_done()).map(|stream| stream.id().to_owned()).collect()
}

fn stopping(running: &[String]) -> String {
    let what = match running {
        [] => "the run ends".to_owned(),
        [one] => format!("{one} finishes its batch"),
        many => format!("{} streams finish their batch", many.len()),
    };
    format!("stopping: {what} (press again to stop at once)")
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
