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
    /// The output that the broker refused, where it was one.
    pub(crate) refused: Option<Refused>,
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
}

impl Failure {
    pub(super) fn refusal(code: Code, refused: Refused) -> Self {
        Failure { error: Error::of(code), refused: Some(refused), outcome_unknown: false }
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
        Failure { error, refused: None, outcome_unknown: false }
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
    pub(super) worst: Option<(Code, Refused)>,
    /// Index of the first output that is a change of a state.
    logged_from: usize,
    /// Behind the last change of a state that the changelog has.
    pub(super) ends: Ends,
}

impl Deliveries {
    /// None yet of these.
    pub(super) fn of(output: &Output) -> Self {
        Deliveries { worst: None, logged_from: output.logged_from(), ends: Ends::new() }
    }

    /// Takes note of one.
    pub(super) fn add(&mut self, report: &Report) {
        let Report { opaque: index, partition, offset, bytes, failure } = *report;
        if let Some(code) = failure {
            self.refused(code, Refused { index, partition, bytes });
        } else if index >= self.logged_from && offset >= 0 {
            // It is not known of a record that was sent again after its first copy had arrived.
            let end = self.ends.entry(partition).or_insert(Position(0));
            *end = (*end).max(Offset(offset).next());
        }
    }

    /// A refusal that is not the consequence of another failure.
    pub(super) fn definite(&self) -> Option<Failure> {
        let (code, refused) = self.worst.clone()?;
        Some(Failure::refusal(code, refused)).filter(|failure| !failure.is_consequence())
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
        if replace {
            self.worst = Some((code, refused));
        }
    }
}

/// Thrown away by the client, since something else failed before.
pub(super) fn is_purged(code: Code) -> bool {
    matches!(code, Code::PurgeQueue | Code::PurgeInflight)
}
