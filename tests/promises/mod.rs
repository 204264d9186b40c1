//! One module a promise. A test's name is the promise's sentence.

use crate::harness::room::Room;

/// A test.
pub(crate) type Promise = fn(&Room);

/// Declares the modules and lists their tests.
macro_rules! promises {
    ($($module:ident: $($name:ident),+;)+) => {
        $(mod $module;)+

        /// Module, name and body of each test.
        pub(crate) fn all() -> Vec<(&'static str, &'static str, Promise)> {
            vec![$($((stringify!($module), stringify!($name), $module::$name as Promise)),+),+]
        }
    };
}

promises! {
    oracle:
        the_ledger_sees_missing_doubled_and_overtaken_records,
        open_and_aborted_transactions_are_seen,
        the_proxy_holds_what_it_is_told_to_hold;
    atomic:
        a_reader_never_sees_part_of_a_batch,
        an_aborted_batch_is_never_visible,
        outputs_and_positions_are_written_by_one_transaction;
}
