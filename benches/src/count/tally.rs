//! Whether what was counted is right: every record once, under its own key, and the counts of each key are 1, 2, 3, …

use std::fmt;

use rdkafka::Message;
use serde_json::Value;

use crate::Result;
use crate::kafka::{self, PROBE, Reader};

/// `{"k":…,"n":…,"i":…}`.
struct Counted {
    key: String,
    n: u64,
    i: u64,
}

impl Counted {
    fn parse(value: Option<&[u8]>) -> Option<Self> {
        let value: Value = serde_json::from_slice(value?).ok()?;
        Some(Counted { key: value["k"].as_str()?.to_owned(), n: value["n"].as_u64()?, i: value["i"].as_u64()? })
    }
}

/// The number of the record of the load that was counted; `None` for any other.
pub(super) fn number(value: Option<&[u8]>) -> Option<u64> {
    Counted::parse(value).filter(|counted| counted.key != PROBE).map(|counted| counted.i)
}

/// What is in an output, and what is wrong with it.
#[derive(Debug)]
pub(super) struct Tally {
    /// The last count of each key.
    counts: Vec<u64>,
    seen: Vec<bool>,
    missing: u64,
    doubled: u64,
    wrong: u64,
    /// The first that is wrong.
    first: Option<String>,
}

impl Tally {
    /// What a `read_committed` reader sees of a load of so many records.
    pub(super) fn of(brokers: &str, topic: &str, records: u64, keys: u64) -> Result<Self> {
        let mut tally = Tally::new(records, keys)?;
        // A key is in one partition, so its counts come in the order in which they were committed.
        Reader::new(brokers, topic)?.read_to_end(|message| tally.add(message.key(), message.payload()))?;
        Ok(tally)
    }

    fn new(records: u64, keys: u64) -> Result<Self> {
        let (seen, counts) = (vec![false; usize::try_from(records)?], vec![0; usize::try_from(keys)?]);
        Ok(Tally { counts, seen, missing: records, doubled: 0, wrong: 0, first: None })
    }

    fn add(&mut self, key: Option<&[u8]>, value: Option<&[u8]>) {
        if key == Some(PROBE.as_bytes()) {
            return;
        }
        let Some(counted) = Counted::parse(value) else {
            let text = String::from_utf8_lossy(value.unwrap_or_default()).into_owned();
            return self.wrong(format!("a record that is no count: {text}"));
        };
        let Counted { key: k, n, i } = counted;
        let number = kafka::key(i, self.counts.len() as u64);
        if k != format!("k{number}") || key != Some(k.as_bytes()) {
            return self.wrong(format!("record {i} is counted for {k}, its key is k{number}"));
        }
        let (Some(seen), Some(count)) = (self.seen.get_mut(i as usize), self.counts.get_mut(number as usize)) else {
            return self.wrong(format!("record {i} is not of the load"));
        };
        match *seen {
            true => self.doubled += 1,
            false => self.missing -= 1,
        }
        *seen = true;
        *count += 1;
        let expected = *count;
        if n != expected {
            self.wrong(format!("{k} has {n} where {expected} was due"));
        }
    }

    fn wrong(&mut self, what: String) {
        self.wrong += 1;
        self.first.get_or_insert(what);
    }

    pub(super) fn is_exact(&self) -> bool {
        self.missing == 0 && self.doubled == 0 && self.wrong == 0
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Tally { missing, doubled, wrong, .. } = self;
        write!(f, "{missing} records are missing, {doubled} are there more than once, {wrong} are wrong")?;
        match &self.first {
            Some(first) => write!(f, ", the first: {first}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The outputs `(i, n)` of a load of 4 records over 2 keys, which take turns.
    fn tally(outputs: &[(u64, u64)]) -> Tally {
        let mut tally = Tally::new(4, 2).expect("small");
        for (i, n) in outputs {
            let key = format!("k{}", kafka::key(*i, 2));
            tally.add(Some(key.as_bytes()), Some(format!(r#"{{"i":{i},"k":"{key}","n":{n}}}"#).as_bytes()));
        }
        tally
    }

    #[test]
    fn every_record_once_and_every_count_in_order_is_exact() {
        assert!(tally(&[(0, 1), (1, 1), (3, 2), (2, 2)]).is_exact());
    }

    #[test]
    fn a_missing_a_doubled_and_a_miscounted_record_are_found() {
        let missing = tally(&[(0, 1), (1, 1), (3, 2)]);
        assert_eq!((missing.missing, missing.doubled, missing.wrong), (1, 0, 0));
        let doubled = tally(&[(0, 1), (1, 1), (3, 2), (2, 2), (2, 3)]);
        assert_eq!((doubled.missing, doubled.doubled, doubled.wrong), (0, 1, 0));
        let lost_state = tally(&[(0, 1), (1, 1), (3, 2), (2, 1)]);
        assert_eq!((lost_state.missing, lost_state.doubled, lost_state.wrong), (0, 0, 1));
        assert!(!missing.is_exact() && !doubled.is_exact() && !lost_state.is_exact());
        assert!(lost_state.to_string().ends_with("the first: k0 has 1 where 2 was due"), "{lost_state}");
    }

    #[test]
    fn a_record_under_another_key_is_wrong_and_a_probe_is_passed_over() {
        let mut tally = tally(&[(0, 1), (1, 1), (3, 2), (2, 2)]);
        tally.add(Some(b"probe"), Some(br#"{"k":"probe","n":1,"i":0}"#));
        assert!(tally.is_exact());
        tally.add(Some(b"k0"), Some(br#"{"k":"k0","n":3,"i":1}"#));
        assert_eq!(tally.wrong, 1);
        assert_eq!(number(Some(br#"{"k":"probe","n":1,"i":0}"#)), None);
        assert_eq!(number(Some(br#"{"k":"k1","n":1,"i":7}"#)), Some(7));
    }
}
