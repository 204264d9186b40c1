//! The lane of a source whose outputs go to a sink with transactions: the cursor is among the positions that the sink keeps.

use super::CursorLane;
use crate::error::Error;
use crate::kafka::Batch;
use crate::lane::{
    LONGEST_PAUSE, Patience, Place, Reaction, RefusedRecord, TransactionalSink, gave_up, open_sink, reaction, taken,
};
use crate::metrics::Metrics;
use crate::stage::Output;
use crate::worker::Stop;

pub(crate) struct SinkLane<'a> {
    /// Of the stream, for logs.
    name: &'a str,
    sink: &'a mut dyn TransactionalSink,
    place: Place,
    metrics: &'a Metrics,
    /// The cursor that we read last.
    found: Option<String>,
}

impl<'a> SinkLane<'a> {
    pub(crate) fn new(name: &'a str, sink: &'a mut dyn TransactionalSink, place: Place, metrics: &'a Metrics) -> Self {
        SinkLane { name, sink, place, metrics, found: None }
    }
}

impl CursorLane for SinkLane<'_> {
    fn start(&mut self, stop: &Stop) -> Result<bool, Error> {
        let places = std::slice::from_ref(&self.place);
        let Some(found) = open_sink(self.sink, self.name, places, || !stop.is_stopped())? else { return Ok(false) };
        self.found = found.into_iter().next().flatten();
        Ok(true)
    }

    fn cursor(&self) -> Option<&[u8]> {
        self.found.as_deref().map(str::as_bytes)
    }

    /// There is no group to ask whose turn it is: whoever was started last goes on, and this one ends.
    fn commit(
        &mut self,
        batch: &Batch,
        output: &mut Output,
        cursor: Vec<u8>,
        stop: &Stop,
    ) -> Result<Option<Vec<RefusedRecord>>, Error> {
        let cursor = String::from_utf8(cursor).map_err(|_| Error::Cursor {
            text: format!("{}: the source's cursor is not text, and the output keeps none but such", self.name),
        })?;
        let moves = [(self.place.clone(), cursor)];
        let mut patience = Patience::begin(self.sink.patience(), LONGEST_PAUSE);
        loop {
            let failure = match self.sink.commit(batch, output, &moves) {
                Ok(refused) => return Ok(Some(refused)),
                Err(failure) => failure.into_failure()?,
            };
            match reaction(&failure, false, patience.is_left()) {
                Reaction::Restart if failure.error.is_fenced() => {
                    return Err(taken(self.name, &failure.error.to_string()));
                }
                Reaction::Restart => {
                    self.metrics.restart();
                    tracing::warn!(stream = %self.name, "starts again from the cursor that the output has: {}", failure.error);
                    return Ok(None);
                }
                Reaction::Repeat => {
                    self.metrics.abort();
                    if patience.is_to_be_said() {
                        tracing::warn!(stream = %self.name, "a batch was aborted and runs again: {}", failure.error);
                    }
                }
                Reaction::Fail => return Err(gave_up("commit", &failure.error, &patience)),
            }
            if stop.is_stopped() {
                return Ok(None);
            }
            patience.rest();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::time::Duration;

    use super::*;
    use crate::lane::SinkFailure;

    /// Answers as it was told.
    #[derive(Default)]
    struct Told {
        opened: VecDeque<Result<Option<String>, SinkFailure>>,
        commits: VecDeque<Result<(), SinkFailure>>,
        patience: Duration,
    }

    impl TransactionalSink for Told {
        fn open(&mut self, _: &[Place]) -> Result<Vec<Option<String>>, SinkFailure> {
            self.opened.pop_front().expect("an answer").map(|found| vec![found])
        }

        fn commit(
            &mut self,
            _: &Batch,
            _: &mut Output,
            _: &[(Place, String)],
        ) -> Result<Vec<RefusedRecord>, SinkFailure> {
            self.commits.pop_front().expect("an answer").map(|()| Vec::new())
        }

        fn patience(&self) -> Duration {
            self.patience
        }
    }

    fn again() -> SinkFailure {
        SinkFailure::Again("away".to_owned())
    }

    #[test]
    fn what_may_pass_is_tried_again_and_what_is_not_known_is_asked_for() {
        let (metrics, stop) = (Metrics::default(), Stop::new());
        let mut sink = Told { patience: Duration::from_secs(60), ..Told::default() };
        sink.opened = [Err(again()), Ok(None), Ok(Some("7".to_owned()))].into();
        sink.commits = [Err(again()), Ok(()), Err(SinkFailure::Unknown("lost".to_owned()))].into();
        let mut lane = SinkLane::new("s", &mut sink, ("file:x".into(), 0), &metrics);
        assert!(lane.start(&stop).expect("the second answer"));
        assert_eq!(lane.cursor(), None);
        let (batch, mut output) = (Batch::new(vec![String::new()]), Output::default());
        let mut commit = |cursor: &[u8]| lane.commit(&batch, &mut output, cursor.to_vec(), &stop);
        assert!(commit(b"5").expect("the second answer").is_some());
        assert!(commit(b"7").expect("it begins anew").is_none());
        assert!(matches!(commit(&[0xff]), Err(Error::Cursor { .. })));
        assert!(lane.start(&stop).expect("an answer"));
        assert_eq!(lane.cursor(), Some(&b"7"[..]));
        assert_eq!((metrics.snapshot().aborts, metrics.snapshot().restarts), (1, 1));
    }

    #[test]
    fn patience_ends_and_a_fenced_source_too() {
        let (metrics, stop) = (Metrics::default(), Stop::new());
        let commits = [Err(again()), Err(SinkFailure::Fenced("taken over".to_owned()))].into();
        let mut sink = Told { commits, opened: [Err(again())].into(), ..Told::default() };
        let mut lane = SinkLane::new("s", &mut sink, ("file:x".into(), 0), &metrics);
        assert!(matches!(lane.start(&stop), Err(Error::Sink { .. })));
        let (batch, mut output) = (Batch::new(vec![String::new()]), Output::default());
        let mut commit = || lane.commit(&batch, &mut output, b"5".to_vec(), &stop);
        assert!(matches!(commit(), Err(Error::Sink { reason, .. }) if reason == "away"));
        assert!(matches!(commit(), Err(Error::PositionsTaken { text }) if text.contains("taken over")));
    }
}
