//! Timers of a key: set by a stage, kept with its state.

/// The time that a timer goes by, in milliseconds since 1970-01-01T00:00:00Z.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Clock {
    /// The largest timestamp of a task's records so far. It stands still where no records come, and is the same however often they are
    /// processed. It is remembered over restarts while timers of it are set.
    Stream,
    /// The time of the machine. Its timers fire also where no records come.
    Wall,
}

/// A timer that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timer<'a> {
    /// The partition's number.
    pub task: i32,
    /// The state key that it was set for.
    pub key: &'a [u8],
    /// The name that it was set with.
    pub name: &'a str,
    /// The time that it goes by.
    pub clock: Clock,
    /// The time that it was set to. It fires then or later.
    pub at: i64,
}

/// How long a state is kept that no record sets again; see [`StatefulTransformer::time_to_live`](crate::StatefulTransformer::time_to_live).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeToLive {
    /// So long.
    pub after: std::time::Duration,
    /// By this time.
    pub clock: Clock,
}

/// A timer to be set, or to be cleared.
#[derive(Clone, Debug)]
pub(crate) struct SetTimer {
    pub(crate) clock: Clock,
    pub(crate) name: String,
    pub(crate) at: Option<i64>,
}
