//! The timers of a task: records of its state under reserved keys, and an index of them by time and by key. The index is that of the batch in
//! hand, as far as it has come; [`TaskStates`](super::TaskStates) takes it back where the batch is not committed.

use std::collections::{BTreeMap, BTreeSet};

use crate::stage::Clock;

/// What begins the key of a timer. The clock, its name, a zero byte and the state key follow; the value is the time.
pub(crate) const TIMERS: &[u8] = b"\0wattle.timer\0";
/// Most bytes of a timer's name.
pub(crate) const MAX_NAME: usize = 255;
/// The key of a timer is so much longer than its state key, at most.
pub(super) const OVERHEAD: usize = TIMERS.len() + 1 + MAX_NAME + 1;
/// The key of the stream's time.
pub(crate) const TIME: &[u8] = b"\0wattle.timer\0n";

#[derive(Debug, Default)]
pub(crate) struct Timers {
    by_time: BTreeSet<(Clock, i64, Box<[u8]>)>,
    /// State key, clock and name.
    by_key: BTreeMap<(Box<[u8]>, Clock, String), i64>,
}

/// A timer that is due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Due {
    pub(crate) clock: Clock,
    pub(crate) name: String,
    pub(crate) key: Box<[u8]>,
    pub(crate) at: i64,
}

impl Due {
    /// Its key in the state.
    pub(crate) fn stored(&self) -> Vec<u8> {
        stored(self.clock, &self.name, &self.key)
    }
}

pub(crate) fn stored(clock: Clock, name: &str, key: &[u8]) -> Vec<u8> {
    let clock = match clock {
        Clock::Stream => b's',
        Clock::Wall => b'w',
    };
    [TIMERS, &[clock], name.as_bytes(), b"\0", key].concat()
}

/// The time in a timer's value.
pub(crate) fn time(value: &[u8]) -> Option<i64> {
    std::str::from_utf8(value).ok()?.parse().ok()
}

fn parse(stored: &[u8]) -> Option<(Clock, &str, &[u8])> {
    let (clock, rest) = stored.strip_prefix(TIMERS)?.split_first()?;
    let clock = match clock {
        b's' => Clock::Stream,
        b'w' => Clock::Wall,
        _ => return None,
    };
    let end = rest.iter().position(|byte| *byte == 0)?;
    Some((clock, std::str::from_utf8(&rest[..end]).ok()?, &rest[end + 1..]))
}

impl Timers {
    /// Sets the timer of this stored key to the time in `value`; `None` clears it.
    pub(super) fn set(&mut self, stored: &[u8], value: Option<&[u8]>) {
        let Some((clock, name, key)) = parse(stored) else { return };
        let place = (key.into(), clock, name.to_owned());
        if let Some(at) = self.by_key.remove(&place) {
            self.by_time.remove(&(clock, at, stored.into()));
        }
        if let Some(at) = value.and_then(time) {
            self.by_time.insert((clock, at, stored.into()));
            self.by_key.insert(place, at);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_time.is_empty()
    }

    pub(super) fn has(&self, clock: Clock) -> bool {
        self.next(clock).is_some()
    }

    /// The earliest time of a clock.
    pub(super) fn next(&self, clock: Clock) -> Option<i64> {
        let first = (clock, i64::MIN, Box::default());
        self.by_time.range(first..).next().filter(|(of, ..)| *of == clock).map(|(_, at, _)| *at)
    }

    /// The earliest timer of a key that is due at this time of the stream.
    pub(super) fn due_of(&self, key: &[u8], now: i64) -> Option<Due> {
        let first = (key.into(), Clock::Stream, String::new());
        let of_key =
            self.by_key.range(first..).take_while(|((of, clock, _), _)| **of == *key && *clock == Clock::Stream);
        let ((key, clock, name), at) = of_key.filter(|(_, at)| **at <= now).min_by_key(|(_, at)| **at)?;
        Some(Due { clock: *clock, name: name.clone(), key: key.clone(), at: *at })
    }

    /// Those that are due at this time of a clock, the earliest first.
    pub(super) fn due(&self, clock: Clock, now: i64) -> impl Iterator<Item = Due> {
        let first = (clock, i64::MIN, Box::default());
        let due = self.by_time.range(first..).take_while(move |(of, at, _)| *of == clock && *at <= now);
        due.filter_map(|(clock, at, stored)| {
            let (_, name, key) = parse(stored)?;
            Some(Due { clock: *clock, name: name.to_owned(), key: key.into(), at: *at })
        })
    }

    /// Those of a key.
    pub(super) fn of(&self, key: &[u8]) -> Vec<(Clock, String, i64)> {
        let of_key = self.by_key.iter().filter(|((of, ..), _)| **of == *key);
        of_key.map(|((_, clock, name), at)| (*clock, name.clone(), *at)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timers_are_due_in_the_order_of_their_times_and_of_their_key_alone() {
        let mut timers = Timers::default();
        for (clock, name, key, at) in [
            (Clock::Stream, "a", "k", "30"),
            (Clock::Stream, "b", "k", "10"),
            (Clock::Stream, "a", "kk", "5"),
            (Clock::Wall, "a", "k", "-7"),
        ] {
            timers.set(&stored(clock, name, key.as_bytes()), Some(at.as_bytes()));
        }
        let names: Vec<_> = timers.due(Clock::Stream, 30).map(|due| (due.name, due.at)).collect();
        assert_eq!(names, [("a".to_owned(), 5), ("b".to_owned(), 10), ("a".to_owned(), 30)]);
        assert_eq!(timers.due_of(b"k", 29).map(|due| due.at), Some(10));
        assert_eq!((timers.due_of(b"k", 9), timers.next(Clock::Wall)), (None, Some(-7)));
        timers.set(&stored(Clock::Stream, "b", b"k"), Some(b"40"));
        timers.set(&stored(Clock::Wall, "a", b"k"), None);
        assert_eq!((timers.due_of(b"k", 29), timers.has(Clock::Wall)), (None, false));
    }
}
