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
