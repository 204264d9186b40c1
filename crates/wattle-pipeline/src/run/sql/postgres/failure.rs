//! What an error of PostgreSQL means: that of a row, one that may pass, or one for good.

use std::collections::BTreeMap;
use std::error::Error as _;

use tokio_postgres::error::{DbError, SqlState};
use wattle::{Error, SinkFailure};

use crate::chain::mask;
use crate::spec::SqlOutput;

pub(super) enum Failed {
    /// Rows of these sources, each for its reason.
    Rows(BTreeMap<usize, String>),
    Sink(SinkFailure),
}

impl Failed {
    /// Of a call that writes no rows.
    pub(super) fn into_sink(self) -> SinkFailure {
        match self {
            Failed::Sink(failure) => failure,
            Failed::Rows(_) => unreachable!("no rows were written"),
        }
    }
}

pub(super) const LATE: &str = "the database has not answered within 30 s";

/// Of whatever comes before the answer to `COMMIT`: nothing is committed, and the transaction ends with its connection at the latest.
pub(super) fn failure(what: &str, output: &SqlOutput, error: &tokio_postgres::Error) -> Failed {
    let text = text(what, output, error);
    let passes = match error.as_db_error() {
        Some(refused) => may_pass(refused.code()),
        // Without an answer the connection is at fault, unless it is the client's own use of it.
        None => {
            error.is_closed() || error.source().is_some_and(|source| source.is::<std::io::Error>()) || is_timeout(error)
        }
    };
    Failed::Sink(if passes { SinkFailure::Again(text) } else { SinkFailure::Fatal(Error::Unfit { text }) })
}

fn is_timeout(error: &tokio_postgres::Error) -> bool {
    error.to_string().contains("timeout") || error.to_string().contains("timed out")
}

/// Says what failed, where and why; contents of rows that a message quotes are left out.
pub(super) fn text(what: &str, output: &SqlOutput, error: &tokio_postgres::Error) -> String {
    let database = output.database_name();
    let Some(refused) = error.as_db_error() else {
        let mut text = format!("{database}: {what}: {error}");
        let mut source = error.source();
        while let Some(cause) = source {
            let cause_text = cause.to_string();
            if !text.contains(&cause_text) {
                text = format!("{text}: {cause_text}");
            }
            source = cause.source();
        }
        return text;
    };
    format!("{database}: {what}: {} ({})", refused.message(), refused.code().code())
}

/// Whether another row would have been taken: data (22), constraints (23), limits of a row (54), and what a trigger has raised (P0).
pub(super) fn is_of_the_row(code: &SqlState) -> bool {
    ["22", "23", "54", "P0"].iter().any(|class| code.code().starts_with(class))
}

/// Whether a `COMMIT` that fails so has not happened: over a deferred constraint (23), or for others' sake (40). A server that goes down may have
/// committed before.
pub(super) fn is_rolled_back(code: &SqlState) -> bool {
    code.code().starts_with("23") || code.code().starts_with("40")
}

pub(super) fn reason(refused: &DbError) -> String {
    // Those of constraints quote names, others may quote values.
    let message = refused.message();
    let message = if refused.code().code().starts_with("23") { message.to_owned() } else { mask(message) };
    let column = refused.column().filter(|column| !message.contains(column));
    let column = column.map(|column| format!(" (column {column})")).unwrap_or_default();
    format!("the database refuses the row: {message}{column}")
}

/// The server is away, starts or stops (08, 57), has no room (53), has rolled back for others' sake (40), has not got a lock in time (55P03), or is a standby
/// that may be promoted (25006); the client was idle for too long (25P03).
fn may_pass(code: &SqlState) -> bool {
    let code = code.code();
    ["08", "57", "53", "40"].iter().any(|class| code.starts_with(class)) || ["55P03", "25006", "25P03"].contains(&code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_says_whether_the_row_the_moment_or_the_table_is_at_fault() {
        for code in ["22003", "22P02", "23502", "23505", "54000", "P0001"] {
            assert!(is_of_the_row(&SqlState::from_code(code)), "{code}");
        }
        for code in ["57P01", "57014", "08006", "53300", "40P01", "55P03", "25006"] {
            let code = SqlState::from_code(code);
            assert!(may_pass(&code) && !is_of_the_row(&code), "{code:?}");
        }
        for code in ["42501", "42703", "28P01", "3D000", "42P01"] {
            let code = SqlState::from_code(code);
            assert!(!may_pass(&code) && !is_of_the_row(&code), "{code:?}");
        }
    }
}
