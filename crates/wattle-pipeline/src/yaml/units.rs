//! Values with units: `100ms`, `8MiB`.

use std::time::Duration;

/// A whole number and `ns`, `us`, `ms`, `s`, `m` or `h`; also the longer words for these, and several after each other: `1h 30min`.
pub(super) fn duration(text: &str) -> Option<Duration> {
    let mut nanos: u128 = 0;
    let mut rest = text;
    loop {
        let (number, behind) = split(rest)?;
        let end = behind.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(behind.len());
        let unit = match &behind[..end] {
            "ns" | "nsec" | "nanos" => 1,
            "us" | "usec" | "micros" => 1_000,
            "ms" | "msec" | "millis" => 1_000_000,
            "s" | "sec" | "secs" | "second" | "seconds" => 1_000_000_000,
            "m" | "min" | "mins" | "minute" | "minutes" => 60_000_000_000,
            "h" | "hr" | "hrs" | "hour" | "hours" => 3_600_000_000_000,
            _ => return None,
        };
        nanos = u128::from(number).checked_mul(unit)?.checked_add(nanos)?;
        rest = behind[end..].trim_start();
        if rest.is_empty() {
            let second = 1_000_000_000;
            let whole = u64::try_from(nanos / second).ok()?;
            return Some(Duration::new(whole, u32::try_from(nanos % second).expect("below a second")));
        }
    }
}

/// A whole number and `B`, `KiB`, `MiB` or `GiB`.
pub(super) fn size(text: &str) -> Option<usize> {
    let (number, unit) = split(text)?;
    let bytes = match unit {
        "B" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => return None,
    };
    usize::try_from(number.checked_mul(bytes)?).ok()
}

fn split(text: &str) -> Option<(u64, &str)> {
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    Some((text[..digits].parse().ok()?, text[digits..].trim_start()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_part_of_the_value() {
        assert_eq!(duration("100ms"), Some(Duration::from_millis(100)));
        assert_eq!(duration("2 m"), Some(Duration::from_secs(120)));
        assert_eq!(duration("1h 30min"), Some(Duration::from_secs(5400)));
        assert_eq!(duration("1sec500millis"), Some(Duration::from_millis(1500)));
        assert_eq!(duration("2us 1ns"), Some(Duration::from_nanos(2001)));
        assert_eq!(size("8MiB"), Some(8 << 20));
        for wrong in ["100", "ms", "1.5s", "-1s", "5 days", "", "99999999999999999999s", "18446744073709551615h"] {
            assert_eq!(duration(wrong), None, "{wrong}");
        }
        for wrong in ["8", "8MB", "8mib", ""] {
            assert_eq!(size(wrong), None, "{wrong}");
        }
    }
}
