//! Numbers, durations and times as people read them, and colours where they are wanted.

use std::io::IsTerminal;
use std::time::Duration;

/// Colours, or none.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Style {
    on: bool,
}

impl Style {
    /// Colours for stderr: only on a terminal, and never against the user's `NO_COLOR`.
    pub(crate) fn for_stderr() -> Self {
        let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
            || std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        Style { on: !refused && std::io::stderr().is_terminal() }
    }

    pub(crate) fn plain() -> Self {
        Style { on: false }
    }

    pub(crate) fn bold(self, text: &str) -> String {
        self.paint("1", text)
    }

    pub(crate) fn dim(self, text: &str) -> String {
        self.paint("2", text)
    }

    pub(crate) fn red(self, text: &str) -> String {
        self.paint("31", text)
    }

    pub(crate) fn green(self, text: &str) -> String {
        self.paint("32", text)
    }

    pub(crate) fn yellow(self, text: &str) -> String {
        self.paint("33", text)
    }

    fn paint(self, code: &str, text: &str) -> String {
        if self.on { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

/// `1 204 511`.
pub(crate) fn grouped(number: impl Into<i128>) -> String {
    let number = number.into();
    let digits = number.unsigned_abs().to_string();
    let mut text = if number < 0 { "-".to_owned() } else { String::new() };
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

/// `1 record`, `1 707 records`.
pub(crate) fn counted(number: u64, one: &str, many: &str) -> String {
    format!("{} {}", grouped(number), if number == 1 { one } else { many })
}

/// `0.4 ms`, `3 ms`, `0.4 s`, `12 s`, `3 min 20 s`, `2 h 5 min`.
pub(crate) fn duration(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    if seconds < 0.001 {
        format!("{:.1} ms", seconds * 1e3)
    } else if seconds < 0.1 {
        format!("{:.0} ms", seconds * 1e3)
    } else if seconds < 10.0 {
        format!("{seconds:.1} s")
    } else if seconds < 60.0 {
        format!("{seconds:.0} s")
    } else if seconds < 3600.0 {
        format!("{} min {} s", time.as_secs() / 60, time.as_secs() % 60)
    } else {
        format!("{} h {} min", grouped(time.as_secs() / 3600), time.as_secs() / 60 % 60)
    }
}

/// Milliseconds since 1970 as `2018-02-01T03:12:44.650Z`.
pub(crate) fn iso(millis: i64) -> String {
    let (days, of_day) = (millis.div_euclid(86_400_000), millis.rem_euclid(86_400_000));
    let (year, month, day) = civil(days);
    format!("{year:04}-{month:02}-{day:02}T{}Z", clock(of_day))
}

/// Milliseconds of a day as `03:12:44.650`.
pub(crate) fn clock(of_day: i64) -> String {
    let seconds = of_day / 1000;
    format!("{:02}:{:02}:{:02}.{:03}", seconds / 3600, seconds / 60 % 60, seconds % 60, of_day % 1000)
}

/// Year, month and day of a day counted from 1970-01-01, in the proleptic Gregorian calendar. Years are counted from March, so
/// that the leap day is the last one; eras have 400 years.
fn civil(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    (era * 400 + year_of_era + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_grouped() {
        let cases = [(0, "0"), (999, "999"), (1_707, "1 707"), (1_204_511, "1 204 511"), (-41_000, "-41 000")];
        for (number, text) in cases {
            assert_eq!(grouped(number), text);
        }
        assert_eq!(counted(1, "record", "records"), "1 record");
    }

    #[test]
    fn durations_have_human_units() {
        let cases = [(0, "0.0 ms"), (400, "0.4 ms"), (3_200, "3 ms"), (410_000, "0.4 s"), (200_000_000, "3 min 20 s")];
        for (micros, text) in cases {
            assert_eq!(duration(Duration::from_micros(micros)), text);
        }
        assert_eq!(duration(Duration::from_secs(7_500)), "2 h 5 min");
    }

    #[test]
    fn times_are_iso_in_utc() {
        let cases = [
            (0, "1970-01-01T00:00:00.000Z"),
            (-1, "1969-12-31T23:59:59.999Z"),
            (1_517_454_764_650, "2018-02-01T03:12:44.650Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
        ];
        for (millis, text) in cases {
            assert_eq!(iso(millis), text);
        }
        // Any number may stand in a record; none may panic.
        iso(i64::MIN);
        iso(i64::MAX);
    }
}
