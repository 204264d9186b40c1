//! One transactional producer and the tasks that commit together on it.

mod sink;

pub use sink::{KafkaSink, KafkaSinkConfig, Sink};
