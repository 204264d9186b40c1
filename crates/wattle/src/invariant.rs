//! Named invariants: one function each, which production code and tests call. They stay on in release builds, for a comparison or two a batch (W6: a
//! record, where another one waits). Where each is asserted, and which test shows that it fires: the table in docs/ARCHITECTURE.md.

use crate::kafka::{Offset, Position, TopicPartition};

/// W1: nothing is produced before the fence completes. What produces is there from the fence on.
///
/// # Panics
/// Where it is not: a bug in here, as of every function below.
pub(crate) fn w1_nothing_is_produced_before_the_fence<P: ?Sized>(fenced: Option<&mut P>) -> &mut P {
    fenced.expect("W1: nothing is produced before the fence")
}

/// W2: a restore ends at or past the changelog's high watermark that was read behind the fence and the stable positions.
pub(crate) fn w2_a_restore_reaches_the_high_watermark(reached: Position, high: i64) {
    assert!(reached.0 >= high, "W2: a restore ended at {reached}, before the high watermark {high}");
}

/// W3: outputs, changelog writes and positions of a batch share one transaction. Without positions the client would not show the group token to
/// the broker, and in scope `worker` that is all that keeps an older owner of a task from committing.
pub(crate) fn w3_a_transaction_has_positions(positions: &[(TopicPartition, Position)]) {
    assert!(!positions.is_empty(), "W3: a transaction without positions");
}

/// W4: the committed position never goes back …
pub(crate) fn w4_positions_never_go_back(committed: Position, next: Position) {
    assert!(next >= committed, "W4: position {next} would go back behind {committed}");
}

/// … and never passes an unprocessed record.
pub(crate) fn w4_no_position_passes_an_unprocessed_record(next: Position, unprocessed: Offset) {
    assert!(next <= Position(unprocessed.0), "W4: position {next} would pass the record at {unprocessed}");
}

/// W5: after a revocation is acknowledged, no transaction of its tasks commits: no permit for one of them is left.
pub(crate) fn w5_no_permit_outlives_a_revocation<'a>(revoked: &[i32], permitted: impl IntoIterator<Item = &'a i32>) {
    let left: Vec<_> = permitted.into_iter().filter(|task| revoked.contains(task)).collect();
    assert!(left.is_empty(), "W5: tasks {left:?} are given back and may still commit");
}

/// W6: records of one task and state key run one after another.
pub(crate) fn w6_records_of_a_key_run_serially<K: PartialEq>(key: &K, mut running: impl Iterator<Item = K>) {
    assert!(running.all(|other| other != *key), "W6: two records of a key at once");
}

/// W7: a restored state is the fold of the committed changelog records: the newest value of each key, nothing of a deleted one.
#[cfg(any(test, fuzzing))]
pub(crate) fn w7_a_restored_state_is_the_fold_of_its_changelog(
    restored: &dyn crate::state::Store,
    records: &[(&[u8], Option<&[u8]>)],
) {
    let mut newest = std::collections::BTreeMap::new();
    for (key, value) in records.iter().filter(|(key, _)| crate::state::is_state_key(key)) {
        newest.insert(*key, value.filter(|value| !value.is_empty()));
    }
    for (key, _) in records {
        let kept = restored.get(key).expect("it can be read");
        assert_eq!(kept.as_deref(), newest.get(key).copied().flatten(), "W7: the newest value counts");
    }
    let states = newest.iter().filter(|(key, value)| value.is_some() && !crate::state::is_reserved(key)).count();
    assert_eq!(restored.keys().expect("it can be read"), states, "W7: keys that have a state");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lane::fold;

    #[test]
    #[should_panic(expected = "W1")]
    fn a_producer_that_has_not_fenced_is_caught() {
        w1_nothing_is_produced_before_the_fence(None::<&mut ()>);
    }

    #[test]
    #[should_panic(expected = "W2")]
    fn a_restore_that_ends_early_is_caught() {
        w2_a_restore_reaches_the_high_watermark(Position(7), 7);
        w2_a_restore_reaches_the_high_watermark(Position(6), 7);
    }

    #[test]
    #[should_panic(expected = "W3")]
    fn a_transaction_without_positions_is_caught() {
        w3_a_transaction_has_positions(&[]);
    }

    #[test]
    #[should_panic(expected = "W4")]
    fn a_position_that_goes_back_is_caught() {
        w4_positions_never_go_back(Position(7), Position(7));
        w4_positions_never_go_back(Position(7), Position(6));
    }

    #[test]
    #[should_panic(expected = "W4")]
    fn a_position_that_passes_a_record_is_caught() {
        w4_no_position_passes_an_unprocessed_record(Position(7), Offset(7));
        w4_no_position_passes_an_unprocessed_record(Position(8), Offset(7));
    }

    #[test]
    #[should_panic(expected = "W5")]
    fn a_permit_that_outlives_a_revocation_is_caught() {
        w5_no_permit_outlives_a_revocation(&[1, 2], &[3]);
        w5_no_permit_outlives_a_revocation(&[1, 2], &[3, 2]);
    }

    #[test]
    #[should_panic(expected = "W6")]
    fn two_records_of_a_key_at_once_are_caught() {
        w6_records_of_a_key_run_serially(&(0, "a"), [(0, "b"), (1, "a")].into_iter());
        w6_records_of_a_key_run_serially(&(0, "a"), [(0, "b"), (0, "a")].into_iter());
    }

    #[test]
    #[should_panic(expected = "W7: the newest value")]
    fn a_state_that_is_not_the_newest_is_caught() {
        let log: [(&[u8], Option<&[u8]>); 3] = [(b"a", Some(b"1")), (b"a", Some(b"2")), (b"b", None)];
        w7_a_restored_state_is_the_fold_of_its_changelog(&*fold(log), &log);
        w7_a_restored_state_is_the_fold_of_its_changelog(&*fold(log), &log[..1]);
    }

    #[test]
    #[should_panic(expected = "W7: keys")]
    fn a_state_that_nobody_has_written_is_caught() {
        let log: [(&[u8], Option<&[u8]>); 2] = [(b"a", Some(b"1")), (b"b", Some(b"1"))];
        w7_a_restored_state_is_the_fold_of_its_changelog(&*fold(log), &log[..1]);
    }

    /// The table of the architecture page names every function, and no other.
    #[test]
    fn every_invariant_is_in_the_table() {
        let code = include_str!("invariant.rs").split("mod tests").next().unwrap_or_default();
        let named: Vec<_> = code.lines().filter_map(|line| line.strip_prefix("pub(crate) fn ")).collect();
        let named: Vec<_> = named.iter().filter_map(|line| line.split(['<', '(']).next()).collect();
        let table = include_str!("../../../docs/ARCHITECTURE.md");
        let missing: Vec<_> = named.iter().filter(|name| !table.contains(&format!("`{name}`"))).collect();
        assert!(named.len() == 8 && missing.is_empty(), "{} functions, missing {missing:?}", named.len());
    }
}
