//! The lane of a source whose outputs go to a sink with transactions: the cursor is among the positions that the sink keeps.

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

    /// Takes the cursor over. Returns false if `stop` came first.
    pub(crate) fn start(&mut self, stop: &Stop) -> Result<bool, Error> {
        let places = std::slice::from_ref(&self.place);
        let Some(found) = open_sink(self.sink, self.name, places, || !stop.is_stopped())? else { return Ok(false) };
        self.found = found.into_iter().next().flatten();
        Ok(true)
    }

    /// Where the source goes on; `None` at its beginning.
    pub(crate) fn cursor(&self) -> Option<&[u8]> {
        self.found.as_deref().map(str::as_bytes)
    }

    /// Commits the outputs with the cursor behind them, again and again while that may help. `None`: the lane has to start again, and what is committed
    /// is in the cursor that it finds then. There is no group to ask whose turn it is: whoever was started last goes on, and this one ends.
    pub(crate) fn commit(
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
                Reaction::Fail => return Err(gave_up(self.name, "commit", &failure.error, &patience)),
            }
            if stop.is_stopped() {
                return Ok(None);
            }
            patience.rest();
        }
    }
}
