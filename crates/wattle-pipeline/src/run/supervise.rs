//! Passes requests to stop on to the streams: from outside, from a stream that failed, and from draining.

use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;

use wattle::Error;

use super::drain::{Drain, Link};
use super::{RunOptions, StreamHandle, spawn};

/// How often a request to stop is looked for.
const GLANCE: Duration = Duration::from_millis(20);
/// How often the broker is asked while draining.
const LOOK: Duration = Duration::from_millis(100);

pub(super) fn start(streams: &[StreamHandle], links: Vec<Link>, options: RunOptions) -> Result<JoinHandle<()>, Error> {
    if options.drain {
        let streams = streams.to_vec();
        // Nobody waits for this thread: it may wait for a broker, and ends by itself when the streams have ended.
        spawn("wattle-drain".to_owned(), move || drain(&streams, &links))?;
    }
    let streams = streams.to_vec();
    spawn("wattle-supervisor".to_owned(), move || {
        while !all_done(&streams) {
            if options.stop.is_stopped() || streams.iter().any(|stream| stream.0.failed.load(Ordering::Acquire)) {
                streams.iter().for_each(|stream| stream.0.stop.stop());
            }
            std::thread::sleep(GLANCE);
        }
    })
}

fn drain(streams: &[StreamHandle], links: &[Link]) {
    let mut drain = Drain::new(links);
    while !all_done(streams) {
        let ended: Vec<_> = streams.iter().map(StreamHandle::is_done).collect();
        for i in drain.step(&ended, |i| streams[i].look()) {
            streams[i].0.drained.store(true, Ordering::Release);
            streams[i].0.stop.stop();
        }
        std::thread::sleep(LOOK);
    }
}

fn all_done(streams: &[StreamHandle]) -> bool {
    streams.iter().all(StreamHandle::is_done)
}
