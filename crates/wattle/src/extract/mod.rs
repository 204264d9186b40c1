//! Sources that are not topics, exactly once: their position is a cursor in a changelog topic, on the cluster of the outputs.

mod cursor;
mod lane;
mod other_cluster;
mod sink_lane;
mod target;

pub use cursor::CursorName;
pub use lane::SourceConfig;
pub(crate) use lane::SourceLane;
pub use other_cluster::OtherCluster;
pub(crate) use sink_lane::SinkLane;

use crate::error::Error;
use crate::kafka::Batch;
use crate::lane::RefusedRecord;
use crate::stage::Output;
use crate::worker::Stop;

/// Where the outputs of a source go in transactions that have its cursor in them.
pub(crate) trait CursorLane {
    /// Fences, then finds the cursor. Returns false if `stop` came first.
    fn start(&mut self, stop: &Stop) -> Result<bool, Error>;

    /// Where the source goes on; `None` at its beginning.
    fn cursor(&self) -> Option<&[u8]>;

    /// Commits the outputs with the cursor behind them, again and again from memory while that may help; returns the records that were refused there
    /// and went elsewhere. `None`: the lane has to start again, and what is committed is in the cursor that it finds then.
    fn commit(
        &mut self,
        batch: &Batch,
        output: &mut Output,
        cursor: Vec<u8>,
        stop: &Stop,
    ) -> Result<Option<Vec<RefusedRecord>>, Error>;
}
