//! Exactly-once stream processing on Kafka.
//!
//! A [`Worker`] reads topics, runs a [`Transformer`] over their records, and writes what it emits. Outputs and positions
//! commit in one Kafka transaction, for each input partition or for all of a worker's. The principle: *the position travels with the data*.
//!
//! # Layout
//! The data path, in the order in which a record takes it:
//! `worker` (the consumer, its assignment) → `lane` (one producer and the tasks that commit together: fence, transaction,
//! commit) → `task` (positions, processing) → `stage` (what a user writes). `kafka` is the only place that touches
//! librdkafka. A [`Source`] that is not a topic takes a shorter way, and `extract` keeps its position.

mod app;
mod application;
mod cluster;
mod config;
mod error;
mod extract;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzzing;
mod invariant;
pub mod kafka;
mod lane;
mod metrics;
mod source;
mod stage;
mod state;
mod task;
pub mod testing;
mod worker;

pub use app::{App, AppBuilder};
pub use application::{Application, ChangelogView, Inspection, LocalState, LocalTask, MemberView, PositionView};
pub use cluster::{ClusterView, Ping};
pub use config::{
    BatchLimits, ClientProperties, ClientRole, Compression, Delivery, GroupProtocol, SinkFactory, StartFrom,
    TransactionScope, WorkerConfig, instance_problem, owned_property, property_problem, protocol_problem,
    topic_problem,
};
pub use error::{Error, Exit, LogTrouble, Unanswered};
pub use extract::{CursorName, OtherCluster, SourceConfig};
pub use kafka::{Batch, Header, Offset, Position, Record, Rights};
pub use lane::{
    KafkaSink, KafkaSinkConfig, Place, RefusedRecord, Sink, SinkFailure, TransactionalSink, TransactionalSinkFactory,
};
pub use metrics::{Metrics, Snapshot};
pub use source::{Fill, Resume, Source, run_source, run_source_exactly_once, run_source_into};
pub use stage::{
    Clock, Codec, FlechtwerkJson, FnTransformer, Invalid, Message, Next, OnInvalid, Output, Part, Raw, Sent,
    StageError, Stateful, StatefulTransformer, TimeToLive, Timer, Transformer, transformer,
};
pub use task::gather::{Gather, GroupFormat};
pub use task::{dead_letter, failed_record};
pub use worker::{Lag, Membership, Monitor, PartitionLag, Restore, States, Stop, Worker};
