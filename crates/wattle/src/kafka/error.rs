//! What a Kafka error means: one verdict for each code, each with its reason.

use rdkafka::error::RDKafkaErrorCode as Code;

/// An error of the Kafka client or of a broker.
#[derive(Debug, thiserror::Error)]
#[error("{text}")]
pub struct Error {
    text: String,
    code: Option<Code>,
    verdict: Verdict,
}

/// What an error says about the lane that met it. How to react is the lane's business.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// This transaction cannot commit; the producer is sound. The same records may run again.
    AbortBatch,
    /// The producer handle is unusable. A new one, fenced anew, may go on from the committed positions.
    RestartLane,
    /// The call may be repeated as it is; its outcome is not known yet.
    Retry,
    /// Nothing in here knows a remedy.
    Crash,
}
