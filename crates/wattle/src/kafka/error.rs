//! What a Kafka error means: one verdict for each code, each with its reason.

use rdkafka::error::{KafkaError, RDKafkaErrorCode as Code};

/// An error of the Kafka client, of a broker, or of a sink in their place.
#[derive(Clone, Debug, thiserror::Error)]
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

/// What librdkafka adds to an error of a transactional call.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Flags {
    pub(crate) abortable: bool,
    pub(crate) retriable: bool,
}

impl Error {
    pub(crate) fn new(code: Code, text: String, flags: Flags) -> Self {
        Error { text, code: Some(code), verdict: verdict(code, flags) }
    }

    /// An error by its code alone.
    pub(crate) fn of(code: Code) -> Self {
        Self::new(code, code.to_string(), Flags::default())
    }

    /// One that the client reported without a code.
    pub(crate) fn text(text: impl Into<String>) -> Self {
        Error { text: text.into(), code: None, verdict: Verdict::Crash }
    }

    /// What a sink with transactions of its own says where somebody else has taken its positions.
    pub(crate) fn fenced(text: impl Into<String>) -> Self {
        Self::new(Code::Fenced, text.into(), Flags::default())
    }

    /// What such a sink says of a transaction that may succeed another time.
    pub(crate) fn abortable(text: impl Into<String>) -> Self {
        Error { text: text.into(), code: None, verdict: Verdict::AbortBatch }
    }

    /// What it says about the lane that met it.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        self.verdict
    }

    pub(crate) fn code(&self) -> Option<Code> {
        self.code
    }

    /// Whether another producer, or the broker after a timeout, raised the epoch of the transactional id.
    pub(crate) fn is_fenced(&self) -> bool {
        matches!(self.code, Some(Code::Fenced | Code::ProducerFenced | Code::InvalidProducerEpoch))
    }

    /// Whether the fetch position is not among the partition's records.
    pub(crate) fn is_out_of_range(&self) -> bool {
        matches!(self.code, Some(Code::AutoOffsetReset | Code::OffsetOutOfRange))
    }

    /// Whether the same question may be answered a moment later.
    pub(crate) fn is_transient(&self) -> bool {
        let code = self.code;
        self.verdict == Verdict::Retry
            || matches!(
                code,
                Some(
                    Code::NotLeaderForPartition
                        | Code::UnknownPartition
                        | Code::LeaderNotAvailable
                        | Code::OffsetNotAvailable
                        | Code::BrokerTransportFailure
                        | Code::AllBrokersDown
                )
            )
    }

    /// Whether the same question may be answered a little later.
    pub(crate) fn is_not_now(&self) -> bool {
        self.is_timeout() || self.is_transient() || self.verdict == Verdict::Retry
    }

    pub(crate) fn is_timeout(&self) -> bool {
        let timeouts =
            [Code::OperationTimedOut, Code::RequestTimedOut, Code::TimedOutQueue, Code::WaitingForCoordinator];
        self.code.is_some_and(|code| timeouts.contains(&code))
    }
}

impl From<KafkaError> for Error {
    fn from(error: KafkaError) -> Self {
        match &error {
            KafkaError::Transaction(inner) => {
                let flags = Flags { abortable: inner.txn_requires_abort(), retriable: inner.is_retriable() };
                Error::new(inner.code(), inner.string(), flags)
            }
            _ => match error.rdkafka_error_code() {
                Some(code) => Error::of(code),
                None => Error::text(error.to_string()),
            },
        }
    }
}

/// One arm for each group of codes. Where librdkafka's flags and a code disagree, the code wins: the flags say what the
/// handle can do next, not whether doing it again can help.
fn verdict(code: Code, flags: Flags) -> Verdict {
    match code {
        // The epoch was raised: by another producer with this id, or by the coordinator when our transaction expired. Whoever
        // did it, this handle can write no more.
        Code::Fenced | Code::ProducerFenced | Code::InvalidProducerEpoch => Verdict::RestartLane,
        // The broker forgot or contradicts what the handle believes about its own past; only a new epoch clears that.
        Code::UnknownProducerId
        | Code::InvalidProducerIdMapping
        | Code::OutOfOrderSequenceNumber
        | Code::DuplicateSequenceNumber
        | Code::InvalidTransactionalState => Verdict::RestartLane,
        // No amount of repeating changes what the broker's operator has decided.
        Code::TopicAuthorizationFailed
        | Code::GroupAuthorizationFailed
        | Code::ClusterAuthorizationFailed
        | Code::TransactionalIdAuthorizationFailed
        | Code::SaslAuthenticationFailed
        | Code::PolicyViolation
        | Code::UnsupportedVersion
        | Code::OffsetMetadataTooLarge
        | Code::UnsupportedForMessageFormat
        | Code::InvalidTransactionTimeout => Verdict::Crash,
        // The record itself is refused; the same record would be refused again.
        Code::MessageSizeTooLarge
        | Code::InvalidMessageSize
        | Code::InvalidRecord
        | Code::InvalidMessage
        | Code::InvalidTimestamp => Verdict::Crash,
        // The topic is gone, or its partition is: nothing in here brings it back.
        Code::UnknownTopic | Code::UnknownPartition | Code::UnknownTopicOrPartition | Code::InvalidTopic => {
            Verdict::Crash
        }
        // Another process uses our group.instance.id.
        Code::FencedInstanceId => Verdict::Crash,
        // The group token is from before a rebalance. Whether the task is still ours decides what follows.
        Code::IllegalGeneration | Code::UnknownMemberId | Code::RebalanceInProgress | Code::StaleMemberEpoch => {
            Verdict::AbortBatch
        }
        // A broker or the coordinator is away or not ready; it will come back, or the caller's patience ends. A request may also have
        // waited in the client for its connection until its time was over.
        Code::RequestTimedOut
        | Code::TimedOutQueue
        | Code::OperationTimedOut
        | Code::WaitingForCoordinator
        | Code::CoordinatorNotAvailable
        | Code::CoordinatorLoadInProgress
        | Code::NotCoordinator
        | Code::NetworkException
            if !flags.abortable =>
        {
            Verdict::Retry
        }
        // librdkafka knows its own state best: abort, then go on.
        _ if flags.abortable => Verdict::AbortBatch,
        _ if flags.retriable => Verdict::Retry,
        // A delivery that did not happen in time, or was given up with its transaction: the batch is incomplete.
        Code::MessageTimedOut | Code::PurgeQueue | Code::PurgeInflight | Code::BrokerTransportFailure => {
            Verdict::AbortBatch
        }
        // A handle in a fatal state for a reason that we do not know, and every unknown code.
        _ => Verdict::Crash,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fenced_handle_restarts_even_if_flagged_abortable() {
        let flags = Flags { abortable: true, ..Flags::default() };
        assert_eq!(verdict(Code::ProducerFenced, flags), Verdict::RestartLane);
    }

    #[test]
    fn a_refused_record_is_not_tried_again_even_if_abortable() {
        let flags = Flags { abortable: true, ..Flags::default() };
        assert_eq!(verdict(Code::MessageSizeTooLarge, flags), Verdict::Crash);
    }

    #[test]
    fn a_request_that_was_never_sent_in_time_is_a_timeout() {
        let error = Error::of(Code::TimedOutQueue);
        assert!(error.is_timeout() && error.verdict == Verdict::Retry);
    }

    #[test]
    fn an_unknown_code_crashes() {
        assert_eq!(verdict(Code::Unknown, Flags::default()), Verdict::Crash);
    }
}
