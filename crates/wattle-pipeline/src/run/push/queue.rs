//! Records that wait in memory for the output: whoever pushed them is told when it has confirmed them.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;
use wattle::{Batch, BatchLimits, Error, Fill, Offset, Record, Source, Stop};

use super::envelope::unpack;
use super::{Ended, Refusal, end};

/// How long is waited for records before a stop is looked for.
const GLANCE: Duration = Duration::from_millis(50);
/// Bytes that may wait.
const BYTES: usize = 64 << 20;

/// Where records wait.
#[derive(Clone)]
pub(crate) struct Queue(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    readable: Condvar,
    /// Entries that may wait.
    most: usize,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Waiting>,
    bytes: usize,
    /// Nothing more is taken in.
    closed: bool,
}

struct Waiting {
    envelope: Vec<u8>,
    told: oneshot::Sender<()>,
}

/// Gives what waits, and tells.
pub(crate) struct QueueSource {
    queue: Queue,
    name: String,
    ended: Ended,
    stop: Stop,
    /// Records given so far: their offsets, from 1.
    given: i64,
    /// Who is told when so many records of the batch are delivered.
    promised: VecDeque<(usize, oneshot::Sender<()>)>,
}

impl Queue {
    pub(crate) fn new(most: usize) -> Self {
        Queue(Arc::new(Shared { state: Mutex::default(), readable: Condvar::new(), most }))
    }

    /// Takes records in, and tells when they are delivered. Dropped before, they may be left out.
    pub(super) fn offer(&self, envelope: Vec<u8>) -> Result<oneshot::Receiver<()>, Refusal> {
        let mut state = self.lock();
        if state.closed {
            return Err(Refusal::Stopped);
        }
        if state.waiting.len() >= self.0.most || (state.bytes > 0 && state.bytes + envelope.len() > BYTES) {
            return Err(Refusal::Busy);
        }
        let (told, tells) = oneshot::channel();
        state.bytes += envelope.len();
        state.waiting.push_back(Waiting { envelope, told });
        self.0.readable.notify_one();
        Ok(tells)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next(&self) -> Option<Waiting> {
        let mut state = self.lock();
        let next = state.waiting.pop_front()?;
        state.bytes -= next.envelope.len();
        Some(next)
    }
}

impl QueueSource {
    pub(crate) fn new(queue: Queue, name: String, ended: Ended, stop: Stop) -> Self {
        QueueSource { queue, name, ended, stop, given: 0, promised: VecDeque::new() }
    }

    fn wait(&self) {
        let nothing = |state: &mut State| state.waiting.is_empty();
        drop(self.queue.0.readable.wait_timeout_while(self.queue.lock(), GLANCE, nothing));
    }
}

impl Source for QueueSource {
    fn fill(&mut self, batch: &mut Batch, limits: &BatchLimits) -> Result<Fill, Error> {
        self.promised.clear();
        // Both looked at first: what came before is there then.
        let ended = self.ended.get();
        if self.stop.is_stopped() {
            self.queue.lock().closed = true;
        }
        while batch.len() < limits.records() && batch.byte_len() < limits.bytes() {
            let Some(Waiting { envelope, told }) = self.queue.next() else {
                if !batch.is_empty() {
                    break;
                }
                if self.queue.lock().closed {
                    return Ok(Fill::End);
                }
                if let Some(ended) = ended {
                    return end(ended, &self.name);
                }
                self.wait();
                break;
            };
            // Who has gone was told nothing, and comes again.
            if !told.is_closed() {
                let mut push = |record: &Record<'_>| {
                    self.given += 1;
                    batch.push(0, &Record { offset: Offset(self.given), ..*record });
                };
                unpack(&envelope, Offset(0), &mut push).expect("our own envelope");
                self.promised.push_back((batch.len(), told));
            }
        }
        Ok(Fill::More)
    }

    fn topics(&self) -> Vec<String> {
        vec![self.name.clone()]
    }

    fn delivered(&mut self, records: usize) -> Result<(), Error> {
        while let Some((_, told)) = self.promised.pop_front_if(|(until, _)| *until <= records) {
            // Whoever has gone does not hear it.
            told.send(()).unwrap_or_default();
        }
        Ok(())
    }

    fn replays(&self) -> bool {
        false
    }
}

impl Drop for QueueSource {
    /// Who still waits is told that nothing comes of it.
    fn drop(&mut self) {
        let mut state = self.queue.lock();
        state.closed = true;
        state.waiting.clear();
        state.bytes = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::super::Envelope;
    use super::*;

    fn source(most: usize) -> (Queue, QueueSource, Stop) {
        let (queue, stop) = (Queue::new(most), Stop::new());
        (queue.clone(), QueueSource::new(queue, "test".to_owned(), Ended::default(), stop.clone()), stop)
    }

    fn entry(values: &[&str]) -> Vec<u8> {
        let mut envelope = Envelope::new(None);
        values.iter().for_each(|value| envelope.push(None, Some(value.as_bytes()), &[]));
        envelope.into_bytes()
    }

    fn fill(source: &mut QueueSource) -> (Vec<String>, Fill) {
        let mut batch = Batch::new(source.topics());
        let fill = source.fill(&mut batch, &BatchLimits::default()).unwrap();
        let value = |i| String::from_utf8_lossy(batch.get(i).value.unwrap()).into_owned();
        ((0..batch.len()).map(value).collect(), fill)
    }

    #[test]
    fn who_pushed_is_told_when_all_records_of_the_entry_are_delivered() {
        let (queue, mut source, _) = source(10);
        let mut first = queue.offer(entry(&["a", "b"])).unwrap();
        let mut second = queue.offer(entry(&["c"])).unwrap();
        assert_eq!(fill(&mut source), (vec!["a".into(), "b".into(), "c".into()], Fill::More));
        source.delivered(1).unwrap();
        assert!(first.try_recv().is_err());
        source.delivered(2).unwrap();
        assert!(first.try_recv().is_ok() && second.try_recv().is_err());
        drop(source);
        assert_eq!(second.try_recv(), Err(oneshot::error::TryRecvError::Closed), "and that it is not");
        assert!(matches!(queue.offer(entry(&["d"])), Err(Refusal::Stopped)));
    }

    #[test]
    fn what_nobody_waits_for_is_left_out() {
        let (queue, mut source, _) = source(10);
        drop(queue.offer(entry(&["a"])).unwrap());
        let waits = queue.offer(entry(&["b"])).unwrap();
        assert_eq!(fill(&mut source).0, ["b"]);
        drop(waits);
    }

    #[test]
    fn waiting_is_bounded() {
        let (queue, mut source, _) = source(1);
        let waits = queue.offer(entry(&["a"])).unwrap();
        assert!(matches!(queue.offer(entry(&["b"])), Err(Refusal::Busy)));
        fill(&mut source);
        drop((waits, queue.offer(entry(&["b"])).unwrap()));
    }

    #[test]
    fn a_stop_takes_nothing_more_and_gives_what_waits() {
        let (queue, mut source, stop) = source(10);
        let waits = queue.offer(entry(&["a"])).unwrap();
        stop.stop();
        assert_eq!(fill(&mut source), (vec!["a".into()], Fill::More));
        assert_eq!(fill(&mut source), (vec![], Fill::End));
        assert!(matches!(queue.offer(entry(&["b"])), Err(Refusal::Stopped)));
        drop(waits);
    }

    #[test]
    fn an_end_comes_behind_what_waits() {
        let (queue, mut source, _) = source(10);
        let waits = queue.offer(entry(&["a"])).unwrap();
        source.ended.set(Ok(())).unwrap();
        assert_eq!(fill(&mut source).0, ["a"]);
        assert_eq!(fill(&mut source), (vec![], Fill::End));
        drop(waits);
    }
}
