//! Named invariants: one function each, cited by code and tests. They stay on in release builds.

use crate::kafka::{Position, TopicPartition};

/// W3: outputs and positions of a batch share one transaction. Without positions the client would not show the group token to the broker,
/// and in scope `worker` that is all that keeps an older owner of a task from committing.
///
/// # Panics
/// Where there are none: a bug in here.
pub(crate) fn w3_a_transaction_has_positions(positions: &[(TopicPartition, Position)]) {
    assert!(!positions.is_empty(), "W3: a transaction without positions");
}

/// W4: the committed position never goes back.
///
/// # Panics
/// Where it would: a bug in here, better found before anything is processed twice.
pub(crate) fn w4_positions_never_go_back(committed: Position, next: Position) {
    assert!(next >= committed, "W4: position {next} would go back behind {committed}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "W4")]
    fn a_position_that_goes_back_is_caught() {
        w4_positions_never_go_back(Position(7), Position(6));
    }
}
