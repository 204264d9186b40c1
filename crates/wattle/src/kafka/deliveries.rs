//! What becomes of outputs that were sent: refusals, of which one explains most, and places in the changelog.

use rdkafka::error::{KafkaError, RDKafkaErrorCode as Code};

use super::error::Error;
use super::ffi::Report;
use super::position::{Offset, Position};
use crate::stage::Output;
use crate::state::Ends;

/// Why a set of outputs was not delivered or committed.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) error: Error,
    /// The outputs that the broker refused, where it was some: the first one explains most, and the others are too large as well.
    pub(crate) refused: Vec<Refused>,
    /// The commit may or may not have happened.
    pub(crate) outcome_unknown: bool,
}

/// An output that was not delivered.
#[derive(Clone, Debug)]
pub(crate) struct Refused {
    /// Its index in the [`Output`].
    pub(crate) index: usize,
    pub(crate) partition: i32,
    /// Key and value.
    pub(crate) bytes: usize,
    /// Outputs of more bytes of key, value and headers are record batches by themselves, so that a refusal is about them alone.
    pub(crate) alone_above: usize,
}

impl Failure {
    pub(super) fn refusal(code: Code, refused: Vec<Refused>) -> Self {
        Failure { error: Error::of(code), refused, outcome_unknown: false }
    }

    /// Whether it only says that something else failed before.
    pub(super) fn is_consequence(&self) -> bool {
        let code = self.error.code();
        matches!(
            code,
            Some(
                Code::PurgeQueue
                    | Code::PurgeInflight
                    | Code::InvalidDifferentRecord
                    | Code::MessageTimedOut
                    | Code::State
                    | Code::Fatal
            )
        )
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Failure { error, refused: Vec::new(), outcome_unknown: false }
    }
}

impl From<KafkaError> for Failure {
    fn from(error: KafkaError) -> Self {
        Error::from(error).into()
    }
}

/// What the delivery reports of a set of outputs have told.
pub(super) struct Deliveries {
    /// Of all refusals the one that explains most.
    worst: Option<(Code, Refused)>,
    /// Those for the size.
    large: Vec<Refused>,
    /// See [`Refused`].
    alone_above: usize,
    /// Index of the first output that is a change of a state.
    logged_from: usize,
    /// Behind the last change of a state that the changelog has.
    pub(super) ends: Ends,
}

impl Deliveries {
    /// None yet of these.
    pub(super) fn of(output: &Output, alone_above: usize) -> Self {
        let logged_from = output.logged_from();
        Deliveries { worst: None, large: Vec::new(), alone_above, logged_from, ends: Ends::new() }
    }

    /// Takes note of one.
    pub(super) fn add(&mut self, report: &Report) {
        let Report { opaque: index, partition, offset, bytes, failure } = *report;
        if let Some(code) = failure {
            self.refused(code, Refused { index, partition, bytes, alone_above: self.alone_above });
        } else if index >= self.logged_from && offset >= 0 {
            // It is not known of a record that was sent again after its first copy had arrived.
            let end = self.ends.entry(partition).or_insert(Position(0));
            *end = (*end).max(Offset(offset).next());
        }
    }

    /// A refusal that is not the consequence of another failure.
    pub(super) fn definite(&self) -> Option<Failure> {
        self.failure().filter(|failure| !failure.is_consequence())
    }

    /// Whether nothing worse was told than that records are too large.
    pub(super) fn are_too_large(&self) -> bool {
        matches!(self.worst, Some((Code::MessageSizeTooLarge, _)))
    }

    /// Why not everything was delivered.
    pub(super) fn failure(&self) -> Option<Failure> {
        let (code, worst) = self.worst.clone()?;
        let others = self.large.iter().filter(|large| large.index != worst.index && code == Code::MessageSizeTooLarge);
        Some(Failure::refusal(code, [worst.clone()].into_iter().chain(others.cloned()).collect()))
    }

    fn refused(&mut self, code: Code, refused: Refused) {
        // What was purged, or was refused for a neighbour in its batch, failed because of another. Of a batch refused for its size
        // the largest record is the likely cause.
        let purged = |code| is_purged(code) || code == Code::InvalidDifferentRecord;
        let replace = match &self.worst {
            None => true,
            Some((worst, _)) if purged(*worst) != purged(code) => purged(*worst),
            Some((_, worst)) => code == Code::MessageSizeTooLarge && refused.bytes > worst.bytes,
        };
        if code == Code::MessageSizeTooLarge {
            self.large.push(refused.clone());
        }
        if replace {
            self.worst = Some((code, refused));
        }
    }
}

/// Thrown away by the client, since something else failed before.
pub(super) fn is_purged(code: Code) -> bool {
    matches!(code, Code::PurgeQueue | Code::PurgeInflight)
}
