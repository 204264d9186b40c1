//! The end of a consumer.

use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, ConsumerContext};

/// Longest time that a closed consumer may still need to answer the thread that has closed it.
const ANSWER: Duration = Duration::from_millis(500);
const TICK: Duration = Duration::from_millis(10);

/// Closes a consumer, which serves its last rebalances; returns when that is done, and at `deadline` at the latest. Whether it is done.
///
/// On a thread of its own, since librdkafka may leave it waiting for ever. A group that goes on to its end while a revocation is on its way to us:
/// 1. the revocation is taken from the queue, and the callback calls `rd_kafka_assign`, which sends a request to librdkafka's main thread;
/// 2. before it is served the main thread has marked the group as terminated, and drops requests to it without an answer;
/// 3. `rd_kafka_assign` waits for the answer without a limit, though the consumer is closed.
///
/// Such a thread is left behind, and with it the client.
pub(super) fn close<C: ConsumerContext + 'static>(consumer: &Arc<BaseConsumer<C>>, deadline: Instant) -> bool {
    let (done, is_done) = channel::<()>();
    let closing = consumer.clone();
    let thread = thread::Builder::new().name("wattle-close".to_owned()).spawn(move || {
        if closing.close_queue().is_ok() {
            while !closing.closed() {
                drop(closing.poll(TICK));
            }
        }
        drop(closing);
        drop(done);
    });
    if thread.is_err() {
        return false;
    }
    let mut closed: Option<Instant> = None;
    loop {
        if let Err(RecvTimeoutError::Disconnected) = is_done.recv_timeout(TICK) {
            return true;
        }
        if consumer.closed() {
            closed.get_or_insert_with(Instant::now);
        }
        if closed.is_some_and(|closed| closed.elapsed() > ANSWER) || Instant::now() > deadline {
            return false;
        }
    }
}
